"""Adam for parameters of which every entry has a gradient, and what it shares with sparse Adam.

Source: Kingma and Ba, "Adam: A Method for Stochastic Optimization" (2015), algorithm 1. The update
is torch's. The first optimizer of ``torch.optim`` imports torch's compiler, which takes a second;
these classes need none of it. Their state has torch's form, in which checkpoints are saved.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn

BETAS = (0.9, 0.999)
EPSILON = 1e-8

State = dict[str, Any]
"""The ``step``, and the averages ``exp_avg`` and ``exp_avg_sq``, of a parameter."""


class Optimizer(Protocol):
    """The part of ``torch.optim.Optimizer`` that training uses."""

    param_groups: list[dict[str, Any]]
    state: Any

    def zero_grad(self) -> None:
        """Delete the gradients."""

    def step(self) -> Any:
        """Update the parameters by their gradients."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state by the numbers of the parameters, and the settings."""

    def load_state_dict(self, state_dict: Any) -> None:
        """Replace the state."""


class Adam:
    """Updates parameters as ``torch.optim.Adam(fused=True)``, to the same bits."""

    def __init__(self, parameters: Iterable[nn.Parameter], lr: float) -> None:
        self.param_groups: list[dict[str, Any]] = [{"params": [*parameters], "lr": lr}]
        self.state: dict[nn.Parameter, State] = {}

    def zero_grad(self) -> None:
        """Delete the gradients."""
        for parameter in self._parameters():
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Update the parameters that have a gradient."""
        updated = [one for one in self._parameters() if one.grad is not None]
        if updated:
            self._update(updated, self.param_groups[0]["lr"])

    def state_dict(self) -> dict[str, Any]:
        """Return the state of each parameter by its number."""
        numbers = {one: number for number, one in enumerate(self._parameters())}
        return {"state": {numbers[one]: dict(values) for one, values in self.state.items()}}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Replace the state of each parameter by that of its number."""
        parameters = self._parameters()
        self.state = {
            parameters[number]: {
                name: value.to(parameters[number].device) if isinstance(value, Tensor) else value
                for name, value in values.items()
            }
            for number, values in state_dict["state"].items()
        }

    def _parameters(self) -> list[nn.Parameter]:
        parameters: list[nn.Parameter] = self.param_groups[0]["params"]
        return parameters

    def _start(self, parameter: nn.Parameter) -> State:
        """Return the state of a parameter; before its first update the averages are 0."""
        if parameter not in self.state:
            self.state[parameter] = {
                "step": self._no_steps(parameter),
                "exp_avg": torch.zeros_like(parameter),
                "exp_avg_sq": torch.zeros_like(parameter),
            }
        return self.state[parameter]

    def _no_steps(self, parameter: nn.Parameter) -> Any:
        return torch.zeros((), dtype=torch.float32, device=parameter.device)

    def _update(self, parameters: Sequence[nn.Parameter], learning_rate: float) -> None:
        states = [self._start(one) for one in parameters]
        steps = [state["step"] for state in states]
        torch._foreach_add_(steps, 1)
        torch._fused_adam_(
            list[Tensor](parameters),
            [one.grad for one in parameters if one.grad is not None],
            [state["exp_avg"] for state in states],
            [state["exp_avg_sq"] for state in states],
            [],
            steps,
            amsgrad=False,
            lr=learning_rate,
            beta1=BETAS[0],
            beta2=BETAS[1],
            weight_decay=0.0,
            eps=EPSILON,
            maximize=False,
        )
