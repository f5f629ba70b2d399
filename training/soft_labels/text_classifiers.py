"""Predict the classes of unlabelled texts with classifiers that learn from each other.

Different classifiers err on different texts, so predictions on which they agree are worth learning
from. With a tenth of the labels of 20 Newsgroups, ridge regression on terms or on directions is
right on 76 of 100 posts, naive Bayes with EM on 82, and classifiers fitted to their predictions on
84.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.special import softmax

from encoder.features import Floats
from training.data import Rows
from training.soft_labels.naive_bayes import (
    Scores,
    expectation_maximization,
    multinomial_weights,
)
from training.soft_labels.ridge import fit_ridge
from training.text_features import PrincipalDirections

_ROUNDS = 3


def predict_texts(rows: Any, labelled: Rows, classes_LC: Floats, seed: int) -> Scores:
    """Return the distribution over classes of each text, ``float64[N, C]``.

    `rows` are weighted terms, a scipy matrix ``[N, V]``; `classes_LC` has the classes of the
    `labelled` rows. Three classifiers learn from the labelled rows: ridge regression on terms,
    ridge regression on the principal directions of all texts, and multinomial naive Bayes, which
    learns from the other rows too (:func:`expectation_maximization`). Their scores, standardized
    over the classes, are summed. Then ridge regression on terms and multinomial naive Bayes are
    fitted to the labels and predictions of all rows, in three rounds. The rounds are skipped if
    they make held-out labels, a fifth of the labelled rows, less likely.
    """
    directions = PrincipalDirections(rows, seed)
    held_out, training = hold_out_fifth(len(labelled), seed)

    def loss(probabilities: Scores) -> float:
        likely = probabilities[labelled[held_out]][classes_LC[held_out] > 0]
        return float(-np.log(likely).mean())

    trial = _rounds(rows, directions, labelled[training], classes_LC[training])
    first_loss, *_, last_loss = map(loss, trial)
    rounds = _rounds(rows, directions, labelled, classes_LC)
    first = next(rounds)
    if last_loss >= first_loss:
        return first
    *_, last = rounds
    return last


def hold_out_fifth(count: int, seed: int) -> tuple[Rows, Rows]:
    """Divide `count` places at random; return a fifth of them to hold out, and the others."""
    order = np.random.default_rng(seed).permutation(count)
    return order[::5], np.delete(order, np.s_[::5])


def term_weights(rows: Any, classes_NC: Floats) -> Scores:
    """Return how much each term tells about the classes, ``[V]``.

    It is the Euclidean length of the term's weights for all classes in ridge regression.
    """
    return np.asarray(np.linalg.norm(fit_ridge(rows, classes_NC).weight.T, axis=0))


def _rounds(
    rows: Any, directions: PrincipalDirections, labelled: Rows, classes: Floats
) -> Iterator[Scores]:
    """Yield predictions from the labelled rows, then those of each further round."""
    scores = _standardize(_direction_scores(directions, labelled, classes))
    scores += _standardize(fit_ridge(rows[labelled], classes)(rows))
    scores += _standardize(expectation_maximization(rows, labelled, classes))
    yield _probabilities(scores)
    for _ in range(_ROUNDS):
        targets = _probabilities(scores)
        targets[labelled] = classes
        scores = _standardize(fit_ridge(rows, targets)(rows))
        scores += _standardize(rows @ multinomial_weights(rows, targets))
        yield _probabilities(scores)


def _direction_scores(directions: PrincipalDirections, labelled: Rows, classes: Floats) -> Floats:
    """Return the scores of all rows by ridge regression on directions, fitted to `labelled`."""
    from sklearn.linear_model import Ridge  # noqa: PLC0415 - takes a second
    from sklearn.preprocessing import normalize  # noqa: PLC0415

    model = Ridge(alpha=0.3).fit(normalize(directions.coordinates(labelled)), classes)
    slices = directions.slices()
    return np.concatenate([model.predict(normalize(directions.coordinates(at))) for at in slices])


def _probabilities(scores: Scores) -> Scores:
    return np.asarray(softmax(_standardize(scores), axis=1))


def _standardize(scores: Any) -> Scores:
    centred: Scores = np.asarray(scores, dtype=np.float64)
    centred = centred - centred.mean(axis=1, keepdims=True)
    # A text without known words scores the same for every class.
    return np.asarray(centred / np.maximum(centred.std(axis=1, keepdims=True), 1e-9))
