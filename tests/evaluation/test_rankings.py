from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hummingbit.cli import main
from hummingbit.corpus.document import Document
from hummingbit.encoder.artifact import write_artifact
from hummingbit.encoder.codes import unpack_codes
from hummingbit.evaluation.evaluate import evaluate_codes
from hummingbit.evaluation.rankings import RelevanceSettings, evaluate_rankings
from hummingbit.evaluation.relevance import query_labels
from hummingbit.evaluation.report import run_job
from hummingbit.evaluation.result import EvaluationError
from hummingbit.evaluation.trec import parse_run
from hummingbit.foundation.errors import InputError
from hummingbit.index.backend import CollectionBackend
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.options import Rescore
from hummingbit.index.rankings import quantize_weights
from hummingbit.index.records import Query
from tests.support.collections import code_collection, text_collection
from tests.support.encoders import random_texts, text_encoder
from tests.support.evaluations import labelled_codes
from tests.support.service import make_data_folder, running_service

TEXTS = random_texts(120, seed=4)
QUERIES = [
    Document(id=f"q{i}", text=text, payload={"label": text.split()[0]})
    for i, text in enumerate(random_texts(15, seed=6))
]
METRICS = ["P@10", "mAP@20", "nDCG@10"]
SEARCH_METRICS = ["P@10", "nDCG@10", "Success@3", "MRR", "mAP@10"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("data")
    write_artifact(path / "encoders" / "words", text_encoder(), random_texts(40))
    with DataFolder(path, writable=True) as data:
        documents = [
            Document(id=f"d{i}", text=text, payload={"label": text.split()[-1]})
            for i, text in enumerate(TEXTS)
        ]
        data.create_collection("c", encoder="words").upsert(documents)
    return path


@pytest.fixture
def collection(folder: Path) -> Iterator[CollectionBackend]:
    with DataFolder(folder, writable=False) as data:
        yield data.collection("c")


def test_by_hamming_the_figures_are_those_of_the_collection(collection: CollectionBackend) -> None:
    (found,) = evaluate_rankings(collection, QUERIES, ["hamming"], METRICS).values()
    codes, labels = collection.labelled_codes()
    encoded = collection.encode_queries([Query(text=query.text) for query in QUERIES])
    expected = evaluate_codes(encoded.codes, query_labels(QUERIES), codes, labels, METRICS)
    for kind in ("metrics", "expected", "best", "worst"):
        assert getattr(found, kind) == pytest.approx(getattr(expected, kind), abs=1e-12)


def test_by_other_rankings_they_are_those_of_searches(collection: CollectionBackend) -> None:
    names = ["asymmetric", "bm25"]
    found = evaluate_rankings(collection, QUERIES, names, METRICS)
    labels = {document.id: document.payload["label"] for document in collection.all_documents()}
    for name in names:
        for position, query in enumerate(QUERIES):
            (hits,) = collection.search([Query(text=query.text)], 10, ranking=name).hits
            right = sum(labels[hit.id] == query.payload["label"] for hit in hits)
            if name == "bm25" or len(hits) == 10:
                assert found[name].per_query["P@10"][position] == pytest.approx(right / 10)


def test_ties_of_the_asymmetric_ranking_are_averaged(collection: CollectionBackend) -> None:
    (found,) = evaluate_rankings(collection, QUERIES, ["asymmetric"], ["P@10"]).values()
    stored = collection.all_documents()
    codes = np.array([np.frombuffer(bytes.fromhex(item.code), np.uint8) for item in stored])
    signs = unpack_codes(codes).astype(np.int64) * 2 - 1
    encoded = collection.encode_queries([Query(text=query.text) for query in QUERIES])
    for position, weights in enumerate(quantize_weights(encoded.weights)[0]):
        scores = signs @ weights
        relevant = np.array(
            [document.payload["label"] == QUERIES[position].payload["label"] for document in stored]
        )
        last = np.sort(scores)[-10]
        above, level = scores > last, scores == last
        share = (10 - above.sum()) / level.sum()
        expected = (relevant[above].sum() + share * relevant[level].sum()) / 10
        assert found.expected_per_query["P@10"][position] == pytest.approx(expected)


def test_what_cannot_be_compared_is_refused(collection: CollectionBackend) -> None:
    with pytest.raises(InputError, match="ranking: is 'cosine'"):
        evaluate_rankings(collection, QUERIES, ["cosine"])


@pytest.mark.parametrize(
    ("queries", "how", "message"),
    [
        ([], {}, "there are no queries"),
        ([Document(id="q", text="a b")], {}, "1 of 1 queries have no label"),
        (QUERIES, {"relevant_from": 2}, "relevant_from is 2"),
        (
            QUERIES,
            {"hierarchy": True, "qrels": {"q0": {"d0": 1}}},
            "hierarchy and qrels are both set",
        ),
    ],
)
def test_what_has_no_relevant_documents_is_refused(
    collection: CollectionBackend, queries: list[Document], how: dict[str, Any], message: str
) -> None:
    with pytest.raises(EvaluationError, match=message):
        evaluate_rankings(collection, queries, ["hamming"], METRICS, RelevanceSettings(**how))


def test_an_empty_collection_is_refused(tmp_path: Path) -> None:
    with DataFolder(tmp_path, writable=True) as data:
        empty = data.create_collection("empty", n_bits=16)
        with pytest.raises(EvaluationError, match="the database is empty"):
            evaluate_rankings(empty, QUERIES, ["hamming"])


@pytest.mark.parametrize("ranking", ["hamming", "bm25"])
def test_a_document_written_meanwhile_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ranking: str
) -> None:
    with closing(text_collection(tmp_path)) as collection:
        texts = enumerate(random_texts(8, seed=1))
        collection.upsert(
            [Document(id=f"d{i}", text=text, payload={"label": "a"}) for i, text in texts]
        )
        read = collection.encode_queries

        def write_first(*given: Any, **options: Any) -> Any:
            collection.upsert([Document(id="late", text=QUERIES[0].text)])
            return read(*given, **options)

        monkeypatch.setattr(collection, "encode_queries", write_first)
        with pytest.raises(EvaluationError, match="was written to while it was evaluated"):
            evaluate_rankings(collection, [replace(QUERIES[0], labels=("a",))], [ranking])


