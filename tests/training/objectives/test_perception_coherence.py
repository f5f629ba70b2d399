from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor

from hummingbit.training.objectives.dissimilarity import (
    cosine_dissimilarity,
    euclidean_dissimilarity,
)
from hummingbit.training.objectives.perception_coherence import (
    perception_coherence_embedding_loss,
    perception_coherence_loss,
    soft_ranks,
)

Floats = npt.NDArray[np.float64]


def reference_ranks(d: Floats, temperature: float) -> Floats:
    n = len(d)
    ranks = np.zeros_like(d)
    for i in range(n):
        for j in range(n):
            for k in range(n):
                ranks[i, j] += 1 / (1 + math.exp(-(d[i, j] - d[i, k]) / temperature))
    return ranks


def reference_loss(student: Floats, teacher: Floats, tau_student: float, tau: float) -> float:
    difference = reference_ranks(teacher, tau) - reference_ranks(student, tau_student)
    return float((difference**2).sum() / len(student) ** 3)


def naive_loss(student_BB: Tensor, teacher_BB: Tensor, tau_student: float, tau: float) -> Tensor:
    """The loss with all B³ comparisons at once, differentiated by autograd."""

    def ranks(d: Tensor, temperature: float) -> Tensor:
        return torch.sigmoid((d[:, :, None] - d[:, None, :]) / temperature).sum(dim=2)

    difference = ranks(teacher_BB, tau) - ranks(student_BB, tau_student)
    return difference.square().sum() / len(student_BB) ** 3


def embeddings(n: int, dimension: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, dimension, dtype=torch.float64, generator=generator)


def dissimilarities(n: int, dimension: int, seed: int) -> Tensor:
    x = embeddings(n, dimension, seed)
    return cosine_dissimilarity(x, x)


def test_hand_computed_value() -> None:
    # Rows (0, 1) and (1, 0); soft ranks are ½ + Λ(∓1/τ). With τ → 0 they are ½ and 3/2.
    near = torch.tensor([[0.0, 1.0], [1.0, 0.0]], dtype=torch.float64)
    ranks = soft_ranks(near, temperature=1.0)
    low, high = 0.5 + 1 / (1 + math.e), 0.5 + math.e / (1 + math.e)
    torch.testing.assert_close(ranks, torch.tensor([[low, high], [high, low]]).double())
    # A student that ranks the other way is off by (high − low) at each of four places.
    loss = perception_coherence_loss(
        1 - near, near, student_temperature=1.0, teacher_temperature=1.0
    )
    assert loss.item() == pytest.approx(4 * (high - low) ** 2 / 2**3, rel=1e-12)


@pytest.mark.parametrize("n", [2, 5, 9])
def test_the_loss_equals_loops_over_triples(n: int) -> None:
    student, teacher = dissimilarities(n, 3, 0), dissimilarities(n, 6, 1)
    expected = reference_loss(student.numpy(), teacher.numpy(), 0.3, 0.1)
    assert perception_coherence_loss(student, teacher).item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("chunk", [None, 1, 4, 100])
def test_loss_and_gradient_equal_all_comparisons_at_once(chunk: int | None) -> None:
    student, teacher = dissimilarities(17, 3, 2), dissimilarities(17, 6, 3)
    ours, theirs = student.clone().requires_grad_(), student.clone().requires_grad_()
    loss = perception_coherence_loss(ours, teacher, chunk=chunk)
    reference = naive_loss(theirs, teacher, 0.3, 0.1)
    (grad,), (expected,) = (
        torch.autograd.grad(loss, ours),
        torch.autograd.grad(reference, theirs),
    )
    torch.testing.assert_close(loss, reference, rtol=1e-6, atol=1e-12)
    torch.testing.assert_close(grad, expected, rtol=1e-6, atol=1e-12)


def test_nothing_larger_than_the_dissimilarities_is_kept_for_the_backward_pass() -> None:
    sizes: list[int] = []

    def keep(tensor: Tensor) -> Tensor:
        sizes.append(tensor.numel())
        return tensor

    student = embeddings(20, 3, 13).requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        perception_coherence_embedding_loss(student, embeddings(20, 5, 14))
    assert max(sizes) == 20 * 20


def test_gradient_by_finite_differences() -> None:
    student, teacher = embeddings(6, 3, 4).requires_grad_(), embeddings(6, 5, 5)
    for measure in (cosine_dissimilarity, euclidean_dissimilarity):
        assert torch.autograd.gradcheck(
            lambda x, d=measure: perception_coherence_embedding_loss(
                x, teacher, student_dissimilarity=d, chunk=2
            ),
            (student,),
        )


