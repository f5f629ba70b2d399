"""Held-out clusters of documents: what chooses settings, for every corpus and method alike.

Queries often come from other corners of a class than the documents that were labelled: from other
searches, other authors, other months. A random share held out does not show that, since each of its
documents has near neighbours among the others. Therefore the labelled documents of each class are
parted into five clusters, and one cluster of each class is held out at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from foundation.arrays import unit_rows
from training.data import Rows
from training.text_features import principal_directions

FOLDS = 5
_DIRECTIONS = 100


def cluster_folds(
    rows: Any, labelled: Rows, classes: npt.NDArray[np.int64], seed: int
) -> npt.NDArray[np.int64]:
    """Return which of the five folds each of L labelled documents belongs to, int64[L].

    `rows` are the features of all N documents, a scipy matrix ``(N, V)`` or vectors ``(N, D)``, of
    which the rows `labelled` have the `classes`, int64[L]. A fold has a cluster of each class:
    k-means on unit vectors, of texts on the principal directions of all. Classes of fewer than ten
    labelled documents are dealt out by chance.
    """
    if isinstance(rows, np.ndarray):
        places = rows[labelled]
    else:
        places = principal_directions(rows, seed, _DIRECTIONS)[1][labelled]
    unit = unit_rows(places)
    rng = np.random.default_rng(seed)
    folds = np.empty(len(classes), dtype=np.int64)
    for one in np.unique(classes):
        own = np.flatnonzero(classes == one)
        if len(own) < 2 * FOLDS:
            folds[own] = rng.permutation(len(own)) % FOLDS
        else:
            folds[own] = _clusters(unit[own], seed)
    return folds


def known_and_held(folds: npt.NDArray[np.int64]) -> Iterator[tuple[Rows, Rows]]:
    """Yield, for each fold that has documents, the places of all others and of its own."""
    for fold in np.unique(folds):
        yield np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)


def _clusters(unit: npt.NDArray[Any], seed: int) -> npt.NDArray[np.int64]:
    from sklearn.cluster import KMeans  # noqa: PLC0415 - takes a second

    found = KMeans(FOLDS, n_init=3, random_state=seed).fit_predict(unit)
    return np.asarray(found, dtype=np.int64)
