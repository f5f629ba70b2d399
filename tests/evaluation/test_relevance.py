from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.relevance import Labelled, Relevance, check_labels
from evaluation.result import EvaluationError

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
    relevance = Relevance([("sport",), ("money", "art"), ("war",)], documents)
    assert table(relevance) == [
        [True, True, False, False, False],
        [False, True, True, False, False],
        [False, False, False, False, False],
    ]


@given(queries=LABEL_SETS, documents=LABEL_SETS)
def test_relevance_is_that_of_sets(
    queries: list[tuple[str, ...]], documents: list[tuple[str, ...]]
) -> None:
    relevance = Relevance(queries, documents)
    expected = [[bool(set(q) & set(d)) for d in documents] for q in queries]
    assert table(relevance) == expected
    lost = sum(not any(row) for row in expected)
    assert relevance.count_queries_without_relevant() == lost


def test_relevance_along_ranked_lists() -> None:
    relevance = Relevance([("a",), ("b",)], [("a",), ("b",), (), ("a", "b")])
    lists = np.array([[1, 0, 2, 3], [1, 2, 3, 0]])
    found = relevance.relevant(relevance.query_sets, lists)
    assert found.tolist() == [[False, True, False, True], [True, False, True, False]]


def test_label_sets_are_numbered_once() -> None:
    relevance = Relevance([("a",)] * 3, [("a",), ("b",), ("a",)])
    assert relevance.query_sets.tolist() == [0, 0, 0]
    assert relevance.document_sets.tolist() == [0, 1, 0]
    assert relevance.n_document_sets == 2


def test_a_string_is_not_a_set_of_letters() -> None:
    with pytest.raises(EvaluationError, match="'sport'; they must be a tuple of strings"):
        Relevance(["sport"], [("sport",)])  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("queries", "documents", "reason"),
    [
        ([], [("a",)], "there are no queries"),
        ([("a",), (), ()], [("a",)], r"2 of 3 queries have no label, the first of them query 1"),
        ([("a",)], [], "the database is empty"),
        ([("a",)], [(), ()], "none of the 2 documents of the database has a label"),
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
