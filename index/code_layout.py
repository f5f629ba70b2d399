"""A layout of codes in the plane that puts codes at small Hamming distances near each other."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from hummingbit.encoder.codes import Codes, hamming_distance, unpack_codes

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

# A layout of codes in the plane that puts codes at small Hamming distances near each other.
#
# There are three methods. `pca` is classical scaling: the squared Euclidean distance of bits is
# their Hamming distance, so the plane of the first two principal components preserves the distances
# best in the sense of Torgerson (1952). It is fast and shows the coarse shape only. `tsne` starts
# from it and moves each code towards its nearest neighbours and away from all others (van der
# Maaten and Hinton 2008, with the interpolation of Linderman et al. 2019). It uses openTSNE, an
# optional package. `chl` keeps degrees of similarity, near and far: of two pairs of codes, the more
# similar one should be the nearer one. It starts from `pca`, too, and minimizes the continuous
# histogram loss (Zholus and Putin 2020) of Hamming distances and distances in the plane.


Places = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]
Method = Literal["pca", "tsne", "chl"]
Tell = Callable[[str, int, int], object]
"""Called with the name of a step, the amount that is done, and the total."""

PERPLEXITY = 15
NEIGHBOURS = 3 * PERPLEXITY
EXAGGERATED_ITERATIONS = 125
ITERATIONS = 300
ITERATIONS_AT_ONCE = 25
EXAGGERATION = 12
# With fewer codes, neighbourhoods mean nothing.
MIN_CODES = 4 * NEIGHBOURS
# For more codes, neighbours are searched in cells, which misses a few far ones.
SEARCHED_WHOLE = 40_000
QUERIES_AT_ONCE = 4096
SPREAD_AT_FIRST = 1e-4
ROWS_AT_ONCE = 1 << 14
# Of the continuous histogram loss. Up to so many pairs, each step takes all of them.
ALL_PAIRS = 1 << 17
STEPS = 400
STEP_SIZE = 0.03
DISTANCE_NODES = 100


def best_method() -> Method:
    """Return `tsne` if openTSNE is installed, else `pca`."""
    return "pca" if importlib.util.find_spec("openTSNE") is None else "tsne"


def lay_out(
    codes: Codes, method: Method, *, seed: int = 0, jobs: int = 1, tell: Tell | None = None
) -> Places:
    """Return a place for each of the distinct `codes`, ``uint8[D, C]``: ``float32[D, 2]``.

    The same codes, method and seed give the same places on the same machine, up to the rounding of
    sums in parallel where `jobs`, the number of threads, is above 1. The places are centred, and
    the largest coordinate is 1.
    """
    report = tell or (lambda *_: None)
    report("principal components", 0, 1)
    points = principal_plane(codes)
    if method == "tsne" and len(codes) > MIN_CODES:
        points = _neighbourhoods(codes, points, seed, jobs, report)
    elif method == "chl" and len(codes) > 2:
        points = _degrees_of_similarity(codes, points, seed, report)
    largest = float(np.abs(points).max(initial=0.0))
    return np.ascontiguousarray(points / (largest or 1.0), dtype=np.float32)


def principal_plane(codes: Codes) -> npt.NDArray[np.float64]:
    """Return the two first principal components of the bits, ``float64[D, 2]``, centred."""
    n_bits = codes.shape[1] * 8
    if not len(codes):
        return np.zeros((0, 2))
    mean = np.zeros(n_bits)
    squares = np.zeros((n_bits, n_bits))
    for start in range(0, len(codes), ROWS_AT_ONCE):
        bits = unpack_codes(codes[start : start + ROWS_AT_ONCE]).astype(np.float32)
        mean += bits.sum(axis=0, dtype=np.float64)
        squares += bits.T @ bits
    mean /= len(codes)
    _, vectors = np.linalg.eigh(squares / len(codes) - np.outer(mean, mean))
    axes = vectors[:, :-3:-1]
    # The sign of an eigenvector is arbitrary; the largest entry is made positive.
    axes = axes * np.sign(axes[np.abs(axes).argmax(axis=0), [0, 1]])
    return np.concatenate(
        [
            (unpack_codes(codes[start : start + ROWS_AT_ONCE]) - mean) @ axes
            for start in range(0, len(codes), ROWS_AT_ONCE)
        ]
    )


def _neighbourhoods(
    codes: Codes, points: npt.NDArray[np.float64], seed: int, jobs: int, tell: Tell
) -> npt.NDArray[np.float64]:
    from openTSNE import TSNEEmbedding  # noqa: PLC0415 - an optional package
    from openTSNE.affinity import PerplexityBasedNN  # noqa: PLC0415
    from openTSNE.nearest_neighbors import PrecomputedNeighbors  # noqa: PLC0415

    rows, distances = _nearest(codes, jobs, tell)
    known = PrecomputedNeighbors(rows, distances)
    affinities = PerplexityBasedNN(knn_index=known, perplexity=PERPLEXITY, n_jobs=jobs)
    # Noise separates codes with the same principal components.
    rng = np.random.default_rng(seed)
    start = points / (points[:, 0].std() or 1.0) * SPREAD_AT_FIRST
    start = start + rng.normal(scale=SPREAD_AT_FIRST / 100, size=start.shape)
    plane = TSNEEmbedding(
        start, affinities, negative_gradient_method="fft", n_jobs=jobs, random_state=seed
    )
    total = EXAGGERATED_ITERATIONS + ITERATIONS
    for iteration in range(0, total, ITERATIONS_AT_ONCE):
        tell("arranging", iteration, total)
        early = iteration < EXAGGERATED_ITERATIONS
        plane = plane.optimize(
            ITERATIONS_AT_ONCE,
            exaggeration=EXAGGERATION if early else None,
            momentum=0.5 if early else 0.8,
        )
    arranged = np.asarray(plane, dtype=np.float64)
    centred: npt.NDArray[np.float64] = arranged - arranged.mean(axis=0)
    return centred


def _nearest(
    codes: Codes, jobs: int, tell: Tell
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return the nearest other codes of each code, and their distances, both of shape [D, k]."""
    import faiss  # noqa: PLC0415 - takes a tenth of a second

    n_bits = codes.shape[1] * 8
    faiss.omp_set_num_threads(jobs)
    if len(codes) <= SEARCHED_WHOLE:
        index: Any = faiss.IndexBinaryFlat(n_bits)
    else:
        cells = round(len(codes) ** 0.5)
        quantizer = faiss.IndexBinaryFlat(n_bits)
        index = faiss.IndexBinaryIVF(quantizer, n_bits, cells)
        index.cp.niter = 5
        index.nprobe = max(8, cells // 10)
        index.train(codes[:: max(1, len(codes) // (64 * cells))])
    index.add(codes)
    rows = np.empty((len(codes), NEIGHBOURS + 1), dtype=np.int64)
    distances = np.empty((len(codes), NEIGHBOURS + 1), dtype=np.float64)
    for start in range(0, len(codes), QUERIES_AT_ONCE):
        tell("finding neighbours", start, len(codes))
        some = slice(start, start + QUERIES_AT_ONCE)
        distances[some], rows[some] = index.search(codes[some], NEIGHBOURS + 1)
    return _without_itself(rows, distances)


def _without_itself(
    rows: npt.NDArray[np.int64], distances: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Remove from each list the code itself, the only one at distance 0."""
    # Cells may have fewer codes than requested; the nearest code fills the gaps.
    missing = rows < 0
    nearest = np.maximum(rows[:, [1]], 0)
    rows = np.where(missing, nearest, rows)
    distances = np.where(
        missing, distances.max(axis=1, where=~missing, initial=0)[:, None], distances
    )
    return rows[:, 1:], distances[:, 1:]


# The layout by the continuous histogram loss.


class PairLoss(NamedTuple):
    """The continuous histogram loss of M pairs, and its derivative by their distances."""

    loss: float
    gradient: npt.NDArray[np.float64]


def pair_loss(
    distances: npt.NDArray[np.float64],
    similarities: npt.NDArray[np.int64],
    weights: npt.NDArray[np.float64],
    *,
    nodes: int = DISTANCE_NODES,
) -> PairLoss:
    """Return L = Σ_rz h_rz Σ_{r' ≥ r} Σ_{z' > z} h_r'z' of M pairs, and ∂L/∂d in closed form.

    A pair i of distance d_i, from 0 to 1, and similarity z_i, from 0, counts with its weight w_i at
    the distance nodes before and after d_i, in proportion: h_rz = Σ_{i: z_i = z} w_i max(0, 1 −
    |d_i − r Δ| / Δ), Δ = 1 / (nodes − 1). If the weights add up to 1, L is the probability that, of
    two random pairs, the second is more similar and yet not nearer, up to Δ. The derivative is

        ∂L/∂d_i = (Σ_{z' < z_i} h_r+1,z' − Σ_{z' > z_i} h_rz') w_i / Δ,  r Δ ≤ d_i < (r + 1) Δ.

    :mod:`hummingbit.training.objectives.continuous_histogram` is the same for torch.
    """
    scaled = distances * (nodes - 1)
    lower = np.clip(np.floor(scaled).astype(np.int64), 0, nodes - 2)
    upper = scaled - lower
    size = int(similarities.max(initial=0)) + 1
    at = lower * size + similarities
    histogram = np.bincount(at, weights * (1 - upper), nodes * size)
    histogram += np.bincount(at + size, weights * upper, nodes * size)
    histogram = histogram.reshape(nodes, size)
    up_to = histogram.cumsum(axis=1)
    more_similar = up_to[:, -1:] - up_to
    farther = more_similar[::-1].cumsum(axis=0)[::-1]
    less_similar = up_to - histogram
    slopes = less_similar[lower + 1, similarities] - more_similar[lower, similarities]
    return PairLoss(float((histogram * farther).sum()), slopes * weights * (nodes - 1))


def _degrees_of_similarity(
    codes: Codes, points: npt.NDArray[np.float64], seed: int, tell: Tell
) -> npt.NDArray[np.float64]:
    """Minimize the loss by Adam over places in a disc of diameter 1, the step size falling to 0.

    Each step takes all pairs of few codes, and of many a random sample with every code in it.
    """
    rng = np.random.default_rng(seed)
    n = len(codes)
    points = _in_disc(points / (2 * np.linalg.norm(points, axis=1).max() or 1.0))
    # Noise separates codes with the same principal components.
    points = points + rng.normal(scale=1e-3, size=points.shape)
    n_bits = codes.shape[1] * 8
    pairs = np.triu_indices(n, 1) if n * (n - 1) // 2 <= ALL_PAIRS else None
    mean, square = np.zeros_like(points), np.zeros_like(points)
    for step in range(STEPS):
        if not step % ITERATIONS_AT_ONCE:
            tell("arranging", step, STEPS)
        first, second = _some_pairs(n, rng) if pairs is None else pairs
        if pairs is None or not step:
            similarities = (n_bits - hamming_distance(codes[first], codes[second])).astype(np.int64)
        apart = points[first] - points[second]
        distances = np.linalg.norm(apart, axis=1)
        weights = np.full(len(first), 1 / len(first))
        loss = pair_loss(np.minimum(distances, 1.0), similarities, weights)
        towards = apart * (loss.gradient / np.maximum(distances, 1e-12))[:, None]
        gradient = np.stack(
            [
                np.bincount(first, towards[:, axis], n) - np.bincount(second, towards[:, axis], n)
                for axis in (0, 1)
            ],
            axis=1,
        )
        mean = 0.9 * mean + 0.1 * gradient
        square = 0.99 * square + 0.01 * gradient**2
        moved = mean / (1 - 0.9 ** (step + 1))
        scale = np.sqrt(square / (1 - 0.99 ** (step + 1)))
        size = STEP_SIZE * (1 - step / STEPS)
        points = _in_disc(points - size * moved / np.maximum(scale, 1e-12))
    return np.asarray(points - points.mean(axis=0))


def _in_disc(points: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    radii = np.linalg.norm(points, axis=1, keepdims=True)
    return np.asarray(points / np.maximum(1.0, 2 * radii))


def _some_pairs(n: int, rng: np.random.Generator) -> tuple[Integers, Integers]:
    """Return pairs of neighbours in random orders, with every one of n rows in each order."""
    orders = [rng.permutation(n) for _ in range(max(1, ALL_PAIRS // n))]
    return np.concatenate(orders), np.concatenate([np.roll(order, 1) for order in orders])


# The process that lays out codes for a map. It starts quickly, since it imports little.


NICENESS = 10


def send_layout(pipe: Connection) -> None:
    """Lay out codes with a low priority.

    Receives codes, method, seed and number of threads; sends each step as (name, done, total), then
    the layout. Once the other process is gone, even if it was killed, the next step ends this one.
    """
    if hasattr(os, "nice"):
        os.nice(NICENESS)
    try:
        codes, method, seed, jobs = pipe.recv()
    except (EOFError, OSError):  # the other end of the pipe is closed, perhaps amid the codes
        return
    with suppress(ConnectionError):
        pipe.send(lay_out(codes, method, seed=seed, jobs=jobs, tell=lambda *step: pipe.send(step)))
