from __future__ import annotations

import numpy as np
import pytest
import torch

from training.objectives.pointwise import guessed_loss, pointwise_loss

LOGITS = torch.tensor([[2.0, 0.0, -1.0], [0.5, 0.5, 0.5], [0.0, 3.0, 0.0]], dtype=torch.float64)
ONE_CLASS = torch.tensor([[1, 0, 0], [0, 0, 0], [0, 1, 0]], dtype=torch.bool)
SEVERAL = torch.tensor([[1, 0, 1], [0, 0, 0], [0, 1, 0]], dtype=torch.bool)


def test_one_class_costs_its_cross_entropy_and_unlabelled_rows_nothing() -> None:
    probabilities = np.exp(LOGITS.numpy())
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    expected = -(np.log(probabilities[0, 0]) + np.log(probabilities[2, 1])) / 3
    loss = pointwise_loss(LOGITS, ONE_CLASS, multi_label=False)
    assert loss.item() == pytest.approx(float(expected), rel=1e-12)


def test_several_classes_cost_a_binary_cross_entropy_each() -> None:
    p = 1 / (1 + np.exp(-LOGITS.numpy()))
    rows = [
        np.log(p[0, 0] * (1 - p[0, 1]) * p[0, 2]),
        np.log((1 - p[2, 0]) * p[2, 1] * (1 - p[2, 2])),
    ]
    loss = pointwise_loss(LOGITS, SEVERAL, multi_label=True)
    assert loss.item() == pytest.approx(-sum(rows) / 3, rel=1e-12)


@pytest.mark.parametrize("multi_label", [False, True])
def test_a_batch_without_labels_costs_nothing(multi_label: bool) -> None:
    logits = LOGITS.clone().requires_grad_()
    loss = pointwise_loss(logits, torch.zeros_like(ONE_CLASS), multi_label=multi_label)
    loss.backward()  # type: ignore[no-untyped-call]
    assert loss.item() == 0
    assert logits.grad is not None
    assert not logits.grad.any()


@pytest.mark.parametrize(("tags", "multi_label"), [(ONE_CLASS, False), (SEVERAL, True)])
def test_permuting_the_batch_changes_nothing(tags: torch.Tensor, multi_label: bool) -> None:
    order = torch.tensor([2, 0, 1])
    one = pointwise_loss(LOGITS, tags, multi_label=multi_label)
    other = pointwise_loss(LOGITS[order], tags[order], multi_label=multi_label)
    assert one.item() == pytest.approx(other.item(), rel=1e-12)


@pytest.mark.parametrize(("tags", "multi_label"), [(ONE_CLASS, False), (SEVERAL, True)])
def test_gradient_by_finite_differences(tags: torch.Tensor, multi_label: bool) -> None:
    logits = LOGITS.clone().requires_grad_()
    assert torch.autograd.gradcheck(
        lambda x: pointwise_loss(x, tags, multi_label=multi_label), (logits,)
    )


def test_guesses_cost_their_cross_entropy() -> None:
    guesses = np.array([[0.7, 0.2, 0.1], [0, 1, 0], [0.5, 0.25, 0.25]])
    probabilities = np.exp(LOGITS.numpy())
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    expected = -(guesses * np.log(probabilities)).sum() / 3
    loss = guessed_loss(LOGITS, torch.from_numpy(guesses))
    assert loss.item() == pytest.approx(float(expected), rel=1e-12)


def test_certain_guesses_cost_what_labels_cost() -> None:
    tags = torch.tensor([[1, 0, 0], [0, 1, 0], [0, 1, 0]], dtype=torch.bool)
    labels = pointwise_loss(LOGITS, tags, multi_label=False)
    assert guessed_loss(LOGITS, tags.to(LOGITS.dtype)).item() == pytest.approx(labels.item())


def test_gradient_of_guesses_by_finite_differences() -> None:
    guesses = torch.full((3, 3), 1 / 3, dtype=torch.float64)
    logits = LOGITS.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: guessed_loss(x, guesses), (logits,))
