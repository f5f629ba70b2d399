from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from hummingbit.encoder.recipes import AutoencoderRecipe
from hummingbit.training.batches import SparseBatch
from hummingbit.training.layers import SparseLinear
from hummingbit.training.loop import Checkpoint, CheckpointError, DivergedError, Schedule, fit
from tests.support.faults.disks import fill, small_disk

SCHEDULE = Schedule(epochs=6, batch_size=4, learning_rate=0.05, seed=3)


class Regression(nn.Module):
    """A sparse and a dense layer, so that both optimizers have work."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = SparseLinear(10, 3)
        self.second = nn.Linear(3, 1)


class NoisyLoss:
    """Predict the row's number from its one-hot row, with noise drawn from the generator."""

    def __init__(self, model: Regression, interrupt_after: int | None = None) -> None:
        self.model = model
        self.calls = 0
        self.progress: list[float] = []
        self.interrupt_after = interrupt_after

    def __call__(
        self, rows: np.ndarray, generator: torch.Generator, progress: float
    ) -> dict[str, Tensor]:
        self.calls += 1
        self.progress.append(progress)
        if self.calls == self.interrupt_after:
            raise KeyboardInterrupt
        columns, starts = torch.from_numpy(rows), torch.arange(len(rows))
        x = SparseBatch(columns, torch.ones(len(rows)), starts, torch.ones_like(starts))
        noise = 0.1 * torch.randn(len(rows), generator=generator)
        error = self.model.second(self.model.first(x)).squeeze(1) - (columns + noise)
        return {"fit_loss": error.square().mean(), "size_loss": 1e-3 * error.abs().mean()}


def weights(model: nn.Module) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in model.parameters()]


def run(model: Regression, **options: object) -> list[dict[str, float]]:
    return fit(model, NoisyLoss(model), 10, SCHEDULE, progress=False, **options)  # type: ignore[arg-type]


def test_the_loss_falls_and_each_term_is_reported() -> None:
    history = run(Regression())
    assert [set(terms) for terms in history] == [{"fit_loss", "size_loss"}] * 6
    assert history[-1]["fit_loss"] < 0.7 * history[0]["fit_loss"]


def test_the_same_seed_gives_the_same_weights_bit_for_bit() -> None:
    one, other = Regression(), Regression()
    assert run(one) == run(other)
    assert all(torch.equal(a, b) for a, b in zip(weights(one), weights(other), strict=True))


def test_another_seed_gives_other_weights() -> None:
    one, other = Regression(), Regression()
    fit(one, NoisyLoss(one), 10, Schedule(2, 4, 0.05, seed=1), progress=False)
    fit(other, NoisyLoss(other), 10, Schedule(2, 4, 0.05, seed=2), progress=False)
    assert not torch.equal(one.second.weight, other.second.weight)


def test_an_interrupted_run_goes_on_to_the_same_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hummingbit.training.loop._SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    whole, broken, resumed = Regression(), Regression(), Regression()
    run(whole)
    checkpoint = Checkpoint(tmp_path / "run.checkpoint", "settings")
    with pytest.raises(KeyboardInterrupt):
        fit(broken, NoisyLoss(broken, 11), 10, SCHEDULE, checkpoint=checkpoint, progress=False)
    loss = NoisyLoss(resumed)
    history = fit(resumed, loss, 10, SCHEDULE, checkpoint=checkpoint, progress=False)
    assert len(history) == 6
    # Three of the six epochs, of three batches each, were done before the interrupt.
    assert loss.calls == 9
    assert all(torch.equal(a, b) for a, b in zip(weights(whole), weights(resumed), strict=True))


def test_the_loss_is_told_how_far_the_run_is() -> None:
    model = Regression()
    loss = NoisyLoss(model)
    fit(model, loss, 10, Schedule(2, 4, 0.05, seed=0), progress=False)
    # Batches of 4, 4 and 2 of 10 rows, twice.
    np.testing.assert_allclose(loss.progress, [0, 0.2, 0.4, 0.5, 0.7, 0.9])


def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path) -> None:
    model = Regression()
    Checkpoint(tmp_path / "c", "one").save(model, [], [{"loss": 1.0}])
    with pytest.raises(CheckpointError, match="other settings or data; delete it"):
        Checkpoint(tmp_path / "c", "another").restore(model, [])


def test_a_damaged_checkpoint_is_refused(tmp_path: Path) -> None:
    (tmp_path / "c").write_bytes(b"\x80\x04not safetensors")
    with pytest.raises(CheckpointError, match="delete it to start again"):
        run(Regression(), checkpoint=Checkpoint(tmp_path / "c", "one"))


