from __future__ import annotations

import csv
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hummingbit.corpus.lines import ReadError
from hummingbit.evaluation.trec import (
    TrecError,
    format_run,
    parse_qrels,
    parse_run,
    read_qrels,
    read_run,
)

IDS = st.text(st.characters(exclude_categories=["Cs", "Cc", "Z"]), min_size=1, max_size=8).filter(
    lambda id_: id_.split() == [id_]
)
SCORES = st.floats(allow_nan=False, allow_infinity=False)


def test_files_by_hand(tmp_path: Path) -> None:
    qrels, run = tmp_path / "qrels.txt", tmp_path / "run.txt"
    qrels.write_text("\ufeffq1 0 d1 2\nq1\t0  d2 0\n\nq2 0 d1 -1\n", encoding="utf-8")
    run.write_text("q1 Q0 d2 1 -3 tag\r\nq1 Q0 d1 2 -3.5e0 tag\r\n")
    assert read_qrels(qrels) == {"q1": {"d1": 2, "d2": 0}, "q2": {"d1": -1}}
    assert read_run(run) == {"q1": {"d2": -3.0, "d1": -3.5}}


@given(
    qrels=st.dictionaries(
        IDS, st.dictionaries(IDS, st.integers(-2, 1000), min_size=1, max_size=4), min_size=1
    )
)
def test_qrels_are_read_as_they_were_written(qrels: dict[str, dict[str, int]]) -> None:
    lines = [
        f"{query} 0 {document} {grade}"
        for query, judged in qrels.items()
        for document, grade in judged.items()
    ]
    assert parse_qrels(lines) == qrels


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
        (["q 0 d 1", "q 0 d"], "^judged:2: has 3 fields; there must be 4: query iteration"),
        (["q 0 d 1 x"], "judged:1: has 5 fields"),
        (["q 0 d 1.5"], "judged:1: the grade is '1.5'; it must be an integer"),
        (["q 0 d nan"], "judged:1: the grade is 'nan'"),
        (["q 0 d 1001"], "of at most 1,000"),
        (["", "q 0 d 1", "p 0 d 1", "q 0 d 0"], "judged:4: document 'd' is judged twice.* 'q'"),
        ([], "judged: there are no judgements"),
        (["", "  "], "there are no judgements"),
    ],
)
def test_qrels_that_are_not_right(lines: list[str], reason: str) -> None:
    with pytest.raises(TrecError, match=reason):
        parse_qrels(lines, "judged")


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
def test_files_are_read_as_trec_eval_reads_them(
    tmp_path_factory: pytest.TempPathFactory, qrels: dict[str, dict[str, int]], space: str
) -> None:
    path = tmp_path_factory.mktemp("trec") / "qrels.txt"
    lines = [
        space.join([query, "0", document, str(grade)]) + " \r\n"
        for query, judged in qrels.items()
        for document, grade in judged.items()
    ]
    path.write_bytes(b"\xef\xbb\xbf" + "".join(lines).encode())
    assert read_qrels(path) == qrels
    runs = [
        space.join([query, "Q0", document, "1", str(grade), "tag"]) + "\n"
        for query, judged in qrels.items()
        for document, grade in judged.items()
    ]
    path.write_bytes(b"\xef\xbb\xbf" + "".join(runs).encode())
    assert read_run(path) == qrels


CELLS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1) | (
    st.text('"\t\n\r #%a', min_size=1)
)


@given(
    st.dictionaries(
        CELLS, st.dictionaries(CELLS, st.integers(-2, 9), min_size=1, max_size=3), max_size=3
    )
)
def test_the_tsv_of_beir_is_read_with_its_quoting(
    tmp_path_factory: pytest.TempPathFactory, qrels: dict[str, dict[str, int]]
) -> None:
    path = tmp_path_factory.mktemp("beir") / "test.tsv"
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, delimiter="\t", quoting=csv.QUOTE_MINIMAL)
        rows.writerow(["query-id", "corpus-id", "score"])
        for query, judged in qrels.items():
            rows.writerows([query, document, grade] for document, grade in judged.items())
    assert read_qrels(path) == qrels


@pytest.mark.parametrize(
    ("content", "wrong"),
    [
        ("query-id\tcorpus-id\tscore\nq\td\t1.5\n", "2: must be a query, a document and a whole"),
        ("q\td\t1.5\n", "1: must be a query"),
        ("query-id\tcorpus-id\tscore\nq d 1\n", "2: must be a query"),
        ('query-id\tcorpus-id\tscore\n"q\td\t1\nq\te\t1\n', "2: must be a query"),
    ],
)
def test_a_tsv_that_is_not_right(tmp_path: Path, content: str, wrong: str) -> None:
    path = tmp_path / "test.tsv"
    path.write_text(content)
    with pytest.raises(ReadError, match=rf"test.tsv:{wrong}"):
        read_qrels(path)


def test_a_file_that_is_not_text(tmp_path: Path) -> None:
    path = tmp_path / "qrels"
    path.write_bytes(b"q 0 d\xff 1\n")
    with pytest.raises(TrecError, match="qrels: is not UTF-8 text"):
        read_qrels(path)
