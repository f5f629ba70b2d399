from __future__ import annotations

import numpy as np
import pytest
import torch

from training.objectives.pairwise import (
    class_probabilities,
    pairwise_loss,
    predicted_tags,
    probably_sharing_a_tag,
    sharing_a_tag,
)


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


def test_hand_computed_value() -> None:
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


def test_permuting_the_batch_changes_nothing() -> None:
    b, classes = random_batch(0)
    order = torch.randperm(len(b), generator=torch.Generator().manual_seed(1))
    one = pairwise_loss(b, alike(classes), 2.0)
    other = pairwise_loss(b[order], alike(classes[order]), 2.0)
    assert one.item() == pytest.approx(other.item(), rel=1e-12)


def test_gradient_by_finite_differences() -> None:
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


def test_rows_that_share_a_tag_are_alike() -> None:
    tags = torch.tensor([[1, 1, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0]], dtype=torch.bool)
    assert sharing_a_tag(tags).int().tolist() == [
        [1, 1, 0, 0],
        [1, 1, 0, 0],
        [0, 0, 1, 0],
        [0, 0, 0, 1],
    ]


def test_predicted_tags() -> None:
    logits = torch.tensor([[0.5, 2.0, -1.0], [-3.0, -1.0, -2.0]])
    assert predicted_tags(logits, multi_label=False).int().tolist() == [[0, 1, 0], [0, 1, 0]]
    assert predicted_tags(logits, multi_label=True).int().tolist() == [[1, 1, 0], [0, 0, 0]]


def test_likeness_between_certain_and_uncertain_weighs_both_costs() -> None:
    b, classes = random_batch(5)
    certain, opposite = (pairwise_loss(b, one, 2.0) for one in (alike(classes), ~alike(classes)))
    halfway = pairwise_loss(b, torch.full((7, 7), 0.5, dtype=torch.float64), 2.0)
    assert halfway.item() == pytest.approx((certain.item() + opposite.item()) / 2, rel=1e-12)


@pytest.mark.parametrize("multi_label", [False, True])
def test_the_probability_of_a_common_class_equals_sampling(multi_label: bool) -> None:
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(3, 4)) * 2
    draws = 200_000
    if multi_label:
        p = 1 / (1 + np.exp(-logits))
        sampled = rng.random((draws, 3, 4)) < p
    else:
        p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        sampled = (p.cumsum(axis=1) > rng.random((draws, 3, 1))).argmax(axis=2)[..., None] == range(
            4
        )
    found = probably_sharing_a_tag(torch.from_numpy(p), multi_label=multi_label)
    for i, j in ((0, 1), (0, 2), (1, 2)):
        share = (sampled[:, i] & sampled[:, j]).any(axis=1).mean()
        assert abs(found[i, j].item() - share) < 5 * 0.5 / np.sqrt(draws)


def test_labels_count_for_certain_and_predictions_for_what_they_are() -> None:
    logits = torch.tensor([[0.0, 1.0, 2.0], [0.0, 1.0, 2.0]], requires_grad=True)
    tags = torch.tensor([[True, False, False], [False, False, False]])
    for multi_label, p in (
        (False, torch.softmax(logits[1], dim=0)),
        (True, torch.sigmoid(logits[1])),
    ):
        found = class_probabilities(logits, tags, multi_label=multi_label)
        torch.testing.assert_close(found, torch.stack([torch.tensor([1.0, 0, 0]), p]).detach())
        assert not found.requires_grad
