"""The estimation of soft labels, before a network is trained."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import softmax

from encoder.features import Floats
from evaluation.baselines import fit_logistic, unit_scale
from training.data import Rows, Tags
from training.soft_labels.label_spreading import smoothing_matrix, spread_labels
from training.soft_labels.naive_bayes import Scores
from training.soft_labels.text_classifiers import predict_texts
from training.soft_labels.vector_classifiers import fit_discriminant

# What vectors take from their neighbours: most at first, where few are known.
_FIRST_SHARE, _SHARE = 0.9, 0.7
_ROUNDS = 2
# The mean deviation of a vector's scores over the classes, before the softmax. They are spread
# afterwards, which makes them softer.
_SHARPNESS = 4.0


def estimate_soft_labels(rows: Any, tags_NC: Tags, seed: int) -> Floats:
    """Return the distribution over classes of each document, ``float32[N, C]``.

    `rows` are features ``[N, F]``, a scipy matrix for texts or an array for vectors. `tags_NC` has
    the training labels, of two classes or more. A document of m labels has probability 1/m for each
    of them. Classifiers that are fitted to the labelled documents predict the classes of the
    others. For texts they are those of :mod:`training.soft_labels.text_classifiers`. For vectors it
    is logistic regression, which learns the first of several labels; its probabilities
    :mod:`training.soft_labels.label_spreading` spreads to the nearest neighbours. Twice, linear
    discriminant analysis then learns from these soft labels, and its own are spread.
    """
    labelled = np.flatnonzero(tags_NC.any(axis=1))
    known_NC = tags_NC.astype(np.float32)
    known_NC /= np.maximum(known_NC.sum(axis=1, keepdims=True), 1)
    if len(labelled) == len(tags_NC):
        return known_NC
    predict = _predict_vectors if isinstance(rows, np.ndarray) else predict_texts
    # Classes without a labelled document are never predicted.
    seen = np.flatnonzero(tags_NC[labelled].any(axis=0))
    soft_NC = np.zeros_like(known_NC)
    soft_NC[:, seen] = predict(rows, labelled, known_NC[labelled][:, seen], seed)
    soft_NC[labelled] = known_NC[labelled]
    return soft_NC


def _predict_vectors(rows: Any, labelled: Rows, classes: Floats, _seed: int) -> Scores:
    # A class that only accompanies earlier ones is the first of no document.
    first = classes.argmax(axis=1)
    probabilities = np.zeros((len(rows), classes.shape[1]))
    if (first == first[0]).all():
        probabilities[:, first[0]] = 1
    else:
        scale = unit_scale(rows)
        model = fit_logistic(rows[labelled] / scale, first)
        probabilities[:, model.classes_] = model.predict_proba(rows / scale)
    smoothing = smoothing_matrix(rows)

    def spread(probabilities: Scores, share: float) -> Scores:
        start = probabilities.copy()
        start[labelled] = classes
        scores = spread_labels(smoothing, start, share)
        soft_labels = np.asarray(scores / scores.sum(axis=1, keepdims=True))
        soft_labels[labelled] = classes
        return soft_labels

    soft_labels = spread(probabilities, _FIRST_SHARE)
    for _ in range(_ROUNDS):
        scores = fit_discriminant(rows, soft_labels)(rows)
        size = scores.std(axis=1).mean() or 1.0
        soft_labels = spread(softmax(scores * (_SHARPNESS / size), axis=1), _SHARE)
    return soft_labels
