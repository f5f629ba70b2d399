from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hummingbit.training import optimizers
from hummingbit.training.batches import SparseBatch
from hummingbit.training.layers import weighted_sum
from hummingbit.training.optimizers import ROWS_AT_ONCE, SparseAdam

TERMS, HIDDEN = 3 * ROWS_AT_ONCE, 5


@pytest.fixture(params=["compiled", "torch"], autouse=True)
def native(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Update rows by compiled code, if it was built, and by torch."""
    of_kind = optimizers.built if request.param == "compiled" else None
    monkeypatch.setattr(optimizers, "native", of_kind)


def _trained(
    optimizer: Callable[..., Any], batches: list[list[int]], learning_rate: float
) -> list[torch.Tensor]:
    """Return the weights and their averages after a step on each batch of term numbers."""
    generator = torch.Generator().manual_seed(0)
    weight = torch.nn.Parameter(torch.randn(TERMS, HIDDEN, generator=generator))
    adam = optimizer([weight], lr=learning_rate)
    for terms in batches:
        batch = SparseBatch(
            columns=torch.tensor(terms, dtype=torch.int64),
            values=torch.rand(len(terms), generator=generator),
            starts=torch.tensor([0]),
            lengths=torch.tensor([len(terms)]),
        )
        adam.zero_grad()
        weighted_sum(batch, weight, sparse=True).square().sum().backward()  # type: ignore[no-untyped-call]
        adam.step()
    state = adam.state[weight]
    assert state["step"] == len(batches)
    return [weight.detach(), state["exp_avg"], state["exp_avg_sq"]]


terms_of_a_batch = st.lists(st.integers(0, TERMS - 1), max_size=40)


@settings(max_examples=25)
@given(st.lists(terms_of_a_batch, min_size=1, max_size=4), st.sampled_from([0.004, 1.0]))
def test_rows_are_updated_as_by_torch(batches: list[list[int]], learning_rate: float) -> None:
    expected = _trained(torch.optim.SparseAdam, batches, learning_rate)
    found = _trained(SparseAdam, batches, learning_rate)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


def test_more_rows_than_are_updated_at_once() -> None:
    batches = [[*range(TERMS), 7, 7], [3, 2 * ROWS_AT_ONCE, 3]]
    expected = _trained(torch.optim.SparseAdam, batches, 0.004)
    for ours, theirs in zip(_trained(SparseAdam, batches, 0.004), expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


def test_rows_that_two_products_select_are_updated_once() -> None:
    weights = [torch.nn.Parameter(torch.linspace(-1, 1, 20).reshape(10, 2)) for _ in range(2)]
    one, other = (
        SparseBatch(torch.tensor(columns), torch.ones(3), torch.tensor([0]), torch.tensor([3]))
        for columns in ([7, 2, 7], [1, 7, 9])
    )
    for weight, optimizer in zip(weights, (SparseAdam, torch.optim.SparseAdam), strict=True):
        adam = optimizer([weight], lr=0.1)
        for _ in range(2):
            adam.zero_grad()
            product = weighted_sum(one, weight, sparse=True) - weighted_sum(
                other, weight, sparse=True
            )
            product.square().sum().backward()  # type: ignore[no-untyped-call]
            adam.step()
    torch.testing.assert_close(*(weight.detach() for weight in weights), rtol=1e-5, atol=1e-5)
