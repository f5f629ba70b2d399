from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
import torch

from hummingbit.training.layers import straight_through_signs
from hummingbit.training.objectives.neighbours import inverse_cloze_loss

SCALE, SHARED, TEMPERATURE = 6.0, 0.4, 0.3

loss_of = partial(inverse_cloze_loss, scale=SCALE, shared=SHARED, temperature=TEMPERATURE)


def reference(queries: np.ndarray, documents: np.ndarray, similarity: np.ndarray) -> float:
    n, bits = queries.shape
    score = [
        [
            SCALE
            / bits
            * sum(queries[i, b] * (1.0 if documents[j, b] > 0 else -1.0) for b in range(bits))
            for j in range(n)
        ]
        for i in range(n)
    ]
    total = 0.0
    for i in range(n):
        for scores, similar in (
            (score[i], similarity[i]),
            ([score[j][i] for j in range(n)], similarity[:, i]),
        ):
            found = [math.exp(score) for score in scores]
            alike = [math.exp(item / TEMPERATURE) for item in similar]
            for j in range(n):
                target = (1 - SHARED) * (i == j) + SHARED * alike[j] / sum(alike)
                total -= target * math.log(found[j] / sum(found)) / n
    return total


def random_batch(seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    queries, documents = torch.randn(2, 6, 8, dtype=torch.float64, generator=generator)
    return queries, documents, torch.rand(6, 6, dtype=torch.float64, generator=generator)


@pytest.mark.parametrize("seed", range(5))
def test_it_equals_a_loop_over_pairs(seed: int) -> None:
    queries, documents, similarity = batch = random_batch(seed)
    expected = reference(queries.numpy(), documents.numpy(), similarity.numpy())
    assert loss_of(*batch).item() == pytest.approx(expected, rel=1e-12)


def test_queries_that_find_nothing_cost_the_logarithm_of_the_batch_both_ways() -> None:
    zeros = torch.zeros(5, 8)
    loss = loss_of(zeros, torch.ones(5, 8), torch.eye(5))
    assert loss.item() == pytest.approx(2 * math.log(5), rel=1e-6)


def test_a_target_of_one_document_is_the_cross_entropy_to_it() -> None:
    queries, documents, similarity = random_batch(1)
    scores = queries @ documents.sign().T * (6.0 / 8)
    right = torch.arange(6)
    expected = torch.nn.functional.cross_entropy(scores, right)
    expected = expected + torch.nn.functional.cross_entropy(scores.T, right)
    found = loss_of(queries, documents, similarity, shared=0.0)
    assert found.item() == pytest.approx(expected.item(), rel=1e-12)


def test_gradient_of_the_queries_by_finite_differences() -> None:
    queries, documents, similarity = random_batch(2)
    assert torch.autograd.gradcheck(
        lambda q: loss_of(q, documents, similarity),
        queries.requires_grad_(),
    )


def test_the_gradient_of_the_documents_is_that_of_tanh_at_the_signs() -> None:
    queries, documents, similarity = random_batch(3)
    documents.requires_grad_()
    torch.autograd.backward(loss_of(queries, documents, similarity))
    signs = documents.detach().sign().requires_grad_()
    # At bits this sure tanh is their sign to the last digit, and so is what flows back to them.
    scores = queries @ signs.T * (6.0 / 8)
    total = torch.zeros((), dtype=torch.float64)
    for z, s in ((scores, similarity), (scores.T, similarity.T)):
        target = 0.6 * torch.eye(6, dtype=torch.float64) + 0.4 * (s / 0.3).softmax(dim=1)
        total = total - (target * z.log_softmax(dim=1)).sum() / 6
    (by_sign,) = torch.autograd.grad(total, signs)
    expected = by_sign * (1 - torch.tanh(documents.detach()) ** 2)
    assert documents.grad is not None
    np.testing.assert_allclose(documents.grad.numpy(), expected.numpy(), rtol=1e-9, atol=1e-12)


def test_signs_are_hard_and_zero_counts_as_minus_one() -> None:
    signs = straight_through_signs(torch.tensor([[-0.3, 0.0, 2.0]]))
    np.testing.assert_allclose(signs.numpy(), [[-1.0, -1.0, 1.0]])
