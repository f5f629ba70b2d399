"""Settings chosen by short runs on grouped folds: held-out clusters of documents.

Queries often come from another part of a class than the labelled documents: from other searches,
authors or months. A random held-out share does not show the effect, since each of its documents has
near neighbours in the training set. Therefore the labelled documents of each class are divided into
five clusters, and one cluster of each class is held out at a time. With more and smaller clusters,
of which a fold has several, the queries are nearer to the other documents.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from hummingbit.foundation.arrays import unit_rows
from hummingbit.training.data import Rows
from hummingbit.training.text_features import PrincipalDirections

# Grouped folds


FOLDS = 5
_DIRECTIONS = 100


def grouped_folds(
    rows: Any,
    labelled: Rows,
    classes: npt.NDArray[np.int64],
    seed: int,
    clusters: int = FOLDS,
) -> npt.NDArray[np.int64]:
    """Return the number of the fold of each of L labelled documents, int64[L], from 0 to 4.

    `rows` are the features of all N documents, a scipy matrix ``(N, V)`` or vectors ``(N, D)``. The
    rows `labelled` have the `classes`, int64[L]. A fold has a fifth of the `clusters` of each
    class, by k-means on unit vectors; texts are first projected on the principal directions of all
    documents. A class of fewer than two labelled documents a cluster is divided at random.
    """
    if isinstance(rows, np.ndarray):
        vectors = rows[labelled]
    else:
        vectors = PrincipalDirections(rows, seed, _DIRECTIONS).coordinates(labelled)
    unit = unit_rows(vectors)
    rng = np.random.default_rng(seed)
    folds = np.empty(len(classes), dtype=np.int64)
    for number in np.unique(classes):
        members = np.flatnonzero(classes == number)
        if len(members) < 2 * clusters:
            folds[members] = rng.permutation(len(members)) % FOLDS
        else:
            folds[members] = _cluster(unit[members], clusters, seed) % FOLDS
    return folds


def split_folds(folds: npt.NDArray[np.int64]) -> Iterator[tuple[Rows, Rows]]:
    """Yield the positions outside and inside each fold that has documents."""
    for fold in np.unique(folds):
        yield np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)


def list_length(classes: npt.NDArray[np.int64]) -> int:
    """Return the k of the P@k that compares settings: 100, or half the median class size if less.

    `classes`, int64[L], are those of the labelled documents. A longer list than a class has
    documents would reward codes for finding other classes' documents late.
    """
    return max(1, min(100, int(median_class_size(classes)) // 2))


def median_class_size(classes: npt.NDArray[np.int64]) -> float:
    """Return the median number of documents in a class that has any; `classes`, int64[L]."""
    sizes = np.bincount(classes)
    return float(np.median(sizes[sizes > 0]))


def _cluster(unit: npt.NDArray[Any], clusters: int, seed: int) -> npt.NDArray[np.int64]:
    from sklearn.cluster import KMeans  # noqa: PLC0415 - takes a second
    from sklearn.exceptions import ConvergenceWarning  # noqa: PLC0415

    with warnings.catch_warnings():
        # Documents of few different texts form fewer clusters.
        warnings.simplefilter("ignore", ConvergenceWarning)
        numbers = KMeans(clusters, n_init=3, random_state=seed).fit_predict(unit)
    return np.asarray(numbers, dtype=np.int64)


def trial_result(settings: str, metric: str, value: float) -> str:
    """Return what a trial says of settings, whose `metric` is tie-averaged P@k."""
    k = metric.partition("@")[2]
    found = f"{value:.4f} of the nearest {k} documents have the label of their query"
    return f"trial: {settings}: {found} ({metric} of held-out documents)"