def test_a_query_that_is_stored_can_be_left_out(tmp_path: Path) -> None:
    with closing(code_collection(tmp_path)) as collection:
        stored = labelled_codes(60, 0, "d")
        collection.upsert(stored)
        how = RelevanceSettings(exclude_self=True)
        found = evaluate_rankings(collection, stored[:20], ["hamming"], SEARCH_METRICS, how)[
            "hamming"
        ]
        codes, labels = collection.labelled_codes()
    expected = evaluate_codes(
        codes[:20], labels[:20], codes, labels, SEARCH_METRICS, self_rows=np.arange(20)
    )
    for name in SEARCH_METRICS:
        assert found.per_query[name] == pytest.approx(expected.per_query[name], abs=1e-12)


def test_each_ranking_is_measured_by_its_own_hits(tmp_path: Path) -> None:
    texts = random_texts(80, seed=3)
    documents = [Document(id=f"d{position}", text=text) for position, text in enumerate(texts)]
    queries = [Document(id=f"q{position}", text=texts[position]) for position in range(12)]
    qrels = {f"q{position}": {f"d{position}": 1} for position in range(12)}
    with closing(text_collection(tmp_path)) as collection:
        collection.upsert(documents)
        for ranking in ("hamming", "asymmetric", "bm25", "hybrid"):
            how = RelevanceSettings(qrels=qrels)
            found = evaluate_rankings(collection, queries, [ranking], ["MRR@20"], how)[ranking]
            ranks = []
            for query, answers in zip(queries, qrels.values(), strict=True):
                (hits,) = collection.search([Query(text=query.text)], 20, ranking=ranking).hits
                places = [position for position, hit in enumerate(hits, 1) if hit.id in answers]
                ranks.append(1 / places[0] if places else 0.0)
            assert found.per_query["MRR@20"] == pytest.approx(np.array(ranks))


