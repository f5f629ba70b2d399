"""Theorems 4.2 to 4.5 of perception coherence, with the constants of their proofs.

The distribution is uniform over N examples, so that each probability is a share that is counted and
each expectation a mean. The proofs assume that no two differences are equal (Assumption 4.2), which
cannot be had here; the bounds hold all the same, as P(max(U, U') ≥ ε) ≤ 2 P(U ≥ ε).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
import torch
from scipy.spatial.distance import cdist
from scipy.stats import rankdata

from hummingbit.training.objectives.perception_coherence import coherence_levels

Floats = npt.NDArray[np.float64]
Student = Callable[[Floats, np.random.Generator], Floats]

N = 120

STUDENTS: dict[str, Student] = {
    "a copy": lambda points, _: 3 * points,
    "faithful": lambda points, rng: points + rng.normal(0, 0.05, points.shape),
    "a projection": lambda points, _: points[:, :2],
    "noisy": lambda points, rng: points + rng.normal(0, 1, points.shape),
    "of its own mind": lambda points, rng: rng.normal(size=points.shape),
}


@pytest.fixture(params=STUDENTS)
def dissimilarities(request: pytest.FixtureRequest) -> tuple[Floats, Floats]:
    """Those of the teacher and of a student, each ``[N, N]``."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(N, 3))
    student = STUDENTS[request.param](points, rng)
    return cdist(points, points), cdist(student, student)


def distribution(d: Floats) -> Floats:
    """F(x, y), the share of examples that are no farther from x than y is; Equation (1)."""
    ranks = np.stack([rankdata(row, "max") for row in d])
    shares: Floats = ranks / d.shape[1]
    return shares


def levels(teacher: Floats, student: Floats) -> Floats:
    found: Floats = coherence_levels(torch.from_numpy(student), torch.from_numpy(teacher)).numpy()
    return found


def differences(f: Floats) -> Floats:
    """F(x, X') − F(x, X) of all pairs of a row."""
    return f[None, :] - f[:, None]


def conditional(event: npt.NDArray[np.bool_], given: npt.NDArray[np.bool_]) -> float:
    return float((event & given).sum() / given.sum())


EPSILONS = (0.01, 0.05, 0.2, 0.5, 0.9)


def test_theorem_4_2_ranks_are_preserved_locally(dissimilarities: tuple[Floats, Floats]) -> None:
    f1, f2 = (distribution(d) for d in dissimilarities)
    for x, alpha in list(enumerate(levels(*dissimilarities)))[::10]:
        teacher, student = np.abs(differences(f1[x])), np.abs(differences(f2[x]))
        for near in (0.01, 0.1, 0.3):
            close = teacher <= near
            for far in (near + epsilon for epsilon in EPSILONS):
                bound = 4 * (1 - alpha) / ((far - near) * close.mean())
                assert conditional(student >= far, close) <= bound + 1e-12


def test_theorem_4_3_order_is_preserved_locally(dissimilarities: tuple[Floats, Floats]) -> None:
    f1, f2 = (distribution(d) for d in dissimilarities)
    for x, alpha in list(enumerate(levels(*dissimilarities)))[::10]:
        nearer = differences(f1[x]) <= 0
        for epsilon in EPSILONS:
            bound = 4 * (1 - alpha) / (epsilon * nearer.mean())
            assert conditional(differences(f2[x]) >= epsilon, nearer) <= bound + 1e-12


@pytest.mark.parametrize("share", [0.02, 0.3, 0.9])
def test_lemma_b_1_holds_for_any_event(
    share: float, dissimilarities: tuple[Floats, Floats]
) -> None:
    # The lemma asks for a symmetric event. That of Theorem 4.3 is not, nor are these.
    f1, f2 = (distribution(d) for d in dissimilarities)
    rng = np.random.default_rng(3)
    for x, alpha in list(enumerate(levels(*dissimilarities)))[::10]:
        apart = np.abs(f1[x] - f2[x])
        farther = np.maximum(apart[None, :], apart[:, None])
        given = rng.random((N, N)) < share
        assert (given != given.T).any()
        # The event of the pairs that are apart the most, of all events of this share.
        worst = farther >= np.quantile(farther, 1 - share)
        for event in (given, worst):
            for epsilon in EPSILONS:
                bound = 2 * (1 - alpha) / (epsilon * event.mean())
                assert conditional(farther >= epsilon, event) <= bound + 1e-12


