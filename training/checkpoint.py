"""Training state on disk: a safetensors file, replaced atomically, that belongs to one run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from foundation.errors import HummingbitError
from foundation.files import replace_file
from training.optimizers.adam import Optimizer

History = list[dict[str, float]]
"""The mean of every loss term in each epoch."""


class CheckpointError(HummingbitError, ValueError):
    """Training cannot resume from a checkpoint."""


@dataclass(frozen=True)
class Checkpoint:
    """The file of a run's state; `run`, a JSON object, identifies its settings and data.

    An earlier version, which lacked some settings, may have written the state. `absent` has the
    values that such settings correspond to, and `renamed` the current names of renamed settings.
    """

    path: Path
    run: str
    absent: Mapping[str, Any] = field(default_factory=dict)
    renamed: Mapping[str, str] = field(default_factory=dict)

    def save(self, model: nn.Module, optimizers: Sequence[Optimizer], history: History) -> None:
        """Replace the file with the state after ``len(history)`` epochs.

        Raises:
            OSError: if it cannot be written; the file is then unchanged.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        metadata = {"run": self.run, "history": json.dumps(history)}
        # save_file would raise an error of its own where a disk is full.
        replace_file(self.path, save(_flatten(model, optimizers), metadata))

    def restore(self, model: nn.Module, optimizers: Sequence[Optimizer]) -> History:
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
            former = {self.renamed.get(name, name): value for name, value in saved.items()}
        except (ValueError, AttributeError, KeyError, TypeError):
            return ""
        former = {**self.absent, **former}
        others = [one for one in current if one in former and former[one] != current[one]]
        pairs = [f"{one} {former[one]} instead of {current[one]}" for one in others]
        return f", or resume it with {', '.join(pairs)}" if pairs else ""

    def _is_same_run(self, saved_run: str) -> bool:
        if saved_run == self.run:
            return True
        try:
            saved, current = json.loads(saved_run), json.loads(self.run)
            saved_settings, settings = saved.pop("recipe"), current.pop("recipe")
        except (ValueError, AttributeError, KeyError):
            return False
        if not isinstance(saved_settings, dict):
            return False
        saved_settings = {
            self.renamed.get(name, name): value for name, value in saved_settings.items()
        }
        added = settings.keys() - saved_settings.keys()
        return bool(
            saved == current
            and saved_settings.items() <= settings.items()
            and all(name in self.absent and settings[name] == self.absent[name] for name in added)
        )

    def remove(self) -> None:
        """Delete the state of a finished run."""
        self.path.unlink(missing_ok=True)


def _flatten(model: nn.Module, optimizers: Sequence[Optimizer]) -> dict[str, Tensor]:
    tensors = {f"model/{name}": value for name, value in model.state_dict().items()}
    for i, optimizer in enumerate(optimizers):
        for parameter, values in optimizer.state_dict()["state"].items():
            for key, value in values.items():
                tensors[f"optimizer/{i}/{parameter}/{key}"] = torch.as_tensor(value)
    return {name: tensor.contiguous() for name, tensor in tensors.items()}


def _unflatten(
    tensors: Mapping[str, Tensor], model: nn.Module, optimizers: Sequence[Optimizer]
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
