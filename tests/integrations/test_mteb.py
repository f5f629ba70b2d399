"""Models and a task of MTEB, evaluated by MTEB itself, offline."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import mteb
import numpy as np
import pytest
from mteb.models.models_protocols import EncoderProtocol, SearchProtocol
from mteb.types import PromptType

from hummingbit.corpus.lines import ReadError
from hummingbit.embedded import Collection
from hummingbit.encoder.artifact import load_encoder, write_artifact
from hummingbit.integrations.mteb import HummingbitEncoder, HummingbitSearch, LocalRetrieval
from tests.support.encoders import random_texts, text_encoder


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("encoders") / "plain"
    write_artifact(folder, text_encoder(64), random_texts(50))
    return folder


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in BEIR's format: 60 documents, and 20 queries that are parts of them."""
    folder = tmp_path_factory.mktemp("beir") / "jams"
    (folder / "qrels").mkdir(parents=True)
    texts = random_texts(60, seed=3)
    write_lines(
        folder / "corpus.jsonl",
        ({"_id": f"d{i}", "title": "", "text": text} for i, text in enumerate(texts)),
    )
    queries = [" ".join(text.split()[:3]) for text in texts[:20]]
    write_lines(
        folder / "queries.jsonl",
        ({"_id": f"q{i}", "text": text} for i, text in enumerate(queries)),
    )
    judged = "".join(f"q{i}\td{i}\t1\n" for i in range(20))
    (folder / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{judged}")
    return folder


def write_lines(path: Path, records: Iterable[object]) -> None:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


def ndcg(model: object, files: Path) -> float:
    found = mteb.evaluate(
        model, [LocalRetrieval(files)], cache=None, co2_tracker=False, show_progress_bar=False
    )
    (result,) = found.task_results
    (scores,) = result.scores["test"]
    return float(scores["ndcg_at_10"])


def expected_ndcg(encoder: Path, files: Path, ranking: str, tmp_path: Path) -> float:
    """nDCG@10 of one relevant document each, by a collection's own search."""
    corpus = [json.loads(line) for line in (files / "corpus.jsonl").read_text().splitlines()]
    queries = [json.loads(line) for line in (files / "queries.jsonl").read_text().splitlines()]
    with Collection.create(tmp_path, "c", encoder=encoder) as collection:
        collection.add(
            [document["text"] for document in corpus], ids=[document["_id"] for document in corpus]
        )
        gains = []
        for query in queries:
            wanted = "d" + query["_id"][1:]
            hits = collection.search(query["text"], limit=60, ranking=ranking)
            # MTEB breaks ties by the larger id, pytrec_eval's rule.
            ordered = sorted(zip(hits.scores.tolist(), hits.ids, strict=True), reverse=True)
            place = [id_ for _, id_ in ordered].index(wanted) + 1
            gains.append(1 / np.log2(place + 1) if place <= 10 else 0.0)
    return float(np.mean(gains))


def test_the_protocols(encoder: Path) -> None:
    assert isinstance(HummingbitEncoder(encoder), EncoderProtocol)
    assert isinstance(HummingbitSearch(encoder), SearchProtocol)


@pytest.mark.parametrize("ranking", ["hamming", "asymmetric", "bm25", "hybrid"])
def test_a_collection_is_evaluated_as_it_searches(
    encoder: Path, files: Path, ranking: str, tmp_path: Path
) -> None:
    found = ndcg(HummingbitSearch(encoder, ranking=ranking), files)
    assert found == pytest.approx(expected_ndcg(encoder, files, ranking, tmp_path), abs=1e-4)
    assert found > 0.3


@pytest.mark.parametrize("ranking", ["hamming", "asymmetric"])
def test_an_encoder_is_evaluated_as_a_collection_of_it(
    encoder: Path, files: Path, ranking: str
) -> None:
    model = HummingbitEncoder(encoder, weigh_queries=ranking == "asymmetric")
    assert ndcg(model, files) == pytest.approx(
        ndcg(HummingbitSearch(encoder, ranking=ranking), files), abs=1e-3
    )


def test_embeddings(encoder: Path) -> None:
    model, texts = HummingbitEncoder(encoder), ["apple jam", "bread"]
    bits = model.encode([{"text": texts[:1]}, {"text": texts[1:]}])
    assert bits.shape == (2, 64)
    assert set(np.unique(bits)) == {-1.0, 1.0}
    weights = model.encode([{"text": texts}], prompt_type=PromptType.query)
    assert np.array_equal(weights, load_encoder(encoder).query_weights(texts))
    assert np.allclose(model.similarity(weights, bits).numpy(), weights @ bits.T, atol=1e-4)
    pairwise = model.similarity_pairwise(weights, bits).numpy()
    assert np.allclose(pairwise, (weights * bits).sum(axis=1), atol=1e-4)


def test_words_of_queries_are_corrected_as_a_collection_does(encoder: Path) -> None:
    for weigh in (True, False):
        model = HummingbitEncoder(encoder, weigh_queries=weigh)
        batches = [{"text": [text]} for text in ("aple jam", "apple jam")]
        misspelt, right = model.encode(batches, prompt_type=PromptType.query)
        assert np.array_equal(misspelt, right)


def test_only_documents_to_be_ranked_again(encoder: Path) -> None:
    model = HummingbitSearch(encoder, ranking="bm25")
    model.index([{"id": str(i), "title": "", "text": t} for i, t in enumerate(["jam", "jam jam"])])
    found = model.search([{"id": "q", "text": "jam"}], top_k=5, top_ranked={"q": ["0"]})
    assert list(found["q"]) == ["0"]


def test_files_that_are_not_in_the_format(files: Path, tmp_path: Path) -> None:
    with pytest.raises(ReadError, match=r"test.tsv: No such file"):
        LocalRetrieval(tmp_path).load_data()
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq0 d0 1\n")
    with pytest.raises(ReadError, match=r"test.tsv:2: has 1 cell; there must be 3"):
        LocalRetrieval(tmp_path).load_data()
    (tmp_path / "qrels" / "test.tsv").write_text("q0\td0\t1\n")
    (tmp_path / "queries.jsonl").write_text('{"id": "q0"}\n')
    with pytest.raises(ReadError, match=r"queries.jsonl:1: must be an object with the strings _id"):
        LocalRetrieval(tmp_path).load_data()
