from __future__ import annotations

import itertools
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.continuous_histogram.histograms import histogram_gradient, histogram_loss
from hummingbit.training.objectives.continuous_histogram import (
    continuous_histogram_loss,
    pair_histogram,
    similarity_node,
)


def random_pairs(count: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    distance = torch.rand(count, generator=generator, dtype=torch.float64)
    return distance, torch.rand(count, generator=generator, dtype=torch.float64)


def slow_loss(distance: np.ndarray, similarity: np.ndarray, bins: int, nodes: int) -> float:
    """The equations as printed, in loops over pairs, nodes and nodes again."""
    h = np.zeros((bins, nodes))
    width = 1 / (bins - 1)
    for d, s in zip(distance, similarity, strict=True):
        gaps = [abs(s - z / (nodes - 1)) for z in range(nodes)]
        z = min(range(nodes), key=lambda node: (round(gaps[node], 9), node))
        for r in range(bins):
            h[r, z] += max(0.0, 1 - abs(d - r * width) / width) / len(distance)
    return sum(
        float(h[r, z] * h[later, more])
        for r in range(bins)
        for z in range(nodes)
        for later in range(r, bins)
        for more in range(z + 1, nodes)
    )


unit = st.floats(0, 1, allow_subnormal=False)


@given(st.lists(unit, min_size=2, max_size=30), st.integers(2, 40))
def test_the_kernel_is_a_partition_of_unity(distances: list[float], bins: int) -> None:
    distance = torch.tensor(distances, dtype=torch.float64)
    h = pair_histogram(distance, torch.zeros_like(distance), bins=bins, similarity_bins=2)
    assert (h >= 0).all()
    assert float(h.sum()) == pytest.approx(1)
    assert (h[:, 1] == 0).all()
    # Linear interpolation keeps the mean too: Σ_r t_r h_r is the mean distance.
    nodes = torch.linspace(0, 1, bins, dtype=torch.float64)
    assert float(nodes @ h[:, 0]) == pytest.approx(float(distance.mean()), abs=1e-12)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(unit, st.integers(0, 20)), min_size=2, max_size=12),
    st.integers(2, 8),
    st.integers(2, 8),
)
def test_the_loss_equals_the_printed_sums(
    pairs: list[tuple[float, int]], bins: int, nodes: int
) -> None:
    distance = np.array([d for d, _ in pairs])
    similarity = np.array([s / 20 for _, s in pairs])
    expected = slow_loss(distance, similarity, bins, nodes)
    tensors = torch.from_numpy(distance), torch.from_numpy(similarity)
    if len(set(similarity_node(tensors[1], nodes).tolist())) < 2:
        with pytest.raises(ValueError, match="at least two degrees"):
            continuous_histogram_loss(*tensors, bins=bins, similarity_bins=nodes)
        return
    found = continuous_histogram_loss(*tensors, bins=bins, similarity_bins=nodes)
    assert float(found) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("balance", [0.0, 0.5, 1.0])
@pytest.mark.parametrize(("bins", "nodes"), [(2, 2), (11, 5), (51, 51), (100, 100)])
def test_autograd_equals_the_closed_form_of_the_gradient(
    bins: int, nodes: int, balance: float
) -> None:
    distance, similarity = random_pairs(300)
    distance[:5] = torch.tensor([0.0, 1.0, 0.5, 1 / 3, 0.1])  # nodes and both ends among them
    distance.requires_grad_()
    loss = continuous_histogram_loss(
        distance, similarity, bins=bins, similarity_bins=nodes, balance=balance
    )
    (gradient,) = torch.autograd.grad(loss, distance)
    closed = histogram_gradient(
        distance, similarity, bins=bins, similarity_bins=nodes, balance=balance
    )
    torch.testing.assert_close(gradient, closed, rtol=0, atol=1e-14)
    assert gradient.abs().max() > 1e-4


def test_the_gradient_is_the_slope_of_the_loss() -> None:
    distance, similarity = random_pairs(40)
    step = 1e-7
    closed = histogram_gradient(distance, similarity, bins=11, similarity_bins=5)
    for i in range(len(distance)):
        moved = distance.clone()
        moved[i] += step
        before, after = (
            continuous_histogram_loss(d, similarity, bins=11, similarity_bins=5)
            for d in (distance, moved)
        )
        assert float(after - before) / step == pytest.approx(float(closed[i]), abs=1e-6)


