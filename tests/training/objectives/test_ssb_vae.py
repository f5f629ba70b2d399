"""The terms of Equations (1) to (7) of SSB-VAE, held to sums written out by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from hummingbit.training.objectives.ssb_vae import (
    kl_loss,
    pairwise_loss,
    pointwise_loss,
    self_supervised_similarity,
    soft_class_loss,
)


def test_hand_computed_kl_terms() -> None:
    # α = 1/2 costs nothing; α = 3/4 costs ¾ ln ¾ + ¼ ln ¼ + ln 2 a bit.
    three_quarters = np.log(3.0)
    logits = torch.tensor([[0.0, 0.0], [three_quarters, -three_quarters]], dtype=torch.float64)
    one_bit = 0.75 * np.log(0.75) + 0.25 * np.log(0.25) + np.log(2)
    np.testing.assert_allclose(kl_loss(logits).item(), (0 + 2 * one_bit) / 2, rtol=1e-12)


def test_it_equals_the_mean_log_ratio_of_sampled_codes() -> None:
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(1, 4)) * 2
    alpha = 1 / (1 + np.exp(-logits))
    bits = rng.random((400_000, 4)) < alpha
    log_q = np.where(bits, np.log(alpha), np.log(1 - alpha)).sum(axis=1)
    ratio = log_q - 4 * np.log(0.5)
    error = 5 * ratio.std() / np.sqrt(len(ratio))
    assert abs(kl_loss(torch.from_numpy(logits)).item() - ratio.mean()) < error


def test_saturated_bits_cost_ln_2_and_have_a_finite_gradient() -> None:
    logits = torch.tensor([[200.0, -200.0]], requires_grad=True)
    loss = kl_loss(logits)
    loss.backward()  # type: ignore[no-untyped-call]
    np.testing.assert_allclose(loss.item(), 2 * np.log(2), rtol=1e-6)
    assert logits.grad is not None
    assert torch.isfinite(logits.grad).all()


def test_gradient_of_the_kl_term_by_finite_differences() -> None:
    logits = torch.randn(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert torch.autograd.gradcheck(kl_loss, (logits.requires_grad_(),))


LOGITS = torch.tensor([[2.0, 0.0, -1.0], [0.5, 0.5, 0.5], [0.0, 3.0, 0.0]], dtype=torch.float64)
ONE_CLASS = torch.tensor([[1, 0, 0], [0, 0, 0], [0, 1, 0]], dtype=torch.bool)
SEVERAL = torch.tensor([[1, 0, 1], [0, 0, 0], [0, 1, 0]], dtype=torch.bool)


def test_one_class_costs_its_cross_entropy_and_unlabelled_rows_nothing() -> None:
    probabilities = np.exp(LOGITS.numpy())
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    expected = -(np.log(probabilities[0, 0]) + np.log(probabilities[2, 1])) / 3
    loss = pointwise_loss(LOGITS, ONE_CLASS, multi_label=False)
    assert loss.item() == pytest.approx(float(expected), rel=1e-12)


def test_several_classes_cost_a_binary_cross_entropy_each() -> None:
    p = 1 / (1 + np.exp(-LOGITS.numpy()))
    rows = [
        np.log(p[0, 0] * (1 - p[0, 1]) * p[0, 2]),
        np.log((1 - p[2, 0]) * p[2, 1] * (1 - p[2, 2])),
    ]
    loss = pointwise_loss(LOGITS, SEVERAL, multi_label=True)
    assert loss.item() == pytest.approx(-sum(rows) / 3, rel=1e-12)


@pytest.mark.parametrize("multi_label", [False, True])
def test_a_batch_without_labels_costs_nothing(multi_label: bool) -> None:
    logits = LOGITS.clone().requires_grad_()
    loss = pointwise_loss(logits, torch.zeros_like(ONE_CLASS), multi_label=multi_label)
    loss.backward()  # type: ignore[no-untyped-call]
    assert loss.item() == 0
    assert logits.grad is not None
    assert not logits.grad.any()


@pytest.mark.parametrize(("tags", "multi_label"), [(ONE_CLASS, False), (SEVERAL, True)])
def test_permuting_the_batch_keeps_the_class_loss(tags: torch.Tensor, multi_label: bool) -> None:
    order = torch.tensor([2, 0, 1])
    one = pointwise_loss(LOGITS, tags, multi_label=multi_label)
    other = pointwise_loss(LOGITS[order], tags[order], multi_label=multi_label)
    assert one.item() == pytest.approx(other.item(), rel=1e-12)


@pytest.mark.parametrize(("tags", "multi_label"), [(ONE_CLASS, False), (SEVERAL, True)])
def test_gradient_of_the_class_loss_by_finite_differences(
    tags: torch.Tensor, multi_label: bool
) -> None:
    logits = LOGITS.clone().requires_grad_()
    assert torch.autograd.gradcheck(
        lambda x: pointwise_loss(x, tags, multi_label=multi_label), (logits,)
    )


def test_soft_labels_cost_their_cross_entropy() -> None:
    soft_labels = np.array([[0.7, 0.2, 0.1], [0, 1, 0], [0.5, 0.25, 0.25]])
    probabilities = np.exp(LOGITS.numpy())
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    expected = -(soft_labels * np.log(probabilities)).sum() / 3
    loss = soft_class_loss(LOGITS, torch.from_numpy(soft_labels))
    assert loss.item() == pytest.approx(float(expected), rel=1e-12)


def test_certain_soft_labels_cost_what_labels_cost() -> None:
    tags = torch.tensor([[1, 0, 0], [0, 1, 0], [0, 1, 0]], dtype=torch.bool)
    labels = pointwise_loss(LOGITS, tags, multi_label=False)
    assert soft_class_loss(LOGITS, tags.to(LOGITS.dtype)).item() == pytest.approx(labels.item())


def test_gradient_of_soft_labels_by_finite_differences() -> None:
    soft_labels = torch.full((3, 3), 1 / 3, dtype=torch.float64)
    logits = LOGITS.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: soft_class_loss(x, soft_labels), (logits,))


def reference(b: np.ndarray, classes: list[int], margin: float) -> float:
    total = 0.0
    for i in range(len(b)):
        for j in range(len(b)):
            distance = float(((b[i] - b[j]) ** 2).sum())
            total += distance if classes[i] == classes[j] else max(0.0, margin - distance)
    return total / len(b)


def alike(classes: torch.Tensor) -> torch.Tensor:
    return classes[:, None] == classes[None, :]


def random_batch(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    b = torch.rand(7, 8, dtype=torch.float64, generator=generator)
    return b, torch.randint(0, 3, (7,), generator=generator)


def test_hand_computed_pair_loss() -> None:
    b = torch.tensor([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]])
    classes = torch.tensor([0, 0, 1])
    # Same class: D = 1, twice. Other class: D = 2 and 1 against a margin of 1.5, twice each.
    expected = (2 * 1 + 2 * 0 + 2 * 0.5) / 3
    assert pairwise_loss(b, alike(classes), margin=1.5).item() == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(5))
def test_it_equals_a_loop_over_pairs(seed: int) -> None:
    b, classes = random_batch(seed)
    expected = reference(b.numpy(), classes.tolist(), margin=8 / 3)
    assert pairwise_loss(b, alike(classes), 8 / 3).item() == pytest.approx(expected, rel=1e-12)


def test_permuting_the_batch_keeps_the_pair_loss() -> None:
    b, classes = random_batch(0)
    order = torch.randperm(len(b), generator=torch.Generator().manual_seed(1))
    one = pairwise_loss(b, alike(classes), 2.0)
    other = pairwise_loss(b[order], alike(classes[order]), 2.0)
    assert one.item() == pytest.approx(other.item(), rel=1e-12)


def test_gradient_of_the_pair_loss_by_finite_differences() -> None:
    b, classes = random_batch(3)
    assert torch.autograd.gradcheck(
        lambda x: pairwise_loss(x, alike(classes), 1.9), (b.requires_grad_(),)
    )


def test_only_the_counted_pairs_cost_something() -> None:
    b, classes = random_batch(4)
    labelled = torch.tensor([True, False, True, True, False, True, False])
    counted = labelled[:, None] & labelled[None, :]
    loss = pairwise_loss(b, alike(classes), 2.0, counted)
    kept = b[labelled].numpy()
    expected = reference(kept, classes[labelled].tolist(), 2.0) * len(kept) / len(b)
    assert loss.item() == pytest.approx(expected, rel=1e-12)


def predictions(seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(7, 3, dtype=torch.float64, generator=generator)


@pytest.mark.parametrize("multi_label", [False, True])
def test_the_self_supervised_loss_is_equations_5_and_6(multi_label: bool) -> None:
    b, _ = random_batch(6)
    logits, margin = predictions(0), 8 / 3
    y = 1 / (1 + np.exp(-logits.numpy())) if multi_label else np.exp(logits.numpy())
    if not multi_label:
        y /= y.sum(axis=1, keepdims=True)
    fifth = sixth = 0.0
    for i in range(7):
        for j in range(7):
            plus = float(((b[i] - b[j]) ** 2).sum())
            minus = -max(0.0, margin - plus)
            alike = float(y[i] @ y[j])
            fifth += alike * plus - (1 - alike) * minus
            sixth += (plus + minus) * alike - minus
    s = self_supervised_similarity(logits, multi_label=multi_label)
    loss = pairwise_loss(b, s, margin).item()
    assert loss == pytest.approx(fifth / 7, rel=1e-12)
    assert loss == pytest.approx(sixth / 7, rel=1e-12)


def test_the_self_supervised_loss_learns_its_predictions() -> None:
    b, _ = random_batch(7)
    assert torch.autograd.gradcheck(
        lambda x, y: pairwise_loss(x, self_supervised_similarity(y, multi_label=False), 1.9),
        (b.requires_grad_(), predictions(1).requires_grad_()),
    )


def test_far_codes_part_predictions_and_near_codes_join_them() -> None:
    logits = torch.zeros(2, 2, dtype=torch.float64)
    logits[0, 0] = 0.1
    logits.requires_grad_()
    for codes, sign in (([[0.0] * 4, [1.0] * 4], 1), ([[0.0] * 4, [0.0] * 4], -1)):
        b = torch.tensor(codes, dtype=torch.float64)
        s = self_supervised_similarity(logits, multi_label=False)
        # Of the pair of different rows alone: of a row with itself D⁺ is 0.
        others = ~torch.eye(2, dtype=torch.bool)
        loss = pairwise_loss(b, s, 4 / 3, others)
        (gradient,) = torch.autograd.grad(loss, logits)
        # Down the gradient row 1 leaves row 0's class where codes are apart, and joins it else.
        assert float(gradient[1, 0]) * sign > 0


@pytest.mark.parametrize(
    ("distance", "alike", "cost"),
    [
        (0, 1.0, 0.0),  # The only pairs without cost: one code and one label …
        (2, 0.0, 0.0),
        (3, 0.0, 0.0),  # … or codes a margin apart and no label in common.
        (0, 0.0, 2.0),
        (1, 0.0, 1.0),  # Orthogonal predictions of near codes cost something.
        (1, 1.0, 1.0),
        (1, 0.5, 1.0),
        (3, 0.5, 1.5),
    ],
)
def test_which_pairs_cost_nothing_by_equation_6(distance: int, alike: float, cost: float) -> None:
    b = torch.zeros(2, 4, dtype=torch.float64)
    b[1, :distance] = 1
    s = torch.tensor([[1.0, alike], [alike, 1.0]], dtype=torch.float64)
    assert pairwise_loss(b, s, margin=2.0).item() == pytest.approx(cost)


def test_likeness_between_certain_and_uncertain_weighs_both_costs() -> None:
    b, classes = random_batch(5)
    certain, opposite = (pairwise_loss(b, item, 2.0) for item in (alike(classes), ~alike(classes)))
    halfway = pairwise_loss(b, torch.full((7, 7), 0.5, dtype=torch.float64), 2.0)
    assert halfway.item() == pytest.approx((certain.item() + opposite.item()) / 2, rel=1e-12)
