from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from hummingbit.corpus.document import Document
from hummingbit.corpus.readers import read_documents
from hummingbit.evaluation import result
from hummingbit.evaluation.baselines import bm25, logistic_baseline, tfidf_cosine, vector_cosine
from hummingbit.evaluation.rankings import evaluate_rankings
from hummingbit.evaluation.relevance import Labelled
from hummingbit.evaluation.result import EvaluationError
from hummingbit.index.data_folder import DataFolder
from tests.support.corpora import topic_documents, topic_vectors


def texts(documents: list[Document]) -> Labelled:
    return Labelled([d.text or "" for d in documents], [d.labels for d in documents])


def vectors(documents: list[Document]) -> Labelled:
    stacked = np.stack([d.vector for d in documents if d.vector is not None])
    return Labelled(stacked, [d.labels for d in documents])


def test_tfidf_cosine_by_hand() -> None:
    database = Labelled(["red apple", "red car", "fast car"], [("food",), ("car",), ("car",)])
    found = tfidf_cosine(database, Labelled(["apple", "fast"], [("food",), ("car",)]), ["P@1"])
    assert found.metrics == found.expected == {"P@1": 1.0}


def test_bm25_is_what_a_collection_finds(tmp_path: Path) -> None:
    """The baseline of texts ranks as searches by bm25 do, and finds nothing without a word."""
    documents, queries = topic_documents(80), topic_documents(20, seed=1)
    with DataFolder(tmp_path, writable=True) as folder:
        collection = folder.create_collection("words", n_bits=0)
        collection.upsert(documents)
        searched = evaluate_rankings(collection, queries, ["bm25"], ["P@10", "mAP@20"])["bm25"]
    found = bm25(texts(documents), texts(queries), ["P@10", "mAP@20"])
    for name, values in searched.expected_per_query.items():
        np.testing.assert_allclose(found.expected_per_query[name], values)
    strange = Labelled(["zebra"], [documents[0].labels])
    assert bm25(texts(documents), strange, ["P@10"]).expected == {"P@10": 0.0}


def test_vector_cosine_by_hand() -> None:
    stored = np.array([[3.0, 0.0], [0.0, 9.0], [1.0, 1.0]], dtype=np.float32)
    asked = np.array([[2.0, 0.1]], dtype=np.float32)
    database = Labelled(stored, [("a",), ("b",), ("a",)])
    found = vector_cosine(database, Labelled(asked, [("a",)]), ["P@2", "mAP@3"])
    assert found.metrics == {"P@2": 1.0, "mAP@3": 1.0}


def test_words_that_no_document_has_tie_everything() -> None:
    database = Labelled(["red apple", "red car"], [("food",), ("car",)])
    found = tfidf_cosine(database, Labelled(["zebra"], [("car",)]), ["P@1"])
    assert (found.metrics, found.expected) == ({"P@1": 0.0}, {"P@1": 0.5})


def test_tfidf_cosine_is_the_cosine_of_weighted_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    database, queries = topic_documents(60), topic_documents(12, seed=1)
    monkeypatch.setattr(result, "BLOCK_ENTRIES", 100)
    found = tfidf_cosine(texts(database), texts(queries), ["P@10"])
    words = sorted({word for d in database for word in (d.text or "").split()})

    def counts(documents: list[Document]) -> np.ndarray:
        return np.array([[(d.text or "").split().count(w) for w in words] for d in documents])

    seen = (counts(database) > 0).sum(axis=0)
    idf = np.log((1 + len(database)) / (1 + seen)) + 1
    rows, asked = counts(database) * idf, counts(queries) * idf
    cosine = asked @ rows.T / np.linalg.norm(rows, axis=1)
    labels = np.array([d.labels[0] for d in database])
    expected = []
    for row, query in zip(cosine, queries, strict=True):
        top = labels[np.argsort(-row, kind="stable")[:10]]
        expected.append((top == query.labels[0]).mean())
    # Sums in another order can swap documents that are tied but for rounding.
    assert found.metrics["P@10"] == pytest.approx(np.mean(expected), abs=0.01)


def test_the_classifier_baseline_knows_the_class_and_nothing_else() -> None:
    database, queries = topic_documents(300), topic_documents(60, seed=1)
    found = logistic_baseline(texts(database[:60]), texts(database), texts(queries), ["P@20"])
    assert found.distinct_codes == 3
    assert found.expected["P@20"] > 0.95


def test_the_classifier_baseline_of_vectors() -> None:
    database, queries = topic_vectors(300), topic_vectors(60, seed=1)
    found = logistic_baseline(vectors(database[:60]), vectors(database), vectors(queries), ["P@20"])
    assert found.distinct_codes == 3
    assert found.expected["P@20"] > 0.95


