from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hummingbit.corpus.document import Document
from hummingbit.evaluation.nearness import nearest_qrels, nearest_rows
from hummingbit.evaluation.result import EvaluationError
from hummingbit.index.records import StoredDocument


def stored(row: int, text: str | None = None, vector: object = None) -> StoredDocument:
    return StoredDocument(f"d{row}", row, "00", text, vector, {})  # type: ignore[arg-type]


@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.integers(1, 10))
def test_the_nearest_have_the_largest_cosines_above_zero(seed: int, width: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    # Whole numbers, among which cosines tie often and vectors may be zero.
    documents = rng.integers(-2, 3, (rng.integers(1, 9), width)).astype(np.float32)
    queries = rng.integers(-2, 3, (3, width)).astype(np.float32)
    for query, rows in zip(queries, nearest_rows(documents, queries, count), strict=True):
        sizes = np.linalg.norm(documents, axis=1) * np.linalg.norm(query)
        cosines = np.divide(documents @ query, sizes, out=np.zeros(len(documents)), where=sizes > 0)
        positive = sorted(cosines[cosines > 1e-6].tolist(), reverse=True)
        found = cosines[rows].tolist()
        # The cosine of a right angle may round to a little more than 0.
        assert [item for item in found if item > 1e-6] == pytest.approx(positive[:count], abs=1e-5)
        assert all(item > -1e-6 for item in found)
        assert len(found) <= count
        assert len(set(rows.tolist())) == len(rows)


def test_texts_are_compared_by_their_words_and_equal_ones_by_their_rows() -> None:
    documents = ["plum tree", "red apple", "green apple pie", "red apple", "stone"]
    assert [rows.tolist() for rows in nearest_rows(documents, ["red apple", "wind"], 3)] == [
        [1, 3, 2],
        [],
    ]
    (without,) = nearest_rows(documents, ["red apple"], 3, np.array([1]))
    assert without.tolist() == [3, 2]


def test_judgements_are_by_vectors_where_all_have_them_and_else_by_texts() -> None:
    east, north = np.array([1, 0], dtype=np.float32), np.array([0, 1], dtype=np.float32)
    documents = [stored(0, "red apple", north), stored(1, "plum", east)]
    both = Document("q", text="apple", vector=east)
    assert nearest_qrels(documents, [both], 1) == {"q": {"d1": 1}}
    assert nearest_qrels(documents, [Document("q", text="apple")], 1) == {"q": {"d0": 1}}


def test_what_cannot_be_compared_is_explained() -> None:
    vector = np.ones(2, dtype=np.float32)
    query = Document("q", text="apple")
    with pytest.raises(EvaluationError, match="document 'd0' has no text"):
        nearest_qrels([stored(0, None, vector)], [query], 1)
    with pytest.raises(EvaluationError, match="query 'q' has no text"):
        nearest_qrels([stored(0, "apple")], [Document("q", vector=vector)], 1)
    with pytest.raises(EvaluationError, match="vectors of 2 numbers, queries of 3"):
        nearest_rows(np.ones((1, 2), np.float32), np.ones((1, 3), np.float32), 1)
    with pytest.raises(EvaluationError, match="nearest is 0; it must be 1 or more"):
        nearest_rows(["apple"], ["apple"], 0)
    with pytest.raises(EvaluationError, match="query ids occur more than once"):
        nearest_qrels([stored(0, "apple")], [query, query], 1)
