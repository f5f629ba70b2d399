"""TypiClust: the typical documents of clusters without labels.

Source: Hacohen, Dekel and Weinshall, "Active Learning on a Budget" (2022).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from encoder.codes import whole_codes
from encoder.features import Floats
from evaluation.labelling.label_pool import Pool, Rows
from foundation.slices import checkpoint

# The settings of TypiClust's paper: typicality is the mean similarity to this many neighbours.
TYPICAL_NEIGHBOURS = 20
MAX_CLUSTERS = 500
MIN_CLUSTER_SIZE = 5
# Rows whose similarities to a whole cluster are in memory together.
ROWS_AT_ONCE = 64


def typiclust(pool: Pool, n: int, seed: int) -> Rows:
    """Return the most typical document of each of the largest clusters with the fewest labels.

    These are `n` rows, in the order in which to label them. `seed` decides how k-means starts.
    """
    from sklearn.cluster import KMeans, MiniBatchKMeans  # noqa: PLC0415 - takes a second

    vectors = pool.vectors
    # There can be no more clusters than distinct vectors. Vectors that differ by rounding are one.
    rounded = np.round(vectors, 5) + 0.0  # no zero is negative
    distinct = np.unique(whole_codes(rounded.view(np.uint8)))
    k = max(1, min(len(pool.labelled) + n, MAX_CLUSTERS, len(distinct)))
    model = KMeans if k <= 50 else MiniBatchKMeans
    cluster = model(k, random_state=seed, n_init=1).fit(vectors).labels_
    sizes = np.bincount(cluster, minlength=k).tolist()
    labels = np.bincount(cluster[pool.labelled], minlength=k).tolist()
    available = pool.available
    remaining = np.bincount(cluster[available], minlength=k).tolist()
    queues: dict[int, list[int]] = {}
    chosen: list[int] = []
    while len(chosen) < n:
        checkpoint()
        # Clusters of a few documents come last: they are outliers.
        c = min(
            (c for c in range(k) if remaining[c]),
            key=lambda c: (sizes[c] < MIN_CLUSTER_SIZE, labels[c], -sizes[c], c),
        )
        if c not in queues:
            rows = available[cluster[available] == c]
            typicality = _typicality(vectors[rows], vectors[cluster == c])
            queues[c] = rows[np.argsort(-typicality, kind="stable")[::-1]].tolist()
        chosen.append(queues[c].pop())
        remaining[c] -= 1
        labels[c] += 1
    return np.array(chosen, dtype=np.int64)


def _typicality(vectors: Floats, others: Floats) -> npt.NDArray[np.float64]:
    """Return the mean similarity of each row to its nearest neighbours among `others`."""
    neighbours = min(TYPICAL_NEIGHBOURS, len(others))
    typicality = np.empty(len(vectors))
    for start in range(0, len(vectors), ROWS_AT_ONCE):
        checkpoint()
        block = slice(start, start + ROWS_AT_ONCE)
        similarity = vectors[block] @ others.T
        nearest = np.partition(similarity, -neighbours, axis=1)[:, -neighbours:]
        typicality[block] = nearest.mean(axis=1)
    return typicality