@settings(max_examples=50, deadline=None)
@given(st.integers(4, 200), st.integers(2, 100), st.integers(0, 1000))
def test_two_degrees_reduce_to_the_histogram_loss(count: int, bins: int, seed: int) -> None:
    distance, similarity = random_pairs(count, seed)
    alike = similarity > 0.7
    alike[:2] = torch.tensor([True, False])
    share = float(alike.double().mean())
    whole = continuous_histogram_loss(distance, alike.double(), bins=bins, similarity_bins=2)
    binary = histogram_loss(distance, alike, bins=bins)
    assert float(whole) == pytest.approx(share * (1 - share) * float(binary), abs=1e-6)


def test_the_histogram_loss_counts_pairs_in_the_wrong_order() -> None:
    # On nodes nothing is spread: one of the four pairs of pairs is in the wrong order, one is tied.
    distance = torch.tensor([0.0, 0.5, 0.25, 0.5], dtype=torch.float64)
    alike = torch.tensor([True, True, False, False])
    assert float(histogram_loss(distance, alike, bins=5)) == pytest.approx(2 / 4)


def test_balanced_degrees_are_drawn_equally_often() -> None:
    distance, _ = random_pairs(100)
    similarity = torch.tensor([0.0] * 80 + [0.5] * 15 + [1.0] * 5)
    for balance, shares in ((0.0, [0.8, 0.15, 0.05]), (1.0, [1 / 3] * 3)):
        h = pair_histogram(distance, similarity, bins=11, similarity_bins=3, balance=balance)
        np.testing.assert_allclose(h.sum(dim=0).tolist(), shares)
    # As if the rarer degrees had been listed so often that all came equally often.
    balanced = continuous_histogram_loss(distance, similarity, similarity_bins=3, balance=1)
    times = torch.tensor([3] * 80 + [16] * 15 + [48] * 5)
    repeated = [values.repeat_interleave(times) for values in (distance, similarity)]
    assert float(balanced) == pytest.approx(
        float(continuous_histogram_loss(*repeated, similarity_bins=3))
    )


def test_pairs_in_the_right_order_cost_nothing() -> None:
    similarity = torch.linspace(0, 1, 11)
    right, wrong = 1 - similarity, similarity
    assert float(continuous_histogram_loss(right, similarity, similarity_bins=11)) < 1e-6
    assert float(continuous_histogram_loss(wrong, similarity, similarity_bins=11)) > 0.4


@pytest.mark.parametrize(
    ("similarity", "nodes", "expected"),
    [
        ([0.0, 0.24, 0.25, 0.26, 0.75, 0.76, 1.0], 3, [0, 0, 0, 1, 1, 2, 2]),
        ([0.1, 0.3, 0.5, 0.7, 0.9], 6, [0, 1, 2, 3, 4]),
    ],
)
def test_a_similarity_on_a_border_goes_to_the_left(
    similarity: list[float], nodes: int, expected: list[int]
) -> None:
    for dtype in (torch.float32, torch.float64):
        assert similarity_node(torch.tensor(similarity, dtype=dtype), nodes).tolist() == expected


