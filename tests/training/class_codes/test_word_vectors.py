from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import Ridge

from hummingbit.corpus.document import Document
from hummingbit.encoder.artifact import load_encoder
from hummingbit.encoder.recipes import WORD_VECTOR_CLASSIFIERS, ClassCodeRecipe
from hummingbit.encoder.text_features import TextFeatures
from hummingbit.foundation.errors import HummingbitError
from hummingbit.training.class_codes import train_class_codes
from hummingbit.training.data import TrainingDataError, gather
from hummingbit.training.word_vectors import (
    WordTable,
    WordVectors,
    WordVectorsError,
    add_words,
)
from tests.support.corpora import TOPICS, topic_documents, topic_vectors

WORDS = ("sea", "Boat", "new york")
VECTORS = np.array([[1, 2.5], [3, -4], [0, 1]], dtype=np.float32)


def given(words: tuple[str, ...] = WORDS, vectors: np.ndarray = VECTORS) -> WordVectors:
    return WordVectors("given.npz", "0" * 64, words, vectors)


def test_words_become_further_terms_in_the_order_of_their_file() -> None:
    features = TextFeatures(["tide", "sea"], idf=np.array([1, 2], dtype=np.float32))
    words = given((*WORDS, "tide", "anchor", "sail"), np.arange(12, dtype=np.float32).reshape(6, 2))
    found, table = add_words(features, words, n_texts=7, max_terms=4)
    # "new york" is two terms, and "sail" is one too many.
    assert [*found.vocabulary] == ["tide", "sea", "boat", "anchor"]
    assert found.idf is not None
    np.testing.assert_allclose(found.idf, [1, 2, *[math.log(8 / 2) + 1] * 2], rtol=1e-6)
    rows = words.vectors[[3, 0, 1, 4]]
    np.testing.assert_array_equal(table.vectors_VD, rows - rows.mean(axis=0))
    assert table.n_learned == 2


def test_a_term_without_a_vector_has_zeros_and_of_several_words_the_first_counts() -> None:
    features = TextFeatures(["tide", "boat", "sea"])
    words = given(("Boat", *WORDS), VECTORS[[1, 0, 2, 2]])
    found, table = add_words(features, words, n_texts=7, max_terms=9)
    assert [*found.vocabulary] == ["tide", "boat", "sea"]
    mean = VECTORS[:2].mean(axis=0)
    np.testing.assert_array_equal(table.vectors_VD, [[0, 0], VECTORS[1] - mean, VECTORS[0] - mean])
    with pytest.raises(WordVectorsError, match="none of its 3 words is a term of the documents"):
        add_words(TextFeatures(["matrix"]), given(), n_texts=1, max_terms=9)


def test_the_map_of_words_is_ridge_regression_on_sums_of_their_vectors() -> None:
    rng = np.random.default_rng(0)
    rows = sparse.random_array((9000, 30), density=0.2, random_state=rng, dtype=np.float32).tocsr()
    vectors = rng.normal(size=(30, 6)).astype(np.float32)
    targets = rng.dirichlet(np.ones(4), size=9000).astype(np.float32)
    found = WordTable(vectors, 30).fit(rows, targets)
    sums = rows.toarray().astype(np.float64) @ vectors
    expected = Ridge(alpha=0.3).fit(sums, targets).predict(sums)
    np.testing.assert_allclose(found(rows), expected, atol=1e-4)


def word_vectors_of_topics() -> WordVectors:
    """Each topic's words, and others that no document has, near one direction."""
    rng = np.random.default_rng(0)
    words = [word for topic in TOPICS.values() for word in topic]
    words += [f"unseen{topic}{number}" for topic in TOPICS for number in range(10)]
    directions = np.repeat(np.eye(3), 10, axis=0)
    vectors = np.vstack([directions, directions]) + rng.normal(scale=0.1, size=(60, 3))
    return given(tuple(words), vectors.astype(np.float32))


def test_queries_of_words_that_no_document_has_find_their_class(tmp_path: Path) -> None:
    data = gather(topic_documents(400))
    recipe = ClassCodeRecipe(n_bits=16, query_classifier="words", content_share=0.125)
    trained = train_class_codes(data, recipe, tmp_path / "e", word_vectors=word_vectors_of_topics())
    encoder = load_encoder(tmp_path / "e")
    assert encoder.metadata["word_vectors"] == word_vectors_of_topics().about()
    assert encoder.class_code is not None
    for topic in TOPICS:
        query = " ".join(f"unseen{topic}{number}" for number in range(3))
        found = encoder.class_code.queries.predict(encoder.features.transform([query]))  # type: ignore[arg-type]
        assert data.classes[found[0]] == topic
    assert trained.encoder.fingerprint == encoder.fingerprint


def test_trials_choose_word_vectors_where_they_help(tmp_path: Path) -> None:
    documents = []
    for number in range(240):
        topic = ("food", "sea")[number % 2]
        # A word of each cluster of a class, which no other cluster has, and words of all.
        words = [f"unseen{topic}{number // 2 % 10}", *TOPICS["algebra"][number % 7 :][:3]]
        documents.append(Document(id=str(number), text=" ".join(words), labels=(topic,)))
    recipe = ClassCodeRecipe(n_bits=16, content_share=0.125, validation_share=0)
    trained = train_class_codes(
        gather(documents), recipe, tmp_path / "e", word_vectors=word_vectors_of_topics()
    )
    assert trained.encoder.metadata["chosen"]["query_classifier"] in set(WORD_VECTOR_CLASSIFIERS)


def test_word_vectors_are_for_texts(tmp_path: Path) -> None:
    recipe = ClassCodeRecipe(n_bits=16)
    with pytest.raises(TrainingDataError, match="word vectors are for texts"):
        train_class_codes(gather(topic_vectors(100)), recipe, tmp_path / "e", word_vectors=given())
    with pytest.raises(TrainingDataError, match="query_classifier: words needs word vectors"):
        train_class_codes(
            gather(topic_documents(100)),
            ClassCodeRecipe(n_bits=16, query_classifier="words"),
            tmp_path / "e",
        )
    assert not (tmp_path / "e").exists()


def test_errors_of_word_vectors_are_the_users() -> None:
    assert issubclass(WordVectorsError, HummingbitError)
