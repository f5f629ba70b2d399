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
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evaluation.labelling.classes import Classes, Probabilities
from evaluation.labelling.herding import herd
from evaluation.labelling.label_pool import Pool, Rows
from evaluation.labelling.typiclust import typiclust
from foundation.slices import checkpoint

# TCM turns from typical to uncertain documents at this many labels for each class, but no sooner
# than at FIRST_LABELS.
TYPICAL_LABELS = 20
FIRST_LABELS = 50
# Cluster-Margin, and the spread over buckets, consider this many candidates for each document.
CANDIDATES = 10
# Rows whose similarities to a whole cluster are in memory together.
ROWS_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class Sampling:
    """A method: a phrase that describes it, and the function that chooses rows.

    `choose` takes the pool, the number of rows and a seed.
    """

    summary: str
    choose: Callable[[Pool, int, int], Rows]


def suggest(pool: Pool, n: int, method: str, seed: int = 0) -> Rows:
    """Return at most `n` rows to label next, in the order in which to label them.

    Below two classes nothing is uncertain, so methods that go by uncertainty choose as TypiClust
    does. The same pool and seed give the same rows.

    Raises:
        KeyError: if `method` is not in :data:`METHODS`.
    """
    choose = METHODS[method].choose
    n = min(n, len(pool.available))
    return choose(pool, n, seed) if n else np.empty(0, dtype=np.int64)


def _random(pool: Pool, n: int, seed: int) -> Rows:
    return np.random.default_rng((seed, len(pool.labelled))).permutation(pool.available)[:n]


def _uncertain_probabilities(pool: Pool) -> Probabilities | None:
    """Return the probabilities of a pool; None below two classes, when nothing is uncertain."""
    return pool.probabilities() if pool.n_classes >= 2 else None


def _by_uncertainty(
    uncertainty: Callable[[Probabilities], npt.NDArray[np.float64]],
) -> Callable[[Pool, int, int], Rows]:
    def choose(pool: Pool, n: int, seed: int) -> Rows:
        probabilities = _uncertain_probabilities(pool)
        if probabilities is None:
            return typiclust(pool, n, seed)
        available = pool.available
        order = available[np.argsort(-uncertainty(probabilities[available]), kind="stable")]
        return _spread_over_buckets(order, pool.buckets, n)

    return choose


def _small_margin(probabilities: Probabilities) -> npt.NDArray[np.float64]:
    """Return 1 − (p₁ − p₂) of each row, p₁ and p₂ being its two highest probabilities."""
    best = np.partition(probabilities, -2, axis=1)
    return np.asarray(1 - (best[:, -1] - best[:, -2]))


def _entropy(probabilities: Probabilities) -> npt.NDArray[np.float64]:
    """Return −Σ p ln p of each row."""
    return np.asarray(-(probabilities * np.log(np.maximum(probabilities, 1e-12))).sum(axis=1))


def _spread_over_buckets(order: Rows, buckets: Classes, n: int) -> Rows:
    """Return `n` of the first rows of `order`, with as few as possible from the same bucket.

    The first ``10 n`` rows are the candidates. One of each bucket comes first, then a second of
    each, and so on.
    """
    candidates = order[: CANDIDATES * n]
    turns: dict[int, int] = {}
    keys = []
    for at, row in enumerate(candidates.tolist()):
        bucket = int(buckets[row])
        turns[bucket] = turns.get(bucket, -1) + 1
        keys.append((turns[bucket], at))
    return candidates[[at for _, at in sorted(keys)[:n]]]


def _core_set(pool: Pool, n: int, seed: int) -> Rows:
    """Return, one after another, the document farthest from all that are labelled or chosen."""
    if not len(pool.labelled):
        first = typiclust(pool, 1, seed)
        classes = np.zeros(1, dtype=np.int64)
        rest = Pool(pool.vectors, pool.buckets, first, classes, 1, pool.excluded)
        return np.concatenate([first, _core_set(rest, n - 1, seed)])
    nearest = np.full(len(pool.vectors), -np.inf, dtype=np.float32)
    for start in range(0, len(pool.labelled), ROWS_AT_ONCE):
        checkpoint()
        labelled = pool.vectors[pool.labelled[start : start + ROWS_AT_ONCE]]
        nearest = np.maximum(nearest, (pool.vectors @ labelled.T).max(axis=1))
    unavailable = np.ones(len(pool.vectors), dtype=np.bool_)
    unavailable[pool.available] = False
    nearest[unavailable] = np.inf
    chosen: list[int] = []
    for _ in range(n):
        checkpoint()
        chosen.append(int(nearest.argmin()))
        nearest = np.maximum(nearest, pool.vectors @ pool.vectors[chosen[-1]])
        nearest[chosen[-1]] = np.inf
    return np.array(chosen, dtype=np.int64)


def _badge(pool: Pool, n: int, seed: int) -> Rows:
    """Return rows drawn by k-means++ of their gradients, (p − 1_ŷ) ⊗ vector."""
    probabilities = _uncertain_probabilities(pool)
    if probabilities is None:
        return typiclust(pool, n, seed)
    available = pool.available
    errors = probabilities[available]
    errors[np.arange(len(available)), errors.argmax(axis=1)] -= 1
    vectors = pool.vectors[available].astype(np.float64)
    lengths = (errors**2).sum(axis=1) * (vectors**2).sum(axis=1)
    rng = np.random.default_rng((seed, len(pool.labelled)))
    chosen, distances = [int(lengths.argmax())], np.full(len(available), np.inf)
    while len(chosen) < n:
        checkpoint()
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
    probabilities = _uncertain_probabilities(pool)
    if probabilities is None:
        return typiclust(pool, n, seed)
    from sklearn.cluster import MiniBatchKMeans  # noqa: PLC0415 - takes a second

    available = pool.available
    order = available[np.argsort(-_small_margin(probabilities[available]), kind="stable")]
    candidates = order[: CANDIDATES * n]
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


def _herding(pool: Pool, n: int, seed: int) -> Rows:
    known = _uncertain_probabilities(pool)
    weights = None if known is None else _small_margin(known)
    return herd(pool.vectors, weights, pool.labelled, pool.available, n=n, seed=seed)


METHODS: Mapping[str, Sampling] = {
    "tcm": Sampling("typical documents of clusters first, then clusters of small margins", _tcm),
    "margin": Sampling(
        "the two likeliest classes are closest, spread over buckets", _by_uncertainty(_small_margin)
    ),
    "cluster-margin": Sampling("central documents of clusters of small margins", _cluster_margin),
    "entropy": Sampling("the classes are least certain", _by_uncertainty(_entropy)),
    "badge": Sampling("uncertain and unlike each other: k-means++ of gradients", _badge),
    "typiclust": Sampling("typical documents of the clusters with fewest labels", typiclust),
    "herding": Sampling("documents near many whose classes are uncertain", _herding),
    "core-set": Sampling("farthest from everything labelled (k-center greedy)", _core_set),
    "random": Sampling("drawn at random", _random),
}
DEFAULT_METHOD = "tcm"
