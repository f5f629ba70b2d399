from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hummingbit.corpus.qrels import parse_qrels
from hummingbit.evaluation.labelling.exchange import (
    agreed_grades,
    import_records,
    read_qrels,
    read_records,
    write_qrels,
    write_queries,
    write_records,
)
from hummingbit.evaluation.trec import to_trec_id
from hummingbit.foundation.errors import InputError
from hummingbit.index.store.annotations import DocumentLabel, Judgement
from tests.support.collections import code_collection, code_documents

WHEN = "2026-01-01T00:00:00.000+00:00"
storable = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)
names = storable.map(lambda text: text[:64])


@given(st.lists(st.tuples(names, names, st.integers(0, 9)), unique_by=lambda item: item[:2]))
def test_judgements_survive_both_formats(pairs: list[tuple[str, str, int]]) -> None:
    given = [Judgement(query, id_, grade, "ann", WHEN) for query, id_, grade in pairs]
    lines = "".join(f"{line}\n" for line in write_records(given)).split("\n")
    assert read_records(lines, "file") == ([], given)
    if given:
        found = read_qrels(list(write_qrels(given)), "file")
        assert {(hit.query, hit.id): hit.grade for hit in found} == agreed_grades(given)


@given(storable)
def test_ids_in_qrels_have_no_white_space(text: str) -> None:
    assert to_trec_id(text).split() == [to_trec_id(text)]


def test_qrels_hold_what_most_people_said() -> None:
    said = {"ann": 2, "bob": 1, "cas": 1}
    judgements = [Judgement("a query", "d 1", grade, who, WHEN) for who, grade in said.items()]
    assert list(write_qrels(judgements)) == ["a%20query 0 d%201 1"]
    assert parse_qrels(write_qrels(judgements)) == {"a%20query": {"d%201": 1}}
    assert list(write_queries(judgements)) == ['{"id": "a%20query", "text": "a query"}']


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("{", "file:2: is not valid JSON"),
        (
            '{"id": "a", "label": "b", "label": "c"}',
            "file:2: the key 'label' is given twice in one object",
        ),
        ("9" * 5000, "file:2: is not valid JSON"),
        ('{"id": "a", "label": [3]}', "file:2: labels: is [3]"),
        ('{"query": "q", "id": "a", "grade": 1.5}', "file:2: grade: is 1.5"),
        ("[]", "file:2: record: is []"),
        ('{"id": "a", "label": "x", "id": "b"}', "file:2: the key 'id' is given twice"),
    ],
)
def test_a_wrong_line_is_named(line: str, wrong: str) -> None:
    with pytest.raises(InputError, match="file:2") as refused:
        read_records(["", line], "file")
    assert wrong in str(refused.value)


def test_records_of_documents_that_are_not_there_are_passed_over(tmp_path: Path) -> None:
    collection = code_collection(tmp_path)
    collection.upsert(code_documents(["0000"]))
    labels = [DocumentLabel("d0", ("a",)), DocumentLabel("gone", ("a",))]
    report = import_records(collection, labels, [Judgement("q", "gone", 1)])
    assert (report.labels, report.judgements, report.changed, report.unknown) == (2, 1, 1, 2)
    assert [label.id for label in collection.annotations.labels()] == ["d0"]
    before = collection.generation
    judgements = [Judgement("q", "d0", 1), Judgement("r", "d0", 0)]
    report = import_records(collection, [DocumentLabel("d0", ("b",))], judgements)
    # Labels and judgements are one write: no crash leaves one without the other.
    assert (report.changed, report.generation) == (3, before + 1)
    assert len(collection.annotations.judgements()) == 2


def test_a_person_has_one_vote_for_a_pair() -> None:
    early, late = "2024-01-01T00:00:00Z", "2024-01-02T00:00:00Z"
    judgements = [
        Judgement("q", "d", 2, "ann", early),
        Judgement("q", "d", 2, "ann", early),
        Judgement("q", "d", 0, "bob", early),
        Judgement("q", "d", 0, "cid", early),
        Judgement("q", "d", 1, "ann", late),
    ]
    assert agreed_grades(judgements) == {("q", "d"): 0}
    assert agreed_grades(judgements[:2] + judgements[4:]) == {("q", "d"): 1}
