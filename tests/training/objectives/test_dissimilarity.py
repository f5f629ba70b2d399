from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist

from experiments.continuous_histogram.mnist import squashed_euclidean_distance
from hummingbit.encoder.codes import hamming_distance, pack_bits
from hummingbit.training.objectives.dissimilarity import (
    cosine_dissimilarity,
    cosine_distance,
    euclidean_dissimilarity,
)


def vectors(n: int, dimension: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, dimension, dtype=torch.float64, generator=generator)


def test_they_equal_scipys() -> None:
    x, y = vectors(5, 4, 0), vectors(7, 4, 1)
    cosine = torch.from_numpy(cdist(x, y, "cosine")) / 2
    torch.testing.assert_close(cosine_dissimilarity(x, y), cosine)
    euclidean = torch.from_numpy(cdist(x, y, "euclidean"))
    torch.testing.assert_close(euclidean_dissimilarity(x, y), euclidean)
    torch.testing.assert_close(cosine_dissimilarity(x, x), cosine_dissimilarity(x, x.clone()))


def test_hand_computed_values() -> None:
    x = torch.tensor([[2.0, 0.0], [0.0, 3.0], [-1.0, 0.0]])
    expected = torch.tensor([[0.0, 0.5, 1.0], [0.5, 0.0, 0.5], [1.0, 0.5, 0.0]])
    torch.testing.assert_close(cosine_dissimilarity(x, x), expected)
    assert euclidean_dissimilarity(x, x)[0].tolist() == [0.0, pytest.approx(math.sqrt(13)), 3.0]


def test_cosine_of_signs_is_the_share_of_differing_bits() -> None:
    bits = np.random.default_rng(0).integers(0, 2, (6, 24)).astype(np.uint8)
    signs = torch.from_numpy(2.0 * bits - 1)
    codes = pack_bits(bits)
    expected = hamming_distance(codes[:, None], codes[None]) / 24
    torch.testing.assert_close(cosine_dissimilarity(signs, signs), torch.from_numpy(expected))


def test_the_gradient_between_equal_vectors_is_finite() -> None:
    x = torch.ones(3, 2, requires_grad=True)
    euclidean_dissimilarity(x, x).sum().backward()  # type: ignore[no-untyped-call]
    assert x.grad is not None
    assert not x.grad.any()


@pytest.mark.parametrize("size", [1e-30, 1e30])
def test_tiny_and_huge_vectors_have_a_direction(size: float) -> None:
    x = torch.tensor([[size, 0.0], [0.0, size]])
    assert cosine_dissimilarity(x, x).flatten().tolist() == pytest.approx([0, 0.5, 0.5, 0])


def test_vectors_without_a_place_or_a_direction_are_named() -> None:
    x, infinite = vectors(3, 2, 0), vectors(3, 2, 0)
    infinite[1, 1] = math.inf
    for item, other in ((infinite, x), (x, infinite)):
        with pytest.raises(ValueError, match=r"vector 1 .* NaN or infinity"):
            euclidean_dissimilarity(item, other)
        with pytest.raises(ValueError, match=r"vector 1 .* NaN or infinity"):
            cosine_dissimilarity(item, other)
    zero = x.clone()
    zero[2] = 0
    with pytest.raises(ValueError, match=r"vector 2 .* is zero"):
        cosine_dissimilarity(x, zero)
    assert euclidean_dissimilarity(x, zero).isfinite().all()


def test_euclidean_distances_are_squashed_below_one() -> None:
    x = torch.tensor([[0.0, 0.0], [3.0, 4.0], [1e6, 0.0]], dtype=torch.float64, requires_grad=True)
    found = squashed_euclidean_distance(x)
    np.testing.assert_allclose(found[0].tolist(), [0, 5 / 6, 1e6 / (1e6 + 1)])
    # Equal points have no direction apart; their gradient is 0, not NaN.
    found.sum().backward()  # type: ignore[no-untyped-call]
    assert x.grad is not None
    assert x.grad.isfinite().all()


def test_cosine_distance_runs_from_equal_to_opposite() -> None:
    x = torch.tensor([[1.0, 0.0], [0.0, 2.0], [-3.0, 0.0]])
    np.testing.assert_allclose(cosine_distance(x)[0].tolist(), [0, 0.5, 1], atol=1e-7)
