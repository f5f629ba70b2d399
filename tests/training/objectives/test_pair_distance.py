from __future__ import annotations

import numpy as np
import torch

from encoder.codes import hamming_distance, pack_bits
from training.objectives.pair_distance import (
    cosine_distance,
    relaxed_hamming_distance,
    squashed_euclidean_distance,
)


def test_of_bits_it_is_the_hamming_distance_over_their_number() -> None:
    bits = np.random.default_rng(0).integers(0, 2, (20, 32), dtype=np.uint8)
    codes = pack_bits(bits)
    found = relaxed_hamming_distance(torch.from_numpy(bits).float())
    expected = hamming_distance(codes[:, None], codes[None]) / 32
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-6)


def test_of_relaxed_bits_it_is_the_mean_square() -> None:
    b = torch.rand(7, 16, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    expected = ((b[:, None] - b[None]) ** 2).mean(dim=2)
    torch.testing.assert_close(relaxed_hamming_distance(b), expected)


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
