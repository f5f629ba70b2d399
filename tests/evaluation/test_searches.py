from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from corpus.document import Document
from evaluation.collection import RelevanceSettings
from evaluation.evaluate import evaluate_collection
from evaluation.result import EvaluationError
from evaluation.searches import evaluate_searches
from index.records import Query
from tests.support.collections import code_collection, text_collection
from tests.support.encoders import random_texts
from tests.support.evaluations import labelled_codes

METRICS = ["P@10", "nDCG@10", "Success@3", "MRR", "mAP@10"]


def test_searches_by_hamming_distance_score_what_the_collection_does(tmp_path: Path) -> None:
    with closing(code_collection(tmp_path)) as collection:
        collection.upsert(labelled_codes(200, 0, "d"))
        queries = labelled_codes(40, 1, "q")
        found = evaluate_searches(collection, queries, METRICS)
        expected = evaluate_collection(collection, queries, METRICS)
    for name in METRICS:
        assert found.per_query[name] == pytest.approx(expected.per_query[name], abs=1e-12)


def test_a_query_that_is_stored_can_be_left_out(tmp_path: Path) -> None:
    with closing(code_collection(tmp_path)) as collection:
        stored = labelled_codes(60, 0, "d")
        collection.upsert(stored)
        how = RelevanceSettings(exclude_self=True)
        found = evaluate_searches(collection, stored[:20], METRICS, "hamming", how)
        expected = evaluate_collection(collection, stored[:20], METRICS, exclude_self=True)
    for name in METRICS:
        assert found.per_query[name] == pytest.approx(expected.per_query[name], abs=1e-12)


def test_each_ranking_is_measured_by_its_own_hits(tmp_path: Path) -> None:
    texts = random_texts(80, seed=3)
    documents = [Document(id=f"d{place}", text=text) for place, text in enumerate(texts)]
    queries = [Document(id=f"q{place}", text=texts[place]) for place in range(12)]
    qrels = {f"q{place}": {f"d{place}": 1} for place in range(12)}
    with closing(text_collection(tmp_path)) as collection:
        collection.upsert(documents)
        for ranking in ("hamming", "asymmetric", "bm25", "hybrid"):
            how = RelevanceSettings(qrels=qrels)
            found = evaluate_searches(collection, queries, ["MRR@20"], ranking, how)
            ranks = []
            for query, answers in zip(queries, qrels.values(), strict=True):
                (hits,) = collection.search([Query(text=query.text)], 20, ranking=ranking).hits
                places = [place for place, hit in enumerate(hits, 1) if hit.id in answers]
                ranks.append(1 / places[0] if places else 0.0)
            assert found.per_query["MRR@20"] == pytest.approx(np.array(ranks))


def test_ids_of_queries_must_differ(tmp_path: Path) -> None:
    with closing(code_collection(tmp_path)) as collection:
        collection.upsert(labelled_codes(20, 0, "d"))
        twice = labelled_codes(1, 1, "q") * 2
        with pytest.raises(EvaluationError, match="1 ids of queries come more than once: q0"):
            evaluate_searches(collection, twice, METRICS)


def test_a_query_without_an_answer_scores_0_and_one_without_a_label_is_refused(
    tmp_path: Path,
) -> None:
    with closing(code_collection(tmp_path)) as collection:
        collection.upsert(labelled_codes(60, 0, "d"))
        queries = labelled_codes(10, 1, "q")
        queries[3] = replace(queries[3], labels=("a label of no document",), payload={})
        found = evaluate_searches(collection, queries, METRICS)
        expected = evaluate_collection(collection, queries, METRICS)
        assert found.queries == expected.queries == 10
        for name in METRICS:
            assert found.per_query[name][3] == 0
            assert found.metrics[name] == pytest.approx(expected.metrics[name], abs=1e-12)
        queries[3] = replace(queries[3], labels=())
        with pytest.raises(EvaluationError, match="1 of 10 queries have no label"):
            evaluate_searches(collection, queries, METRICS)
