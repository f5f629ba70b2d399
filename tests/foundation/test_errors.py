from __future__ import annotations

import ast
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hummingbit.corpus.document import DocumentError
from hummingbit.foundation.errors import MAX_SHOWN, HummingbitError, InputError, abbreviate
from hummingbit.index.errors import StoreReplaced
from hummingbit.service.http.problems import PROBLEMS, TITLES
from tests.support.folders import INSTALLED

ROOT = Path(__file__).parents[2]
BUILT_IN = {"Exception", "ValueError", "RuntimeError", "LookupError", "OSError", "TypeError"}
# These end a loop or a request early; no user reads them.
SIGNALS = {"Cancelled", "Postponed", "Stopped", "Unsure", "_WrongRangeError"}

# The client is used inside other programs and imports none of the application's folders.
CLIENT_ERROR = "ServiceError"


def test_every_error_that_a_user_reads_is_of_the_family() -> None:
    found = set()
    for package in INSTALLED:
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ClassDef):
                    bases = {base.id for base in node.bases if isinstance(base, ast.Name)}
                    if bases & BUILT_IN and "HummingbitError" not in bases:
                        found.add(node.name)
    assert found - {"HummingbitError", CLIENT_ERROR} == SIGNALS


def test_the_public_errors_are_the_ones_that_are_raised_and_need_no_torch() -> None:
    script = """
import sys
from pathlib import Path

sys.modules["torch"] = None  # makes an import of torch fail

from hummingbit.encoder.endpoint import check_url
from hummingbit.errors import EndpointError, MetricError, TeacherError, TrainingDataError
from hummingbit.evaluation.metrics import parse_metric
from hummingbit.training.data import gather
from hummingbit.training.teachers import check_vectors_place

for error, function, argument in [
    (EndpointError, check_url, "nowhere"),
    (MetricError, parse_metric, "nothing"),
    (TeacherError, check_vectors_place, Path("vectors.txt")),
    (TrainingDataError, gather, []),
]:
    try:
        function(argument)
    except error as raised:
        print(raised)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 4


def test_every_kind_in_the_table_has_a_title() -> None:
    assert {entry.code for entry in PROBLEMS.values()} <= set(TITLES)


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (HummingbitError("the disk is full"), "the disk is full"),
        (StoreReplaced("was deleted", field="/data/a"), "/data/a: was deleted"),
        (InputError("limit", "is 0; it must be at least 1", 3), "limit: is 0; it must be"),
        (DocumentError("text", "is missing"), "text: is missing"),
    ],
)
def test_an_error_comes_back_from_a_worker_process_as_it_was(
    error: HummingbitError, shown: str
) -> None:
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - what was just pickled
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert str(again).startswith(shown)
    assert (again.reason, again.field, again.position) == (
        error.reason,
        error.field,
        error.position,
    )


def test_no_message_shows_a_name_as_the_numbers_of_its_characters() -> None:
    for package in INSTALLED:
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                where = f"{path}:{getattr(node, 'lineno', 0)}"
                as_ascii = isinstance(node, ast.FormattedValue) and node.conversion == ord("a")
                assert not as_ascii, f"{where}: use !r"
                assert not (isinstance(node, ast.Name) and node.id == "ascii"), f"{where}: use repr"


@given(st.text())
def test_a_value_in_a_message_is_one_printable_line(text: str) -> None:
    shown = abbreviate(text)
    assert shown.isprintable()
    assert len(shown) <= MAX_SHOWN
    shown.encode()


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("结果", "'结果'"),
        ("Größe", "'Größe'"),
        ("a\nhummingbit: b", r"'a\nhummingbit: b'"),
        ("a\u2028b", r"'a\u2028b'"),
        ("\u202ecba", r"'\u202ecba'"),
        ("\x1b[2J", r"'\x1b[2J'"),
        ("\ud800", r"'\ud800'"),
        ("it's", '"it\'s"'),
        (["结果" * 40], "['" + "结果" * 27 + "结" + "..."),
    ],
)
def test_a_value_in_a_message_is_as_it_is_written(value: object, shown: str) -> None:
    assert abbreviate(value) == shown
