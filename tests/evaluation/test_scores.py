from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluation.metrics.names import MetricError
from evaluation.result import EvaluationError
from evaluation.scores import evaluate_scores
from tests.support.rankings import SLOW, slow_expectation


def test_by_hand() -> None:
    scores = np.array([[0.1, 0.9, 0.5, 0.5]])
    labels = [("b",), ("a",), ("b",), ("a",)]
    found = evaluate_scores([scores], [("a",)], labels, ["P@2", "mAP@4"])
    # Ranked 1, 2, 3, 0; documents 2 and 3 are tied.
    assert found.metrics == {"P@2": 0.5, "mAP@4": pytest.approx((1 + 2 / 3) / 2)}
    assert found.expected == {
        "P@2": 0.75,
        "mAP@4": pytest.approx(((1 + 2 / 3) / 2 + 1) / 2),
    }
    assert found.distinct_codes is None
    assert (found.queries, found.documents, found.queries_without_relevant) == (1, 4, 0)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 7),
    levels=st.integers(1, 5),
    k=st.integers(1, 9),
    kind=st.sampled_from(["P", "mAP"]),
    step=st.integers(1, 4),
)
def test_values_equal_a_full_sort_and_all_orders(
    *, seed: int, n: int, levels: int, k: int, kind: str, step: int
) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, levels, (4, n)) / 8
    relevant = rng.random(n) < 0.5
    labels = [("a",) if one else ("b",) for one in relevant]
    blocks = [scores[start : start + step] for start in range(0, 4, step)]
    found = evaluate_scores(blocks, [("a",)] * 4, labels, [f"{kind}@{k}"])
    served, expected = [], []
    for row in scores:
        order = sorted(range(n), key=lambda document: (-row[document], document))
        served.append(SLOW[kind]([bool(relevant[document]) for document in order], k))
        groups = [
            (int((row == level).sum()), int(relevant[row == level].sum()))
            for level in sorted(set(row), reverse=True)
        ]
        expected.append(slow_expectation(SLOW[kind], groups, k))
    assert found.per_query[f"{kind}@{k}"] == pytest.approx(served, abs=1e-12)
    assert found.expected_per_query[f"{kind}@{k}"] == pytest.approx(expected, abs=1e-9)


def test_the_whole_ranking_and_the_order_of_ties() -> None:
    scores = np.array([[0.1, 0.9, 0.5, 0.5]])
    labels = [("b",), ("b",), ("b",), ("a",)]
    found = evaluate_scores([scores], [("a",)], labels, ["mAP-trec", "mAP-11pt", "nDCG@2"])
    # The one relevant document is second or third.
    for name in ("mAP-trec", "mAP-11pt"):
        assert found.worst[name] == pytest.approx(1 / 3)
        assert found.best[name] == 0.5
        assert found.metrics[name] == pytest.approx(1 / 3)
        assert found.expected[name] == pytest.approx(5 / 12)
    assert found.expected["nDCG@2"] == pytest.approx(0.5 / np.log2(3))


def test_similarities_have_no_radius() -> None:
    with pytest.raises(MetricError, match="P@radius2 is defined by Hamming distances"):
        evaluate_scores([np.zeros((1, 1))], [("a",)], [("a",)], ["P@radius2"])


@pytest.mark.parametrize(
    ("blocks", "reason"),
    [
        ([], "similarities of 0 queries were given; there are 2 queries"),
        ([np.zeros((1, 3))], "similarities of 1 queries were given"),
        ([np.zeros((3, 3))], r"have shape \[3, 3\]; they must be \[q, 3\], for 2 queries"),
        ([np.zeros((2, 4))], r"have shape \[2, 4\]"),
        ([np.zeros(3)], r"have shape \[3\]"),
        ([np.zeros((0, 3))], r"have shape \[0, 3\]"),
        ([np.array([[0, 1, 2], [0, np.nan, 0]])], "queries 0 to 1 hold NaN"),
    ],
)
def test_blocks_that_do_not_fit_are_refused(blocks: list[np.ndarray], reason: str) -> None:
    with pytest.raises(EvaluationError, match=reason):
        evaluate_scores(blocks, [("a",), ("b",)], [("a",), ("b",), ()])
