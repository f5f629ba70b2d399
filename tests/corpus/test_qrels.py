from __future__ import annotations

import csv
import lzma
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hummingbit import Collection
from hummingbit.corpus.grades import (
    MAX_GRADE,
    check_grade,
)
from hummingbit.corpus.lines import ReadError
from hummingbit.corpus.qrels import (
    check_qrels,
    parse_qrels,
    read_qrels,
)
from hummingbit.evaluation.evaluate import evaluate_run
from hummingbit.evaluation.labelling.exchange import read_sheet
from hummingbit.foundation.errors import InputError

Qrels = dict[str, dict[str, int]]
GRADES = st.integers(-MAX_GRADE, MAX_GRADE)
# trec_eval separates fields by ASCII white space alone.
TREC_IDS = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0 \t\n\v\f\r"), min_size=1
)
BEIR_IDS = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1
) | st.text('"\t\n\r #%a', min_size=1)


def qrels_of(ids: st.SearchStrategy[str]) -> st.SearchStrategy[Qrels]:
    judged = st.dictionaries(ids, GRADES, min_size=1, max_size=3)
    return st.dictionaries(ids, judged, min_size=1, max_size=3)


def write_tsv(path: Path, qrels: Qrels, *, names: bool) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, delimiter="\t", quoting=csv.QUOTE_MINIMAL)
        if names:
            rows.writerow(["query-id", "corpus-id", "score"])
        for query, judged in qrels.items():
            rows.writerows([query, document, grade] for document, grade in judged.items())


@given(qrels_of(TREC_IDS), st.sampled_from([" ", "\t", " \v\f"]))
def test_judgements_of_trec_are_read_as_trec_eval_reads_them(
    tmp_path_factory: pytest.TempPathFactory, qrels: Qrels, space: str
) -> None:
    path = tmp_path_factory.mktemp("trec") / "qrels.txt"
    lines = [
        space.join([query, "0", document, str(grade)]) + " \r\n"
        for query, judged in qrels.items()
        for document, grade in judged.items()
    ]
    path.write_bytes(b"\xef\xbb\xbf" + "".join(lines).encode())
    assert read_qrels(path) == qrels


@given(qrels_of(BEIR_IDS), st.booleans())
def test_the_tsv_of_beir_is_read_with_its_quoting(
    tmp_path_factory: pytest.TempPathFactory, qrels: Qrels, names: bool
) -> None:
    path = tmp_path_factory.mktemp("beir") / "test.tsv"
    write_tsv(path, qrels, names=names)
    assert read_qrels(path) == qrels


def test_a_file_of_either_format_may_be_compressed(tmp_path: Path) -> None:
    path = tmp_path / "qrels.txt.xz"
    path.write_bytes(lzma.compress(b"q1 0 d1 2\n\nq1\t0  d2 0\n"))
    assert read_qrels(path) == {"q1": {"d1": 2, "d2": 0}}
    path.write_bytes(lzma.compress("\ufeffq 1\td1\t-1\r\n".encode()))
    assert read_qrels(path) == {"q 1": {"d1": -1}}


@pytest.mark.parametrize(
    ("line", "read"),
    [
        ("q 1\td1\t1", {"q 1": {"d1": 1}}),
        ("q1\t0\td1 1", {"q1": {"d1": 1}}),
        ("q1\t0\td1\t1", {"q1": {"d1": 1}}),
        ("qid\tdocid\trelevance\nq\td\t1", {"q": {"d": 1}}),
        ("Query_ID\tCorpus_ID\tScore\nq\td\t+1", {"q": {"d": 1}}),
    ],
)
def test_the_first_line_tells_the_format(line: str, read: Qrels) -> None:
    assert parse_qrels(line.split("\n")) == read


NAMES = "query-id\tcorpus-id\tscore\n"


