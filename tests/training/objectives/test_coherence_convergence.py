"""Proposition 4.1, Lemma A.1 and Theorem 4.1 of perception coherence, exactly.

The distribution is uniform over M points, so an expectation over batches of B draws is the mean
over all M^B batches. No batch is left to chance.
"""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import numpy.typing as npt
import pytest
import torch
from scipy.spatial.distance import cdist

from hummingbit.training.objectives.perception_coherence import coherence_levels

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

M = 5
SIZES = (2, 3, 4, 5)
LEMMA = 2 * (math.sqrt(2) + 6 * math.sqrt(3))
"""The constant of Lemma A.1."""
THEOREM = 1 + LEMMA
"""The constant of Theorem 4.1: |F₁ − F₂| is at most 1."""


def all_batches(size: int, points: int = M) -> Integers:
    """All batches of `size` draws, ``[M^B, B]``."""
    return np.array(list(product(range(points), repeat=size)))


def dissimilarities(seed: int, points: int = M) -> tuple[Floats, Floats]:
    """Those of a teacher, with ties, and of a student that sees two of its three dimensions."""
    places = np.random.default_rng(seed).integers(0, 4, (points, 3)).astype(np.float64)
    return cdist(places, places), cdist(places[:, :2], places[:, :2])


def estimates(teacher: Floats, student: Floats, batches: Integers) -> Floats:
    """The difference coefficient of each batch, as in Definition 4.1."""
    rows, columns = batches[:, :, None], batches[:, None, :]
    size = batches.shape[1]
    within = (torch.from_numpy(d[rows, columns].reshape(-1, size)) for d in (student, teacher))
    levels: Floats = coherence_levels(*within).numpy().reshape(-1, size)
    coefficients: Floats = 1 - levels.mean(axis=1)
    return coefficients


def distribution(d: Floats) -> Floats:
    """F(x, y) = P(d(x, X) ≤ d(x, y)) of all pairs of points, in plain loops."""
    count = len(d)
    return np.array(
        [[sum(d[x, z] <= d[x, y] for z in range(count)) / count for y in range(count)]
         for x in range(count)]
    )  # fmt: skip


def test_the_estimate_of_a_batch_is_definition_4_1() -> None:
    teacher, student = dissimilarities(0)
    batch = all_batches(3)[17]
    total = 0.0
    for i in batch:
        for j in batch:
            shares = [sum(d[i, k] <= d[i, j] for k in batch) / 3 for d in (teacher, student)]
            total += abs(shares[0] - shares[1])
    assert estimates(teacher, student, batch[None])[0] == pytest.approx(total / 9)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_proposition_4_1_the_empirical_distribution_is_unbiased(size: int, seed: int) -> None:
    for d in dissimilarities(seed):
        f = distribution(d)
        batches = all_batches(size)
        for x in range(M):
            for y in range(M):
                shares = (d[x, batches] <= d[x, y]).mean(axis=1)
                assert shares.mean() == pytest.approx(f[x, y])


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_theorem_4_1_the_estimate_converges(seed: int) -> None:
    teacher, student = dissimilarities(seed)
    whole = np.abs(distribution(teacher) - distribution(student)).mean()
    for size in SIZES:
        coefficients = estimates(teacher, student, all_batches(size))
        assert ((coefficients >= 0) & (coefficients <= 1)).all()  # Remark 3.3
        error = np.abs(coefficients - whole).mean()
        assert error <= THEOREM / math.sqrt(size)
        # The printed constant says nothing about batches below 605: no error is above 1. This does.
        assert error <= 0.5 / math.sqrt(size)


def test_theorem_4_1_bounds_nothing_below_batches_of_605() -> None:
    assert THEOREM / math.sqrt(604) > 1 > THEOREM / math.sqrt(606)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_lemma_a_1_a_mean_over_all_pairs_of_a_batch_converges(seed: int) -> None:
    h = np.random.default_rng(seed).uniform(-1, 1, (M, M))
    largest = np.abs(h).max()
    for size in SIZES:
        batches = all_batches(size)
        means = h[batches[:, :, None], batches[:, None, :]].mean(axis=(1, 2))
        assert np.abs(means - h.mean()).mean() <= LEMMA * largest / math.sqrt(size)


def test_the_linear_part_of_lemma_a_1_has_twice_the_variance_that_its_proof_takes() -> None:
    # The proof calls the sums of h₁(X_i) and h̃₁(X_i) independent; both are of the same draws.
    h = np.random.default_rng(0).uniform(-1, 1, (M, M))
    h = (h + h.T) / 2
    first, second = h.mean(axis=1) - h.mean(), h.mean(axis=0) - h.mean()
    for size in SIZES:
        batches = all_batches(size)
        linear = (first[batches] + second[batches]).mean(axis=1)
        taken = (first.var() + second.var()) / size
        assert linear.var() == pytest.approx((first + second).var() / size)
        assert linear.var() == pytest.approx(2 * taken)
        # The lemma has room: |h₁| and |h̃₁| are at most 2 max|h|.
        assert np.abs(linear).mean() <= 4 * np.abs(h).max() / math.sqrt(size)


def test_the_proof_of_theorem_4_1_needs_a_term_for_the_pair_itself() -> None:
    # It takes F̂(X_i, X_j) for a mean of B independent draws, but X_i and X_j are two of them.
    points = 7
    d = cdist(*[np.random.default_rng(0).normal(size=(points, 2))] * 2)
    f = distribution(d)
    errors = []
    for size in (2, 3, 4):
        batches = all_batches(size, points)
        pairs = d[batches[:, :, None], batches[:, None, :]]
        shares = (pairs[:, :, None, :] <= pairs[:, :, :, None]).mean(axis=3)
        exact = f[batches[:, :, None], batches[:, None, :]]
        errors.append(np.abs(shares - exact).mean())
        assert errors[-1] <= 1 / (2 * math.sqrt(size)) + 2 / size
    assert errors[0] > 1 / (2 * math.sqrt(2))
