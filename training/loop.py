"""The training loop that every objective shares, the device it runs on, and its checkpoints."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn
from tqdm import tqdm

from hummingbit.encoder.encoder import Encoder
from hummingbit.encoder.recipes import (
    FIXED,
    AutoencoderRecipe,
    BaseRecipe,
    ClozeRecipe,
    DistillationRecipe,
    MetricRecipe,
    former_names,
    lost_settings,
    recorded_settings,
    train_arguments,
    values_before,
)
from hummingbit.encoder.text_features import Floats
from hummingbit.foundation.errors import HummingbitError, counted
from hummingbit.foundation.files import replace_file
from hummingbit.foundation.slices import begin_stage, report_done
from hummingbit.training.batches import shuffled_batches
from hummingbit.training.data import Rows, TrainingData
from hummingbit.training.layers import SparseLinear, both, each_on_one_core
from hummingbit.training.optimizers import Adam, AnyOptimizer, SparseAdam
from hummingbit.training.pipeline import (
    Split,
    Trained,
    write_encoder,
)

# Checkpoints: a safetensors file, replaced atomically, that belongs to one run


History = list[dict[str, float]]
"""The mean of every loss term in each epoch."""


class CheckpointError(HummingbitError, ValueError):
    """Training cannot resume from a checkpoint."""


@dataclass(frozen=True)
class Checkpoint:
    """The file of a run's state; `run`, a JSON object, identifies its settings and data.

    An earlier version, which lacked settings of the `recipe` or gave them other names, may have
    written the state.
    """

    path: Path
    run: str
    recipe: type[BaseRecipe] = BaseRecipe

    def save(self, model: nn.Module, optimizers: Sequence[AnyOptimizer], history: History) -> None:
        """Replace the file with the state after ``len(history)`` epochs.

        Raises:
            OSError: if it cannot be written; the file is then unchanged.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        metadata = {"run": self.run, "history": json.dumps(history)}
        # save_file would raise an error of its own where a disk is full.
        replace_file(self.path, save(_flatten(model, optimizers), metadata))

    def restore(self, model: nn.Module, optimizers: Sequence[AnyOptimizer]) -> History:
        """Load the state into `model` and `optimizers`, and return the history.

        Without a file, nothing is loaded and the history is empty.

        Raises:
            CheckpointError: if the file is damaged or was written by another run.
        """
        if not self.path.exists():
            return []
        try:
            with safe_open(self.path, framework="pt") as file:
                metadata = file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except SafetensorError as error:
            raise CheckpointError(f"{self.path}: {error}; delete it to start again") from error
        if not self._is_same_run(metadata.get("run", "")):
            problem = "was written by a run with other settings or data"
            remedy = f"delete it to start again{self._other_settings(metadata.get('run', ''))}"
            raise CheckpointError(f"{self.path}: {problem}; {remedy}")
        try:
            _unflatten(tensors, model, optimizers)
        except (RuntimeError, ValueError) as error:
            problem = f"does not fit the network: {error}"
            raise CheckpointError(f"{self.path}: {problem}; delete it to start again") from error
        history: History = json.loads(metadata["history"])
        return history

    def _other_settings(self, saved_run: str) -> str:
        """Return how to resume a run that had a few other settings, or nothing."""
        try:
            saved, current = json.loads(saved_run)["recipe"], json.loads(self.run)["recipe"]
            former = values_before(self.recipe) | self._current_settings(saved)
            lost = lost_settings(self.recipe, saved)
        except (ValueError, AttributeError, KeyError, TypeError):
            return ""
        if lost:
            found = ", ".join(f"{name} {value}" for name, value in lost.items())
            return f"; it had settings that this release no longer has: {found}"
        options = [
            f"{self._option(name, former[name])} instead of {value}"
            for name, value in current.items()
            if name in former and former[name] != value
        ]
        return f", or resume it with {', '.join(options)}" if options else ""

    def _option(self, name: str, value: Any) -> str:
        options = train_arguments(self.recipe, {name: value})
        return options[0] if options else f"{name} {value}"

    def _is_same_run(self, saved_run: str) -> bool:
        if saved_run == self.run:
            return True
        try:
            saved, current = json.loads(saved_run), json.loads(self.run)
            recorded, settings = saved.pop("recipe"), current.pop("recipe")
            saved_settings = self._current_settings(recorded)
            lost = lost_settings(self.recipe, recorded)
        except (ValueError, AttributeError, KeyError):
            return False
        then = values_before(self.recipe) | saved_settings
        return bool(
            saved == current
            and not lost
            and saved_settings.keys() <= settings.keys()
            and settings.items() <= then.items()
        )

    def _current_settings(self, saved: Mapping[str, Any]) -> dict[str, Any]:
        """Return saved settings by their current names and values."""
        known = {*former_names(self.recipe), *FIXED.get(self.recipe, {})}
        others = {name: value for name, value in saved.items() if name not in known}
        return others | recorded_settings(self.recipe, saved)

    def remove(self) -> None:
        """Delete the state of a finished run."""
        self.path.unlink(missing_ok=True)


