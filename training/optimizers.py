"""Adam, for parameters of which every entry has a gradient, or few rows have."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from hummingbit.encoder.text_features import OFF, VARIABLE

# ----------------------------------------------------------------------------
# The optional compiled update of rows by Adam.
#
# It is written in C, in ``native/``, and pip builds it if there is a compiler. Without it, torch
# computes the same bits; see :mod:`hummingbit.training.optimizers`. ``HUMMINGBIT_KERNEL=off``
# switches it off, as it does the forward pass of encoders
# (:mod:`hummingbit.encoder.text_features`).


try:
    from hummingbit.training import _adam_rows
except ImportError:  # it was not built
    built: Any = None
else:
    built = _adam_rows

native: Any = None if os.environ.get(VARIABLE) == OFF else built
"""The compiled code, or None."""


# ----------------------------------------------------------------------------
# Adam for parameters of which every entry has a gradient, and what it shares with sparse Adam.
#
# Source: Kingma and Ba, "Adam: A Method for Stochastic Optimization" (2015), algorithm 1. The
# update is torch's. The first optimizer of ``torch.optim`` imports torch's compiler, which takes a
# second; these classes need none of it. Their state has torch's form, in which checkpoints are
# saved.


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


# ----------------------------------------------------------------------------
# Adam for a matrix of which each batch touches few rows.
#
# Source: Kingma and Ba, "Adam: A Method for Stochastic Optimization" (2015), algorithm 1, applied
# to the rows that have a gradient, as ``torch.optim.SparseAdam`` applies it.


# So few rows of 500 numbers stay in a processor's cache from the first step to the last.
ROWS_AT_ONCE = 128


class SparseAdam(Adam):
    """Updates rows as ``torch.optim.SparseAdam`` does, up to rounding.

    Torch reads the rows of its averages as sparse tensors and adds sparse tensors to them. Here
    compiled code updates them in place. Without it, or on a GPU, torch computes the same bits on
    copies of the rows, in three to four times the time.
    """

    def _no_steps(self, parameter: nn.Parameter) -> int:  # noqa: ARG002
        return 0

    def _update(self, parameters: Sequence[nn.Parameter], learning_rate: float) -> None:
        for one in parameters:
            _update_rows(one, self._start(one), learning_rate)


class Factors(NamedTuple):
    """The factors of an update: 1 − β₁, 1 − β₂, the corrected step size, and ε."""

    of_gradient: float
    of_square: float
    step: float
    epsilon: float


def _update_rows(weight_VH: nn.Parameter, state: State, learning_rate: float) -> None:
    state["step"] += 1
    corrections = [1 - beta ** state["step"] for beta in BETAS]
    step = learning_rate * math.sqrt(corrections[1]) / corrections[0]
    factors = Factors(1 - BETAS[0], 1 - BETAS[1], step, EPSILON)
    rows, gradient_RH = _rows_once(weight_VH.grad)  # type: ignore[arg-type]  # checked by step
    matrices = (weight_VH.detach(), state["exp_avg"], state["exp_avg_sq"])
    if not len(rows):
        return
    if native is not None and weight_VH.is_cpu and weight_VH.dtype == torch.float32:
        arrays = [one.numpy() for one in (*matrices, gradient_RH.contiguous(), rows.contiguous())]
        native.update_rows(*arrays, *factors)
    else:
        update_copies(matrices, gradient_RH, rows, factors)


def update_copies(
    matrices: tuple[Tensor, ...], gradient_RH: Tensor, all_rows: Tensor, factors: Factors
) -> None:
    """Update rows of the weight, the mean and the mean square, each ``(V, H)``, with torch.

    `gradient_RH` are the gradients of `all_rows`, int64 ``(R,)``, each of which occurs once.
    """
    # On a GPU each operation has a cost of its own, whatever its size.
    n_rows = ROWS_AT_ONCE if gradient_RH.is_cpu else len(all_rows)
    pieces = zip(torch.split(all_rows, n_rows), torch.split(gradient_RH, n_rows), strict=True)
    for rows, gradient in pieces:
        weight, mean, square = (one.index_select(0, rows) for one in matrices)
        # No operation multiplies and adds, which some processors would round once.
        mean += (gradient - mean).mul_(factors.of_gradient)
        square += gradient.square().sub_(square).mul_(factors.of_square)
        weight -= (mean * factors.step).div_(_roots(square).add_(factors.epsilon))
        for matrix, values in zip(matrices, (weight, mean, square), strict=True):
            _write_rows(matrix, rows, values)


def _rows_once(gradient_VH: Tensor) -> tuple[Tensor, Tensor]:
    """Return the rows of a sparse gradient in ascending order, each once, and their values.

    Those of one product come so (:func:`hummingbit.training.layers.weighted_sum`). Autograd does
    not pass that on, and coalescing copies all values.
    """
    rows, values = gradient_VH._indices()[0], gradient_VH._values()  # noqa: SLF001
    if (rows[1:] > rows[:-1]).all():
        return rows, values
    gradient_VH = gradient_VH.coalesce()
    return gradient_VH.indices()[0], gradient_VH.values()


def _roots(squares_RH: Tensor) -> Tensor:
    """Return square roots; on a CPU by numpy, since torch takes twenty times as long for zeros."""
    if squares_RH.is_cpu:
        return torch.from_numpy(np.sqrt(squares_RH.numpy()))
    return squares_RH.sqrt()


def _write_rows(matrix_VH: Tensor, rows: Tensor, values_RH: Tensor) -> None:
    """Replace `rows` of a matrix; on a CPU numpy takes a third of torch's time."""
    if matrix_VH.is_cpu:
        matrix_VH.numpy()[rows.numpy()] = values_RH.numpy()
    else:
        matrix_VH.index_copy_(0, rows, values_RH)
