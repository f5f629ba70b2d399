"""Naive Bayes classifiers of texts, whose classes may be probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import softmax

from training.data import Rows

Scores = npt.NDArray[np.float64]

_SMOOTHING = 0.3
_UNIFORM_SHARE = 0.7
# The log-likelihoods of rows of unit length are too close to each other, since a text of a hundred
# terms counts as one of a few.
_TEMPERATURE = 0.4
_STEPS = 5


def complement_weights(rows: Any, classes: Any) -> Scores:
    """Return complement naive Bayes' −ln p(term | other classes), ``float64[V, C]``.

    `classes` may be probabilities. 0.3 is added to the sum of each term. Source: Rennie et al.,
    "Tackling the Poor Assumptions of Naive Bayes Text Classifiers" (2003), section 3.2.
    """
    counts_VC = np.asarray(rows.T @ classes, dtype=np.float64)
    others_VC = counts_VC.sum(axis=1, keepdims=True) - counts_VC + _SMOOTHING
    return np.asarray(-np.log(others_VC / others_VC.sum(axis=0)))


def multinomial_weights(rows: Any, classes: Any) -> Scores:
    """Return multinomial naive Bayes' ln p(term | class), ``float64[V, C]``.

    p(v | c) = (1 − λ) n_vc / Σ_v n_vc + λ / V with λ = 0.7, where n_vc is the sum of the weights of
    term v in the `rows`, ``(N, V)``, of class c. `classes`, ``(N, C)``, may be probabilities. A
    class without terms has the uniform distribution. Interpolated so, a rare term of a small class
    weighs no more than one of a large class. All classes have the same prior probability. Source:
    Jelinek and Mercer, "Interpolated Estimation of Markov Source Parameters from Sparse Data"
    (1980).
    """
    counts_VC = np.asarray(rows.T @ classes, dtype=np.float64)
    sums_C = counts_VC.sum(axis=0)
    uniform = 1 / len(counts_VC)
    shares_VC = np.divide(counts_VC, sums_C, out=np.full_like(counts_VC, uniform), where=sums_C > 0)
    return np.asarray(np.log((1 - _UNIFORM_SHARE) * shares_VC + _UNIFORM_SHARE * uniform))


def expectation_maximization(rows: Any, labelled: Rows, classes_LC: Any) -> Scores:
    """Return the log-likelihood of each class for each of the `rows`, ``float64[N, C]``.

    Multinomial naive Bayes is fitted to the `labelled` rows of the classes `classes_LC`. Then, in
    five steps, it is fitted to these and to its own predictions of the other rows, the softmax of
    the log-likelihoods divided by 0.4, a temperature for rows of unit length. Source: Nigam,
    McCallum, Thrun and Mitchell, "Text Classification from Labeled and Unlabeled Documents using
    EM" (2000).
    """
    scores_NC = np.asarray(rows @ multinomial_weights(rows[labelled], classes_LC))
    for _ in range(_STEPS):
        targets_NC = softmax(scores_NC / _TEMPERATURE, axis=1)
        targets_NC[labelled] = classes_LC
        scores_NC = np.asarray(rows @ multinomial_weights(rows, targets_NC))
    return scores_NC