def test_expectation_of_the_classifier_baseline_is_the_share_of_the_class() -> None:
    # Two classes that the vectors separate, and labels of the database that disagree in part.
    shown = Labelled(np.array([[-1.0], [1.0]], dtype=np.float32), [("a",), ("b",)])
    points = np.array([[-1.0]] * 4 + [[1.0]] * 4, dtype=np.float32)
    labels = [("b",), ("a",), ("a",), ("a",), ("b",), ("b",), ("a",), ("a",)]
    queries = Labelled(np.array([[-2.0], [2.0]], dtype=np.float32), [("a",), ("b",)])
    found = logistic_baseline(shown, Labelled(points, labels), queries, ["P@2"])
    assert found.per_query["P@2"].tolist() == [0.5, 1.0]
    assert found.expected_per_query["P@2"].tolist() == [0.75, 0.5]


def test_several_tags_make_a_code_of_the_set() -> None:
    corners = np.array([[-1, -1], [-1, 1], [1, -1], [1, 1]], dtype=np.float32)
    labels = [("all",), ("all", "up"), ("all", "right"), ("all", "up", "right")]
    shown = Labelled(np.repeat(corners, 5, axis=0), [label for label in labels for _ in range(5)])
    found = logistic_baseline(shown, shown, Labelled(corners[1:3], [("up",), ("right",)]), ["P@10"])
    # Five documents have just the set that is predicted. The next ten are at distance 1: five have
    # one tag more, so the query's too; five have one tag less, so not the query's.
    assert found.distinct_codes == 4
    assert found.expected["P@10"] == pytest.approx(0.75)


@pytest.mark.parametrize(
    ("labels", "reason"),
    [
        ([("a",), ("a",)], "have 1 distinct label; a code of the class needs 2 to 1,024"),
        ([("a",), ()], r"labelled document 1 \(counting from 0\) has no label"),
        ([], "have 0 distinct labels"),
        ([tuple(map(str, range(1025)))], "have 1,025 distinct labels"),
    ],
)
def test_labels_that_make_no_classifier_baseline(
    labels: list[tuple[str, ...]], reason: str
) -> None:
    some = Labelled(["red apple"], [("a",)])
    with pytest.raises(EvaluationError, match=reason):
        logistic_baseline(Labelled(["red apple"] * len(labels), labels), some, some)


def test_inputs_of_another_kind_are_refused() -> None:
    words = Labelled(["red apple", "blue"], [("a",), ("b",)])
    numbers = Labelled(np.eye(2, dtype=np.float32), [("a",), ("b",)])
    longer = Labelled(np.eye(3, dtype=np.float32), [("a",), ("b",), ("b",)])
    with pytest.raises(EvaluationError, match="TF-IDF needs texts"):
        tfidf_cosine(numbers, words)
    with pytest.raises(EvaluationError, match="TF-IDF needs texts"):
        logistic_baseline(numbers, words, words)
    with pytest.raises(EvaluationError, match="vectors of 2 numbers"):
        logistic_baseline(numbers, numbers, longer)
    with pytest.raises(EvaluationError, match="vectors of 2 numbers"):
        logistic_baseline(words, numbers, numbers)
    with pytest.raises(EvaluationError, match="no text of the database has a word"):
        tfidf_cosine(Labelled(["", "?"], [("a",), ("b",)]), words)
    with pytest.raises(EvaluationError, match="the database is empty"):
        tfidf_cosine(Labelled([], []), words)


def test_scikit_learn_is_not_loaded_until_it_is_used() -> None:
    program = "import sys, hummingbit.evaluation.baselines; print('sklearn' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"


def snippets(split: str) -> Labelled:
    documents = list(read_documents(f"snippets:{split}"))
    return Labelled([document.text or "" for document in documents], [d.labels for d in documents])


@pytest.mark.public_data
def test_the_baselines_on_snippets() -> None:
    database, queries = snippets("train"), snippets("test")
    cosine = tfidf_cosine(database, queries)
    assert cosine.metrics["P@100"] == pytest.approx(0.425, abs=0.005)
    rows = np.random.default_rng(0).permutation(len(database))[: len(database) // 10]
    shown = Labelled([database.inputs[row] for row in rows], [database.labels[row] for row in rows])
    found = logistic_baseline(shown, database, queries)
    assert found.distinct_codes == 8
    assert found.expected["P@100"] == pytest.approx(0.51, abs=0.02)
