"""The estimation of soft labels, before a network is trained."""

from __future__ import annotations

from typing import Any

import numpy as np

from encoder.features import Floats
from evaluation.baselines import fit_logistic, unit_scale
from training.data import Rows, Tags
from training.soft_labels.label_spreading import spread_labels
from training.soft_labels.naive_bayes import Scores
from training.soft_labels.text_classifiers import predict_texts


def estimate_soft_labels(rows: Any, tags_NC: Tags, seed: int) -> Floats:
    """Return the distribution over classes of each document, ``float32[N, C]``.

    `rows` are features ``[N, F]``, a scipy matrix for texts or an array for vectors. `tags_NC` has
    the training labels, of two classes or more. A document of m labels has probability 1/m for each
    of them. Classifiers that are fitted to the labelled documents predict the classes of the
    others. For texts they are those of :mod:`training.soft_labels.text_classifiers`. For vectors,
    which have at most one label each, it is logistic regression, whose probabilities
    :mod:`training.soft_labels.label_spreading` spreads to the nearest neighbours.
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
    scale = unit_scale(rows)
    model = fit_logistic(rows[labelled] / scale, classes.argmax(axis=1))
    probabilities = np.asarray(model.predict_proba(rows / scale), dtype=np.float64)
    probabilities[labelled] = classes
    scores = spread_labels(rows, probabilities)
    return np.asarray(scores / scores.sum(axis=1, keepdims=True))
