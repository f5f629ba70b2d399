from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist

from experiments.perception_coherence.transfer_losses import similarity_matching_loss
from hummingbit.training.objectives.dissimilarity import cosine_dissimilarity


def batch(dimension: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(6, dimension, dtype=torch.float64, generator=generator)


def test_hand_computed_value() -> None:
    student, teacher = torch.tensor([[0.0], [1.0]]), torch.tensor([[0.0, 0.0], [3.0, 4.0]])
    # Distances 1 and 5, each met twice: √(2 · 4²) / 2.
    assert similarity_matching_loss(student, teacher).item() == pytest.approx(math.sqrt(32) / 2)


def test_it_is_the_root_mean_square_of_scipys_differences() -> None:
    student, teacher = batch(3, 0), batch(5, 1)
    difference = cdist(student, student) - cdist(teacher, teacher)
    found = similarity_matching_loss(student, teacher).item()
    assert found == pytest.approx(np.sqrt((difference**2).mean()), rel=1e-9)
    measures = (cosine_dissimilarity, cosine_dissimilarity)
    difference = (cdist(student, student, "cosine") - cdist(teacher, teacher, "cosine")) / 2
    found = similarity_matching_loss(student, teacher, *measures).item()
    assert found == pytest.approx(np.sqrt((difference**2).mean()), rel=1e-9)


def test_gradient_by_finite_differences() -> None:
    teacher = batch(5, 2)
    assert torch.autograd.gradcheck(
        lambda x: similarity_matching_loss(x, teacher), (batch(3, 3).requires_grad_(),)
    )


def test_a_student_equal_to_its_teacher_has_a_gradient_of_zero() -> None:
    student = batch(3, 4).requires_grad_()
    similarity_matching_loss(student, batch(3, 4)).backward()  # type: ignore[no-untyped-call]
    assert student.grad is not None
    assert not student.grad.any()


def test_bad_input_is_named() -> None:
    with pytest.raises(ValueError, match="batch of 1"):
        similarity_matching_loss(torch.ones(1, 2), torch.ones(1, 2))
    with pytest.raises(ValueError, match="a row for each example"):
        similarity_matching_loss(torch.ones(3, 2), torch.ones(2, 2))
