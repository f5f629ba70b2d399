from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import roots_jacobi
from scipy.stats import multivariate_normal

from experiments.generative_similarity.models import TreeModel
from experiments.generative_similarity.triplet_losses import dot_product_loss
from hummingbit.training.generative_models import (
    BetaBernoulli,
    Examples,
    GaussianMixture,
    GenerativeModel,
)
from hummingbit.training.similarities import LabelTree, dotted_tree

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
        (TreeModel(dotted_tree(LEAVES), LEAVES), lambda x, y: np.cos(1 + x + 3 * y)),
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
        sum(p * f(item) for p, f in zip(prior, density, strict=True)) for item in (x, y)
    )
    np.testing.assert_allclose(np.exp(model.log_similarity(x, y)), same / (x_alone * y_alone))
    whole = model.log_similarity(x[:, None], y)
    np.testing.assert_allclose(np.diag(whole), model.log_similarity(x, y))


def test_two_equal_clouds_have_the_form_of_tanh() -> None:
    model = GaussianMixture([[5.0, 5.0], [1.0, 1.0]])
    x, y = np.random.default_rng(0).normal(3, 1, (2, 50, 2))
    odds = [4 * (item.sum(axis=1) - 6) for item in (x, y)]
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


names = st.lists(st.sampled_from("abc"), min_size=1, max_size=4).map(".".join)


@settings(max_examples=40, deadline=None)
@given(st.lists(names, min_size=2, max_size=7, unique=True))
def test_the_similarities_of_a_tree_are_ratios_of_densities(labels: list[str]) -> None:
    tree = TreeModel(dotted_tree(labels), labels)
    assert tree.prior.sum() == pytest.approx(1)
    # The mean over pairs drawn independently is 1.
    assert tree.prior @ tree.table() @ tree.prior == pytest.approx(1)


def test_the_printed_table_divides_by_the_levels_that_a_pair_shares() -> None:
    labels = [f"{a}.{b}.{c}" for a in "xy" for b in "xy" for c in "xy"]
    table = TreeModel(dotted_tree(labels), labels).printed_table()
    # (2 + 4 + 8) / 3 for the same leaf, (2 + 4) / 2 for its sister, 2 / 1 for cousins.
    np.testing.assert_allclose(table[0], [14 / 3, 3, 2, 2, 1, 1, 1, 1])
    uneven = TreeModel(dotted_tree(["a.b", "a.c", "a.d", "e"]), ["a.b", "a.c", "a.d", "e"])
    # Two branches, and three below the first; "e" is a leaf at the first level and stays there.
    np.testing.assert_allclose(
        uneven.printed_table(),
        [[4, 2, 2, 1], [2, 4, 2, 1], [2, 2, 4, 1], [1, 1, 1, 2]],
    )


def printed_similarity(labels: list[str], one: str, other: str) -> float:
    """Equation 4 as printed for one pair: the mean of Π 1/p over the nodes of both walks."""
    paths = [label.split(".") for label in labels]
    # A label above others is one more leaf below itself.
    ends = [
        [*path, "."] if any(p[: len(path)] == path != p for p in paths) else path for path in paths
    ]
    first, second = ends[labels.index(one)], ends[labels.index(other)]
    product, terms = 1.0, []
    for level, (a, b) in enumerate(zip(first, second, strict=False)):
        if a != b:
            break
        children = {end[level] for end in ends if end[:level] == first[:level] if len(end) > level}
        product *= len(children)
        terms.append(product)
    return float(np.mean(terms)) if terms else 1.0


@settings(max_examples=60, deadline=None)
@given(st.lists(names, min_size=2, max_size=7, unique=True))
def test_the_printed_table_is_equation_4_in_trees_of_uneven_depth(labels: list[str]) -> None:
    # Labels of different roots have no level that all share.
    labels = [*labels, "root"]
    expected = [[printed_similarity(labels, label, other) for other in labels] for label in labels]
    tree = TreeModel(dotted_tree(labels), labels)
    np.testing.assert_allclose(tree.printed_table(), expected)


def test_levels_below_a_leaf_do_not_count_as_printed() -> None:
    labels = ["a.b", "a.c.x", "a.c.y", "d"]
    tree = TreeModel(dotted_tree(labels), labels)
    # a.b ends at the second level: (2 + 4) / 2, and not (2 + 4 + 4) / 3.
    assert tree.printed_table()[0, 0] == 3
    # The walk stays there, which the ratio of densities has to count.
    assert tree.table()[0, 0] == pytest.approx((2 + 4 + 4) / 3)


def test_triplets_come_as_often_as_the_table_says() -> None:
    labels = ["a.a", "a.b", "a.c", "b"]
    tree = TreeModel(dotted_tree(labels), labels)
    anchor, same, different = tree.sample_triplets(30_000, np.random.default_rng(0))
    counts = np.zeros((2, 4, 4))
    for position, other in enumerate((same, different)):
        np.add.at(counts[position], (anchor, other), 1 / len(anchor))
    independent = np.outer(tree.prior, tree.prior)
    np.testing.assert_allclose(counts[1], independent, atol=0.01)
    np.testing.assert_allclose(counts[0], independent * tree.table(), atol=0.01)


def test_logarithms_and_numbers() -> None:
    tree = TreeModel(LabelTree({"cat": "mammal", "dog": "mammal"}), ["cat", "dog", "carp"])
    first, second = np.array([0, 0, 0]), np.array([0, 1, 2])
    np.testing.assert_allclose(np.exp(tree.log_similarity(first, second)), tree.table()[0])
    assert tree.log_similarity(first, second)[2] == -np.inf
    with pytest.raises(ValueError, match="examples: must be whole numbers from 0 to 2"):
        tree.log_similarity(first, second + 1)


def test_the_best_projection_joins_the_means_of_two_clouds() -> None:
    """Equations F1 and G2: the loss of a projection is −(φ·μ)², and training finds ±μ / ‖μ‖."""
    mu = np.array([3.0, 1.0])
    clouds = GaussianMixture([mu, -mu])
    triplets = clouds.sample_triplets(40_000, np.random.default_rng(0))
    x, y, z = (torch.from_numpy(points) for points in triplets)
    for angle in np.linspace(0, np.pi, 7):
        phi = torch.tensor([[np.cos(angle)], [np.sin(angle)]])
        expected = -(float(phi[:, 0] @ torch.from_numpy(mu)) ** 2)
        assert float(dot_product_loss(x @ phi, y @ phi, z @ phi)) == pytest.approx(
            expected, abs=0.2
        )
    direction = torch.tensor([0.0, 1.0], dtype=torch.float64, requires_grad=True)
    for _ in range(50):
        phi = direction[:, None] / direction.norm()
        (slope,) = torch.autograd.grad(dot_product_loss(x @ phi, y @ phi, z @ phi), direction)
        with torch.no_grad():
            direction -= 0.1 * slope
    found = direction.detach().numpy()
    cosine = float(found @ mu) / float(np.linalg.norm(found) * np.linalg.norm(mu))
    assert abs(cosine) > 0.999
