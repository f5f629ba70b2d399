from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hummingbit.evaluation.trec import (
    TrecError,
    format_run,
    parse_run,
    read_run,
)

IDS = st.text(st.characters(exclude_categories=["Cs", "Cc", "Z"]), min_size=1, max_size=8).filter(
    lambda id_: id_.split() == [id_]
)
SCORES = st.floats(allow_nan=False, allow_infinity=False)


def test_a_run_by_hand(tmp_path: Path) -> None:
    run = tmp_path / "run.txt"
    run.write_text("q1 Q0 d2 1 -3 tag\r\nq1 Q0 d1 2 -3.5e0 tag\r\n")
    assert read_run(run) == {"q1": {"d2": -3.0, "d1": -3.5}}


@given(
    run=st.dictionaries(
        IDS, st.dictionaries(IDS, SCORES, min_size=1, max_size=4), min_size=1, max_size=4
    )
)
def test_runs_are_read_as_they_were_written(run: dict[str, dict[str, float]]) -> None:
    written = format_run({query: list(found.items()) for query, found in run.items()})
    assert parse_run(written) == run


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (["q Q0 d 1 0.5"], "^a.run:1: has 5 fields; there must be 6"),
        (["q Q0 d 1 NaN t"], "a.run:1: the score is 'NaN'; it must be a finite number"),
        (["q Q0 d 1 -inf t"], "a.run:1: the score is '-inf'"),
        (["q Q0 d 1 high t"], "a.run:1: the score is 'high'"),
        (["q Q0 d first 1 t"], "a.run:1: the rank is 'first'"),
        (["q Q0 d 1 2 t", "q Q0 d 2 1 t"], "a.run:2: document 'd' occurs twice for query 'q'"),
        ([], "a.run: there are no lines"),
    ],
)
def test_runs_that_are_not_right(lines: list[str], reason: str) -> None:
    with pytest.raises(TrecError, match=reason):
        parse_run(lines, "a.run")


def test_what_the_format_cannot_hold_is_not_written() -> None:
    with pytest.raises(TrecError, match="query 'a b' is not valid in TREC's format"):
        list(format_run({"a b": [("d", 1.0)]}))
    with pytest.raises(TrecError, match="document '' is not valid"):
        list(format_run({"q": [("", 1.0)]}))
    with pytest.raises(TrecError, match=r"score of document 'd' for query 'q' is nan"):
        list(format_run({"q": [("d", float("nan"))]}))


TREC_EVAL_IDS = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0 \t\n\v\f\r"), min_size=1
)


@given(
    st.dictionaries(
        TREC_EVAL_IDS,
        st.dictionaries(TREC_EVAL_IDS, st.integers(-2, 9), min_size=1, max_size=3),
        min_size=1,
        max_size=3,
    ),
    st.sampled_from([" ", "\t", " \v\f"]),
)
def test_runs_are_read_as_trec_eval_reads_them(
    tmp_path_factory: pytest.TempPathFactory, run: dict[str, dict[str, int]], space: str
) -> None:
    path = tmp_path_factory.mktemp("trec") / "run.txt"
    lines = [
        space.join([query, "Q0", document, "1", str(score), "tag"]) + " \r\n"
        for query, scores in run.items()
        for document, score in scores.items()
    ]
    path.write_bytes(b"\xef\xbb\xbf" + "".join(lines).encode())
    assert read_run(path) == run


def test_a_file_that_is_not_text(tmp_path: Path) -> None:
    path = tmp_path / "run"
    path.write_bytes(b"q Q0 d\xff 1 1 t\n")
    with pytest.raises(TrecError, match="run: is not UTF-8 text"):
        read_run(path)
