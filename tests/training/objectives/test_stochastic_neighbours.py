from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hummingbit.training.objectives.neighbours import (
    neighbour_temperatures,
    stochastic_neighbour_loss,
)


def random_batch(
    seed: int, rows: int = 7, bits: int = 6
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the logits of four queries and of documents, cosines and temperatures."""
    generator = torch.Generator().manual_seed(seed)
    queries, documents = (
        torch.randn(count, bits, dtype=torch.float64, generator=generator) for count in (4, rows)
    )
    cosines = 2 * torch.rand(4, rows, dtype=torch.float64, generator=generator) - 1
    temperatures = 0.1 + torch.rand(4, 1, dtype=torch.float64, generator=generator)
    return queries, documents, cosines, temperatures


def reference(
    queries: np.ndarray,
    documents: np.ndarray,
    cosines: np.ndarray,
    temperatures: np.ndarray,
    scale: float,
    *,
    left_out: np.ndarray,
) -> float:
    bits = documents.shape[1]
    stored = [[1.0 if item > 0 else -1.0 for item in row] for row in documents]
    total = 0.0
    for i, logits in enumerate(queries):
        searched = np.flatnonzero(~left_out[i])
        near = [math.exp(cosines[i, j] / temperatures[i, 0]) for j in searched]
        signs = [1.0 if logit > 0 else -1.0 for logit in logits]
        size = math.sqrt(sum(logit**2 for logit in logits) / bits)
        for query in (signs, [logit / size for logit in logits]):
            rows = [stored[j] for j in searched]
            agreements = [sum(x * y for x, y in zip(query, row, strict=True)) for row in rows]
            found = [math.exp(scale / bits * agreement) for agreement in agreements]
            total -= sum(
                p / sum(near) * math.log(q / sum(found)) for p, q in zip(near, found, strict=True)
            )
    return float(total / (2 * len(queries)))


@pytest.mark.parametrize("seed", range(5))
def test_the_loss_equals_a_loop_over_pairs(seed: int) -> None:
    batch = random_batch(seed)
    scale = torch.tensor(5.0, dtype=torch.float64)
    queries, documents, cosines, temperatures = (each.numpy() for each in batch)
    own = np.eye(*cosines.shape, dtype=np.bool_)
    for left_out in (np.zeros_like(own), own):
        expected = reference(queries, documents, cosines, temperatures, 5.0, left_out=left_out)
        loss = stochastic_neighbour_loss(*batch, scale, left_out=torch.from_numpy(left_out))
        assert float(loss) == pytest.approx(expected, rel=1e-12)
    assert stochastic_neighbour_loss(*batch, scale) > 0


def test_the_loss_is_least_where_codes_agree_as_the_vectors_do() -> None:
    temperatures = torch.full((4, 1), 0.1)
    cosines = torch.tensor([[1.0, 1, -1, -1], [1, 1, -1, -1], [-1, -1, 1, 1], [-1, -1, 1, 1]])
    kept = torch.tensor([[1.0, 1], [1, 1], [-1, -1], [-1, -1]])
    mixed = kept[[0, 2, 1, 3]]
    kept_loss, mixed_loss = (
        stochastic_neighbour_loss(kept, documents, cosines, temperatures, torch.tensor(10.0))
        for documents in (kept, mixed)
    )
    # Half of the probability of each query is on each of its two neighbours, so ln 2 is the least.
    assert kept_loss == pytest.approx(math.log(2), abs=0.01)
    assert mixed_loss > math.log(2) + 1


def test_the_gradient_reaches_every_bit() -> None:
    queries, documents, cosines, temperatures = random_batch(0)
    for logits in (queries, documents):
        logits.requires_grad_()
    scale = torch.tensor(5.0, dtype=torch.float64)
    loss = stochastic_neighbour_loss(queries, documents, cosines, temperatures, scale)
    loss.backward()  # type: ignore[no-untyped-call]
    for logits in (queries, documents):
        assert logits.grad is not None
        assert (logits.grad != 0).all()


@given(st.integers(0, 2**32 - 1), st.floats(1.5, 15))
def test_temperatures_give_each_row_the_perplexity(seed: int, perplexity: float) -> None:
    rng = np.random.default_rng(seed)
    cosines = rng.uniform(-1, 1, size=(5, 20))
    temperatures = neighbour_temperatures(torch.from_numpy(cosines), perplexity).numpy()
    exponents = (cosines - cosines.max(axis=1, keepdims=True)) / temperatures
    p = np.exp(exponents)
    p /= p.sum(axis=1, keepdims=True)
    entropy = -np.sum(p * np.log(np.where(p > 0, p, 1)), axis=1)
    is_inside = (temperatures[:, 0] > 1.1e-4) & (temperatures[:, 0] < 9.9)
    # Thirty halvings of an interval of ln 100,000 leave a relative error of 1e-8 of τ.
    np.testing.assert_allclose(np.exp(entropy[is_inside]), perplexity, rtol=1e-5)


def test_rows_of_equal_neighbours_get_the_smallest_temperature() -> None:
    cosines = torch.full((1, 9), 0.5, dtype=torch.float64)
    assert float(neighbour_temperatures(cosines, 4.0)) == pytest.approx(1e-4)
