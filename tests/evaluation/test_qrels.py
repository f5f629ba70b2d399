from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hummingbit.corpus.qrels import parse_qrels
from hummingbit.evaluation.labelling.exchange import write_qrels
from hummingbit.evaluation.relevance import relevance_by_qrels
from hummingbit.evaluation.result import EvaluationError
from hummingbit.evaluation.trec import to_trec_id
from hummingbit.index.store.annotations import Judgement


def test_grades_are_those_of_the_judgements() -> None:
    qrels = {"q2": {"d1": 2, "d3": 1}, "q1": {"d3": 3, "d2": 0, "d1": -1}}
    relevance, notes = relevance_by_qrels(qrels, ["q1", "q2"], ["d1", "d2", "d3", "d4"])
    rows = np.array([[0, 1, 2, 3], [3, 2, 1, 0]])
    found = relevance.grade_lists(relevance.query_sets, rows)
    assert found.tolist() == [[0, 0, 3, 0], [0, 1, 0, 2]]
    assert relevance.levels.tolist() == [1, 2, 3]
    assert relevance.totals(relevance.query_sets).tolist() == [[0, 0, 1], [1, 1, 0]]
    assert notes == []


IDS = st.text('ab %20"\t#\u3000', min_size=1, max_size=6)


@given(st.dictionaries(st.tuples(IDS, IDS), st.integers(1, 3), min_size=1), st.booleans())
def test_ids_of_exported_judgements_are_found(
    judged: dict[tuple[str, str], int], with_query_texts: bool
) -> None:
    exported = parse_qrels(
        write_qrels(Judgement(query, id_, grade, "ann") for (query, id_), grade in judged.items())
    )
    queries = sorted({query for query, _ in judged})
    documents = sorted({id_ for _, id_ in judged})
    # The ids of the queries are those of the exported queries, or the texts.
    ids = queries if with_query_texts else [to_trec_id(query) for query in queries]
    relevance, notes = relevance_by_qrels(exported, ids, documents)
    rows = np.tile(np.arange(len(documents)), (len(queries), 1))
    found = relevance.grade_lists(relevance.query_sets, rows)
    assert found.tolist() == [
        [judged.get((query, id_), 0) for id_ in documents] for query in queries
    ]
    assert notes == []


def test_ids_are_taken_as_they_stand_if_not_all_are_encoded() -> None:
    qrels = {"q": {"a%20b": 1, "50%": 1, "c%2Fd": 1}}
    _, notes = relevance_by_qrels(qrels, ["q"], ["a b", "50%", "c%2Fd"])
    assert notes == ["1 document of the qrels not stored, ignored: a%20b"]
    relevance, notes = relevance_by_qrels({"q": {"a%20b": 1}}, ["q"], ["a b", "a%20b"])
    assert relevance.document_sets.tolist() == [0, 1]
    assert notes == []


def test_a_minimal_grade() -> None:
    qrels = {"q": {"d1": 1, "d2": 2}}
    relevance, _ = relevance_by_qrels(qrels, ["q"], ["d1", "d2"], relevant_from=2)
    assert relevance.relevant(np.array([0]), np.array([[0, 1]])).tolist() == [[False, True]]
    with pytest.raises(EvaluationError, match="no judgement has a grade of 3 or more"):
        relevance_by_qrels(qrels, ["q"], ["d1", "d2"], relevant_from=3)
    with pytest.raises(EvaluationError, match="relevant_from is 0"):
        relevance_by_qrels(qrels, ["q"], ["d1", "d2"], relevant_from=0)


def test_oddities_are_counted_and_named() -> None:
    qrels = {"q1": {"d1": 1, "x1": 1}, "lost": {"d1": 1, "x2": 2, "x1": 1}, "q3": {}}
    _, notes = relevance_by_qrels(qrels, ["q1", "q2", "q3"], ["d1"])
    assert notes == [
        "1 query of the qrels not among the queries, ignored: lost",
        "2 documents of the qrels not stored, ignored: x1, x2",
        "2 queries without a judgement in the qrels, scored as 0: q2, q3",
    ]
    many = {"q1": {"d1": 1, **{f"x{i}": 1 for i in range(9)}}}
    _, notes = relevance_by_qrels(many, ["q1"], ["d1"])
    assert notes == ["9 documents of the qrels not stored, ignored: x0, x1, x2, x3, x4, …"]


@pytest.mark.parametrize(
    ("qrels", "queries", "documents", "reason"),
    [
        ({}, ["q"], ["d"], "the qrels are empty"),
        ({"q": {}}, ["q"], ["d"], "the qrels are empty"),
        ({"q": {"d": 1}}, [], ["d"], "there are no queries"),
        ({"q": {"d": 1}}, ["q"], [], "there are no documents"),
        ({"q": {"d": 1}}, ["q", "p", "q"], ["d"], "1 query ids occur more than once: q;"),
        (
            {"q": {"d": 1}},
            ["p"],
            ["d"],
            "they name queries such as q, and the queries to evaluate are p",
        ),
        (
            {"q": {"d": 1}},
            ["q"],
            ["e"],
            "they name documents such as d, and those of the collection are e",
        ),
        ({"q": {"d": 0}}, ["q"], ["d"], "no judgement has a grade of 1 or more"),
    ],
)
def test_qrels_that_cannot_be_used(
    qrels: dict[str, dict[str, int]], queries: list[str], documents: list[str], reason: str
) -> None:
    with pytest.raises(EvaluationError, match=reason):
        relevance_by_qrels(qrels, queries, documents)
