"""The training loop that every objective shares, and the device it runs on."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn
from tqdm import tqdm

from foundation.errors import HummingbitError, counted
from foundation.stages import begin_stage
from training.checkpoint import Checkpoint, History
from training.data import Rows
from training.models.batches import shuffled_batches
from training.models.layers import SparseLinear
from training.optimizers.adam import Adam, Optimizer
from training.optimizers.sparse_adam import SparseAdam
from training.two_threads import both, each_on_one_core

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
) -> History:
    """Minimize `loss` over the batches of `rows` documents with Adam.

    Every epoch draws from generators seeded by (seed, epoch) alone. So an interrupted run that
    resumes from its checkpoint reaches the same weights.

    Raises:
        DivergedError: if a loss term is not finite.
        CheckpointError: if the checkpoint is damaged or belongs to another run.
    """
    on_cpu = next(model.parameters()).is_cpu
    with each_on_one_core(second_thread=on_cpu):
        return _fit(model, loss, rows, schedule, checkpoint, progress)


def _fit(  # noqa: PLR0917
    model: nn.Module,
    loss: BatchLoss,
    rows: int,
    schedule: Schedule,
    checkpoint: Checkpoint | None,
    progress: bool,
) -> History:
    optimizers = _optimizers(model, schedule.learning_rate)
    history = checkpoint.restore(model, optimizers) if checkpoint else []
    saved_at = time.process_time()
    epochs = range(len(history), schedule.epochs)
    model.train()
    begin_stage(f"training for {counted(len(epochs), 'epoch')} on {counted(rows, 'document')}")
    # With None, tqdm prints nothing unless standard error is a terminal.
    disable = None if progress else True
    with tqdm(
        epochs, "training", initial=len(history), total=schedule.epochs, disable=disable
    ) as bar:
        for epoch in bar:
            history.append(_run_epoch(loss, rows, schedule, optimizers, epoch))
            bar.set_postfix({name: f"{value:.3f}" for name, value in history[-1].items()})
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
    optimizers: list[Optimizer],
    epoch: int,
) -> dict[str, float]:
    rng = np.random.default_rng([schedule.seed, epoch])
    generator = torch.Generator().manual_seed(int(rng.integers(2**62)))
    sums: dict[str, float] = {}
    n_done = 0
    for batch in shuffled_batches(rows, schedule.batch_size, rng):
        progress = (epoch + n_done / rows) / schedule.epochs
        if schedule.decay:
            _set_learning_rate(optimizers, schedule.learning_rate * (1 - progress))
        terms = loss(batch, generator, progress)
        n_done += len(batch)
        total = torch.stack(list(terms.values())).sum()
        if not torch.isfinite(total):
            values = ", ".join(f"{name} {value.item():g}" for name, value in terms.items())
            raise DivergedError(f"training diverged in epoch {epoch + 1}: {values}")
        for optimizer in optimizers:
            optimizer.zero_grad()
        total.backward()  # type: ignore[no-untyped-call]
        _step(optimizers)
        for name, value in terms.items():
            sums[name] = sums.get(name, 0.0) + value.item() * len(batch)
    return {name: value / rows for name, value in sums.items()}


def _step(optimizers: list[Optimizer]) -> None:
    """Update all parameters. Each optimizer has its own, so two can compute at the same time."""
    first, *others = optimizers
    both(first.step, lambda: [other.step() for other in others])


def _set_learning_rate(optimizers: list[Optimizer], learning_rate: float) -> None:
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = learning_rate


def _optimizers(model: nn.Module, learning_rate: float) -> list[Optimizer]:
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
    optimizers: list[Optimizer] = []
    if flat:
        optimizers.append(Adam(flat, lr=learning_rate))
    if curved:
        from geoopt.optim import RiemannianAdam  # noqa: PLC0415 - rarely needed, takes half a second

        optimizers.append(RiemannianAdam(curved, lr=learning_rate))
    if sparse:
        optimizers.append(SparseAdam(sparse, lr=learning_rate))
    return optimizers


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
