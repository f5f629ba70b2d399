from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.metrics import Metric, MetricError, parse_metric, parse_metrics
from evaluation.served import (
    Metric,
    MetricError,
    average_precision,
    measure,
    parse_metric,
    parse_metrics,
    precision_at_k,
)
from tests.support.rankings import SLOW


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


@given(
    relevant=st.lists(st.lists(st.booleans(), min_size=9, max_size=9), min_size=1, max_size=5),
    k=st.integers(1, 12),
    kind=st.sampled_from(["P", "mAP"]),
)
def test_metrics_equal_their_definitions(relevant: list[list[bool]], k: int, kind: str) -> None:
    found = measure(parse_metric(f"{kind}@{k}"), np.array(relevant))
    assert found == pytest.approx([SLOW[kind](row, k) for row in relevant], abs=1e-12)
    assert found.dtype == np.float64


@pytest.mark.parametrize(
    ("name", "kind", "k"),
    [("P@100", "P", 100), ("p@1", "P", 1), ("mAP@100", "mAP", 100), ("map@10000", "mAP", 10_000)],
)
def test_names(name: str, kind: str, k: int) -> None:
    metric = parse_metric(name)
    assert (metric.kind, metric.k, metric.name) == (kind, k, f"{kind}@{k}")


@pytest.mark.parametrize(
    "name",
    ["", "P", "P@", "P@0", "P@-1", "P@10001", "P@1e3", "P@007", " P@1", "P@1\n", "ap@5", "P@٣", 7],
)
def test_what_is_no_name_is_refused_with_what_is(name: str) -> None:
    with pytest.raises(MetricError, match=r"P@k.*mAP@k.*1 to 10,000") as caught:
        parse_metric(name)
    assert ascii(name) in str(caught.value)


def test_a_metric_that_is_named_twice_is_taken_once() -> None:
    assert parse_metrics(["mAP@5", "P@5", "map@5"]) == [Metric("mAP", 5), Metric("P", 5)]


@pytest.mark.parametrize(("names", "reason"), [([], "empty"), ("P@100", "must be a list")])
def test_lists_of_names_that_cannot_be(names: list[str], reason: str) -> None:
    with pytest.raises(MetricError, match=reason):
        parse_metrics(names)
