from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.special import rel_entr, softmax

from experiments.perception_coherence.transfer_baselines import soft_label_loss


def test_hand_computed_value() -> None:
    # The teacher says (¾, ¼), then (½, ½); the student (½, ½) twice.
    teacher = torch.tensor([[math.log(3), 0.0], [0.0, 0.0]], dtype=torch.float64)
    expected = (0.75 * math.log(1.5) + 0.25 * math.log(0.5)) / 2
    found = soft_label_loss(torch.zeros_like(teacher), teacher, 1.0)
    assert found.item() == pytest.approx(expected)


@pytest.mark.parametrize("temperature", [0.5, 2.0, 8.0])
def test_it_equals_the_divergence_of_the_softened_classes(temperature: float) -> None:
    rng = np.random.default_rng(0)
    student, teacher = 3 * rng.normal(size=(2, 6, 5))
    p, q = (softmax(logits / temperature, axis=1) for logits in (teacher, student))
    expected = temperature**2 * rel_entr(p, q).sum(axis=1).mean()
    found = soft_label_loss(torch.from_numpy(student), torch.from_numpy(teacher), temperature)
    assert found.item() == pytest.approx(expected, rel=1e-9)


def test_gradient_by_finite_differences() -> None:
    teacher = torch.randn(4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    student = teacher.flip(0).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: soft_label_loss(x, teacher), (student,))


def test_bad_input_is_named() -> None:
    logits = torch.zeros(3, 4)
    with pytest.raises(ValueError, match=r"\[3, 4\] and \[3, 2\]"):
        soft_label_loss(logits, logits[:, :2])
    with pytest.raises(ValueError, match="batch of 1"):
        soft_label_loss(logits[:1], logits[:1])
    with pytest.raises(ValueError, match="temperature is 0"):
        soft_label_loss(logits, logits, 0)
