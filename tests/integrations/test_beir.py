"""Models of BEIR, evaluated by BEIR itself, offline."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from beir.datasets.data_loader import GenericDataLoader
from beir.retrieval.evaluation import EvaluateRetrieval
from beir.retrieval.search.dense import DenseRetrievalExactSearch

from hummingbit.corpus.lines import ReadError
from hummingbit.encoder.artifact import write_artifact
from hummingbit.integrations.beir import HummingbitModel, HummingbitRetriever, read_beir
from tests.support.encoders import class_encoder, random_texts, text_encoder


@pytest.fixture(scope="module", params=[text_encoder, class_encoder])
def encoder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Queries of the second have a head of their own."""
    folder = tmp_path_factory.mktemp("encoders") / "plain"
    write_artifact(folder, request.param(64), random_texts(50))
    return folder


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("beir") / "jams"
    (folder / "qrels").mkdir(parents=True)
    with (folder / "corpus.jsonl").open("w") as out:
        for i, text in enumerate(random_texts(60, seed=3)):
            out.write(json.dumps({"_id": f"d{i}", "title": f"title {i}", "text": text}) + "\n")
    with (folder / "queries.jsonl").open("w") as out:
        for i, text in enumerate(random_texts(60, seed=3)[:20]):
            out.write(json.dumps({"_id": f"q{i}", "text": " ".join(text.split()[:3])}) + "\n")
    judged = "".join(f"q{i}\td{i}\t1\n" for i in range(20))
    (folder / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{judged}")
    return folder


def test_files_are_read_as_beir_reads_them(files: Path) -> None:
    corpus, queries, qrels = GenericDataLoader(str(files)).load(split="test")
    assert read_beir(files, "test") == (corpus, queries, qrels)


@pytest.mark.parametrize("ranking", ["hamming", "asymmetric"])
def test_a_dense_model_and_a_collection_give_the_same_scores(
    encoder: Path, files: Path, ranking: str
) -> None:
    corpus, queries, qrels = GenericDataLoader(str(files)).load(split="test")
    dense = HummingbitModel(encoder, weigh_queries=ranking == "asymmetric")
    search = DenseRetrievalExactSearch(dense, show_progress_bar=False)
    by_vectors = EvaluateRetrieval(search, k_values=[60], score_function="dot")
    by_codes = EvaluateRetrieval(HummingbitRetriever(encoder, ranking=ranking), k_values=[60])
    left, right = by_vectors.retrieve(corpus, queries), by_codes.retrieve(corpus, queries)
    assert left.keys() == right.keys()
    for query in queries:
        assert left[query].keys() == right[query].keys() == corpus.keys()
        # Scores of a collection are shares of what a document with all bits right would have.
        weights = dense.encode_queries([queries[query]])[0].abs().sum().item()
        expected = {id_: weights * (2 * score - 1) for id_, score in right[query].items()}
        assert left[query] == pytest.approx(expected, abs=1e-2)
    ndcg, *_ = by_codes.evaluate(qrels, right, [10])
    assert 0 < ndcg["NDCG@10"] <= 1


@pytest.mark.parametrize("ranking", ["bm25", "hybrid"])
def test_rankings_by_words(encoder: Path, files: Path, ranking: str) -> None:
    corpus, queries, qrels = GenericDataLoader(str(files)).load(split="test")
    retriever = EvaluateRetrieval(HummingbitRetriever(encoder, ranking=ranking), k_values=[10])
    ndcg, *_ = retriever.evaluate(qrels, retriever.retrieve(corpus, queries), [10])
    assert ndcg["NDCG@10"] > 0.3


def test_nothing_is_pickled(encoder: Path) -> None:
    with pytest.raises(NotImplementedError, match="writes no pickles"):
        EvaluateRetrieval(HummingbitRetriever(encoder)).encode_and_retrieve({}, {})
    with pytest.raises(NotImplementedError, match="nothing is unpickled"):
        HummingbitRetriever(encoder).search_from_files("a", ["b"], 10)


def test_a_folder_of_beir_is_read_with_the_same_checks(tmp_path: Path) -> None:
    for name in ("corpus", "queries"):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps({"_id": "a", "text": "words"}) + "\n")
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels/test.tsv").write_text("a\ta\t1\na\ta\t0\n")
    with pytest.raises(ReadError, match=r"test.tsv:2: document 'a' is judged twice"):
        read_beir(tmp_path, "test")
