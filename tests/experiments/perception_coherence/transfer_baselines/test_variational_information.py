from __future__ import annotations

from math import log

import pytest
import torch
from scipy.stats import norm
from torch import Tensor

from experiments.perception_coherence.transfer_losses import (
    SMALLEST_VARIANCE,
    VariationalInformationLoss,
    variational_information_loss,
)


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_the_loss_equals_its_sums() -> None:
    mean, teacher, variance = draw(4, 3), draw(4, 3, seed=1), draw(3, seed=2).exp()
    total = 0.0
    for i in range(4):
        for e in range(3):
            v = float(variance[e])
            total += 0.5 * log(v) + (float(teacher[i, e]) - float(mean[i, e])) ** 2 / (2 * v)
    found = variational_information_loss(mean, teacher, variance)
    assert float(found) == pytest.approx(total / 4)


def test_it_is_the_density_of_a_gaussian() -> None:
    mean, teacher, variance = draw(5, 2), draw(5, 2, seed=1), draw(2, seed=2).exp()
    density = norm.logpdf(teacher.numpy(), mean.numpy(), variance.sqrt().numpy()).sum(axis=1)
    found = variational_information_loss(mean, teacher, variance)
    assert float(found) == pytest.approx(-density.mean() - 2 * 0.9189385332)


def test_variances_begin_at_5_and_learn_what_the_student_cannot_say() -> None:
    torch.manual_seed(0)
    loss = VariationalInformationLoss(2, 2)
    variance = torch.nn.functional.softplus(loss.alpha_E) + SMALLEST_VARIANCE
    assert variance.tolist() == pytest.approx([5, 5], rel=1e-4)
    student = draw(400, 2).float()
    # The first feature is the student's own; the second is noise of variance 4.
    teacher = torch.stack([student[:, 0], 2 * draw(400, seed=3).float()], dim=1)
    optimizer = torch.optim.Adam(loss.parameters(), lr=0.1)
    for _ in range(300):
        optimizer.zero_grad()
        loss(student, teacher).backward()
        optimizer.step()
    sure, unsure = (torch.nn.functional.softplus(loss.alpha_E) + SMALLEST_VARIANCE).tolist()
    assert sure < 0.05
    assert unsure == pytest.approx(float(teacher[:, 1].var()), rel=0.1)


def test_no_gradient_reaches_the_teacher_and_shapes_must_fit() -> None:
    teacher = draw(4, 3).requires_grad_()
    found = variational_information_loss(draw(4, 3, seed=1), teacher, torch.ones(3))
    assert not found.requires_grad
    with pytest.raises(ValueError, match=r"features have shapes \[4, 2\] and \[4, 3\]"):
        variational_information_loss(draw(4, 2), teacher, torch.ones(3))
