from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hummingbit.evaluation.metrics import (
    RankedLists,
    average_precision,
    average_precision_trec,
    interpolated_average_precision,
    measure,
    ndcg_at_k,
    parse_metric,
    precision_at_k,
    recall_at_k,
    reciprocal_rank,
    success_at_k,
)
from tests.support.oracles.rankings import SLOW

LEVELS = np.array([1, 2, 3])


def lists(*rows: str) -> np.ndarray:
    """Ranked lists written as strings, 1 for relevant."""
    return np.array([[letter == "1" for letter in row] for row in rows])


def test_precision_by_hand() -> None:
    relevant = lists("10110", "00000", "11111")
    assert precision_at_k(relevant, 1).tolist() == [1, 0, 1]
    assert precision_at_k(relevant, 4).tolist() == [0.75, 0, 1]


def test_precision_divides_by_k_where_the_list_is_shorter() -> None:
    assert precision_at_k(lists("11", "10"), 100).tolist() == [0.02, 0.01]


def test_average_precision_by_hand() -> None:
    # (1/1 + 2/3 + 3/4) / 3; nothing found; a single relevant document at rank 4; all relevant.
    relevant = lists("10110", "00000", "00010", "11111")
    expected = [(1 + 2 / 3 + 3 / 4) / 3, 0, 1 / 4, 1]
    assert average_precision(relevant, 5) == pytest.approx(expected, abs=1e-15)


def test_average_precision_divides_by_what_was_found_not_by_what_there_is() -> None:
    assert average_precision(lists("10000"), 5).tolist() == [1]
    assert average_precision(lists("01111"), 1).tolist() == [0]


def test_average_precision_of_a_list_shorter_than_k() -> None:
    assert average_precision(lists("01"), 100).tolist() == [0.5]


def test_the_first_hit_by_hand() -> None:
    relevant = lists("00100", "00000", "10001")
    assert reciprocal_rank(relevant, 5) == pytest.approx([1 / 3, 0, 1])
    assert reciprocal_rank(relevant, 2).tolist() == [0, 0, 1]
    assert success_at_k(relevant, 1).tolist() == [0, 0, 1]
    assert success_at_k(relevant, 3).tolist() == [1, 0, 1]


def test_recall_by_hand() -> None:
    relevant, n_relevant = lists("10110", "00000"), np.array([4, 0])
    assert recall_at_k(relevant, n_relevant, 3).tolist() == [0.5, 0]


def test_average_precision_of_trec_divides_by_all() -> None:
    found = average_precision_trec(lists("10110"), np.array([6]), 5)
    assert found == pytest.approx([(1 + 2 / 3 + 3 / 4) / 6])


def test_eleven_points_by_hand() -> None:
    # Two relevant: recall 0 to 0.5 is reached by the first hit, the rest by the second. From the
    # second on precision is 2/3, which is more than the 1/2 of the first.
    found = interpolated_average_precision(lists("0110", "1001", "0000"), np.array([2, 2, 0]))
    assert found == pytest.approx([2 / 3, (6 * 1 + 5 * 0.5) / 11, 0])


def test_gains_by_hand() -> None:
    gains, totals = np.array([[1.0, 0.0, 3.0]]), np.array([[1, 0, 1]])
    dcg, ideal = 1 + 3 / 2, 3 + 1 / np.log2(3)
    assert ndcg_at_k(gains, LEVELS, totals, 3) == pytest.approx([dcg / ideal])
    assert ndcg_at_k(gains, LEVELS, totals, 1) == pytest.approx([1 / 3])
    assert ndcg_at_k(np.zeros((1, 3)), LEVELS, np.zeros((1, 3), dtype=np.int64), 3) == [0]


@given(
    grades=st.lists(st.lists(st.integers(0, 3), min_size=9, max_size=9), min_size=1, max_size=5),
    k=st.integers(1, 12),
    kind=st.sampled_from(sorted(SLOW)),
)
def test_metrics_equal_their_definitions(grades: list[list[int]], k: int, kind: str) -> None:
    name = kind if kind == "mAP-11pt" else f"{kind}@{k}"
    table = np.array(grades)
    totals = np.stack([(table == level).sum(axis=1) for level in LEVELS], axis=1)
    found = measure(parse_metric(name), RankedLists(table, totals, LEVELS))
    assert found == pytest.approx([SLOW[kind](row, k) for row in grades], abs=1e-12)
    assert found.dtype == np.float64


def test_a_metric_of_distances_has_no_value_for_a_list() -> None:
    empty = RankedLists(np.zeros((1, 1), dtype=np.int64), np.zeros((1, 3), dtype=np.int64), LEVELS)
    with pytest.raises(ValueError, match="P@radius2 is not a metric of lists"):
        measure(parse_metric("P@radius2"), empty)
