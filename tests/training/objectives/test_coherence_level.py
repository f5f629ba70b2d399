from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from hummingbit.training.objectives.perception_coherence import (
    Ties,
    coherence_levels,
)
from tests.support.oracles.coherence import coherence_levels_by_scipy, normal_vectors


def test_hand_computed_values() -> None:
    teacher = torch.tensor([[0.0, 1.0, 2.0, 3.0]])
    same, swapped, reverse = (
        torch.tensor([row]) for row in ([0.0, 5, 6, 70], [0.0, 2, 1, 3], [3.0, 2, 1, 0])
    )
    assert coherence_levels(same, teacher).item() == 1
    # Two ranks off by one, of four: 1 − 2 · (1/4) / 4.
    assert coherence_levels(swapped, teacher).item() == pytest.approx(1 - 2 / 16)
    assert coherence_levels(reverse, teacher).item() == pytest.approx(1 - (3 + 1 + 1 + 3) / 16)


@pytest.mark.parametrize("ties", ["upper", "middle"])
def test_it_equals_scipys_ranks_also_with_ties(ties: Ties) -> None:
    rng = np.random.default_rng(0)
    student, teacher = rng.integers(0, 6, (9, 30)).astype(float), rng.normal(size=(9, 30))
    found = coherence_levels(torch.from_numpy(student), torch.from_numpy(teacher), ties=ties)
    np.testing.assert_allclose(
        found.numpy(), coherence_levels_by_scipy(student, teacher, ties), rtol=1e-12
    )


def test_independent_rankings_have_a_level_of_two_thirds() -> None:
    levels = coherence_levels(normal_vectors(40, 2000, 0), normal_vectors(40, 2000, 1))
    assert abs(levels.mean().item() - 2 / 3) < 0.005


def test_a_monotone_rescaling_changes_nothing() -> None:
    student, teacher = normal_vectors(10, 50, 2), normal_vectors(10, 50, 3)
    one = coherence_levels(student, teacher)
    assert torch.equal(one, coherence_levels(student.exp(), 7 * teacher - 3))


def test_bad_input_is_named() -> None:
    x = normal_vectors(5, 3, 9)
    with pytest.raises(ValueError, match=r"shapes \[5, 3\] and \[5, 2\]"):
        coherence_levels(x, x[:, :2])
    with pytest.raises(ValueError, match="contain NaN"):
        coherence_levels(x, x + math.nan)