@pytest.mark.parametrize(
    ("distance", "similarity", "message"),
    [
        ([0.1, 0.2], [0.5, 1.2], "similarity: contains 1.2; every similarity must be from 0 to 1"),
        ([0.1, 0.2], [0.5, float("nan")], "similarity: contains nan"),
        ([-0.1, 0.2], [0.5, 1.0], "distance: contains -0.1"),
        ([0.1, 0.2], [1.0, 1.0], "similarity: all 2 pairs have 1 at .* a batch of one class"),
        ([0.1], [1.0], r"\[1\] and \[1\]; both must be \[M\], M ≥ 2"),
    ],
)
def test_bad_pairs_are_explained(
    distance: list[float], similarity: list[float], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        continuous_histogram_loss(torch.tensor(distance), torch.tensor(similarity))


def test_a_histogram_needs_both_kinds_and_two_nodes() -> None:
    distance = torch.tensor([0.1, 0.2])
    with pytest.raises(ValueError, match="all 2 pairs are similar; both"):
        histogram_loss(distance, torch.tensor([True, True]))
    with pytest.raises(ValueError, match="balance is 2; it must be from 0 to 1"):
        continuous_histogram_loss(distance, torch.tensor([0.0, 1.0]), balance=2)
    with pytest.raises(ValueError, match="bins is 1; it must be at least 2"):
        histogram_loss(distance, torch.tensor([True, False]), bins=1)


def test_the_gradient_of_the_histogram_loss_is_made_of_the_printed_factors() -> None:
    """Section 3.2, where the printed ∂h/∂d leaves out Δ and counts all pairs as positive."""
    distance, similarity = random_pairs(60)
    alike = similarity > 0.7
    bins = 9
    h = pair_histogram(distance, alike.double(), bins=bins, similarity_bins=2).numpy()
    negative, positive = (h / h.sum(axis=0)).T
    expected = []
    for d, is_alike in zip(distance.tolist(), alike.tolist(), strict=True):
        r = int(d * (bins - 1))
        of_h = [positive[q:].sum() for q in (r, r + 1)]
        if is_alike:
            of_h = [negative[: q + 1].sum() for q in (r, r + 1)]
        count = int((alike == is_alike).sum())
        expected.append((of_h[1] - of_h[0]) * (bins - 1) / count)
    moving = distance.requires_grad_()
    (gradient,) = torch.autograd.grad(histogram_loss(moving, alike, bins=bins), moving)
    np.testing.assert_allclose(gradient.numpy(), expected, atol=1e-12)


def test_counting_the_other_reversals_is_the_same_loss() -> None:
    # Appendix A.1: L₁ = Σ h ψ, of pairs that are nearer and less alike.
    distance, similarity = random_pairs(200)
    h = pair_histogram(distance, similarity, bins=11, similarity_bins=5).numpy()
    other = sum(
        float(h[r, z] * h[: r + 1, :z].sum()) for r in range(h.shape[0]) for z in range(h.shape[1])
    )
    loss = continuous_histogram_loss(distance, similarity, bins=11, similarity_bins=5)
    assert float(loss) == pytest.approx(other, rel=1e-12)


def rows_are_pure(h: np.ndarray) -> bool:
    """Proposition 1, first half: at each distance all similarities are the same."""
    return bool(((h > 0).sum(axis=1) <= 1).all())


def modes_fall(h: np.ndarray) -> bool:
    """Proposition 1, second half: f(z) = argmax_r h_rz falls strictly, over the z that occur."""
    modes = h[:, h.any(axis=0)].argmax(axis=0)
    return bool((np.diff(modes) < 0).all())


def supports_fall(h: np.ndarray) -> bool:
    """Whether the farthest pair of each similarity is nearer than the nearest of each lower one."""
    nodes = [np.flatnonzero(column) for column in h.T if column.any()]
    return all(more.max() < less.min() for less, more in pairwise(nodes))


def pairs_on_nodes(h: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    """Return distances and similarities of pairs on nodes, as many of each as `h` says."""
    bins, nodes = h.shape
    r_M, z_M = (np.repeat(place, h.ravel()) for place in np.indices(h.shape).reshape(2, -1))
    return torch.from_numpy(r_M / (bins - 1)), torch.from_numpy(z_M / (nodes - 1))


@pytest.mark.parametrize(("bins", "nodes"), [(3, 3), (5, 2), (2, 5)])
def test_proposition_1_over_all_supports(bins: int, nodes: int) -> None:
    rng = np.random.default_rng(0)
    checked = zeros = 0
    for support in itertools.product((0, 1), repeat=bins * nodes):
        h = np.array(support).reshape(bins, nodes) * rng.integers(1, 4, (bins, nodes))
        if h.any(axis=0).sum() < 2:
            continue
        pairs = pairs_on_nodes(h)
        loss = float(continuous_histogram_loss(*pairs, bins=bins, similarity_bins=nodes))
        costless = loss < 1e-12
        # Nothing is below zero, so a loss of zero is a minimum.
        assert loss > -1e-12
        assert costless == supports_fall(h)
        # As printed it is necessary …
        if costless:
            assert rows_are_pure(h)
            assert modes_fall(h)
        # … and sufficient where each similarity occurs at one distance only.
        if ((h > 0).sum(axis=0) <= 1).all():
            assert costless == (rows_are_pure(h) and modes_fall(h))
        checked, zeros = checked + 1, zeros + costless
    assert zeros > 5
    assert checked > 10 * zeros


def test_proposition_1_as_printed_is_not_sufficient() -> None:
    # Similarity 0 is mostly at the far node, and once at the near one: there it is out of order.
    h = np.array([[1, 0], [0, 3], [4, 0]])
    assert rows_are_pure(h)
    assert modes_fall(h)
    loss = continuous_histogram_loss(*pairs_on_nodes(h), bins=3, similarity_bins=2)
    assert float(loss) == pytest.approx(1 * 3 / 8**2)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(unit, st.integers(0, 3)), min_size=2, max_size=8),
    st.integers(2, 12),
    st.sampled_from([0.0, 0.5, 1.0]),
)
def test_the_loss_is_zero_where_supports_fall_wherever_pairs_are(
    pairs: list[tuple[float, int]], bins: int, balance: float
) -> None:
    """Between two nodes a pair counts at both; the weights of pairs change no support."""
    distance, degree = (torch.tensor(of, dtype=torch.float64) for of in zip(*pairs, strict=True))
    if len(set(degree.tolist())) < 2:
        return
    given_pairs = distance, degree / 3
    h = pair_histogram(*given_pairs, bins=bins, similarity_bins=4).numpy()
    loss = continuous_histogram_loss(*given_pairs, bins=bins, similarity_bins=4, balance=balance)
    # The least share of a pair at a node is about 1e-16 of it.
    least = h[h > 0].min()
    if least > 1e-6:
        assert (float(loss) < 1e-12) == supports_fall(h)