def test_theorem_4_4_both_are_preserved_globally(dissimilarities: tuple[Floats, Floats]) -> None:
    f1, f2 = (distribution(d) for d in dissimilarities)
    alpha = levels(*dissimilarities).mean()
    # F(X₁, X₂) − F(X₁, X₃) of all triples.
    teacher, student = (f[:, :, None] - f[:, None, :] for f in (f1, f2))
    for near in (0.01, 0.1, 0.3):
        close = np.abs(teacher) <= near
        for far in (near + epsilon for epsilon in EPSILONS):
            bound = 4 * (1 - alpha) / ((far - near) * close.mean())
            assert conditional(np.abs(student) >= far, close) <= bound + 1e-12
    nearer = teacher <= 0
    for epsilon in EPSILONS:
        bound = 4 * (1 - alpha) / (epsilon * nearer.mean())
        assert conditional(student >= epsilon, nearer) <= bound + 1e-12


def test_corollary_4_1_a_full_level_reverses_nothing() -> None:
    points = np.random.default_rng(1).normal(size=(N, 3))
    d = cdist(points, points)
    f1, f2 = distribution(d), distribution(d**3)
    assert (levels(d, d**3) == 1).all()
    for x in range(N):
        assert not ((differences(f1[x]) <= 0) & (differences(f2[x]) > 0)).any()


# Theorem 4.5 needs dissimilarities with the triangle inequality that are spread out smoothly: the
# examples lie on a circle, which the student sees as another closed curve.


def closed_curves(count: int) -> tuple[Floats, Floats]:
    angle = np.sort(np.random.default_rng(2).uniform(0, 2 * np.pi, count))
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    bent = np.stack([1.3 * np.cos(angle), np.sin(angle) + 0.3 * np.cos(2 * angle)], axis=1)
    return cdist(circle, circle), cdist(bent, bent)


def widest_share(d: Floats, width: float) -> float:
    """ρ(width), the largest share of examples whose dissimilarity from one is in such a range."""
    place = np.arange(d.shape[1])
    counts = [np.searchsorted(row, row + width, "right") - place for row in np.sort(d, axis=1)]
    widest = max(int(count.max()) for count in counts)
    return float(widest / d.shape[1])


@pytest.mark.parametrize("delta", [0.02, 0.05, 0.1])
def test_theorem_4_5_the_level_is_stable_around_a_region(delta: float) -> None:
    both = closed_curves(300)
    f1, f2 = (distribution(d) for d in both)
    phi = levels(*both)
    region = np.arange(0, 60)
    alpha = phi[region].min()
    # F(x', x) from x' in the region, of the model that sees them farther apart.
    around = np.maximum(f1, f2)[region].min(axis=0) <= delta
    assert around[region].all()
    assert region.size < around.sum() < len(phi)
    # |F(x, y) − F(a, y)| ≤ ρ(2 d(x, a)), by the triangle inequality in d(x, ·) and in d(·, y).
    reach = [float(d[region][np.maximum(f1, f2)[region] <= delta].max()) for d in both]
    change = sum(widest_share(d, 2 * r) for d, r in zip(both, reach, strict=True))
    assert (phi[around] >= alpha - change - 1e-12).all()
    for epsilon in (0.001, 0.01, 0.05, 0.1, float(alpha)):
        low = float((phi[around] <= alpha - epsilon).mean())
        assert low <= change / (epsilon * region.size / len(phi)) + 1e-12


def test_theorem_4_5_the_change_is_in_proportion_to_the_reach() -> None:
    d, _ = closed_curves(600)
    f = distribution(d)
    changes = []
    for delta in (0.02, 0.04, 0.08):
        reach = float(d[f <= delta].max())
        changes.append(widest_share(d, 2 * reach) / delta)
    # O(δ): the ratio stays within a constant as δ halves.
    assert max(changes) < 4 * min(changes)
