from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.svm import LinearSVC

from encoder.classifier import Classifier
from encoder.features import Floats
from tests.support.corpora import texts_of_rare_classes, topic_documents
from training.data import gather
from training.soft_labels.fair_classifier import fit_classifier
from training.soft_labels.machines import fit_machines
from training.text_features import fit_text_features


def predicted(texts: list[str], tags: npt.NDArray[np.bool_]) -> tuple[Classifier, Any]:
    features = fit_text_features(texts, 1000)
    classifier = fit_classifier(features, texts, tags, tags.astype(np.float32), seed=0)
    assert classifier is not None
    return classifier, features.transform(texts)


def test_texts_of_many_classes_are_classified_by_support_vector_machines() -> None:
    texts, tags = texts_of_rare_classes(8)
    classifier, rows = predicted(texts, tags)
    reference = LinearSVC(random_state=0).fit(rows, tags.argmax(axis=1)).predict(rows)
    assert len(classifier.weights) == 1
    assert (classifier.predict(rows) == reference).mean() > 0.99


def test_texts_of_few_classes_are_classified_by_the_sum_of_two() -> None:
    data = gather(topic_documents(300))
    classifier, rows = predicted([str(text) for text in data.inputs], data.tags)
    assert len(classifier.weights) == 2
    assert (classifier.predict(rows) == data.tags.argmax(axis=1)).mean() > 0.95


def test_a_class_without_a_text_is_never_predicted_by_machines() -> None:
    rng = np.random.default_rng(0)
    rows = sparse.csr_array(rng.poisson(0.5, (60, 20)).astype(np.float32))
    classes: Floats = np.eye(5, dtype=np.float32)[2 * rng.integers(0, 3, 60)]
    weight, bias = fit_machines(rows, classes, seed=0)
    assert set((rows @ weight + bias).argmax(axis=1)) <= {0, 2, 4}
    np.testing.assert_array_equal(bias[[1, 3]], -1)