@pytest.mark.parametrize(("bins", "nodes"), [(3, 3), (5, 2)])
def test_pairs_on_nodes_without_a_gradient_are_pure_at_each_distance(bins: int, nodes: int) -> None:
    """Section 3.5: where ∂L/∂d = 0, all pairs at one distance have one similarity."""
    rng = np.random.default_rng(0)
    still = 0
    for support in itertools.product((0, 1), repeat=bins * nodes):
        h = np.array(support).reshape(bins, nodes) * rng.integers(1, 4, (bins, nodes))
        # A pair at the last node has no node beyond it, so its gradient is that from the left.
        if h.any(axis=0).sum() < 2 or h[-1].any():
            continue
        gradient = histogram_gradient(*pairs_on_nodes(h), bins=bins, similarity_bins=nodes)
        if float(gradient.abs().max()) == 0:
            assert rows_are_pure(h)
            still += 1
    assert still >= 3


def test_pairs_a_node_apart_rest_in_the_wrong_order() -> None:
    """Between nodes, no gradient means neither that rows are pure nor that the loss is 0."""
    distance = torch.tensor([0.5, 1.5], dtype=torch.float64) / 10
    similarity = torch.tensor([0.0, 1.0])
    assert not rows_are_pure(
        pair_histogram(distance, similarity, bins=11, similarity_bins=2).numpy()
    )
    gradient = histogram_gradient(distance, similarity, bins=11, similarity_bins=2)
    assert gradient.tolist() == [0, 0]
    loss = continuous_histogram_loss(distance, similarity, bins=11, similarity_bins=2)
    assert float(loss) == pytest.approx(1 / 4)


def test_more_similar_pairs_at_a_distance_push_a_pair_away() -> None:
    """Section 3.5 says that the gradient is then positive; by equation 11 it is negative."""
    distance = torch.tensor([0.55, 0.5, 0.5], dtype=torch.float64)
    similarity = torch.tensor([0.0, 1.0, 1.0])
    gradient = histogram_gradient(distance, similarity, bins=11, similarity_bins=2)
    assert gradient[0] < 0
