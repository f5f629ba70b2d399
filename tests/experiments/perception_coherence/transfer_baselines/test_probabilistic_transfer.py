from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
import torch

from experiments.perception_coherence.transfer_losses import probabilistic_transfer_loss

Floats = npt.NDArray[np.float64]


def reference(student: Floats, teacher: Floats) -> float:
    n = len(student)

    def neighbours(x: Floats) -> Floats:
        p = np.zeros((n, n))
        for i in range(n):
            for j in range(n):
                cosine = x[i] @ x[j] / np.linalg.norm(x[i]) / np.linalg.norm(x[j])
                p[i, j] = 0 if i == j else (1 + cosine) / 2
            p[i] /= p[i].sum()
        return p

    p, q = neighbours(teacher), neighbours(student)
    pairs = [(i, j) for i in range(n) for j in range(n) if i != j]
    return float(sum(p[pair] * math.log(p[pair] / q[pair]) for pair in pairs)) / n


def batch(dimension: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(7, dimension, dtype=torch.float64, generator=generator)


def test_hand_computed_value() -> None:
    # Right angles everywhere: the neighbours of the teacher are all as probable, ½ each.
    teacher = torch.eye(3, dtype=torch.float64)
    # Two alike and one at a right angle: the kernels are 1 and ½, so (2/3, 1/3) for the first two.
    student = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
    one = 0.5 * math.log(0.5 / (2 / 3)) + 0.5 * math.log(0.5 / (1 / 3))
    found = probabilistic_transfer_loss(student, teacher).item()
    assert found == pytest.approx(2 * one / 3, rel=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_it_equals_a_loop_over_pairs(seed: int) -> None:
    student, teacher = batch(3, seed), batch(6, seed + 10)
    expected = reference(student.numpy(), teacher.numpy())
    assert probabilistic_transfer_loss(student, teacher).item() == pytest.approx(expected, rel=1e-9)


def test_gradient_by_finite_differences() -> None:
    teacher = batch(6, 3)
    assert torch.autograd.gradcheck(
        lambda x: probabilistic_transfer_loss(x, teacher), (batch(3, 4).requires_grad_(),)
    )


def test_opposite_vectors_leave_loss_and_gradient_finite() -> None:
    opposite = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [1.0, 0.0]])
    spread = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    for student, teacher in ((opposite, spread), (spread, opposite)):
        x = student.clone().requires_grad_()
        loss = probabilistic_transfer_loss(x, teacher)
        loss.backward()  # type: ignore[no-untyped-call]
        assert loss.isfinite()
        assert x.grad is not None
        assert x.grad.isfinite().all()


def test_bad_input_is_named() -> None:
    x = batch(3, 0)
    with pytest.raises(ValueError, match="batch of 1"):
        probabilistic_transfer_loss(x[:1], x[:1])
    with pytest.raises(ValueError, match=r"vector 0 .* is zero"):
        probabilistic_transfer_loss(torch.zeros_like(x), x)
