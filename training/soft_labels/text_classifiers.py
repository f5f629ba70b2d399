"""Predict the classes of unlabelled texts with classifiers that learn from each other.

Different linear classifiers err on different texts, so predictions on which they agree are worth
learning from. With a tenth of the labels of 20 Newsgroups, each of the three classifiers below is
right on 75 of 100 posts, their sum on 79, and classifiers fitted to their predictions on 82. With
many classes of short texts, support vector machines predict better: with a tenth of the labels of
64 intents, they and ridge regression on directions are right on 70 of 100 requests, the sum of the
three on 68.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import softmax

from encoder.features import Floats
from training.data import Rows
from training.soft_labels.machines import fit_machines
from training.soft_labels.ridge import fit_ridge
from training.text_features import PrincipalDirections

Scores = npt.NDArray[np.float64]

_ROUNDS = 3
_SMOOTHING = 0.1
# How much likelier support vector machines must make held-out labels to predict, in nats a text.
_LEAST_GAIN = 0.1


def predict_texts(rows: Any, labelled: Rows, classes_LC: Floats, seed: int) -> Scores:
    """Return the distribution over classes of each text, ``float64[N, C]``.

    `rows` are weighted terms, a scipy matrix ``[N, V]``; `classes_LC` has the classes of the
    `labelled` rows. Three classifiers are fitted to the labelled rows: complement naive Bayes,
    ridge regression on terms, and ridge regression on the principal directions of all texts. Their
    scores, standardised over the classes, are summed. Then the first two are fitted to the labels
    and predictions of all rows, in three rounds. The rounds are skipped if they make held-out
    labels, a fifth of the labelled rows, less likely. If support vector machines in place of the
    first two, without rounds, make them more likely by 0.1 nats a text, these predict.
    """
    directions = PrincipalDirections(rows, seed)
    held_out, training = hold_out_fifth(len(labelled), seed)

    def loss(probabilities: Scores) -> float:
        likely = probabilities[labelled[held_out]][classes_LC[held_out] > 0]
        return float(-np.log(likely).mean())

    part = (rows, directions, labelled[training], classes_LC[training])
    first_loss, *_, last_loss = map(loss, _rounds(*part))
    if int(classes_LC[training].any(axis=0).sum()) > 1:
        machines_loss = loss(_predict_by_machines(*part, seed))
        if machines_loss < min(first_loss, last_loss) - _LEAST_GAIN:
            return _predict_by_machines(rows, directions, labelled, classes_LC, seed)
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


def bayes_weights(rows: Any, classes: Any, smoothing: float = _SMOOTHING) -> Scores:
    """Return complement naive Bayes' −ln p(term | other classes), ``float64[V, C]``.

    `classes` may be probabilities. `smoothing` is added to the sum of each term. Source: Rennie et
    al., "Tackling the Poor Assumptions of Naive Bayes Text Classifiers" (2003), section 3.2.
    """
    counts_VC = np.asarray(rows.T @ classes, dtype=np.float64)
    others_VC = counts_VC.sum(axis=1, keepdims=True) - counts_VC + smoothing
    return np.asarray(-np.log(others_VC / others_VC.sum(axis=0)))


def _rounds(
    rows: Any, directions: PrincipalDirections, labelled: Rows, classes: Floats
) -> Iterator[Scores]:
    """Yield predictions from the labelled rows, then those of each further round."""
    scores = _standardise(_direction_scores(directions, labelled, classes)) + _term_scores(
        rows, rows[labelled], classes
    )
    yield _probabilities(scores)
    for _ in range(_ROUNDS):
        targets = _probabilities(scores)
        targets[labelled] = classes
        scores = _term_scores(rows, rows, targets)
        yield _probabilities(scores)


def _predict_by_machines(
    rows: Any, directions: PrincipalDirections, labelled: Rows, classes: Floats, seed: int
) -> Scores:
    """Return predictions by support vector machines on terms and ridge regression on directions."""
    scores = _standardise(fit_machines(rows[labelled], classes, seed)(rows))
    return _probabilities(scores + _standardise(_direction_scores(directions, labelled, classes)))


def _term_scores(rows: Any, training_rows: Any, classes: Any) -> Scores:
    """Return the scores of `rows` by classifiers of terms, fitted to `training_rows`."""
    ridge = fit_ridge(training_rows, classes)(rows)
    return _standardise(ridge) + _standardise(rows @ bayes_weights(training_rows, classes))


def _direction_scores(directions: PrincipalDirections, labelled: Rows, classes: Floats) -> Floats:
    """Return the scores of all rows by ridge regression on directions, fitted to `labelled`."""
    from sklearn.linear_model import Ridge  # noqa: PLC0415 - takes a second
    from sklearn.preprocessing import normalize  # noqa: PLC0415

    model = Ridge(alpha=0.3).fit(normalize(directions.coordinates(labelled)), classes)
    slices = directions.slices()
    return np.concatenate([model.predict(normalize(directions.coordinates(at))) for at in slices])


def _probabilities(scores: Scores) -> Scores:
    return np.asarray(softmax(_standardise(scores), axis=1))


def _standardise(scores: Any) -> Scores:
    centred: Scores = np.asarray(scores, dtype=np.float64)
    centred = centred - centred.mean(axis=1, keepdims=True)
    # A text without known words scores the same for every class.
    return np.asarray(centred / np.maximum(centred.std(axis=1, keepdims=True), 1e-9))