def _flatten(model: nn.Module, optimizers: Sequence[AnyOptimizer]) -> dict[str, Tensor]:
    tensors = {f"model/{name}": value for name, value in model.state_dict().items()}
    for i, optimizer in enumerate(optimizers):
        for parameter, values in optimizer.state_dict()["state"].items():
            for key, value in values.items():
                tensors[f"optimizer/{i}/{parameter}/{key}"] = torch.as_tensor(value)
    return {name: tensor.contiguous() for name, tensor in tensors.items()}


def _unflatten(
    tensors: Mapping[str, Tensor], model: nn.Module, optimizers: Sequence[AnyOptimizer]
) -> None:
    model.load_state_dict(
        {name.removeprefix("model/"): t for name, t in tensors.items() if name.startswith("model/")}
    )
    states: list[dict[int, dict[str, Tensor | int]]] = [{} for _ in optimizers]
    for name, tensor in tensors.items():
        if name.startswith("optimizer/"):
            _, i, parameter, key = name.split("/")
            # SparseAdam counts its steps in an int; a float32 would change its bias corrections.
            value = tensor if tensor.is_floating_point() else int(tensor.item())
            states[int(i)].setdefault(int(parameter), {})[key] = value
    for optimizer, state in zip(optimizers, states, strict=True):
        optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
        # load_state_dict of Adam, and so of geoopt's RiemannianAdam, converts integers to float32.
        for loaded, saved in zip(optimizer.state.values(), state.values(), strict=True):
            loaded.update({key: value for key, value in saved.items() if isinstance(value, int)})


# The loop, and the device that it runs on


# An epoch of a small corpus takes less time than writing a checkpoint, which is up to a second. The
# seconds are of the processor, so that a machine busy with other work does not write one after
# every epoch.
_SECONDS_BETWEEN_CHECKPOINTS = 30.0


class BatchLoss(Protocol):
    """The objective: the weighted loss terms of a batch. Training minimizes their sum."""

    def __call__(
        self, rows: Rows, generator: torch.Generator, progress: float
    ) -> Mapping[str, Tensor]:
        """Return scalars by name for the batch of `rows`; draw only from `generator`.

        `progress` is the finished share of the run, from 0 to below 1.
        """


class DivergedError(HummingbitError, RuntimeError):
    """The loss is NaN or infinite."""


@dataclass(frozen=True)
class Schedule:
    """How long and how fast to train. With `decay`, the step size decreases linearly to 0."""

    epochs: int
    batch_size: int
    learning_rate: float
    seed: int
    decay: bool = False


def fit(
    model: nn.Module,
    loss: BatchLoss,
    rows: int,
    schedule: Schedule,
    *,
    checkpoint: Checkpoint | None = None,
    progress: bool = True,
    second_thread: bool = True,
) -> History:
    """Minimize `loss` over the batches of `rows` documents with Adam.

    With `second_thread`, two parts of a step may be computed at the same time, as
    :func:`hummingbit.training.layers.both` does.

    Every epoch draws from generators seeded by (seed, epoch) alone. So an interrupted run that
    resumes from its checkpoint reaches the same weights.

    Raises:
        DivergedError: if a loss term is not finite.
        CheckpointError: if the checkpoint is damaged or belongs to another run.
    """
    optimizers = _optimizers(model, schedule.learning_rate)
    history = checkpoint.restore(model, optimizers) if checkpoint else []
    saved_at = time.process_time()
    epochs = range(len(history), schedule.epochs)
    model.train()
    begin_stage(f"training for {counted(len(epochs), 'epoch')} on {counted(rows, 'document')}")
    # With None, tqdm prints nothing unless standard error is a terminal.
    disable = None if progress else True
    with (
        each_on_one_core(second_thread=second_thread and next(model.parameters()).is_cpu),
        tqdm(
            epochs, "training", initial=len(history), total=schedule.epochs, disable=disable
        ) as bar,
    ):
        for epoch in bar:
            history.append(_run_epoch(loss, rows, schedule, optimizers, epoch))
            bar.set_postfix({name: f"{value:.3f}" for name, value in history[-1].items()})
            report_done(len(history), schedule.epochs)
            due = time.process_time() - saved_at > _SECONDS_BETWEEN_CHECKPOINTS
            if checkpoint and due and epoch + 1 < schedule.epochs:
                checkpoint.save(model, optimizers, history)
                saved_at = time.process_time()
    model.eval()
    return history


