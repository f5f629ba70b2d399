"""What to label next: methods of pool-based active learning, by their names.

Sources: Lewis and Gale (1994), uncertainty sampling; Scheffer, Decomain and Wrobel (2001), margin;
Sener and Savarese, "Active Learning for Convolutional Neural Networks: A Core-Set Approach" (2018);
Ash et al., "Deep Batch Active Learning by Diverse, Uncertain Gradient Lower Bounds" (2020), BADGE;
Hacohen, Dekel and Weinshall, "Active Learning on a Budget" (2022), TypiClust; Citovsky et al.,
"Batch Active Learning at Scale" (2021), Cluster-Margin; Doucet et al., "Bridging Diversity and
Uncertainty in Active Learning with Self-Supervised Pre-Training" (2024), TCM.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from encoder.codes import whole_codes
from encoder.features import Floats
from evaluation.labelling.classes import (
    Classes,
    Probabilities,
    class_probabilities,
    class_scores,
)
from foundation.slices import checkpoint

Rows = npt.NDArray[np.int64]

# The settings of TypiClust's paper: neighbours that tell how typical, clusters at most.
TYPICAL_NEIGHBOURS = 20
MOST_CLUSTERS = 500
SMALLEST_CLUSTER = 5
# TCM turns from typical to uncertain documents at so many labels for each class seen.
TYPICAL_LABELS = 20
FIRST_LABELS = 50
# Cluster-Margin and the turns of buckets look at so many times the documents that are wanted.
CANDIDATES = 10
# Bounds the similarities that are held at once: of each of these rows to a whole cluster.
ROWS_AT_ONCE = 64


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """Documents to choose from, and what is known of them.

    `places` are ``float32[N, D]``, rows of unit length; `buckets`, ``int64[N]``, are equal where
    codes are; `classes` are those of the rows `labelled`, numbered from 0 to `n_classes` − 1.
    The rows `passed` are never chosen.
    """

    places: Floats
    buckets: Classes
    labelled: Rows
    classes: Classes
    n_classes: int
    passed: Rows = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    @property
    def free(self) -> Rows:
        """The rows to choose from, ascending."""
        taken = np.concatenate([self.labelled, self.passed])
        return np.delete(np.arange(len(self.places)), taken)

    def probabilities(self) -> Probabilities | None:
        """Return what a classifier of the labels says, ``float64[N, C]``; None without any."""
        if not len(self.labelled):
            return None
        return class_probabilities(
            class_scores(self.places, self.labelled, self.classes, self.n_classes)
        )


@dataclass(frozen=True, slots=True)
class Sampling:
    """A method: what it does in a sentence, and how it chooses `n` rows that have no label."""

    summary: str
    choose: Callable[[Pool, int, int], Rows]


def suggest(pool: Pool, n: int, method: str, seed: int = 0) -> Rows:
    """Return at most `n` rows to label next, the first first.

    Without two classes among the labels nothing is uncertain, so methods that go by uncertainty
    choose what TypiClust would. The same pool and seed give the same rows.

    Raises:
        KeyError: if there is no such method.
    """
    chosen = METHODS[method]
    n = min(n, len(pool.free))
    return chosen.choose(pool, n, seed) if n else np.empty(0, dtype=np.int64)


def _random(pool: Pool, n: int, seed: int) -> Rows:
    return np.random.default_rng((seed, len(pool.labelled))).permutation(pool.free)[:n]


def _uncertain(pool: Pool) -> Probabilities | None:
    """Return the probabilities of a pool; None without two classes, when nothing is uncertain."""
    return pool.probabilities() if pool.n_classes >= 2 else None


def _by_uncertainty(
    uncertainty: Callable[[Probabilities], npt.NDArray[np.float64]],
) -> Callable[[Pool, int, int], Rows]:
    def choose(pool: Pool, n: int, seed: int) -> Rows:
        found = _uncertain(pool)
        if found is None:
            return _typical(pool, n, seed)
        free = pool.free
        order = free[np.argsort(-uncertainty(found[free]), kind="stable")]
        return _over_buckets(order, pool.buckets, n)

    return choose


def _small_margin(probabilities: Probabilities) -> npt.NDArray[np.float64]:
    """Return 1 − (p₁ − p₂), the greater the closer the two likeliest classes are."""
    best = np.partition(probabilities, -2, axis=1)
    return np.asarray(1 - (best[:, -1] - best[:, -2]))


def _entropy(probabilities: Probabilities) -> npt.NDArray[np.float64]:
    """Return −Σ p ln p of each row."""
    return np.asarray(-(probabilities * np.log(np.maximum(probabilities, 1e-12))).sum(axis=1))


def _over_buckets(order: Rows, buckets: Classes, n: int) -> Rows:
    """Return the first `n` of `order`, a second of a bucket only once no bucket is left.

    Ten times as many candidates are looked at.
    """
    candidates = order[: CANDIDATES * n]
    turns: dict[int, int] = {}
    keys = []
    for at, row in enumerate(candidates.tolist()):
        bucket = int(buckets[row])
        turns[bucket] = turns.get(bucket, -1) + 1
        keys.append((turns[bucket], at))
    return candidates[[at for _, at in sorted(keys)[:n]]]


def _typical(pool: Pool, n: int, seed: int) -> Rows:
    """Return the most typical document of each of the largest clusters that have fewest labels."""
    from sklearn.cluster import KMeans, MiniBatchKMeans  # noqa: PLC0415 - takes a second

    places = pool.places
    # There are no more clusters than places; rounding does not tell two apart.
    rounded = np.round(places, 5) + 0.0  # no zero is negative
    _, alike = np.unique(whole_codes(rounded.view(np.uint8)), return_counts=True)
    k = max(1, min(len(pool.labelled) + n, MOST_CLUSTERS, len(alike)))
    kind = KMeans if k <= 50 else MiniBatchKMeans
    cluster = kind(k, random_state=seed, n_init=1).fit(places).labels_
    sizes = np.bincount(cluster, minlength=k).tolist()
    labels = np.bincount(cluster[pool.labelled], minlength=k).tolist()
    free = pool.free
    left = np.bincount(cluster[free], minlength=k).tolist()
    waiting: dict[int, list[int]] = {}
    chosen: list[int] = []
    while len(chosen) < n:
        checkpoint()
        # Clusters of a few documents come last: they are outliers.
        c = min(
            (c for c in range(k) if left[c]),
            key=lambda c: (sizes[c] < SMALLEST_CLUSTER, labels[c], -sizes[c], c),
        )
        if c not in waiting:
            rows = free[cluster[free] == c]
            typicality = _typicality(places[rows], places[cluster == c])
            waiting[c] = rows[np.argsort(-typicality, kind="stable")[::-1]].tolist()
        chosen.append(waiting[c].pop())
        left[c] -= 1
        labels[c] += 1
    return np.array(chosen, dtype=np.int64)


def _typicality(places: Floats, others: Floats) -> npt.NDArray[np.float64]:
    """Return the mean similarity of each row to its nearest neighbours among `others`."""
    neighbours = min(TYPICAL_NEIGHBOURS, len(others))
    found = np.empty(len(places))
    for start in range(0, len(places), ROWS_AT_ONCE):
        checkpoint()
        some = slice(start, start + ROWS_AT_ONCE)
        alike = places[some] @ others.T
        found[some] = np.partition(alike, -neighbours, axis=1)[:, -neighbours:].mean(axis=1)
    return found


def _core_set(pool: Pool, n: int, seed: int) -> Rows:
    """Return, one after another, the document farthest from all that are labelled or chosen."""
    if not len(pool.labelled):
        first = _typical(pool, 1, seed)
        none = np.zeros(1, dtype=np.int64)
        rest = Pool(pool.places, pool.buckets, first, none, 1, pool.passed)
        return np.concatenate([first, _core_set(rest, n - 1, seed)])
    nearest = np.full(len(pool.places), -np.inf, dtype=np.float32)
    for start in range(0, len(pool.labelled), ROWS_AT_ONCE):
        checkpoint()
        known = pool.places[pool.labelled[start : start + ROWS_AT_ONCE]]
        nearest = np.maximum(nearest, (pool.places @ known.T).max(axis=1))
    taken = np.ones(len(pool.places), dtype=np.bool_)
    taken[pool.free] = False
    nearest[taken] = np.inf
    chosen: list[int] = []
    for _ in range(n):
        checkpoint()
        chosen.append(int(nearest.argmin()))
        nearest = np.maximum(nearest, pool.places @ pool.places[chosen[-1]])
        nearest[chosen[-1]] = np.inf
    return np.array(chosen, dtype=np.int64)


def _badge(pool: Pool, n: int, seed: int) -> Rows:
    """Return rows drawn by k-means++ of their gradients, (p − 1_ŷ) ⊗ place."""
    found = _uncertain(pool)
    if found is None:
        return _typical(pool, n, seed)
    free = pool.free
    errors = found[free]
    errors[np.arange(len(free)), errors.argmax(axis=1)] -= 1
    places = pool.places[free].astype(np.float64)
    lengths = (errors**2).sum(axis=1) * (places**2).sum(axis=1)
    rng = np.random.default_rng((seed, len(pool.labelled)))
    chosen, distances = [int(lengths.argmax())], np.full(len(free), np.inf)
    while len(chosen) < n:
        checkpoint()
        last = chosen[-1]
        alike = (errors @ errors[last]) * (places @ places[last])
        distances = np.minimum(distances, np.maximum(lengths + lengths[last] - 2 * alike, 0))
        distances[chosen] = 0
        total = distances.sum()
        if total <= 0:
            others = np.delete(np.arange(len(free)), chosen)
            chosen += others[: n - len(chosen)].tolist()
            break
        chosen.append(int(rng.choice(len(free), p=distances / total)))
    return free[chosen]


def _cluster_margin(pool: Pool, n: int, seed: int) -> Rows:
    """Return the most central documents of `n` clusters of ten times as many small margins."""
    found = _uncertain(pool)
    if found is None:
        return _typical(pool, n, seed)
    from sklearn.cluster import MiniBatchKMeans  # noqa: PLC0415 - takes a second

    free = pool.free
    order = free[np.argsort(-_small_margin(found[free]), kind="stable")]
    candidates = order[: CANDIDATES * n]
    if len(candidates) <= n:
        return candidates[:n]
    places = pool.places[candidates]
    model = MiniBatchKMeans(n, random_state=seed, n_init=1, batch_size=2048).fit(places)
    away = ((places - model.cluster_centers_[model.labels_]) ** 2).sum(axis=1)
    # The nearest to each centre; candidates come in the order of their margins.
    by_cluster = np.lexsort((away, model.labels_))
    _, first = np.unique(model.labels_[by_cluster], return_index=True)
    central = np.sort(by_cluster[first])
    others = np.delete(np.arange(len(candidates)), central)
    chosen: Rows = candidates[np.concatenate([central, others])[:n]]
    return chosen


def _tcm(pool: Pool, n: int, seed: int) -> Rows:
    """Choose as TypiClust does until each class has some labels, by Cluster-Margin from then on."""
    some = max(FIRST_LABELS, TYPICAL_LABELS * pool.n_classes)
    return (_typical if len(pool.labelled) < some else _cluster_margin)(pool, n, seed)


METHODS: Mapping[str, Sampling] = {
    "tcm": Sampling("typical documents of clusters first, then clusters of small margins", _tcm),
    "margin": Sampling(
        "the two likeliest classes are closest, spread over buckets", _by_uncertainty(_small_margin)
    ),
    "cluster-margin": Sampling("central documents of clusters of small margins", _cluster_margin),
    "entropy": Sampling("the classes are least certain", _by_uncertainty(_entropy)),
    "badge": Sampling("uncertain and unlike each other: k-means++ of gradients", _badge),
    "typiclust": Sampling("typical documents of the clusters with fewest labels", _typical),
    "core-set": Sampling("farthest from everything labelled (k-center greedy)", _core_set),
    "random": Sampling("drawn at random", _random),
}
DEFAULT_METHOD = "tcm"