def test_a_query_without_an_answer_scores_0_and_one_without_a_label_is_refused(
    tmp_path: Path,
) -> None:
    with closing(code_collection(tmp_path)) as collection:
        collection.upsert(labelled_codes(60, 0, "d"))
        queries = labelled_codes(10, 1, "q")
        queries[3] = replace(queries[3], labels=("a label of no document",), payload={})
        found = evaluate_rankings(collection, queries, ["hamming"], SEARCH_METRICS)["hamming"]
        codes, labels = collection.labelled_codes()
        query_codes = collection.encode_queries([Query(code=query.code) for query in queries]).codes
        expected = evaluate_codes(query_codes, query_labels(queries), codes, labels, SEARCH_METRICS)
        assert found.queries == expected.queries == 10
        for name in SEARCH_METRICS:
            assert found.per_query[name][3] == 0
            assert found.metrics[name] == pytest.approx(expected.metrics[name], abs=1e-12)
        queries[3] = replace(queries[3], labels=())
        rest = evaluate_rankings(collection, queries, ["hamming"], SEARCH_METRICS)["hamming"]
        assert rest.notes[0] == "left out 1 query of 10 without a label"
        for name in SEARCH_METRICS:
            kept = np.delete(found.per_query[name], 3)
            assert rest.per_query[name] == pytest.approx(kept, abs=1e-12)


def test_by_words_the_query_itself_can_be_left_out(collection: CollectionBackend) -> None:
    stored = collection.all_documents()[:10]
    queries = [
        Document(id=document.id, text=document.text, payload=document.payload)
        for document in stored
    ]
    how = RelevanceSettings(exclude_self=True)
    for name in ("bm25", "hybrid", "asymmetric"):
        found = evaluate_rankings(collection, queries, [name], ["P@10", "Recall@10"], how)[name]
        labels = {document.id: document.payload["label"] for document in collection.all_documents()}
        for position, query in enumerate(queries):
            (hits,) = collection.search([Query(text=query.text)], 11, ranking=name).hits
            others = [hit.id for hit in hits if hit.id != query.id][:10]
            right = sum(labels[id_] == query.payload["label"] for id_ in others)
            every = sum(label == query.payload["label"] for label in labels.values()) - 1
            assert found.per_query["P@10"][position] == pytest.approx(right / 10)
            assert found.per_query["Recall@10"][position] == pytest.approx(right / max(every, 1))


def test_what_a_search_does_not_find_is_in_no_list(collection: CollectionBackend) -> None:
    words = {word for text in TEXTS for word in text.split()}
    query = Document(id="q", text=min(words), payload={"label": TEXTS[0].split()[-1]})
    found = evaluate_rankings(collection, [query], ["bm25"], ["P@100", "mAP-trec"])["bm25"]
    (hits,) = collection.search([Query(text=query.text)], 100, ranking="bm25").hits
    labels = {document.id: document.payload["label"] for document in collection.all_documents()}
    right = sum(labels[hit.id] == query.payload["label"] for hit in hits)
    assert len(hits) < 100
    for values in (found.per_query, found.expected_per_query, found.best_per_query):
        assert values["P@100"][0] == pytest.approx(right / 100)
    every = sum(label == query.payload["label"] for label in labels.values())
    assert found.best_per_query["mAP-trec"][0] <= right / every + 1e-12


