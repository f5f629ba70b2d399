"""What class codes learn from a teacher's vectors of the documents: soft labels, and content.

A teacher knows which documents are alike. So it knows better than their words do which class an
unlabelled document has, and bits of content that follow it bring documents of like meaning near.
Classifiers and content are functions of words all the same, so an encoder needs no teacher.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from encoder.features import Floats
from training.data import Tags
from training.soft_labels.estimation import estimate_soft_labels
from training.soft_labels.ridge import fit_ridge
from training.soft_labels.text_classifiers import hold_out_fifth

# The share of held-out labels that soft labels of a document's own features must have right beyond
# those of the teacher's vectors to take their place. Few labels show no smaller difference.
_LEAST_GAIN = 0.05


def rows_of_soft_labels(rows: Any, vectors_NE: Floats, tags_NC: Tags, seed: int) -> Any:
    """Return what soft labels are estimated from: the teacher's vectors, or the features `rows`.

    `rows`, ``(N, F)``, `vectors_NE` and `tags_NC` are of the same documents. The features take the
    place of the vectors if they make .05 more of a fifth of the labels right, held out. So a
    teacher that does not know the classes does no harm.
    """
    labelled = np.flatnonzero(tags_NC.any(axis=1))
    held_out, known = (labelled[places] for places in hold_out_fifth(len(labelled), seed))
    shown = np.zeros_like(tags_NC)
    shown[known] = tags_NC[known]
    if len(labelled) == len(tags_NC) or int(shown.any(axis=0).sum()) < 2:
        return vectors_NE

    def accuracy(candidate: Any) -> float:
        soft_labels = estimate_soft_labels(candidate, shown, seed)[held_out]
        return float(tags_NC[held_out, soft_labels.argmax(axis=1)].mean())

    return rows if accuracy(rows) > accuracy(vectors_NE) + _LEAST_GAIN else vectors_NE


def fit_teacher(learned: Any, vectors_NE: Floats, n_terms: int) -> Floats:
    """Return the weights ``float32[V, E]`` of `n_terms` terms that predict a teacher's vectors.

    `learned` are the weighted terms of the corpus, a scipy matrix with the first columns of V. They
    are fitted to the vectors by ridge regression (:func:`training.soft_labels.ridge.fit_ridge`).
    Further terms have weights of 0.
    """
    weight = fit_ridge(learned, vectors_NE).weight
    return np.pad(weight, ((0, n_terms - len(weight)), (0, 0))).astype(np.float32)
