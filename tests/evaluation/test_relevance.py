from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hummingbit.evaluation.relevance import (
    Labelled,
    Relevance,
    check_labels,
    relevance_by_hierarchy,
    relevance_by_label,
)
from hummingbit.evaluation.result import EvaluationError

LABEL_SETS = st.lists(
    st.lists(st.sampled_from("abcdef"), max_size=4, unique=True).map(tuple), min_size=1, max_size=12
)


def table(relevance: Relevance) -> list[list[bool]]:
    """Relevance of every document to every query."""
    rows = relevance.rows(relevance.query_sets)
    found: list[list[bool]] = rows[:, relevance.document_sets].tolist()
    return found


def test_a_shared_tag_makes_relevant() -> None:
    documents = [("sport",), ("sport", "money"), ("film", "money"), ("film",), ()]
    relevance = relevance_by_label([("sport",), ("money", "art"), ("war",)], documents)
    assert table(relevance) == [
        [True, True, False, False, False],
        [False, True, True, False, False],
        [False, False, False, False, False],
    ]


@given(queries=LABEL_SETS, documents=LABEL_SETS)
def test_relevance_is_that_of_sets(
    queries: list[tuple[str, ...]], documents: list[tuple[str, ...]]
) -> None:
    relevance = relevance_by_label(queries, documents)
    expected = [[bool(set(q) & set(d)) for d in documents] for q in queries]
    assert table(relevance) == expected
    totals = relevance.totals(relevance.query_sets)[:, 0]
    assert totals.tolist() == [sum(row) for row in expected]


def test_relevance_along_ranked_lists() -> None:
    relevance = relevance_by_label([("a",), ("b",)], [("a",), ("b",), (), ("a", "b")])
    lists = np.array([[1, 0, 2, 3], [1, 2, 3, 0]])
    found = relevance.relevant(relevance.query_sets, lists)
    assert found.tolist() == [[False, True, False, True], [True, False, True, False]]


def test_label_sets_are_numbered_once() -> None:
    relevance = relevance_by_label([("a",)] * 3, [("a",), ("b",), ("a",)])
    assert relevance.query_sets.tolist() == [0, 0, 0]
    assert relevance.document_sets.tolist() == [0, 1, 0]
    assert relevance.n_document_sets == 2


def grades(relevance: Relevance) -> list[list[int]]:
    """The grade of every document to every query."""
    rows = np.tile(np.arange(len(relevance.document_sets)), (len(relevance.query_sets), 1))
    found: list[list[int]] = relevance.grade_lists(relevance.query_sets, rows).tolist()
    return found


def test_the_depth_of_the_common_path_is_the_grade() -> None:
    documents = [("rec.sport.hockey",), ("rec.sport",), ("rec.autos", "sci"), ("recent",), ()]
    queries = [("rec.sport.hockey",), ("sci.space", "rec")]
    relevance = relevance_by_hierarchy(queries, documents, relevant_from=2)
    assert grades(relevance) == [[3, 2, 1, 0, 0], [1, 1, 1, 0, 0]]
    assert table(relevance) == [[True, True, False, False, False], [False] * 5]
    assert relevance.levels.tolist() == [1, 2, 3]
    assert relevance.totals(relevance.query_sets).tolist() == [[1, 1, 1], [3, 0, 0]]


PATHS = st.lists(st.text(alphabet="ab.", min_size=1, max_size=5), max_size=3, unique=True)


@given(
    queries=st.lists(PATHS.map(tuple), min_size=1, max_size=5),
    documents=st.lists(PATHS.map(tuple), min_size=1, max_size=8),
)
def test_grades_are_those_of_the_best_pair(
    queries: list[tuple[str, ...]], documents: list[tuple[str, ...]]
) -> None:
    def depth(one: str, other: str) -> int:
        parts = zip(one.split("."), other.split("."), strict=False)
        return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], parts))

    expected = [
        [max((depth(a, b) for a in q for b in d), default=0) for d in documents] for q in queries
    ]
    relevance = relevance_by_hierarchy(queries, documents)
    assert grades(relevance) == expected
    columns = np.arange(len(documents))[: len(queries)]
    pairs = relevance.grade_pairs(relevance.query_sets[: len(columns)], columns)
    assert pairs.tolist() == [expected[place][place] for place in columns]


def test_a_label_of_a_million_levels_costs_no_more_than_its_length() -> None:
    endless = ".".join(["a"] * 1_000_000)
    documents = [("a.a",), ("a.b",), ("b",)]
    assert grades(relevance_by_hierarchy([(endless,)], documents)) == [[2, 1, 0]]
    assert grades(relevance_by_hierarchy(documents[:1], [(endless,)])) == [[2]]
    message = "labels of 1,000,000 levels; at most 100 can be graded"
    with pytest.raises(EvaluationError, match=message):
        relevance_by_hierarchy([(endless,)], [(endless,)])


def test_relevant_from_is_at_least_1() -> None:
    with pytest.raises(EvaluationError, match="relevant_from is 0"):
        relevance_by_hierarchy([("a",)], [("a",)], relevant_from=0)


def test_a_string_is_not_a_set_of_letters() -> None:
    with pytest.raises(EvaluationError, match="'sport'; they must be a tuple of strings"):
        relevance_by_label(["sport"], [("sport",)])  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("queries", "documents", "reason"),
    [
        ([], [("a",)], "there are no queries"),
        ([("a",), (), ()], [("a",)], r"2 of 3 queries have no label, the first of them query 1"),
        ([("a",)], [], "the database is empty"),
        ([("a",)], [(), ()], "the database has 2 documents, and none has a label"),
    ],
)
def test_nothing_to_measure(
    queries: list[tuple[str, ...]], documents: list[tuple[str, ...]], reason: str
) -> None:
    with pytest.raises(EvaluationError, match=reason):
        check_labels(queries, documents)


def test_labelled_inputs_need_as_many_label_sets() -> None:
    assert len(Labelled(["one", "two"], [("a",), ()])) == 2
    with pytest.raises(EvaluationError, match="2 inputs and 1 label sets"):
        Labelled(["one", "two"], [("a",)])
