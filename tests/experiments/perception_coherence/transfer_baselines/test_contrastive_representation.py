from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional

from experiments.perception_coherence.transfer_losses import (
    ContrastiveRepresentationLoss,
    contrastive_representation_loss,
)


def reference(student: torch.Tensor, teacher: torch.Tensor, m: int, temperature: float) -> float:
    n, total = len(student), 0.0
    for i in range(n):
        for j in range(n):
            score = math.exp(float(teacher[i] @ student[j]) / temperature)
            h = score / (score + (n - 1) / m)
            total -= math.log(h) if i == j else math.log(1 - h)
    return total / n


def unit(n: int, dimension: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, dimension, dtype=torch.float64, generator=generator)
    return functional.normalize(x, dim=1)


def test_hand_computed_value() -> None:
    # Two examples of five: N/M = 1/5. Own vectors score e, those of the other 1.
    x = torch.eye(2, dtype=torch.float64)
    expected = -math.log(math.e / (math.e + 0.2)) - math.log(0.2 / 1.2)
    found = contrastive_representation_loss(x, x, n_examples=5, temperature=1.0)
    assert found.item() == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("m", "temperature"), [(4, 0.5), (50_000, 0.1)])
def test_it_equals_a_loop_over_pairs(m: int, temperature: float) -> None:
    student, teacher = unit(5, 3, 0), unit(5, 3, 1)
    expected = reference(student, teacher, m, temperature)
    found = contrastive_representation_loss(student, teacher, m, temperature)
    assert found.item() == pytest.approx(expected, rel=1e-9)


def test_gradient_by_finite_differences() -> None:
    teacher = unit(5, 3, 2)
    assert torch.autograd.gradcheck(
        lambda x: contrastive_representation_loss(x, teacher, 100),
        (unit(5, 3, 3).requires_grad_(),),
    )


def test_learning_tells_an_examples_own_teacher_from_the_others() -> None:
    torch.manual_seed(0)
    objective = ContrastiveRepresentationLoss(4, 6, 8, projection_dim=5)
    student, teacher = torch.nn.Parameter(torch.randn(8, 4)), torch.randn(8, 6)
    optimizer = torch.optim.Adam([student, *objective.parameters()], lr=0.05)
    for _ in range(200):
        optimizer.zero_grad()
        objective(student, teacher).backward()
        optimizer.step()
    projected = functional.normalize(objective.student_projection(student), dim=1)
    scores = functional.normalize(objective.teacher_projection(teacher), dim=1) @ projected.T
    assert scores.argmax(dim=1).tolist() == list(range(8))


def test_bad_input_is_named() -> None:
    x = unit(3, 2, 0)
    with pytest.raises(ValueError, match="batch of 1"):
        contrastive_representation_loss(x[:1], x[:1], 5)
    with pytest.raises(ValueError, match="a common space"):
        contrastive_representation_loss(x, x[:, :1], 5)
    with pytest.raises(ValueError, match="n_examples is 0"):
        contrastive_representation_loss(x, x, 0)
