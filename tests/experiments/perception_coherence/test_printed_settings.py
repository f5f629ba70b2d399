from __future__ import annotations

import json
from math import log
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from experiments.perception_coherence.image_networks import SmallStudent
from experiments.perception_coherence.image_training import TaughtImages, Transfer, make_objective
from experiments.perception_coherence.printed_settings import (
    CLASSIFICATION,
    E2,
    E3,
    RETRIEVAL,
    SHARES,
    classification_loss,
)
from hummingbit.cli import main
from hummingbit.training.objectives.perception_coherence import perception_coherence_embedding_loss
from tests.experiments.perception_coherence.test_experiment import images

__all__ = ["images"]  # a fixture


def test_rates_fall_at_the_printed_epochs() -> None:
    """E.2: 0.05, a tenth from epochs 50 and 100 of 150. E.3: 0.01, from 150, 180, 210 of 240."""
    e2 = [E2.rate(epoch / 150) for epoch in (0, 49, 50, 99, 100, 149)]
    assert e2 == pytest.approx([0.05, 0.05, 0.005, 0.005, 0.0005, 0.0005])
    e3 = [E3.rate(epoch / 240) for epoch in (0, 149, 150, 179, 180, 209, 210)]
    assert e3 == pytest.approx([1e-2, 1e-2, 1e-3, 1e-3, 1e-4, 1e-4, 1e-5])


def some_images() -> tuple[TaughtImages, tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2, 12, 3, 32, 32, generator=generator)
    features = torch.rand(2, 12, 16, generator=generator)
    logits = torch.randn(2, 12, 10, generator=generator)
    rows = (torch.tensor([0, 1, 1, 0, 1]), torch.tensor([2, 11, 5, 7, 0]))
    return TaughtImages(x, (features,), logits, torch.arange(12) % 10), rows


def loss_of(method: str, objective: str) -> tuple[float, Tensor, Tensor, nn.Module]:
    taught, rows = some_images()
    torch.manual_seed(1)
    student = SmallStudent().eval()
    run = Transfer(objective, 0, 1, 12, "", batch_size=5)
    modules = nn.ModuleList([student, make_objective(run, student, taught)])
    with torch.no_grad():
        loss = classification_loss(method, modules, taught, rows, 0)
        features = student.features(taught.x[rows])
        return float(loss), features, student.logits(features), modules[1]


def test_the_loss_of_section_5_3_has_two_layers_and_a_weight_of_5() -> None:
    taught, rows = some_images()
    loss, features, logits, _ = loss_of("perception-coherence", "perception-coherence")
    shares = logits.exp() / logits.exp().sum(dim=1, keepdim=True)
    by_labels = -sum(log(shares[i, taught.labels[row]]) for i, row in enumerate(rows[1])) / 5
    terms = [
        float(
            perception_coherence_embedding_loss(
                own, theirs[rows], teacher_temperature=0.2, student_temperature=0.3
            )
        )
        for own, theirs in ((features, taught.features), (logits, taught.logits))
    ]
    assert loss == pytest.approx(by_labels + 5 * sum(terms), rel=1e-5)


@pytest.mark.parametrize("method", ["fitnet", "pkt", "crd"])
def test_other_losses_are_weighted_beside_the_labels(method: str) -> None:
    taught, rows = some_images()
    loss, features, _, objective = loss_of(method, method)
    alone = loss_of("labels", "kd")[0]
    with torch.no_grad():
        transferred = float(objective(features, taught.features[rows]))
    assert loss - alone == pytest.approx(CLASSIFICATION[method] * transferred, rel=1e-4)


def test_a_share_of_a_weight_scales_what_is_beside_the_labels() -> None:
    taught, rows = some_images()
    torch.manual_seed(1)
    student = SmallStudent().eval()
    run = Transfer("pkt", 0, 1, 12, "", batch_size=5)
    modules = nn.ModuleList([student, make_objective(run, student, taught)])
    with torch.no_grad():
        losses = [
            float(classification_loss("pkt", modules, taught, rows, 0, share=share))
            for share in (0.0, 0.25, 1.0)
        ]
    assert losses[1] - losses[0] == pytest.approx((losses[2] - losses[0]) / 4, rel=1e-4)


def test_both_tables_are_printed(
    images: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    command = ["reproduce", "perception-coherence", "--part", "printed-settings", "--seeds", "1"]
    paths = ["--data-root", images, "--work-dir", images / "w", "--json", images / "r.json"]
    sizes = ["--images", "5", "--student-epochs", "2"]
    assert main([*command, *map(str, paths), *sizes]) == 0
    records = json.loads((images / "r.json").read_text())
    tasks = {task: [record for record in records if record["task"] == task] for task in
             ("retrieval", "classification")}  # fmt: skip
    assert [item["method"] for item in tasks["retrieval"]] == list(RETRIEVAL)
    assert [item["method"] for item in tasks["classification"]] == list(CLASSIFICATION)
    assert all(0 <= item["top10"] <= 1 and 0 <= item["map11"] <= 1 for item in tasks["retrieval"])
    assert all(0 <= item["accuracy"] <= 1 for item in tasks["classification"])
    assert {item["share"] for item in tasks["classification"]} <= set(SHARES)
    printed = capsys.readouterr().out
    assert main([*command, *map(str, paths), *sizes]) == 0
    assert capsys.readouterr().out == printed
    assert not list((images / "w").rglob("*.checkpoint"))
