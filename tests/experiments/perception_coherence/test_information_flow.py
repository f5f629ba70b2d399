"""HKD's divergence and weights, held to plain loops and to values worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import nn

from experiments.perception_coherence.transfer_baselines import (
    LayerwiseLoss,
    critical_period_weights,
    hybrid_divergence,
)
from experiments.perception_coherence.transfer_losses import transfer_objective

Floats = npt.NDArray[np.float64]


def batch(dimension: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(7, dimension, dtype=torch.float64, generator=generator)


def cosine(u: Floats, v: Floats) -> float:
    return float(1 + u @ v / np.linalg.norm(u) / np.linalg.norm(v)) / 2


def heavy_tailed(u: Floats, v: Floats) -> float:
    return 1 / (1 + float(np.linalg.norm(u - v)))


def reference(student: Floats, teacher: Floats) -> float:
    n, total = len(student), 0.0
    for kernel in (cosine, heavy_tailed):
        p, q = (
            [[kernel(x[i], x[j]) if i != j else 0.0 for j in range(n)] for i in range(n)]
            for x in (teacher, student)
        )
        for i in range(n):
            for j in range(n):
                if i != j:
                    ours, theirs = q[i][j] / sum(q[i]), p[i][j] / sum(p[i])
                    total += (theirs - ours) * math.log(theirs / ours)
    return total / n


@pytest.mark.parametrize("seed", range(3))
def test_the_divergence_equals_a_loop_over_pairs(seed: int) -> None:
    student, teacher = batch(3, seed), batch(6, seed + 10)
    expected = reference(student.numpy(), teacher.numpy())
    assert hybrid_divergence(student, teacher).item() == pytest.approx(expected, rel=1e-9)


def test_hand_computed_divergence() -> None:
    # At right angles and equal distances, the teacher's neighbours have ½ each by both kernels.
    teacher = torch.eye(3, dtype=torch.float64)
    # By the cosine the first two have kernels 1 and ½, so (2/3, 1/3); by distance 1 and 1/(1 + √2).
    student = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
    near = 1 / (1 + 1 / (1 + math.sqrt(2)))
    rows = [(0.5 - p) * math.log((1 - p) / p) for p in (2 / 3, near)]
    assert hybrid_divergence(student, teacher).item() == pytest.approx(2 * sum(rows) / 3, rel=1e-9)


def test_the_divergence_is_symmetric_and_0_for_a_turned_copy() -> None:
    one, other = batch(4, 0), batch(4, 1)
    both = [hybrid_divergence(*pair).item() for pair in ((one, other), (other, one))]
    assert both[0] == pytest.approx(both[1], rel=1e-12)
    turn, _ = torch.linalg.qr(batch(4, 2)[:4])
    assert hybrid_divergence(one @ turn, one).item() == pytest.approx(0, abs=1e-12)
    assert hybrid_divergence(one, one.clone()).item() == 0


def test_gradient_by_finite_differences() -> None:
    teacher = batch(6, 3)
    assert torch.autograd.gradcheck(
        lambda x: hybrid_divergence(x, teacher), (batch(3, 4).requires_grad_(),)
    )


def test_opposite_and_equal_vectors_leave_loss_and_gradient_finite() -> None:
    opposite = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [1.0, 0.0]])
    spread = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    for student, teacher in ((opposite, spread), (spread, opposite)):
        x = student.clone().requires_grad_()
        loss = hybrid_divergence(x, teacher)
        loss.backward()  # type: ignore[no-untyped-call]
        assert loss.isfinite()
        assert x.grad is not None
        assert x.grad.isfinite().all()


def test_early_layers_count_in_the_first_epochs() -> None:
    assert critical_period_weights(4, 0) == (100.0, 100.0, 100.0, 1.0)
    assert critical_period_weights(3, 2) == pytest.approx((49.0, 49.0, 1.0))
    assert critical_period_weights(2, 3, initial=8.0, decay=0.5) == (1.0, 1.0)
    assert critical_period_weights(1, 7) == (1.0,)
    with pytest.raises(ValueError, match="n_layers is 0"):
        critical_period_weights(0, 0)
    with pytest.raises(ValueError, match="epoch is -1"):
        critical_period_weights(2, -1)


def test_layers_add_up_with_their_weights() -> None:
    torch.manual_seed(0)
    students, teachers = [batch(3, 0), batch(4, 1)], [batch(5, 2), batch(6, 3)]
    objectives = [transfer_objective(name, 0, 0, 7) for name in ("pkt", "mkt")]
    loss = LayerwiseLoss(objectives)
    parts = [
        objective(s, t) for objective, s, t in zip(objectives, students, teachers, strict=True)
    ]
    expected = 3.0 * parts[0] + 0.5 * parts[1]
    torch.testing.assert_close(loss(students, teachers, (3.0, 0.5)), expected)


def test_the_objectives_parameters_are_trained() -> None:
    hints = [transfer_objective("fitnet", d, e, 7).double() for d, e in ((3, 5), (4, 6))]
    loss = LayerwiseLoss(hints)
    loss([batch(3, 0), batch(4, 1)], [batch(5, 2), batch(6, 3)], (1.0, 1.0)).backward()
    gradients = [parameter.grad for parameter in loss.parameters()]
    assert len(gradients) == 4
    assert all(gradient is not None and gradient.any() for gradient in gradients)


def test_a_layer_too_many_is_named() -> None:
    loss = LayerwiseLoss([nn.MSELoss()])
    with pytest.raises(ValueError, match="1 objectives, 2 student layers, 1 teacher layers"):
        loss([batch(3, 0), batch(3, 1)], [batch(3, 2)], (1.0,))


def test_bad_input_is_named() -> None:
    x = batch(3, 0)
    with pytest.raises(ValueError, match="batch of 1"):
        hybrid_divergence(x[:1], x[:1])
    with pytest.raises(ValueError, match=r"vector 0 .* is zero"):
        hybrid_divergence(torch.zeros_like(x), x)
