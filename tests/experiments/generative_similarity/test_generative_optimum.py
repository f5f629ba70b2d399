"""Generative similarity as an optimum: the appendices B to E of Marjieh et al. (2024), exactly.

Examples are the four pairs of two binary features, so all expectations are finite sums.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.special import rel_entr

from hummingbit.training.generative_models import BetaBernoulli, Numbers

EXAMPLES = np.array(list(product((0, 1), repeat=2)))
strengths = st.floats(0.1, 5)
seeds = st.integers(0, 2**32 - 1)


def pair_probabilities(alpha: float, beta: float) -> tuple[Numbers, Numbers]:
    """Return p_same and p_diff of all pairs of examples, ``float64[4, 4]`` each."""
    share = alpha / (alpha + beta)
    alone_4 = np.where(EXAMPLES == 1, share, 1 - share).prod(axis=1)
    different_44 = np.outer(alone_4, alone_4)
    model = BetaBernoulli(2, alpha, beta)
    same_44 = np.exp(model.log_similarity(EXAMPLES[:, None], EXAMPLES)) * different_44
    np.testing.assert_allclose(same_44.sum(), 1)
    return same_44, different_44


def distances(x_4D: Numbers) -> Numbers:
    gaps = x_4D[:, None] - x_4D
    return np.asarray(np.sqrt(np.square(gaps).sum(axis=-1)))


@given(strengths, strengths, seeds)
def test_a_loss_below_that_of_a_point_means_that_same_pairs_are_nearer(
    alpha: float, beta: float, seed: int
) -> None:
    """Appendix B: by Jensen's inequality, for the softplus and for the exponential."""
    same_44, different_44 = pair_probabilities(alpha, beta)
    d_44 = distances(np.random.default_rng(seed).normal(size=(4, 2)))
    gap_444 = d_44[:, :, None] - d_44[:, None, :]
    weight_444 = same_44[:, :, None] * different_44.sum(axis=0)
    mean_same, mean_different = (float((p * d_44).sum()) for p in (same_44, different_44))
    assert float((weight_444 * gap_444).sum()) == pytest.approx(mean_same - mean_different)
    for contrast in (lambda t: np.log1p(np.exp(t)), np.exp):
        loss = float((weight_444 * contrast(gap_444)).sum())
        assert loss >= float(contrast(mean_same - mean_different)) - 1e-12
        if loss < float(contrast(0.0)):
            assert mean_same < mean_different


@given(strengths, strengths, seeds, st.integers(1, 3))
def test_same_pairs_are_nearer_in_every_embedding(
    alpha: float, beta: float, seed: int, width: int
) -> None:
    """A4 needs no optimum: E_diff d − E_same d is a mean of energy distances."""
    same_44, different_44 = pair_probabilities(alpha, beta)
    d_44 = distances(np.random.default_rng(seed).normal(size=(4, width)))
    assert float(((different_44 - same_44) * d_44).sum()) > 0


def contrast_of_divergences(s_44: Numbers, same_44: Numbers, different_44: Numbers) -> float:
    """D_KL[s ‖ p_same] − D_KL[s ‖ p_diff], as in C1 and D1."""
    return float(rel_entr(s_44, same_44).sum() - rel_entr(s_44, different_44).sum())


@given(strengths, strengths, st.floats(0.1, 10), seeds)
def test_the_ratio_has_the_least_contrast_of_divergences(
    alpha: float, beta: float, inverse_temperature: float, seed: int
) -> None:
    """C1 to C5: L[s] − L[s*] = KL(s ‖ s*) / β, so s* ∝ (p_same / p_diff)^β alone is the least."""
    same_44, different_44 = pair_probabilities(alpha, beta)

    def functional(s_44: Numbers) -> float:
        entropy = -float((s_44 * np.log(s_44)).sum())
        divergences = contrast_of_divergences(s_44, same_44, different_44)
        return divergences - entropy / inverse_temperature

    best_44 = (same_44 / different_44) ** inverse_temperature
    best_44 /= best_44.sum()
    other_44 = np.random.default_rng(seed).dirichlet(np.ones(16)).reshape(4, 4)
    assume(other_44.min() > 1e-9)
    expected = float(rel_entr(other_44, best_44).sum()) / inverse_temperature
    assert functional(other_44) - functional(best_44) == pytest.approx(expected, abs=1e-9)


@given(strengths, strengths, seeds)
def test_the_contrast_of_divergences_is_linear(alpha: float, beta: float, seed: int) -> None:
    """D1: the logarithms of s cancel."""
    same_44, different_44 = pair_probabilities(alpha, beta)
    s_44 = np.random.default_rng(seed).dirichlet(np.ones(16)).reshape(4, 4)
    expected = float((s_44 * np.log(different_44 / same_44)).sum())
    found = contrast_of_divergences(s_44, same_44, different_44)
    assert found == pytest.approx(expected, abs=1e-12)


@given(strengths, strengths, st.floats(0.1, 10), seeds)
def test_the_difference_is_the_best_similarity_of_a_given_norm(
    alpha: float, beta: float, square: float, seed: int
) -> None:
    """E1 to E7: with Σ s² = Λ, E s over p_diff less p_same is least at √(Λ/C) (p_same − p_diff)."""
    same_44, different_44 = pair_probabilities(alpha, beta)
    gap_44 = same_44 - different_44
    norm = float(np.square(gap_44).sum())
    best_44 = np.sqrt(square / norm) * gap_44
    assert float(np.square(best_44).sum()) == pytest.approx(square)
    assert -float((best_44 * gap_44).sum()) == pytest.approx(-np.sqrt(square * norm))
    other_44 = np.random.default_rng(seed).normal(size=(4, 4))
    other_44 *= np.sqrt(square / np.square(other_44).sum())
    assert -float((other_44 * gap_44).sum()) > -float((best_44 * gap_44).sum())
