from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from training.models.batches import SparseBatch
from training.models.layers import weighted_sum
from training.sparse_adam import ROWS_AT_ONCE, SparseAdam

TERMS, HIDDEN = 3 * ROWS_AT_ONCE, 5


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
        assert torch.equal(ours, theirs)


def test_more_rows_than_are_updated_at_once() -> None:
    batches = [[*range(TERMS), 7, 7], [3, 2 * ROWS_AT_ONCE, 3]]
    expected = _trained(torch.optim.SparseAdam, batches, 0.004)
    for ours, theirs in zip(_trained(SparseAdam, batches, 0.004), expected, strict=True):
        assert torch.equal(ours, theirs)
