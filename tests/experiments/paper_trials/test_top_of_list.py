from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from experiments.paper_trials.top_of_list import TopRecipe
from hummingbit.training import distillation
from hummingbit.training.objectives.perception_coherence import perception_coherence_loss

Reproduce = Callable[..., list[dict[str, Any]]]


def test_weighted_coherence_without_a_top_is_equation_4() -> None:
    student, teacher = torch.rand(2, 9, 9, generator=torch.Generator().manual_seed(0))
    of_all = TopRecipe().loss(student, teacher)
    assert of_all.item() == pytest.approx(perception_coherence_loss(student, teacher).item())
    assert TopRecipe(top=1.0).loss(student, teacher) != of_all


def test_students_keep_neighbours(
    reproduce: Reproduce,
    write_topics: Callable[[str, int, int], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(distillation, "MIN_STEPS", 5)
    write_topics("hwu64", 300, 30)
    records = reproduce("top-of-list", "--top-corpora", "hwu64", "--top-epochs", 1, "--bits", 16)
    assert [record["student"] for record in records] == [
        "neighbours",
        "coherence",
        "coherence, weighted",
        "ranks, weighted",
        "start",
        "vectors, itq",
    ]
    kept = {record["student"]: record["kept"] for record in records}
    # A hundred of 300 documents are a third by chance.
    assert 1 / 3 < kept["vectors, itq"] <= 1
