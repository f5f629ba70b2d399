from __future__ import annotations

import numpy as np
import pytest
import pytrec_eval

from hummingbit.corpus.qrels import parse_qrels
from hummingbit.evaluation.evaluate import evaluate_run
from hummingbit.evaluation.metrics import MetricError
from hummingbit.evaluation.result import EvaluationError


def test_a_run_scores_what_pytrec_eval_says() -> None:
    rng = np.random.default_rng(0)
    qrels = {
        f"q{i}": {f"d{j}": int(rng.choice([0, 0, 1, 2])) for j in rng.permutation(80)[:40]}
        for i in range(20)
    }
    # Lists of several lengths that miss some relevant documents and hold some unjudged ones.
    run = {
        query: {f"d{j}": float(rng.random()) for j in rng.permutation(80)[: rng.integers(1, 60)]}
        for query in qrels
    }
    names = {"mAP-trec": "map", "nDCG@10": "ndcg_cut_10", "Recall@10": "recall_10", "P@10": "P_10"}
    names |= {"MRR": "recip_rank", "mAP-trec@10": "map_cut_10"}
    measures = {"map", "recip_rank", "ndcg_cut.10", "recall.10", "P.10", "map_cut.10"}
    theirs = pytrec_eval.RelevanceEvaluator(qrels, measures).evaluate(run)
    found = evaluate_run(run, qrels, [*names, "mAP-11pt"])
    assert found.query_ids == tuple(qrels)
    for name, other in names.items():
        values = [theirs[query][other] for query in qrels]
        assert found.per_query[name] == pytest.approx(values, abs=1e-9)
        assert found.expected_per_query[name] == pytest.approx(values, abs=1e-9)
    for name in found.metrics:
        assert found.worst[name] == pytest.approx(found.best[name], abs=1e-12)
        assert found.metrics[name] == pytest.approx(found.best[name], abs=1e-12)


def test_ties_and_oddities_by_hand() -> None:
    qrels = {"a": {"x": 1, "gone": 1}, "b": {"x": 1}, "c": {"x": 0}, "e": {}}
    run = {"a": {"y": 2.0, "z": 1.0, "x": 1.0}, "c": {"x": 1.0}, "d": {"x": 1.0}}
    found = evaluate_run(run, qrels, ["P@2", "mAP-trec"])
    assert found.per_query["P@2"].tolist() == [0, 0, 0]
    assert found.expected_per_query["P@2"].tolist() == [0.25, 0, 0]
    assert found.best_per_query["mAP-trec"].tolist() == [0.25, 0, 0]
    assert found.worst_per_query["mAP-trec"] == pytest.approx([1 / 6, 0, 0])
    assert (found.queries, found.documents, found.queries_without_relevant) == (3, 3, 1)
    assert found.notes == (
        "1 query of the run without a judgement, ignored: d",
        "1 query with judgements but not in the run, scored as 0: b",
        "1 query without a relevant document, scored as 0: c",
    )


def test_bad_input_is_refused() -> None:
    qrels = {"q": {"d": 1}}
    with pytest.raises(EvaluationError, match="no list for any query of the qrels"):
        evaluate_run({"p": {"d": 1.0}}, qrels)
    with pytest.raises(EvaluationError, match="a score of query 'q' is NaN"):
        evaluate_run({"q": {"d": float("nan")}}, qrels)
    with pytest.raises(EvaluationError, match="no judgement has a grade of 2 or more"):
        evaluate_run({"q": {"d": 1.0}}, qrels, relevant_from=2)
    with pytest.raises(MetricError, match="P@radius2 is defined by Hamming distances"):
        evaluate_run({"q": {"d": 1.0}}, qrels, ["P@radius2"])


def test_exported_judgements_judge_runs_of_the_same_documents() -> None:
    qrels = parse_qrels(["a%20query 0 50%25 2", "a%20query 0 c 1"])
    for documents in (["c", "50%"], ["c", "50%25"]):
        run = {"a%20query": dict.fromkeys(documents, 1.0)}
        assert evaluate_run(run, qrels, ["Recall@10"]).metrics == {"Recall@10": 1.0}
