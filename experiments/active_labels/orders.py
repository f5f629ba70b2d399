"""Orders of active learning that are measured beside those of the package.

Sources: Lewis and Gale (1994), uncertainty sampling; Sener and Savarese, "Active Learning for
Convolutional Neural Networks: A Core-Set Approach" (2018); Ash et al., "Deep Batch Active Learning
by Diverse, Uncertain Gradient Lower Bounds" (2020), BADGE; Hacohen, Dekel and Weinshall, "Active
Learning on a Budget" (2022), TypiClust; Citovsky et al., "Batch Active Learning at Scale" (2021),
Cluster-Margin; Doucet et al., "Bridging Diversity and Uncertainty in Active Learning with
Self-Supervised Pre-Training" (2024), TCM.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from hummingbit.encoder.codes import whole_codes
from hummingbit.encoder.text_features import Floats
from hummingbit.evaluation.labelling import suggestions
from hummingbit.evaluation.labelling.suggestions import (
    CANDIDATES,
    Pool,
    Probabilities,
    Rows,
    Sampling,
    choose_by,
    class_probabilities_of,
    most_doubtful,
    small_margin,
    spread_over_buckets,
)

# TCM turns from typical to uncertain documents at this many labels for each class, but no sooner
# than at FIRST_LABELS.
TYPICAL_LABELS = 20
FIRST_LABELS = 50
# Rows whose similarities to all others are in memory together.
SAMPLED_AT_ONCE = 64


def suggest(pool: Pool, n: int, method: str, seed: int = 0) -> Rows:
    """Return at most `n` rows to label next, by one of :data:`ORDERS`."""
    return choose_by(ORDERS[method], pool, n, seed)


# TypiClust: the typical documents of clusters without labels.
#
# Source: Hacohen, Dekel and Weinshall, "Active Learning on a Budget" (2022).


# The settings of TypiClust's paper: typicality is the mean similarity to this many neighbours.
TYPICAL_NEIGHBOURS = 20
MAX_CLUSTERS = 500
MIN_CLUSTER_SIZE = 5
# Rows whose similarities to a whole cluster are in memory together.
TYPED_AT_ONCE = 64


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
    for start in range(0, len(vectors), TYPED_AT_ONCE):
        block = slice(start, start + TYPED_AT_ONCE)
        similarity = vectors[block] @ others.T
        nearest = np.partition(similarity, -neighbours, axis=1)[:, -neighbours:]
        typicality[block] = nearest.mean(axis=1)
    return typicality


def _entropy(probabilities: Probabilities) -> npt.NDArray[np.float64]:
    """Return −Σ p ln p of each row."""
    return np.asarray(-(probabilities * np.log(np.maximum(probabilities, 1e-12))).sum(axis=1))


def _core_set(pool: Pool, n: int, seed: int) -> Rows:
    """Return, one after another, the document farthest from all that are labelled or chosen."""
    if not len(pool.labelled):
        first = typiclust(pool, 1, seed)
        classes = np.zeros(1, dtype=np.int64)
        rest = Pool(pool.vectors, pool.buckets, first, classes, 1, pool.excluded)
        return np.concatenate([first, _core_set(rest, n - 1, seed)])
    nearest = np.full(len(pool.vectors), -np.inf, dtype=np.float32)
    for start in range(0, len(pool.labelled), SAMPLED_AT_ONCE):
        labelled = pool.vectors[pool.labelled[start : start + SAMPLED_AT_ONCE]]
        nearest = np.maximum(nearest, (pool.vectors @ labelled.T).max(axis=1))
    unavailable = np.ones(len(pool.vectors), dtype=np.bool_)
    unavailable[pool.available] = False
    nearest[unavailable] = np.inf
    chosen: list[int] = []
    for _ in range(n):
        chosen.append(int(nearest.argmin()))
        nearest = np.maximum(nearest, pool.vectors @ pool.vectors[chosen[-1]])
        nearest[chosen[-1]] = np.inf
    return np.array(chosen, dtype=np.int64)


def _badge(pool: Pool, n: int, seed: int) -> Rows:
    """Return rows drawn by k-means++ of their gradients, (p − 1_ŷ) ⊗ vector."""
    available = pool.available
    errors = class_probabilities_of(pool)[available]
    errors[np.arange(len(available)), errors.argmax(axis=1)] -= 1
    vectors = pool.vectors[available].astype(np.float64)
    lengths = (errors**2).sum(axis=1) * (vectors**2).sum(axis=1)
    rng = np.random.default_rng((seed, len(pool.labelled)))
    chosen, distances = [int(lengths.argmax())], np.full(len(available), np.inf)
    while len(chosen) < n:
        last = chosen[-1]
        products = (errors @ errors[last]) * (vectors @ vectors[last])
        distances = np.minimum(distances, np.maximum(lengths + lengths[last] - 2 * products, 0))
        distances[chosen] = 0
        total = distances.sum()
        if total <= 0:
            others = np.delete(np.arange(len(available)), chosen)
            chosen += others[: n - len(chosen)].tolist()
            break
        chosen.append(int(rng.choice(len(available), p=distances / total)))
    return available[chosen]


def _cluster_margin(pool: Pool, n: int, seed: int) -> Rows:
    """Return the most central document of each of `n` clusters of documents with small margins."""
    from sklearn.cluster import MiniBatchKMeans  # noqa: PLC0415 - takes a second

    candidates = most_doubtful(pool, small_margin)[: CANDIDATES * n]
    if len(candidates) <= n:
        return candidates[:n]
    vectors = pool.vectors[candidates]
    model = MiniBatchKMeans(n, random_state=seed, n_init=1, batch_size=2048).fit(vectors)
    distances = ((vectors - model.cluster_centers_[model.labels_]) ** 2).sum(axis=1)
    # The nearest to each centre, in the order of the candidates, which is that of their margins.
    by_cluster = np.lexsort((distances, model.labels_))
    _, first = np.unique(model.labels_[by_cluster], return_index=True)
    central = np.sort(by_cluster[first])
    others = np.delete(np.arange(len(candidates)), central)
    chosen: Rows = candidates[np.concatenate([central, others])[:n]]
    return chosen


def _tcm(pool: Pool, n: int, seed: int) -> Rows:
    """Choose by TypiClust until there are some labels for each class, then by Cluster-Margin."""
    enough = max(FIRST_LABELS, TYPICAL_LABELS * pool.n_classes)
    choose = typiclust if len(pool.labelled) < enough else _cluster_margin
    return choose(pool, n, seed)


def _least_certain(pool: Pool, n: int, _seed: int) -> Rows:
    return spread_over_buckets(most_doubtful(pool, _entropy), pool.buckets, n)


ORDERS: Mapping[str, Sampling] = {
    **suggestions.METHODS,
    "tcm": Sampling("typical documents of clusters first, then clusters of small margins", _tcm),
    "cluster-margin": Sampling("central documents of clusters of small margins", _cluster_margin),
    "entropy": Sampling("the classes are least certain", _least_certain),
    "badge": Sampling("uncertain and unlike each other: k-means++ of gradients", _badge),
    "typiclust": Sampling("typical documents of the clusters with fewest labels", typiclust, False),
    "core-set": Sampling("farthest from everything labelled (k-center greedy)", _core_set, False),
}
