from __future__ import annotations

import itertools
import math

import numpy as np
import numpy.typing as npt
import pytest
import torch

from experiments.perception_coherence.transfer_losses import (
    relational_angle_loss,
    relational_distance_loss,
    relational_loss,
)

Floats = npt.NDArray[np.float64]


def huber(difference: float) -> float:
    size = abs(difference)
    return size**2 / 2 if size < 1 else size - 0.5


def distance_reference(student: Floats, teacher: Floats) -> float:
    n = len(student)

    def relative(x: Floats) -> Floats:
        d = np.array([[math.dist(a, b) for b in x] for a in x])
        scaled: Floats = d / d[d > 0].mean()
        return scaled

    s, t = relative(student), relative(teacher)
    return sum(huber(t[i, j] - s[i, j]) for i in range(n) for j in range(n)) / n**2


def angle_reference(student: Floats, teacher: Floats) -> float:
    n = len(student)

    def cosine(x: Floats, i: int, j: int, k: int) -> float:
        one, other = x[i] - x[j], x[k] - x[j]
        lengths = float(np.linalg.norm(one) * np.linalg.norm(other))
        return float(one @ other) / lengths if lengths else 0.0

    triples = itertools.product(range(n), repeat=3)
    return (
        sum(huber(cosine(teacher, *triple) - cosine(student, *triple)) for triple in triples) / n**3
    )


def batch(dimension: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(6, dimension, dtype=torch.float64, generator=generator)


def test_hand_computed_values() -> None:
    # On a line, equally far apart, against the corners of an equilateral triangle.
    line = torch.tensor([[0.0], [1.0], [2.0]], dtype=torch.float64)
    triangle = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.5, math.sqrt(0.75)]]).double()
    # ψ of the line: ¾ twice and 3/2 once, each way; of the triangle: 1.
    distance = 2 * (2 * huber(0.25) + huber(0.5)) / 9
    assert relational_distance_loss(line, triangle).item() == pytest.approx(distance)
    # At the line's middle the cosine is −1, at its ends 1; the triangle's are ½. Each is met
    # twice; of i = k, where both are 1, nothing remains.
    angle = 2 * (huber(1.5) + 2 * huber(0.5)) / 27
    assert relational_angle_loss(line, triangle).item() == pytest.approx(angle)
    both = 3 * distance + 5 * angle
    assert relational_loss(line, triangle, 3.0, 5.0).item() == pytest.approx(both)


@pytest.mark.parametrize("seed", range(3))
def test_they_equal_loops_over_pairs_and_triples(seed: int) -> None:
    student, teacher = batch(2, seed), batch(4, seed + 10)
    student[1] = student[0]
    arrays = student.numpy(), teacher.numpy()
    found = relational_distance_loss(student, teacher).item()
    assert found == pytest.approx(distance_reference(*arrays), rel=1e-9)
    found = relational_angle_loss(student, teacher).item()
    assert found == pytest.approx(angle_reference(*arrays), rel=1e-9)


def test_scale_place_and_rotation_of_the_student_change_nothing() -> None:
    student, teacher = batch(2, 3), batch(2, 4)
    turned = 3 * student @ torch.tensor([[0.6, -0.8], [0.8, 0.6]]).double() + 7
    one, other = (relational_loss(x, teacher).item() for x in (student, turned))
    assert one == pytest.approx(other, rel=1e-9)


def test_gradient_by_finite_differences() -> None:
    teacher = batch(4, 5)
    assert torch.autograd.gradcheck(
        lambda x: relational_loss(x, teacher), (batch(3, 6).requires_grad_(),)
    )


def test_a_student_that_has_collapsed_has_a_finite_loss() -> None:
    student = torch.ones(6, 2, dtype=torch.float64, requires_grad=True)
    loss = relational_loss(student, batch(4, 7))
    loss.backward()  # type: ignore[no-untyped-call]
    assert loss.isfinite()
    assert student.grad is not None
    assert student.grad.isfinite().all()


def test_bad_input_is_named() -> None:
    for loss in (relational_distance_loss, relational_angle_loss):
        with pytest.raises(ValueError, match="a row for each example"):
            loss(torch.ones(3, 2), torch.ones(2, 2))
        with pytest.raises(ValueError, match="batch of 1"):
            loss(torch.ones(1, 2), torch.ones(1, 2))
    with pytest.raises(ValueError, match=r"vector 0 .* NaN"):
        relational_loss(torch.full((3, 2), math.nan), torch.ones(3, 2))
