from __future__ import annotations

import numpy as np
import pytest

from tests.support.corpora import topic_documents, topic_vectors
from training.data import TrainingData, gather
from training.soft_labels.estimation import estimate_soft_labels
from training.text_features import fit_text_features


def rows_of(data: TrainingData) -> object:
    if isinstance(data.inputs, np.ndarray):
        return data.inputs
    return fit_text_features(data.inputs, 100).transform(data.inputs)


def shown(data: TrainingData, count: int) -> np.ndarray:
    tags = data.tags.copy()
    tags[count:] = False
    return tags


@pytest.mark.parametrize("documents", [topic_documents(200), topic_vectors(200)])
def test_unlabelled_documents_mostly_get_the_right_class(documents: list) -> None:  # type: ignore[type-arg]
    data = gather(documents)
    soft_labels = estimate_soft_labels(rows_of(data), shown(data, 40), seed=0)
    np.testing.assert_allclose(soft_labels.sum(axis=1), 1, rtol=1e-5)
    assert (soft_labels.argmax(axis=1) == data.tags.argmax(axis=1)).mean() > 0.9


def test_labels_are_certain() -> None:
    data = gather(topic_documents(100))
    soft_labels = estimate_soft_labels(rows_of(data), shown(data, 40), seed=0)
    assert np.array_equal(soft_labels[:40], data.tags[:40])
    assert np.array_equal(estimate_soft_labels(rows_of(data), data.tags, seed=0), data.tags)


def test_a_class_without_a_label_is_never_predicted() -> None:
    data = gather(topic_documents(100))
    tags = shown(data, 60)
    tags[:, 1] = False
    soft_labels = estimate_soft_labels(rows_of(data), tags, seed=0)
    assert not soft_labels[:, 1].any()


def test_a_text_without_known_words_may_be_of_any_class() -> None:
    data = gather(topic_documents(100))
    features = fit_text_features(data.take(np.arange(100)), 100)  # type: ignore[arg-type]
    rows = features.transform([*map(str, data.inputs), "zzz"])
    tags = np.vstack([shown(data, 40), np.zeros(3, dtype=np.bool_)])
    row = estimate_soft_labels(rows, tags, seed=0)[-1]
    assert np.isfinite(row).all()
    assert row.max() < 0.9
