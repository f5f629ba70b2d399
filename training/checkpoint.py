"""Training state on disk: safetensors, replaced in one step, tied to the run that wrote it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from foundation.errors import HummingbitError
from foundation.files import replacing

History = list[dict[str, float]]
"""The mean of every loss term, epoch by epoch."""


class CheckpointError(HummingbitError, ValueError):
    """A checkpoint cannot be resumed from."""


@dataclass(frozen=True)
class Checkpoint:
    """Where a run keeps its state; `run`, a JSON object, identifies its settings and data.

    An earlier version may have written the state, before there were all of today's settings.
    `absent` holds what such a setting amounted to then, and `renamed` today's name of each setting
    that had another one.
    """

    path: Path
    run: str
    absent: Mapping[str, Any] = field(default_factory=dict)
    renamed: Mapping[str, str] = field(default_factory=dict)

    def save(
        self, model: nn.Module, optimizers: Sequence[torch.optim.Optimizer], history: History
    ) -> None:
        """Write the state after ``len(history)`` epochs in place of the one before."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        metadata = {"run": self.run, "history": json.dumps(history)}
        with replacing(self.path) as partial:
            save_file(_flatten(model, optimizers), partial, metadata=metadata)

    def restore(self, model: nn.Module, optimizers: Sequence[torch.optim.Optimizer]) -> History:
        """Load the state into `model` and `optimizers`; return the history, empty where none is.

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
            raise CheckpointError(f"{self.path}: {error}; delete it to start afresh") from error
        if not self._is_of_this_run(metadata.get("run", "")):
            problem = "was written by a run with other settings or data"
            raise CheckpointError(f"{self.path}: {problem}; delete it to start afresh")
        try:
            _unflatten(tensors, model, optimizers)
        except (RuntimeError, ValueError) as error:
            problem = f"does not fit the network: {error}"
            raise CheckpointError(f"{self.path}: {problem}; delete it to start afresh") from error
        history: History = json.loads(metadata["history"])
        return history

    def _is_of_this_run(self, written: str) -> bool:
        if written == self.run:
            return True
        try:
            before, now = json.loads(written), json.loads(self.run)
            known, settings = before.pop("recipe"), now.pop("recipe")
        except (ValueError, AttributeError, KeyError):
            return False
        if not isinstance(known, dict):
            return False
        known = {self.renamed.get(name, name): value for name, value in known.items()}
        added = settings.keys() - known.keys()
        return bool(
            before == now
            and known.items() <= settings.items()
            and all(name in self.absent and settings[name] == self.absent[name] for name in added)
        )

    def remove(self) -> None:
        """Delete the state of a run that has ended."""
        self.path.unlink(missing_ok=True)


def _flatten(model: nn.Module, optimizers: Sequence[torch.optim.Optimizer]) -> dict[str, Tensor]:
    tensors = {f"model/{name}": value for name, value in model.state_dict().items()}
    for i, optimizer in enumerate(optimizers):
        for parameter, values in optimizer.state_dict()["state"].items():
            for key, value in values.items():
                tensors[f"optimizer/{i}/{parameter}/{key}"] = torch.as_tensor(value)
    return {name: tensor.contiguous() for name, tensor in tensors.items()}


def _unflatten(
    tensors: Mapping[str, Tensor], model: nn.Module, optimizers: Sequence[torch.optim.Optimizer]
) -> None:
    model.load_state_dict(
        {name.removeprefix("model/"): t for name, t in tensors.items() if name.startswith("model/")}
    )
    states: list[dict[int, dict[str, Tensor | int]]] = [{} for _ in optimizers]
    for name, tensor in tensors.items():
        if name.startswith("optimizer/"):
            _, i, parameter, key = name.split("/")
            # SparseAdam counts its steps in an int, and in float32 its corrections would differ.
            value = tensor if tensor.is_floating_point() else int(tensor.item())
            states[int(i)].setdefault(int(parameter), {})[key] = value
    for optimizer, state in zip(optimizers, states, strict=True):
        optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
        # Adam makes a float32 of a whole number, with which geoopt's, derived from it, would count.
        for loaded, saved in zip(optimizer.state.values(), state.values(), strict=True):
            loaded.update({key: value for key, value in saved.items() if isinstance(value, int)})
