from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import roots_jacobi
from scipy.stats import multivariate_normal

from hummingbit.training.similarities import (
    BetaBernoulli,
    Examples,
    GaussianMixture,
    GenerativeModel,
    TreeHierarchy,
    dotted_tree,
)

MEANS = [[5.0, 5.0], [1.0, 1.0], [1.0, 3.0]]
LEAVES = ["a.a.a", "a.a.b", "a.b", "b.a.a", "c"]

Function = Callable[[Any, Any], Any]


@pytest.mark.parametrize(
    ("model", "g"),
    [
        (GaussianMixture(MEANS, 1.5, [1, 2, 3]), lambda x, y: np.cos(x[:, 0] - y[:, 1])),
        (GaussianMixture(MEANS, 0.7), lambda x, y: (x > 2).all(axis=1) * (y > 2).all(axis=1)),
        (BetaBernoulli(3, 0.4, 1.5), lambda x, y: (x == y).all(axis=1)),
        (BetaBernoulli(3, 2.0, 0.5), lambda x, y: x[:, 0] * (1 - y[:, 0]) + y[:, 2]),
        (TreeHierarchy(dotted_tree(LEAVES), LEAVES), lambda x, y: np.cos(1 + x + 3 * y)),
    ],
)
def test_pairs_of_one_source_are_those_of_two_weighed_by_the_similarity(
    model: GenerativeModel, g: Function
) -> None:
    """E[g(x, y) | same] = E[s_gen(x, y) g(x, y) | different], whatever g is."""
    anchor, same, different = model.sample_triplets(40_000, np.random.default_rng(0))
    drawn = np.asarray(g(anchor, same), dtype=np.float64)
    weighed = np.exp(model.log_similarity(anchor, different)) * g(anchor, different)
    errors = [values.std() / len(values) ** 0.5 for values in (drawn, weighed)]
    assert max(errors) < 0.02
    assert abs(drawn.mean() - weighed.mean()) < 4 * sum(errors)
    # Not so for pairs as they come: the test can tell.
    plain = np.asarray(g(anchor, different), dtype=np.float64)
    assert abs(drawn.mean() - plain.mean()) > 4 * sum(errors)


@pytest.mark.parametrize("weights", [None, [0.2, 0.5, 0.3]])
def test_a_mixture_of_gaussians_is_what_its_densities_say(weights: list[float] | None) -> None:
    model = GaussianMixture(MEANS, 1.3, weights)
    x, y = np.random.default_rng(0).uniform(-2, 8, (2, 50, 2))
    prior = weights or [1 / 3] * 3
    density = [multivariate_normal(mean, 1.3**2 * np.eye(2)).pdf for mean in MEANS]
    same = sum(p * f(x) * f(y) for p, f in zip(prior, density, strict=True))
    x_alone, y_alone = (
        sum(p * f(one) for p, f in zip(prior, density, strict=True)) for one in (x, y)
    )
    np.testing.assert_allclose(np.exp(model.log_similarity(x, y)), same / (x_alone * y_alone))
    whole = model.log_similarity(x[:, None], y)
    np.testing.assert_allclose(np.diag(whole), model.log_similarity(x, y))


def test_two_equal_clouds_have_the_form_of_tanh() -> None:
    model = GaussianMixture([[5.0, 5.0], [1.0, 1.0]])
    x, y = np.random.default_rng(0).normal(3, 1, (2, 50, 2))
    odds = [4 * (one.sum(axis=1) - 6) for one in (x, y)]
    expected = 1 + np.tanh(odds[0] / 2) * np.tanh(odds[1] / 2)
    np.testing.assert_allclose(np.exp(model.log_similarity(x, y)), expected, atol=1e-12)
    far = np.array([[1e4, 1e4], [-1e4, -1e4]])
    assert model.log_similarity(far, far[[0, 0]])[0] == pytest.approx(np.log(2))
    assert model.log_similarity(far[0], far[1]) < -1e4


positive = st.floats(0.1, 20)


