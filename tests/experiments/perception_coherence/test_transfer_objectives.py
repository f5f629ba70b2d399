from __future__ import annotations

import pytest
import torch

from experiments.perception_coherence.transfer_losses import (
    OBJECTIVES,
    ContrastiveRepresentationLoss,
    relational_loss,
    transfer_objective,
)
from hummingbit.training.objectives.perception_coherence import perception_coherence_embedding_loss


def batch(n: int, dimension: int) -> torch.Tensor:
    return torch.randn(n, dimension, generator=torch.Generator().manual_seed(n))


@pytest.mark.parametrize("name", OBJECTIVES)
def test_every_objective_gives_the_student_a_gradient(name: str) -> None:
    torch.manual_seed(0)
    student, teacher = batch(9, 4).requires_grad_(), batch(9, 6)
    objective = transfer_objective(name, student_dim=4, teacher_dim=6, n_examples=100)
    loss = objective(student, teacher)
    assert loss.shape == ()
    loss.backward()
    assert student.grad is not None
    assert student.grad.any()
    assert all(parameter.grad is not None for parameter in objective.parameters())


def test_settings_are_those_of_the_loss() -> None:
    student, teacher = batch(9, 4), batch(9, 6)
    sharp = transfer_objective("perception-coherence", 4, 6, 100, student_temperature=0.05)
    expected = perception_coherence_embedding_loss(student, teacher, student_temperature=0.05)
    assert torch.equal(sharp(student, teacher), expected)
    distance = transfer_objective("rkd", 4, 6, 100, angle_weight=0.0)
    assert torch.equal(distance(student, teacher), relational_loss(student, teacher, 1.0, 0.0))
    contrastive = transfer_objective("crd", 4, 6, 100, temperature=0.2)
    assert isinstance(contrastive, ContrastiveRepresentationLoss)
    assert (contrastive.n_examples, contrastive.temperature) == (100, 0.2)


def test_an_objective_that_does_not_exist_is_named() -> None:
    with pytest.raises(
        ValueError, match="objective is 'kd'; it must be one of perception-coherence, pkt"
    ):
        transfer_objective("kd", 4, 6, 100)
