from __future__ import annotations

import math

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp
from torch.autograd import gradcheck

from tests.support.oracles.rounding import assert_within_rounding
from training.models.layers import log_partition


def draw(rows: int, bits: int, terms: int, seed: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    shapes = [(rows, bits), (terms, bits), (terms,)]
    return [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]


@given(st.integers(1, 4), st.integers(1, 5), st.integers(1, 6), st.integers(0, 999))
def test_it_is_the_logarithm_of_the_sum_of_exponentials(
    rows: int, bits: int, terms: int, seed: int
) -> None:
    b, weight, bias = draw(rows, bits, terms, seed)
    expected = logsumexp(b.numpy() @ weight.numpy().T + bias.numpy(), axis=1)
    np.testing.assert_allclose(log_partition(b, weight, bias).numpy(), expected, atol=1e-12)


def test_by_hand() -> None:
    # Scores 0 and ln 3: the sum is 1 + 3.
    b, weight = torch.ones(1, 1), torch.tensor([[0.0], [math.log(3)]])
    assert log_partition(b, weight, torch.zeros(2)).item() == np.float32(math.log(4))


def test_its_gradient_is_that_of_finite_differences() -> None:
    inputs = [tensor.requires_grad_() for tensor in draw(3, 4, 5, seed=0)]
    assert gradcheck(log_partition, inputs)


def test_large_scores_stay_finite() -> None:
    b = torch.full((1, 1), 1e4, requires_grad=True)
    weight = torch.tensor([[1.0], [-1.0]])
    found = log_partition(b, weight, torch.zeros(2))
    found.sum().backward()  # type: ignore[no-untyped-call]
    assert found.item() == 1e4
    assert b.grad is not None
    assert b.grad.item() == 1.0


def test_reduced_precision_sums_in_full_precision() -> None:
    b, weight, bias = (tensor.float() for tensor in draw(4, 8, 3000, seed=1))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = log_partition(b, weight, bias)
    assert found.dtype == torch.float32
    # log Σ exp moves by no more than its largest logit does; factors and products are rounded.
    sizes = (b.abs() @ weight.abs().T + bias.abs()).amax(dim=1)
    assert_within_rounding(found, log_partition(b, weight, bias), sizes, 3, "bfloat16")