@settings(max_examples=30, deadline=None)
@given(positive, positive, st.integers(0, 1), st.integers(0, 1))
def test_features_are_what_the_integral_over_their_probability_says(
    alpha: float, beta: float, one: int, other: int
) -> None:
    # Nodes and weights that integrate polynomials against θ^(α − 1) (1 − θ)^(β − 1) exactly.
    nodes, weights = roots_jacobi(5, beta - 1, alpha - 1)
    theta = (1 + nodes) / 2

    def integral(*features: int) -> float:
        likelihood = np.prod([theta if f else 1 - theta for f in features], axis=0)
        return float(likelihood @ weights / weights.sum())

    expected = np.log(integral(one, other) / (integral(one) * integral(other)))
    model = BetaBernoulli(1, alpha, beta)
    assert model.log_similarity(np.array([one]), np.array([other])) == pytest.approx(
        expected, abs=1e-7
    )


def test_features_of_a_source_are_independent() -> None:
    model, single = BetaBernoulli(4, 0.3, 2), BetaBernoulli(1, 0.3, 2)
    x, y = np.random.default_rng(0).integers(0, 2, (2, 20, 4))
    parts = sum(single.log_similarity(x[:, [f]], y[:, [f]]) for f in range(4))
    np.testing.assert_allclose(model.log_similarity(x, y), parts)


@pytest.mark.parametrize("strength", [0.01, 1.0, 50.0])
def test_equal_parameters_give_minus_the_squared_distance(strength: float) -> None:
    x, y = np.random.default_rng(0).integers(0, 2, (2, 100, 22))
    similarity = BetaBernoulli(22, strength, strength).log_similarity(x, y)
    squares = np.square(x - y).sum(axis=1)
    slope, constant = np.polyfit(squares, similarity, 1)
    np.testing.assert_allclose(similarity, constant + slope * squares, atol=1e-9)
    assert slope == pytest.approx(-np.log1p(1 / strength))


def test_in_the_limit_any_parameters_do() -> None:
    x, y = np.random.default_rng(0).integers(0, 2, (2, 100, 22))
    squares = np.square(x - y).sum(axis=1)
    errors = []
    for strength in (1e-2, 1e-10, 1e-100):
        alpha, beta = 0.2 * strength, 0.8 * strength
        scaled = BetaBernoulli(22, alpha, beta).log_similarity(x, y) / abs(np.log(strength))
        errors.append(np.abs(scaled + squares).max())
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 0.2


def test_the_same_generator_draws_the_same() -> None:
    model = GaussianMixture(MEANS)
    one, other = (model.sample_triplets(5, np.random.default_rng(3)) for _ in range(2))
    for first, second in zip(one, other, strict=True):
        np.testing.assert_array_equal(first, second)
    assert not np.array_equal(one.anchor, one.same)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GaussianMixture([[1.0, 2.0]]), r"means: shape is \[1, 2\]; it must be"),
        (lambda: GaussianMixture([[1.0], [np.nan]]), "it must be .* of finite numbers"),
        (lambda: GaussianMixture(MEANS, 0), "deviation is 0; it must be above 0"),
        (lambda: GaussianMixture(MEANS, 1, [1, 2]), "weights: .* must be 3 numbers above 0"),
        (lambda: GaussianMixture(MEANS, 1, [1, 2, 0]), "weights: .* must be 3 numbers above 0"),
        (lambda: BetaBernoulli(0), "features is 0; it must be at least 1"),
        (lambda: BetaBernoulli(3, -1), "alpha is -1; it must be above 0"),
        (lambda: BetaBernoulli(3, 1, np.inf), "beta is inf; it must be above 0 and finite"),
    ],
)
def test_a_model_that_cannot_be_is_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("model", "example", "message"),
    [
        (BetaBernoulli(3), np.zeros((2, 4)), r"features: have shape \[2, 4\]; .*\[..., 3\] of 0"),
        (BetaBernoulli(3), np.full((2, 3), 0.5), "of 0 and 1"),
    ],
)
def test_examples_that_cannot_be_are_refused(
    model: GenerativeModel, example: Examples, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        model.log_similarity(example, example)
