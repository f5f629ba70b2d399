"""The metrics beside those of other tools, and the dialects beside each other."""

from __future__ import annotations

import ir_measures
import numpy as np
import pytest
import pytrec_eval

from hummingbit.evaluation.evaluate import evaluate_codes, evaluate_ranking
from hummingbit.evaluation.metrics import (
    average_precision,
    average_precision_trec,
    interpolated_average_precision,
)
from hummingbit.evaluation.relevance import relevance_by_qrels

K = (1, 5, 20, 100)
Qrels = dict[str, dict[str, int]]


def random_run(seed: int, n_documents: int = 120) -> tuple[np.ndarray, Qrels]:
    """Codes of a single query, at a distance of their own each, and graded judgements."""
    rng = np.random.default_rng(seed)
    # A document of rank i has i bits: no two are tied, so every tool ranks alike.
    n_bits = -(-n_documents // 8) * 8
    bits = np.arange(n_bits) < rng.permutation(n_documents)[:, None]
    grades = rng.choice([0, 0, 0, 1, 2, 3], n_documents)
    judged = rng.random(n_documents) < 0.7
    qrels = {"q": {f"d{i}": int(grades[i]) for i in np.flatnonzero(judged)}}
    return np.packbits(bits, axis=1), qrels


def run_of(codes: np.ndarray) -> dict[str, dict[str, float]]:
    distances = np.bitwise_count(codes).sum(axis=1)
    return {"q": {f"d{i}": -float(distance) for i, distance in enumerate(distances)}}


def ours(codes: np.ndarray, qrels: Qrels, names: list[str]) -> dict[str, float]:
    ids = [f"d{i}" for i in range(len(codes))]
    relevance, _ = relevance_by_qrels(qrels, ["q"], ids)
    query = np.zeros((1, codes.shape[1]), dtype=np.uint8)
    found = evaluate_ranking(query, codes, relevance, names)
    assert found.metrics == pytest.approx(found.expected, abs=1e-12)
    assert found.metrics == pytest.approx(found.best, abs=1e-12)
    assert found.metrics == pytest.approx(found.worst, abs=1e-12)
    return found.metrics


@pytest.mark.parametrize("seed", range(25))
def test_metrics_equal_those_of_pytrec_eval(seed: int) -> None:
    codes, qrels = random_run(seed)
    names = {"mAP-trec": "map", "MRR": "recip_rank"}
    for k in K:
        names |= {
            f"P@{k}": f"P_{k}",
            f"Recall@{k}": f"recall_{k}",
            f"Success@{k}": f"success_{k}",
            f"nDCG@{k}": f"ndcg_cut_{k}",
            f"mAP-trec@{k}": f"map_cut_{k}",
        }
    cuts = ",".join(map(str, K))
    measures = {"map", "recip_rank", "iprec_at_recall"} | {
        f"{name}.{cuts}" for name in ("P", "recall", "success", "ndcg_cut", "map_cut")
    }
    theirs = pytrec_eval.RelevanceEvaluator(qrels, measures).evaluate(run_of(codes))["q"]
    found = ours(codes, qrels, [*names, "mAP-11pt"])
    for name, other in names.items():
        assert found[name] == pytest.approx(theirs[other], abs=1e-9), name
    eleven = np.mean([theirs[f"iprec_at_recall_{tenth / 10:.2f}"] for tenth in range(11)])
    assert found["mAP-11pt"] == pytest.approx(eleven, abs=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_metrics_equal_those_of_ir_measures(seed: int) -> None:
    codes, qrels = random_run(seed)
    names = {"P@20": "P@20", "Recall@20": "R@20", "nDCG@20": "nDCG@20", "MRR": "RR"}
    names |= {"MRR@5": "RR@5", "mAP-trec": "AP", "mAP-trec@20": "AP@20", "Success@3": "Success@3"}
    measures = {name: ir_measures.parse_measure(other) for name, other in names.items()}
    theirs = ir_measures.calc_aggregate(measures.values(), qrels, run_of(codes))
    found = ours(codes, qrels, list(names))
    for name, measure in measures.items():
        assert found[name] == pytest.approx(theirs[measure], abs=1e-9), name


def test_three_dialects_of_average_precision_disagree_on_one_list() -> None:
    # The example of docs/evaluation.md: hits at ranks 1 and 4 of the first five, two more at
    # ranks 9 and 10 that a cut at 5 does not see.
    relevant = np.array([[letter == "1" for letter in "1001000011"]])
    four = np.array([4])
    assert average_precision(relevant, 5) == pytest.approx([0.75])
    assert average_precision_trec(relevant, four, 5) == pytest.approx([0.375])
    assert average_precision_trec(relevant, four, 10) == pytest.approx([0.5583], abs=5e-5)
    assert interpolated_average_precision(relevant, four) == pytest.approx([0.5909], abs=5e-5)
    assert average_precision(relevant, 10) == average_precision_trec(relevant, four, 10)


def nearest_recall(relevant: np.ndarray, n_relevant: int) -> float:
    """11 points as the code of Passalis and Tefas reads them: at the nearest measured recall."""
    hits = relevant.cumsum()
    precision = hits / np.arange(1, len(hits) + 1)
    highest = np.maximum.accumulate(precision[::-1])[::-1]
    levels = np.arange(11) / 10
    nearest = np.abs(hits / n_relevant - levels[:, None]).argmin(axis=1)
    return float(highest[nearest].mean())


def test_the_nearest_recall_gives_more_where_few_are_relevant() -> None:
    relevant = np.array([letter == "1" for letter in "1001000011"])
    assert nearest_recall(relevant, 4) == pytest.approx(0.6455, abs=5e-5)
    many = np.random.default_rng(0).random(4000) < 0.3
    ours = interpolated_average_precision(many[None], np.array([many.sum()]))[0]
    assert nearest_recall(many, int(many.sum())) == pytest.approx(ours, abs=0.002)


def test_the_dialects_rank_two_systems_in_opposite_order() -> None:
    # One hit at the head and nothing else, or four hits from rank 2 on; four are relevant.
    timid, thorough = np.array([[True, *[False] * 4]]), np.array([[False, *[True] * 4]])
    four = np.array([4])
    assert average_precision(timid, 5)[0] == 1 > average_precision(thorough, 5)[0]
    trec = [average_precision_trec(item, four, 5)[0] for item in (timid, thorough)]
    assert trec == pytest.approx([0.25, (1 / 2 + 2 / 3 + 3 / 4 + 4 / 5) / 4])


def test_a_tie_is_decided_differently_by_every_tool() -> None:
    # Two tied documents, one relevant: row order serves it first, trec_eval breaks ties by id from
    # the end, and the expectation is in between.
    codes = np.zeros((2, 1), dtype=np.uint8)
    found = evaluate_codes(codes[:1], [("a",)], codes, [("a",), ("b",)], ["P@1"])
    theirs = pytrec_eval.RelevanceEvaluator({"q": {"d0": 1, "d1": 0}}, {"P.1"})
    assert theirs.evaluate({"q": {"d0": 0.0, "d1": 0.0}})["q"]["P_1"] == 0
    assert (found.metrics["P@1"], found.expected["P@1"]) == (1, 0.5)
    assert (found.worst["P@1"], found.best["P@1"]) == (0, 1)
