from __future__ import annotations

import math

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp
from torch.autograd import gradcheck

from hummingbit.training.batches import SparseBatch
from hummingbit.training.layers import HalvedLinear, expected_score, log_partition, weighted_sum
from tests.support.oracles.rounding import assert_within_rounding


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


def batch_of(rows: list[dict[int, float]]) -> SparseBatch:
    """Return rows, each of which has values by column, as a batch of float64."""
    lengths = torch.tensor([len(row) for row in rows])
    return SparseBatch(
        columns=torch.tensor([column for row in rows for column in row], dtype=torch.int64),
        values=torch.tensor([x for row in rows for x in row.values()], dtype=torch.float64),
        starts=lengths.cumsum(0) - lengths,
        lengths=lengths,
    )


def dense(rows: list[dict[int, float]], columns: int) -> torch.Tensor:
    matrix = torch.zeros(len(rows), columns, dtype=torch.float64)
    for i, row in enumerate(rows):
        for column, value in row.items():
            matrix[i, column] = value
    return matrix


sparse_rows = st.lists(
    st.dictionaries(st.integers(0, 6), st.floats(-2, 2, width=16)), min_size=1, max_size=5
)


@given(sparse_rows, st.booleans())
def test_a_weighted_sum_and_its_gradient_are_those_of_a_dense_product(
    rows: list[dict[int, float]], sparse: bool
) -> None:
    _, weight, _ = draw(1, 3, 7, seed=1)
    ours, theirs = weight.clone().requires_grad_(), weight.clone().requires_grad_()
    found = weighted_sum(batch_of(rows), ours, sparse=sparse)
    expected = dense(rows, 7) @ theirs
    torch.testing.assert_close(found, expected)
    found.square().sum().backward()  # type: ignore[no-untyped-call]
    expected.square().sum().backward()  # type: ignore[no-untyped-call]
    gradient = ours.grad
    assert gradient is not None
    if sparse:
        selected = sorted({column for row in rows for column in row})
        assert gradient._indices()[0].tolist() == selected
    torch.testing.assert_close(gradient.to_dense(), theirs.grad)


@given(sparse_rows, st.integers(0, 99))
def test_an_expected_score_is_the_dense_sum(rows: list[dict[int, float]], seed: int) -> None:
    b, weight, bias = draw(len(rows), 3, 7, seed)
    expected = (dense(rows, 7) * (b @ weight.T + bias)).sum(dim=1)
    torch.testing.assert_close(expected_score(batch_of(rows), b, weight, bias), expected)


def test_the_gradient_of_an_expected_score_is_that_of_finite_differences() -> None:
    targets = batch_of([{0: 0.5, 3: 0.25}, {}, {3: -1.0, 1: 2.0, 4: 0.125}])
    inputs = [tensor.requires_grad_() for tensor in draw(3, 4, 5, seed=0)]
    assert gradcheck(lambda *parts: expected_score(targets, *parts), inputs)


def test_a_halved_layer_is_a_linear_layer() -> None:
    torch.manual_seed(0)
    halved = HalvedLinear(4, 3)
    plain = torch.nn.Linear(4, 3)
    plain.load_state_dict(halved.state_dict())
    found = []
    for layer in (halved, plain):
        x = torch.linspace(-2, 3, 20).reshape(5, 4).requires_grad_()
        outputs = layer(x)
        outputs.square().sum().backward()
        found.append((outputs.detach(), x.grad, layer.weight.grad, layer.bias.grad))
    for item, other in zip(*found, strict=True):
        torch.testing.assert_close(item, other)
