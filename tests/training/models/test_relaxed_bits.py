from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hummingbit.training.layers import relaxed_hamming, straight_through_signs


@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.integers(1, 40))
def test_the_relaxed_hamming_distance_of_decided_bits_is_the_share_that_differs(
    seed: int, rows: int, n_bits: int
) -> None:
    bits = np.random.default_rng(seed).integers(0, 2, size=(rows, n_bits)) * 2 - 1
    found = relaxed_hamming(torch.tensor(bits).double(), torch.tensor(bits).double())
    expected = (bits[:, None, :] != bits[None, :, :]).mean(axis=2)
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-12)


def test_the_relaxed_hamming_distance_is_what_independent_draws_give_on_average() -> None:
    rng = np.random.default_rng(0)
    means = rng.uniform(-1, 1, size=(2, 6))
    draws = np.where(rng.random((20_000, 2, 6)) < (1 + means) / 2, 1, -1)
    drawn = (draws[:, 0] != draws[:, 1]).mean()
    found = relaxed_hamming(torch.tensor(means[:1]), torch.tensor(means[1:]))
    assert float(found[0, 0]) == pytest.approx(drawn, abs=0.01)


def test_straight_through_bits_are_signs_with_the_gradient_of_tanh() -> None:
    logits = torch.tensor([[-2.0, -0.1, 0.0, 0.3]], requires_grad=True)
    bits = straight_through_signs(logits / 2)
    assert bits.tolist() == [[-1.0, -1.0, -1.0, 1.0]]
    bits.sum().backward()  # type: ignore[no-untyped-call]
    expected = (1 - np.tanh(np.array([-2.0, -0.1, 0.0, 0.3]) / 2) ** 2) / 2
    assert logits.grad is not None
    np.testing.assert_allclose(logits.grad.numpy()[0], expected, rtol=1e-6)