def _run_epoch(
    loss: BatchLoss,
    rows: int,
    schedule: Schedule,
    optimizers: list[AnyOptimizer],
    epoch: int,
) -> dict[str, float]:
    rng = np.random.default_rng([schedule.seed, epoch])
    generator = torch.Generator().manual_seed(int(rng.integers(2**62)))
    sums: dict[str, float] = {}
    n_done = 0
    # Each optimizer has parameters of its own, so two can compute at the same time.
    first, *others = optimizers

    def step_others() -> None:
        for optimizer in others:
            optimizer.step()

    for batch in shuffled_batches(rows, schedule.batch_size, rng):
        progress = (epoch + n_done / rows) / schedule.epochs
        if schedule.decay:
            for group in (group for optimizer in optimizers for group in optimizer.param_groups):
                group["lr"] = schedule.learning_rate * (1 - progress)
        terms = loss(batch, generator, progress)
        n_done += len(batch)
        total = torch.stack(list(terms.values())).sum()
        if not torch.isfinite(total):
            values = ", ".join(f"{name} {value.item():g}" for name, value in terms.items())
            raise DivergedError(f"training diverged in epoch {epoch + 1}: {values}")
        for optimizer in optimizers:
            optimizer.zero_grad()
        total.backward()  # type: ignore[no-untyped-call]
        both(first.step, step_others)
        for name, value in terms.items():
            sums[name] = sums.get(name, 0.0) + value.item() * len(batch)
    return {name: value / rows for name, value in sums.items()}


def _optimizers(model: nn.Module, learning_rate: float) -> list[AnyOptimizer]:
    # A batch touches few rows of a layer with a sparse gradient. SparseAdam updates only these;
    # Adam would also process all others, whose gradient is zero.
    sparse = [
        module.weight
        for module in model.modules()
        if isinstance(module, SparseLinear) and module.sparse_gradient
    ]
    dense = [p for p in model.parameters() if not any(p is weight for weight in sparse)]
    # geoopt's parameters are points on a manifold and stay on it.
    curved = [p for p in dense if hasattr(p, "manifold")]
    flat = [p for p in dense if not hasattr(p, "manifold")]
    optimizers: list[AnyOptimizer] = []
    if flat:
        optimizers.append(Adam(flat, lr=learning_rate))
    if curved:
        from geoopt.optim import RiemannianAdam  # noqa: PLC0415 - rarely needed, takes half a second

        optimizers.append(RiemannianAdam(curved, lr=learning_rate))
    if sparse:
        optimizers.append(SparseAdam(sparse, lr=learning_rate))
    return optimizers


def fit_and_write(
    out: Path,
    model: nn.Module,
    loss: BatchLoss,
    *,
    rows: int,
    schedule: Schedule,
    data: TrainingData,
    parts: Split,
    recipe: AutoencoderRecipe | ClozeRecipe | MetricRecipe | DistillationRecipe,
    encoder_of: Callable[[], Encoder],
    settings: Mapping[str, Any] | None = None,
    run: Mapping[str, Any] | None = None,
    about: Callable[[Encoder], Mapping[str, Any]] | None = None,
    soft_labels: Floats | None = None,
    overwrite: bool = False,
    progress: bool = True,
    second_thread: bool = True,
) -> Trained:
    """Fit a network, and evaluate and write its encoder; an interrupted run resumes.

    `loss` has the batches of `rows` items, and `encoder_of` makes the encoder of the fitted
    network. The checkpoint beside `out` belongs to one run: to the `settings`, which are those of
    the `recipe` unless more is recorded, to the data, and to what else `run` names. `about` returns
    further metadata. `soft_labels` are those of
    :func:`hummingbit.training.pipeline.write_encoder`, and `second_thread` is that of :func:`fit`.

    Raises:
        DivergedError, CheckpointError: as :func:`fit`.
    """
    settings = asdict(recipe) if settings is None else settings
    identity = {"recipe": settings, "data": data.sha256, **(run or {})}
    checkpoint = Checkpoint(
        out.with_name(out.name + ".checkpoint"),
        json.dumps(identity, sort_keys=True),
        type(recipe),
    )
    history = fit(
        model,
        loss,
        rows,
        schedule,
        checkpoint=checkpoint,
        progress=progress,
        second_thread=second_thread,
    )
    with each_on_one_core(second_thread=False):
        encoder = encoder_of()
    trained = write_encoder(
        out,
        encoder,
        data,
        parts,
        settings=settings,
        history=history,
        about=about and about(encoder),
        soft_labels=soft_labels,
        overwrite=overwrite,
    )
    checkpoint.remove()
    return trained


DEVICES = ("cpu", "cuda")


class DeviceError(HummingbitError, ValueError):
    """This machine has no such device."""


def choose_device(name: str) -> torch.device:
    """Return the device with this name.

    Raises:
        DeviceError: unless it is ``cpu``, or ``cuda`` and torch finds a GPU that it can use.
    """
    if name not in DEVICES:
        raise DeviceError(f"device is {name!r}; it must be one of {', '.join(DEVICES)}")
    if name == "cuda" and not torch.cuda.is_available():
        raise DeviceError("device is 'cuda', but torch finds no GPU that it can use; use 'cpu'")
    return torch.device(name)
