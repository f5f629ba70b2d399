from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.special import softmax
from scipy.stats import zscore
from sklearn.linear_model import Ridge
from sklearn.preprocessing import normalize

from hummingbit.training.data import gather
from hummingbit.training.soft_labels import expectation_maximization, predict_texts, term_weights
from hummingbit.training.text_features import fit_text_features, principal_directions
from tests.support.corpora import COMMON, TOPICS, topic_documents


def test_a_word_that_no_labelled_text_has_is_learned_from_predictions() -> None:
    # Texts of class 0 hold word 0, word 1 or both, those of class 1 word 2, word 3 or both. Labels
    # are shown of texts that hold word 0 or word 2 only.
    patterns = np.array([[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 0, 0]])
    patterns = np.vstack([patterns, np.roll(patterns, 2, axis=1)])
    rows = sparse.csr_array(np.repeat(patterns, 20, axis=0).astype(np.float32))
    labelled, known = np.r_[:10, 60:70], np.repeat(np.eye(2, dtype=np.float32), 10, axis=0)
    found = predict_texts(rows, labelled, known, seed=0)
    assert found[:60, 0].min() > 0.5
    assert found[60:, 1].min() > 0.5


def test_words_of_a_topic_weigh_more_than_words_of_all() -> None:
    data = gather(topic_documents(300))
    texts = [str(text) for text in data.inputs]
    features = fit_text_features(texts, 100)
    weights = dict(
        zip(
            features.vocabulary,
            term_weights(features.transform(texts), data.tags.astype(np.float32)),
            strict=True,
        )
    )
    least = min(weights[word] for words in TOPICS.values() for word in words)
    assert least > max(weights[word] for word in COMMON)


@pytest.mark.parametrize("texts", [2, 3])
def test_a_handful_of_texts_is_enough(texts: int) -> None:
    rows = sparse.csr_array(np.eye(texts, 4, dtype=np.float32))
    found = predict_texts(rows, np.array([0, 1]), np.eye(2, dtype=np.float32), seed=0)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    assert np.array_equal(found[:2].argmax(axis=1), [0, 1])


def test_predictions_are_not_learned_from_where_labels_say_nothing_of_the_texts() -> None:
    rng = np.random.default_rng(0)
    rows = sparse.csr_array(rng.poisson(0.5, (600, 50)).astype(np.float32))
    classes = np.eye(12, dtype=np.float32)[rng.integers(0, 12, 600)]
    found = predict_texts(rows, np.arange(120), classes[:120], seed=0)
    # Learned from, such predictions only grow bolder; the loss would be 3.04.
    assert -np.log(found[120:][classes[120:] > 0]).mean() < 2.95
    known = classes[:120]
    directions = normalize(principal_directions(rows, 0)[1])
    members = [
        Ridge(alpha=0.3).fit(directions[:120], known).predict(directions),
        Ridge(solver="sparse_cg", alpha=1, tol=1e-6).fit(rows[:120], known).predict(rows),
        expectation_maximization(rows, np.arange(120), known),
    ]
    total = zscore(sum(zscore(scores, axis=1) for scores in members), axis=1)
    np.testing.assert_allclose(found, softmax(total, axis=1), atol=0.002)


def test_directions_may_be_found_in_some_of_the_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    data = gather(topic_documents(300))
    texts = [str(text) for text in data.inputs]
    rows = fit_text_features(texts, 100).transform(texts)
    labelled, known = np.arange(30), data.tags[:30].astype(np.float32)
    monkeypatch.setattr("hummingbit.training.text_features._ROWS_FOR_DIRECTIONS", 60)
    found = predict_texts(rows, labelled, known, seed=0)
    assert (found.argmax(axis=1) == data.tags.argmax(axis=1)).mean() > 0.95
