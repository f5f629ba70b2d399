"""Estimating the classes of unlabelled documents before a network is trained."""

from __future__ import annotations

from typing import Any

import numpy as np

from encoder.features import Floats
from evaluation.baselines import fit_logistic, unit_scale
from training.data import Rows, Tags
from training.soft_labels.label_spreading import spread_labels
from training.soft_labels.text_classifiers import Scores, predict_texts


def estimate_soft_labels(rows: Any, tags_NC: Tags, seed: int) -> Floats:
    """Return the distribution over classes of each document, ``float32[N, C]``.

    `rows` are features, ``[N, F]``, a scipy matrix or an array; `tags_NC` holds the shown labels,
    at most one a document, of two classes or more. A labelled document has its class for certain.
    Classifiers fitted to the labelled documents predict the classes of the others: for texts those
    of :mod:`training.soft_labels.text_classifiers`; for vectors logistic regression, whose
    probabilities :mod:`training.soft_labels.label_spreading` spreads to the nearest neighbours.
    """
    labelled = np.flatnonzero(tags_NC.any(axis=1))
    known_NC = tags_NC.astype(np.float32)
    if len(labelled) == len(tags_NC):
        return known_NC
    predict = _predict_vectors if isinstance(rows, np.ndarray) else predict_texts
    # Classes without a single labelled document are never predicted.
    shown = np.flatnonzero(tags_NC[labelled].any(axis=0))
    soft_NC = np.zeros_like(known_NC)
    soft_NC[:, shown] = predict(rows, labelled, known_NC[labelled][:, shown], seed)
    soft_NC[labelled] = known_NC[labelled]
    return soft_NC


def _predict_vectors(rows: Any, labelled: Rows, classes: Floats, _seed: int) -> Scores:
    scale = unit_scale(rows)
    model = fit_logistic(rows[labelled] / scale, classes.argmax(axis=1))
    supposed = np.asarray(model.predict_proba(rows / scale), dtype=np.float64)
    supposed[labelled] = classes
    heard = spread_labels(rows, supposed)
    return np.asarray(heard / heard.sum(axis=1, keepdims=True))
