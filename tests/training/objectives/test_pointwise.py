from __future__ import annotations

import numpy as np
import pytest
import torch

from training.objectives.pointwise import pointwise_loss

LOGITS = torch.tensor([[2.0, 0.0, -1.0], [0.5, 0.5, 0.5], [0.0, 3.0, 0.0]], dtype=torch.float64)


def test_labelled_rows_count_and_unlabelled_rows_do_not() -> None:
    probabilities = np.exp(LOGITS.numpy())
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    expected = -(np.log(probabilities[0, 0]) + np.log(probabilities[2, 1])) / 3
    loss = pointwise_loss(LOGITS, torch.tensor([0, -1, 1]))
    assert loss.item() == pytest.approx(float(expected), rel=1e-12)


def test_a_batch_without_labels_costs_nothing() -> None:
    logits = LOGITS.clone().requires_grad_()
    loss = pointwise_loss(logits, torch.tensor([-1, -1, -1]))
    loss.backward()  # type: ignore[no-untyped-call]
    assert loss.item() == 0
    assert logits.grad is not None
    assert not logits.grad.any()


def test_permuting_the_batch_changes_nothing() -> None:
    labels, order = torch.tensor([0, -1, 1]), torch.tensor([2, 0, 1])
    one, other = pointwise_loss(LOGITS, labels), pointwise_loss(LOGITS[order], labels[order])
    assert one.item() == pytest.approx(other.item(), rel=1e-12)


def test_gradient_by_finite_differences() -> None:
    labels = torch.tensor([0, -1, 1])
    logits = LOGITS.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: pointwise_loss(x, labels), (logits,))
