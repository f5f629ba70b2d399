from __future__ import annotations

import pytest
import torch

from experiments.perception_coherence.transfer_losses import HintLoss, hint_loss


def test_hand_computed_value() -> None:
    student, teacher = torch.tensor([[1.0, 2.0], [0.0, 0.0]]), torch.tensor([[1.0, 0.0], [3.0, 4]])
    assert hint_loss(student, teacher).item() == pytest.approx((0.5 * 4 + 0.5 * 25) / 2)


def test_the_regressor_maps_the_student_to_the_teacher() -> None:
    torch.manual_seed(0)
    objective = HintLoss(3, 5)
    student, teacher = torch.randn(4, 3), torch.randn(4, 5, requires_grad=True)
    weight, bias = objective.regressor.weight, objective.regressor.bias
    expected = 0.5 * ((student @ weight.T + bias - teacher) ** 2).sum() / 4
    loss = objective(student, teacher)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-6)
    loss.backward()
    assert weight.grad is not None
    assert teacher.grad is None


def test_bad_input_is_named() -> None:
    with pytest.raises(ValueError, match=r"\[3, 4\] and \[3, 2\]"):
        hint_loss(torch.zeros(3, 4), torch.zeros(3, 2))
    with pytest.raises(ValueError, match="batch of 1"):
        hint_loss(torch.zeros(1, 4), torch.zeros(1, 4))
