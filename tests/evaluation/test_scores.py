from __future__ import annotations

import numpy as np
import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st

from hummingbit.evaluation.evaluate import evaluate_by_score, evaluate_ranking, evaluate_scores
from hummingbit.evaluation.metrics import MetricError
from hummingbit.evaluation.relevance import relevance_by_qrels
from hummingbit.evaluation.result import EvaluationError
from tests.support.oracles.rankings import SLOW, slow_expectation


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
    labels = [("a",) if item else ("b",) for item in relevant]
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
        ([], "score_blocks has scores of 0 queries; there are 2 queries"),
        ([np.zeros((1, 3))], "score_blocks has scores of 1 queries"),
        ([np.zeros((3, 3))], r"has shape \[3, 3\]; it must be \[q, 3\], for 2 queries"),
        ([np.zeros((2, 4))], r"has shape \[2, 4\]"),
        ([np.zeros(3)], r"has shape \[3\]"),
        ([np.zeros((0, 3))], r"has shape \[0, 3\]"),
        ([np.array([[0, 1, 2], [0, np.nan, 0]])], "queries 0 to 1 contain NaN"),
    ],
)
def test_blocks_that_do_not_fit_are_refused(blocks: list[np.ndarray], reason: str) -> None:
    with pytest.raises(EvaluationError, match=reason):
        evaluate_scores(blocks, [("a",), ("b",)], [("a",), ("b",), ()])


def test_graded_judgements_are_measured_as_trec_eval_measures_them() -> None:
    rng = np.random.default_rng(3)
    scores = rng.normal(size=(20, 50))
    grades = np.where(rng.random((20, 50)) < 0.2, rng.integers(1, 4, (20, 50)), 0)
    grades[:, 0] = 1
    qrels = {
        f"q{query}": {f"d{row}": int(grade) for row, grade in enumerate(line)}
        for query, line in enumerate(grades)
    }
    run = {
        f"q{query}": {f"d{row}": float(score) for row, score in enumerate(line)}
        for query, line in enumerate(scores)
    }
    ids = [f"d{row}" for row in range(50)]
    relevance, _ = relevance_by_qrels(qrels, list(qrels), ids)
    found = evaluate_by_score([scores[:7], scores[7:]], relevance, ["nDCG@10", "Recall@20", "MRR"])
    measures = {"ndcg_cut.10": "nDCG@10", "recall.20": "Recall@20", "recip_rank": "MRR"}
    theirs = pytrec_eval.RelevanceEvaluator(qrels, set(measures)).evaluate(run)
    for measure, name in measures.items():
        expected = [theirs[query][measure.replace(".", "_")] for query in qrels]
        assert found.per_query[name] == pytest.approx(expected, abs=1e-9)
        assert found.expected_per_query[name] == pytest.approx(expected, abs=1e-9)


def test_minus_the_hamming_distance_is_measured_as_the_distance_is() -> None:
    rng = np.random.default_rng(4)
    codes = rng.integers(0, 8, (60, 1), dtype=np.uint8)
    asked = rng.integers(0, 8, (9, 1), dtype=np.uint8)
    distances = np.bitwise_count(asked[:, None, 0] ^ codes[None, :, 0]).astype(np.int64)
    qrels = {
        f"q{query}": {f"d{row}": int(rng.integers(1, 4)) for row in rng.choice(60, 9)}
        for query in range(9)
    }
    ids = [f"d{row}" for row in range(60)]
    relevance, _ = relevance_by_qrels(qrels, list(qrels), ids, 2)
    metrics = ["nDCG@10", "Recall@20", "MRR", "Success@3", "mAP@10", "P@7"]
    by_score = evaluate_by_score([-distances.astype(np.float64)], relevance, metrics)
    by_distance = evaluate_ranking(asked, codes, relevance, metrics)
    for name in metrics:
        for values in ("per_query", "expected_per_query", "best_per_query", "worst_per_query"):
            ours, theirs = getattr(by_score, values)[name], getattr(by_distance, values)[name]
            assert ours == pytest.approx(theirs, abs=1e-12)
    assert by_score.queries_without_relevant == by_distance.queries_without_relevant
