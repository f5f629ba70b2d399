from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.linear_model import Ridge
from sklearn.svm import LinearSVC

from hummingbit.encoder.classifier import Classifier
from hummingbit.encoder.text_features import Floats
from hummingbit.training.data import gather
from hummingbit.training.soft_labels import fit_classifier, fit_svm
from hummingbit.training.text_features import fit_text_features
from tests.support.corpora import texts_of_intents, topic_documents


def predicted(texts: list[str], tags: npt.NDArray[np.bool_]) -> tuple[Classifier, Any]:
    features = fit_text_features(texts, 1000)
    classifier = fit_classifier(features, texts, tags, tags.astype(np.float32), seed=0)
    assert classifier is not None
    return classifier, features.transform(texts)


def naive_bayes(rows: Any, classes: Any) -> Any:
    sums = np.array([rows.toarray()[classes == item].sum(axis=0) for item in np.unique(classes)])
    shares = sums / sums.sum(axis=1, keepdims=True)
    return np.log(0.3 * shares + 0.7 / rows.shape[1]).T


def test_texts_of_many_classes_have_support_vector_machines_and_naive_bayes() -> None:
    texts, tags = texts_of_intents()
    classifier, rows = predicted(texts, tags)
    classes = tags.argmax(axis=1)
    svm, bayes = classifier.weights
    reference = LinearSVC(random_state=0).fit(rows, classes)
    np.testing.assert_allclose(svm, reference.coef_.T, atol=0.02)
    np.testing.assert_allclose(classifier.biases[0], reference.intercept_, atol=0.02)
    np.testing.assert_allclose(bayes, naive_bayes(rows, classes), rtol=1e-4)


def test_texts_of_few_classes_have_ridge_regression_and_naive_bayes() -> None:
    data = gather(topic_documents(300))
    classifier, rows = predicted([str(text) for text in data.inputs], data.tags)
    ridge, bayes = classifier.weights
    reference = Ridge(tol=1e-6).fit(rows, data.tags)
    np.testing.assert_allclose(ridge, reference.coef_.T, atol=1e-3)
    np.testing.assert_allclose(bayes, naive_bayes(rows, data.tags.argmax(axis=1)), rtol=1e-4)
    assert (classifier.predict(rows) == data.tags.argmax(axis=1)).mean() > 0.95


def test_a_class_without_a_text_is_never_predicted_by_the_svm() -> None:
    rng = np.random.default_rng(0)
    rows = sparse.csr_array(rng.poisson(0.5, (60, 20)).astype(np.float32))
    classes: Floats = np.eye(5, dtype=np.float32)[2 * rng.integers(0, 3, 60)]
    weight, bias = fit_svm(rows, classes, seed=0)
    assert set((rows @ weight + bias).argmax(axis=1)) <= {0, 2, 4}
    np.testing.assert_array_equal(bias[[1, 3]], -1)


def test_labels_that_all_texts_share_have_no_classifier() -> None:
    texts = [str(text) for text in gather(topic_documents(60)).inputs]
    features = fit_text_features(texts, 1000)
    shared = np.ones((60, 2), dtype=bool)
    assert fit_classifier(features, texts, shared, None, seed=0) is None
    # All but one text have both labels, and a held-out fifth may have that one.
    for row in range(5):
        tags = shared.copy()
        tags[row, 0] = False
        assert fit_classifier(features, texts, tags, None, seed=0) is not None
