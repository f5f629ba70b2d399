from __future__ import annotations

import numpy as np
import pytest
import torch

from training.objectives.pairwise import pairwise_loss, predicted_tags, sharing_a_tag


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
