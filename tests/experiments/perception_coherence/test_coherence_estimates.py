from __future__ import annotations

import numpy as np
import pytest
import torch

from experiments.perception_coherence.coherence_estimates import (
    estimate_coherence_levels,
    estimate_perception_coherence,
    global_perception_coherence,
)
from hummingbit.training.objectives.dissimilarity import (
    cosine_dissimilarity,
    euclidean_dissimilarity,
)
from hummingbit.training.objectives.perception_coherence import (
    coherence_levels,
)
from tests.support.oracles.coherence import coherence_levels_by_scipy, normal_vectors


def test_the_global_level_is_the_mean_over_all_in_blocks_or_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    student, teacher = normal_vectors(60, 3, 4), normal_vectors(60, 8, 5)
    d = [measure.numpy() for measure in (
        cosine_dissimilarity(student, student), euclidean_dissimilarity(teacher, teacher)
    )]  # fmt: skip
    expected = coherence_levels_by_scipy(d[0], d[1], "upper").mean()
    for elements in (1 << 23, 60 * 7, 1):
        monkeypatch.setattr(
            "experiments.perception_coherence.coherence_estimates._ELEMENTS_AT_ONCE", elements
        )
        found = global_perception_coherence(
            student, teacher, teacher_dissimilarity=euclidean_dissimilarity
        )
        assert found == pytest.approx(expected, rel=1e-9)
    assert global_perception_coherence(teacher, teacher) == 1


def test_batches_are_disjoint_and_leave_an_example_out_of_its_own_distribution() -> None:
    student, teacher = normal_vectors(7, 3, 6), normal_vectors(7, 5, 7)
    found = estimate_perception_coherence(student, teacher, 7, torch.Generator().manual_seed(0))
    expected = []
    for i in range(7):
        others = [j for j in range(7) if j != i]
        d = [cosine_dissimilarity(x[[i]], x[others]).numpy() for x in (student, teacher)]
        expected.append(coherence_levels_by_scipy(d[0], d[1], "upper"))
    assert found == [pytest.approx(np.mean(expected), rel=1e-12)]
    thirds = estimate_perception_coherence(student, teacher, 3, torch.Generator().manual_seed(0))
    assert len(thirds) == 2


def test_definition_4_1_counts_an_example_in_its_own_distribution() -> None:
    student, teacher = normal_vectors(64, 3, 10), normal_vectors(64, 8, 11)
    errors = []
    for size in (4, 16, 64):
        ours = estimate_perception_coherence(
            student[:size], teacher[:size], size, torch.Generator().manual_seed(0)
        )
        (printed,) = estimate_perception_coherence(
            student[:size], teacher[:size], size, torch.Generator().manual_seed(0), with_itself=True
        )
        whole = global_perception_coherence(student[:size], teacher[:size])
        assert printed == pytest.approx(whole, rel=1e-12)
        assert 1 - printed == pytest.approx(((size - 1) / size) ** 2 * (1 - ours[0]), rel=1e-9)
        errors.append(printed - ours[0])
    # The level of a small batch is too high, as in Table 4.
    assert errors[0] > 2 * errors[1] > 0
    assert errors[1] > 2 * errors[2] > 0


def test_estimates_come_near_the_level_as_batches_grow() -> None:
    teacher = normal_vectors(1500, 6, 8)
    student = teacher[:, :3]
    d = [cosine_dissimilarity(x[:60], x[60:]) for x in (student, teacher)]
    full = coherence_levels(d[0], d[1])
    generator = torch.Generator().manual_seed(0)
    errors = {}
    for size in (8, 128):
        found = [estimate_coherence_levels(d[0], d[1], size, generator) for _ in range(20)]
        errors[size] = (torch.stack(found) - full).square().mean().sqrt().item()
    # 1/√B between them is a factor of 4.
    assert 3 < errors[8] / errors[128] < 6


def test_bad_input_is_named() -> None:
    x, generator = normal_vectors(5, 3, 9), torch.Generator()
    with pytest.raises(ValueError, match="a batch of 1 has no pairs"):
        global_perception_coherence(x[:1], x[:1])
    with pytest.raises(ValueError, match="a row for each example"):
        global_perception_coherence(x, x[:4])
    with pytest.raises(ValueError, match=r"vector 0 .* is zero"):
        global_perception_coherence(torch.zeros(5, 3), x)
    for size in (2, 6):
        with pytest.raises(ValueError, match=f"batch_size is {size}; it must be from 3 to 5"):
            estimate_perception_coherence(x, x, size, generator)
    with pytest.raises(ValueError, match="batch_size is 4; it must be from 2 to 3"):
        estimate_coherence_levels(x, x, 4, generator)