def test_permuting_the_batch_changes_nothing() -> None:
    student, teacher = embeddings(12, 3, 6), embeddings(12, 5, 7)
    order = torch.randperm(12, generator=torch.Generator().manual_seed(0))
    one = perception_coherence_embedding_loss(student, teacher)
    other = perception_coherence_embedding_loss(student[order], teacher[order])
    assert one.item() == pytest.approx(other.item(), rel=1e-12)


@pytest.mark.parametrize(
    "rescale", [lambda d: 5 * d + 2, torch.exp, lambda d: d**3, lambda d: torch.log(d + 1e-3)]
)
def test_as_the_temperature_vanishes_only_the_teachers_order_counts(
    rescale: Callable[[Tensor], Tensor],
) -> None:
    x = embeddings(15, 4, 8)
    # A euclidean diagonal of exact zeros, so that the examples themselves stay nearest.
    teacher = euclidean_dissimilarity(x, x)
    student = dissimilarities(15, 3, 9)
    one, other = (
        perception_coherence_loss(student, d, teacher_temperature=1e-7)
        for d in (teacher, rescale(teacher))
    )
    assert one.item() == pytest.approx(other.item(), rel=1e-9)


def test_with_a_vanishing_temperature_soft_ranks_are_ranks() -> None:
    d = torch.tensor([[0.1, 0.7, 0.3, 0.3], [4.0, 3.0, 2.0, 1.0]], dtype=torch.float64)
    expected = torch.tensor([[0.5, 3.5, 2.0, 2.0], [3.5, 2.5, 1.5, 0.5]], dtype=torch.float64)
    torch.testing.assert_close(soft_ranks(d, 1e-6), expected)


def test_a_student_equal_to_its_teacher_costs_nothing_and_no_gradient_reaches_the_teacher() -> None:
    student = dissimilarities(8, 4, 10).requires_grad_()
    teacher = student.detach().clone().requires_grad_()
    loss = perception_coherence_loss(
        student, teacher, student_temperature=0.2, teacher_temperature=0.2
    )
    loss.backward()  # type: ignore[no-untyped-call]
    assert loss.item() == 0
    assert teacher.grad is None
    assert student.grad is not None
    assert not student.grad.any()


def test_training_on_the_loss_recovers_the_teachers_order() -> None:
    teacher = embeddings(20, 2, 11)
    student = torch.nn.Parameter(embeddings(20, 2, 12))
    optimizer = torch.optim.Adam([student], lr=0.1)
    losses = []
    for _ in range(300):
        optimizer.zero_grad()
        loss = perception_coherence_embedding_loss(
            student,
            teacher,
            student_dissimilarity=euclidean_dissimilarity,
            teacher_dissimilarity=euclidean_dissimilarity,
            student_temperature=0.1,
        )
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.1 * losses[0]


def nan_at(x: Tensor, row: int) -> Tensor:
    spoiled = x.clone()
    spoiled[row, 0] = math.nan
    return spoiled


def test_bad_batches_are_named() -> None:
    x = embeddings(4, 3, 0)
    zero = x.clone()
    zero[2] = 0
    with pytest.raises(ValueError, match=r"vector 3 .* holds NaN or infinity"):
        perception_coherence_embedding_loss(nan_at(x, 3), x)
    with pytest.raises(ValueError, match=r"vector 1 .* holds NaN or infinity"):
        perception_coherence_embedding_loss(
            x, nan_at(x, 1), teacher_dissimilarity=euclidean_dissimilarity
        )
    with pytest.raises(ValueError, match=r"vector 2 .* is zero"):
        perception_coherence_embedding_loss(zero, x)
    with pytest.raises(ValueError, match="a batch of 1 has no pairs"):
        perception_coherence_embedding_loss(x[:1], x[:1])
    with pytest.raises(ValueError, match="a row for each example"):
        perception_coherence_embedding_loss(x, x[:3])
    with pytest.raises(ValueError, match="two dimensions"):
        perception_coherence_embedding_loss(x[0], x[0])


def test_bad_dissimilarities_and_settings_are_named() -> None:
    d = dissimilarities(4, 3, 0)
    with pytest.raises(ValueError, match=r"student's dissimilarities are \[4, 3\]"):
        perception_coherence_loss(d[:, :3], d)
    with pytest.raises(ValueError, match=r"row 1 .* holds NaN"):
        perception_coherence_loss(d, nan_at(d, 1))
    with pytest.raises(ValueError, match="temperature is 0"):
        perception_coherence_loss(d, d, student_temperature=0)
    with pytest.raises(ValueError, match="temperature is nan"):
        perception_coherence_loss(d, d, teacher_temperature=math.nan)
    with pytest.raises(ValueError, match="chunk is 0"):
        perception_coherence_loss(d, d, chunk=0)