def test_the_command_compares_rankings(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "queries.jsonl"
    lines = [{"id": query.id, "text": query.text, **query.payload} for query in QUERIES]
    source.write_text("\n".join(map(json.dumps, lines)))
    command = ["evaluate", "c", "--queries", str(source), "--data-dir", str(folder)]
    command += ["--metrics", "P@10", "--rankings", "hamming", "asymmetric", "bm25"]
    assert main(command) == 0
    shown = capsys.readouterr().out
    figures = [line for line in shown.splitlines() if re.match(r"P@10, \w+ +0", line)]
    assert [line.split()[1] for line in figures] == ["hamming", "asymmetric", "bm25"]
    assert "hamming − asymmetric:" in shown
    assert main([*command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found["systems"]) == {"hamming", "asymmetric", "bm25"}
    gate = tmp_path / "gate.toml"
    gate.write_text('[metrics."bm25 P@10"]\nmin = 0.0\n[metrics."P@100"]\nmin = 1\n')
    assert main([*command, "--gate", str(gate), "--out", str(tmp_path / "report")]) == 1
    assert "gate: P@100 is " in capsys.readouterr().err
    junit = (tmp_path / "report" / "junit.xml").read_text()
    assert 'classname="hummingbit.evaluate.bm25" name="bm25 P@10"' in junit
    assert "bm25" in (tmp_path / "report" / "report.md").read_text()


VECTORS = np.random.default_rng(5).normal(size=(90, 6)).astype(np.float32)


@pytest.fixture(scope="module")
def vector_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = make_data_folder(tmp_path_factory.mktemp("vectors"))
    documents = [
        Document(f"d{at}", TEXTS[at], VECTORS[at], payload={"label": TEXTS[at].split()[0]})
        for at in range(80)
    ]
    with DataFolder(path, writable=True) as data:
        collection = data.create_collection("v", encoder="numbers", keep_vectors="int8")
        collection.upsert(documents)
    return path


def vector_queries() -> list[Document]:
    return [
        Document(f"q{at}", TEXTS[at], VECTORS[at], payload={"label": TEXTS[at].split()[0]})
        for at in range(80, 90)
    ]


@pytest.mark.parametrize("ranking", ["hamming", "hybrid"])
def test_a_rescored_ranking_is_judged_by_its_searches(vector_data: Path, ranking: str) -> None:
    metrics = ["P@3", "nDCG@5"]
    with DataFolder(vector_data, writable=False) as data:
        collection, queries = data.collection("v"), vector_queries()
        name = f"{ranking}+vectors"
        found = evaluate_rankings(collection, queries, [name, "hamming"], metrics, oversample=3)
        assert list(found) == [name, "hamming"]
        asked = [Query(query.text, query.vector) for query in queries]
        result = collection.search(asked, 5, ranking=ranking, rescore=Rescore("vectors", 3))
        labels = {document.id: document.payload["label"] for document in collection.all_documents()}
        precision = [
            sum(labels[hit.id] == query.payload["label"] for hit in hits[:3]) / 3
            for query, hits in zip(queries, result.hits, strict=True)
        ]
        assert found[name].per_query["P@3"].tolist() == pytest.approx(precision)


def test_the_command_judges_rescored_rankings_here_and_at_a_service(
    vector_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "queries.jsonl"
    lines = [
        {"id": query.id, "text": query.text, "vector": VECTORS[80 + at].tolist(), **query.payload}
        for at, query in enumerate(vector_queries())
    ]
    source.write_text("\n".join(map(json.dumps, lines)))
    command = ["evaluate", "v", "--queries", str(source), "--metrics", "P@5", "--json"]
    command += ["--rankings", "hamming+vectors", "hamming+logits", "--oversample", "2"]
    assert main([*command, "--data-dir", str(vector_data)]) == 0
    local = json.loads(capsys.readouterr().out)
    with running_service(vector_data) as client:
        assert main([*command, "--url", str(client.base_url)]) == 0
    assert json.loads(capsys.readouterr().out) == local
    assert main([*command[:4], "--oversample", "2", "--data-dir", str(vector_data)]) == 2
    assert "--oversample: needs a rescored ranking" in capsys.readouterr().err


@pytest.mark.parametrize("exclude_self", [False, True])
def test_the_run_of_a_report_holds_what_a_search_finds(tmp_path: Path, exclude_self: bool) -> None:
    with closing(text_collection(tmp_path)) as collection:
        documents = [
            Document(id=f"d{number}", text=text, labels=("ab"[number % 2],))
            for number, text in enumerate(random_texts(150, seed=3))
        ]
        collection.upsert(documents)
        collection.set_ranking("hybrid")
        settings = RelevanceSettings(exclude_self=exclude_self)
        job = run_job(collection, documents[:20], ["P@10"], settings)
        assert job.run is not None
        run = parse_run(job.run().splitlines())
        for query in documents[:20]:
            (hits,) = collection.search([Query(text=query.text)], 101, ranking="hybrid").hits
            found = [hit.id for hit in hits if not exclude_self or hit.id != query.id]
            assert list(run[query.id]) == found[:100]
