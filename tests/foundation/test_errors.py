from __future__ import annotations

import ast
import pickle
from pathlib import Path

import pytest

from corpus.document import DocumentError
from foundation.errors import HummingbitError, InputError
from hummingbit import PACKAGES
from index.errors import StoreReplaced
from service.http.error_table import PROBLEMS
from service.http.problems import TITLES

ROOT = Path(__file__).parents[2]
BUILT_IN = {"Exception", "ValueError", "RuntimeError", "LookupError", "OSError", "TypeError"}
# These end a loop or a request early; no user reads them.
SIGNALS = {"Cancelled", "Stopped", "OutOfTimeError", "NoDrawingError", "Unsure", "_WrongRangeError"}

# The client is used inside other programs and imports none of the application's folders.
CLIENT_ERROR = "ServiceError"


def test_every_error_that_a_user_reads_is_of_the_family() -> None:
    found = set()
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ClassDef):
                    bases = {base.id for base in node.bases if isinstance(base, ast.Name)}
                    if bases & BUILT_IN and "HummingbitError" not in bases:
                        found.add(node.name)
    assert found - {"HummingbitError", CLIENT_ERROR} == SIGNALS


def test_every_kind_in_the_table_has_a_title() -> None:
    assert {code for _, code in PROBLEMS.values()} <= set(TITLES)


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