@pytest.mark.parametrize(
    ("content", "wrong"),
    [
        ("q 0 d 1\nq 0 d\n", ":2: has 3 fields; there must be 4, separated by spaces: query iter"),
        ("q 0 d 1 x\n", ":1: has 5 fields"),
        ("q 0 d 1.5\n", ":1: the grade is '1.5'; it must be a whole number"),
        ("q 0 d nan\n", ":1: the grade is 'nan'"),
        ("q 0 d 1001\n", ":1: the grade is 1001; it must be a whole number from -1,000 to 1,000"),
        (f"q 0 d 1{'0' * 23}\n", ":1: the grade is '1000"),
        ("\nq 0 d 1\np 0 d 1\nq 0 d 0\n", ":4: document 'd' is judged twice for query 'q'"),
        ("", ": there are no judgements"),
        ("\n  \n", ": there are no judgements"),
        (f"{NAMES}q\td\t1.5\n", ":2: the grade is '1.5'; it must be a whole number"),
        (f"{NAMES}q\td\t1{'0' * 23}\n", ":2: the grade is '1000"),
        (f"{NAMES}q\td\t2000000000000\n", ":2: the grade is '2000000000000'"),
        (f"{NAMES}q\td\t-1001\n", ":2: the grade is -1001"),
        (f"{NAMES}q\td\t１\n", ":2: the grade is '１'"),
        (f"{NAMES}q\td\t1\nq\te\t0\nq\td\t0\n", ":4: document 'd' is judged twice for query 'q'"),
        ("q\td\t1.5\n", ":1: the grade is '1.5'.*the names of a first line are query-id, corp"),
        ("q\td\thigh\nq\te\t1\n", ":1: the grade is 'high'"),
        (f"{NAMES}{NAMES}", ":2: the grade is 'score'"),
        (f"{NAMES}q d 1\n", ":2: has 1 cell; there must be 3, separated by tabs: query-id"),
        (f'{NAMES}"q\td\t1\nq\te\t1\n', ":2: has 1 cell"),
        (f"{NAMES}\td\t1\n", ":2: the id of the query is empty"),
        (f"{NAMES}q\t\t1\n", ":2: the id of the document is empty"),
        (NAMES, ": there are no judgements"),
    ],
)
def test_judgements_that_are_not_right(tmp_path: Path, content: str, wrong: str) -> None:
    path = tmp_path / "judged"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ReadError, match=rf"^{path}{wrong}"):
        read_qrels(path)


def test_a_file_that_is_missing_or_not_text(tmp_path: Path) -> None:
    path = tmp_path / "qrels"
    with pytest.raises(ReadError, match="qrels: No such file"):
        read_qrels(path)
    path.write_bytes(b"q 0 d\xff 1\n")
    with pytest.raises(ReadError, match="qrels: is not UTF-8 text"):
        read_qrels(path)


def test_whole_numbers_of_numpy_are_grades() -> None:
    grade = check_grade(np.int64(3))
    assert grade == 3
    assert type(grade) is int


@pytest.mark.parametrize("grade", [1.0, True, np.bool_(True), "1", None, 10**23, MAX_GRADE + 1])
def test_judgements_in_memory_have_the_same_bounds(grade: object) -> None:
    judged = {"q": {"d": 1, "e": grade}}
    reason = "qrels: the grade of document 'e' for query 'q' is .*whole number from -1,000 to"
    with pytest.raises(InputError, match=reason):
        check_qrels(judged)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=reason):
        evaluate_run({"q": {"d": 1.0}}, judged)  # type: ignore[arg-type]


def test_an_evaluation_refuses_a_grade_beyond_the_bounds(tmp_path: Path) -> None:
    with Collection.create(tmp_path, "notes", encoder=None) as notes:
        notes.add(["an apple", "a pear"], ids=["a", "b"])
        with pytest.raises(InputError, match=r"the grade of document 'a' for query 'q' is 1000"):
            notes.evaluate(["apple"], ids=["q"], qrels={"q": {"a": 10**23}})


@pytest.mark.parametrize("grade", ["1_0", "１", "1.0", "1" + "0" * 23, "yes"])
def test_a_sheet_has_the_same_grades(grade: str) -> None:
    sheet = f"grade,question,document\n{grade},bread,d1\n"
    with pytest.raises(InputError, match=r"line 2: grade: is .* whole number"):
        read_sheet(sheet, "sheet.csv")


def test_an_answer_of_a_sheet_has_one_grade() -> None:
    sheet = "grade,question,document\n1,bread,d1\n,bread,d2\n0,bread,d1\n"
    with pytest.raises(InputError, match="line 4: grade: is the second of this answer"):
        read_sheet(sheet, "sheet.csv")