def test_a_loss_that_is_not_a_number_stops_the_run() -> None:
    model = Regression()

    def loss(rows: np.ndarray, generator: torch.Generator, progress: float) -> dict[str, Tensor]:
        return {"fit_loss": model.second.weight.sum() * torch.nan}

    with pytest.raises(DivergedError, match="diverged in epoch 1: fit_loss nan"):
        fit(model, loss, 10, SCHEDULE, progress=False)


def test_a_checkpoint_from_before_a_setting_is_of_a_run_that_does_as_it_did(
    tmp_path: Path,
) -> None:
    path = tmp_path / "run.checkpoint"
    before = json.dumps({"recipe": {"epochs": 3, "supervision": 0.2}, "data": "d"})
    Checkpoint(path, before, AutoencoderRecipe).save(Regression(), [], [{"loss": 1.0}])
    for analyzer, fits in (("words", True), ("visible", False)):
        settings = {"epochs": 3, "label_fraction": 0.2, "analyzer": analyzer}
        now = json.dumps({"recipe": settings, "data": "d"})
        checkpoint = Checkpoint(path, now, AutoencoderRecipe)
        if fits:
            assert checkpoint.restore(Regression(), []) == [{"loss": 1.0}]
        else:
            with pytest.raises(CheckpointError, match="other settings or data"):
                checkpoint.restore(Regression(), [])


def test_a_checkpoint_with_a_setting_that_is_gone_fits_if_it_had_what_is_done_always(
    tmp_path: Path,
) -> None:
    path = tmp_path / "run.checkpoint"
    now = Checkpoint(path, json.dumps({"recipe": {"epochs": 3}}), AutoencoderRecipe)
    for weight in (1.5e-3, 0.5):
        before = {"epochs": 3, "pairwise_weight": weight, "guesses": "linear", "min_steps": 9}
        run = json.dumps({"recipe": before})
        Checkpoint(path, run, AutoencoderRecipe).save(Regression(), [], [{"loss": 1.0}])
        if weight == 1.5e-3:
            assert now.restore(Regression(), []) == [{"loss": 1.0}]
            continue
        with pytest.raises(CheckpointError, match=r"no longer has: pairwise_weight 0\.5$"):
            now.restore(Regression(), [])


@pytest.mark.parametrize("recipe", [None, 3, "epochs", ["epochs"], {}, {"epochs": 4}])
def test_a_checkpoint_of_an_odd_recipe_is_of_another_run(tmp_path: Path, recipe: object) -> None:
    path = tmp_path / "run.checkpoint"
    Checkpoint(path, json.dumps({"recipe": recipe})).save(Regression(), [], [{"loss": 1.0}])
    now = Checkpoint(path, json.dumps({"recipe": {"epochs": 3}}))
    with pytest.raises(CheckpointError, match="other settings or data"):
        now.restore(Regression(), [])


def test_a_state_that_does_not_fit_on_the_disk_is_an_error_of_the_system(tmp_path: Path) -> None:
    with small_disk(tmp_path, 1) as disk:
        checkpoint = Checkpoint(disk / "state", "run")
        checkpoint.save(Regression(), [], [])
        saved = checkpoint.path.read_bytes()
        fill(disk / "ballast", leave=0)
        with pytest.raises(OSError, match=r"No space left on device: '.*/disk/state'"):
            checkpoint.save(nn.Linear(500, 500), [], [])
        assert checkpoint.path.read_bytes() == saved


def test_a_checkpoint_of_other_settings_says_which(tmp_path: Path) -> None:
    path = tmp_path / "run.checkpoint"
    before = json.dumps({"recipe": {"supervision": 0.2, "epochs": 3, "pairs": "a"}})
    Checkpoint(path, before, AutoencoderRecipe).save(Regression(), [], [{"loss": 1.0}])
    settings = {"label_fraction": 0.5, "epochs": 3, "hidden": 9, "pairs": "b"}
    checkpoint = Checkpoint(path, json.dumps({"recipe": settings}), AutoencoderRecipe)
    with pytest.raises(CheckpointError) as raised:
        checkpoint.restore(Regression(), [])
    options = "--supervision=0.2 instead of 0.5, --hidden=500 instead of 9"
    remedy = f"or resume it with {options}, pairs a instead of b"
    assert str(raised.value).endswith(f"delete it to start again, {remedy}")
