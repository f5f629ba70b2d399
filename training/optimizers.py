"""Adam, and Adam for a matrix of which each batch touches few rows.

Source: Kingma and Ba, "Adam: A Method for Stochastic Optimization" (2015), algorithm 1, applied to
the rows that have a gradient, as ``torch.optim.SparseAdam`` applies it, up to rounding. It is here
so that an encoder has the same weights wherever it is trained. With torch's, a whole run of
``ssb-vae`` on Snippets takes 1.1 times the processor time (59 instead of 53 s).

Torch reads the rows of its averages as sparse tensors and adds sparse tensors to them. Here
compiled code updates them in place. It is written in C, in ``native/``, and pip builds it if there
is a compiler. Without it, or on a GPU, torch computes the same bits on copies of the rows, in three
to four times the time. ``HUMMINGBIT_KERNEL=off`` switches the compiled code off, as it does the
forward pass of encoders (:mod:`hummingbit.encoder.text_features`).
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from hummingbit.encoder.text_features import OFF, VARIABLE

try:
    from hummingbit.training import _adam_rows
except ImportError:  # it was not built
    built: Any = None
else:
    built = _adam_rows

native: Any = None if os.environ.get(VARIABLE) == OFF else built
"""The compiled code, or None."""


BETAS = (0.9, 0.999)
EPSILON = 1e-8

# So few rows of 500 numbers stay in a processor's cache from the first step to the last.
ROWS_AT_ONCE = 128


Group = dict[str, Any]
"""Parameters, ``params``, and their step size, ``lr``."""


class Optimizer:
    """Parameters with a gradient, and what is known of their gradients so far.

    It has the attributes of ``torch.optim.Optimizer`` that training reads. The first of those that
    a process makes imports torch's compiler, which takes longer than to train on a few documents.
    """

    def __init__(self, parameters: Iterable[nn.Parameter] | Iterable[Group], lr: float = 0) -> None:
        """Take parameters, or groups of them with settings that replace the step size `lr`."""
        given: list[Any] = list(parameters)
        groups = given if given and isinstance(given[0], dict) else [{"params": given}]
        self.param_groups: list[Group] = [{"lr": lr, **group} for group in groups]
        self.state: dict[nn.Parameter, dict[str, Any]] = {}

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for parameter in self._parameters():
            parameter.grad = None

    def step(self) -> None:
        """Update the parameters that have a gradient."""
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        """Return the state of each parameter by its number."""
        numbered = enumerate(self._parameters())
        return {"state": {i: self.state[p] for i, p in numbered if p in self.state}}

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Replace the state by one that :meth:`state_dict` returned.

        Raises:
            ValueError: if it is of other parameters.
        """
        parameters = self._parameters()
        for number, state in saved["state"].items():
            if number >= len(parameters):
                raise ValueError(f"there is no parameter {number}")
            parameter = parameters[number]
            for value in state.values():
                if isinstance(value, Tensor) and value.ndim and value.shape != parameter.shape:
                    raise ValueError(f"the state of parameter {number} has another shape")
            self.state[parameter] = {
                key: value.to(parameter.device) if isinstance(value, Tensor) else value
                for key, value in state.items()
            }

    def _parameters(self) -> list[nn.Parameter]:
        return [parameter for group in self.param_groups for parameter in group["params"]]


AnyOptimizer = Optimizer | torch.optim.Optimizer


class Adam(Optimizer):
    """The update of ``torch.optim.Adam``, by the same compiled code of torch (``fused=True``)."""

    @torch.no_grad()
    def step(self) -> None:
        """Update the parameters that have a gradient."""
        for group in self.param_groups:
            moving = [parameter for parameter in group["params"] if parameter.grad is not None]
            if not moving:
                continue
            states = [self._start(parameter) for parameter in moving]
            steps = [state["step"] for state in states]
            torch._foreach_add_(steps, 1)
            torch._fused_adam_(
                moving,
                [parameter.grad for parameter in moving],
                [state["exp_avg"] for state in states],
                [state["exp_avg_sq"] for state in states],
                [],
                steps,
                lr=group["lr"],
                beta1=BETAS[0],
                beta2=BETAS[1],
                weight_decay=0.0,
                eps=EPSILON,
                amsgrad=False,
                maximize=False,
            )

    def _start(self, parameter: nn.Parameter) -> dict[str, Any]:
        state = self.state.setdefault(parameter, {})
        if not state:
            state["step"] = torch.zeros((), dtype=torch.float32, device=parameter.device)
            state["exp_avg"] = torch.zeros_like(parameter)
            state["exp_avg_sq"] = torch.zeros_like(parameter)
        return state


class SparseAdam(Optimizer):
    """Updates the rows of matrices that have a gradient, which must be sparse."""

    @torch.no_grad()
    def step(self) -> None:
        """Update the parameters that have a gradient."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    _update_rows(parameter, self._start(parameter), group["lr"])

    def _start(self, parameter: nn.Parameter) -> dict[str, Any]:
        """Return the state of a parameter; before its first update the averages are 0."""
        state = self.state.setdefault(parameter, {})
        if not state:
            state["step"] = 0
            state["exp_avg"] = torch.zeros_like(parameter)
            state["exp_avg_sq"] = torch.zeros_like(parameter)
        return state


class Factors(NamedTuple):
    """The factors of an update: 1 − β₁, 1 − β₂, the corrected step size, and ε."""

    of_gradient: float
    of_square: float
    step: float
    epsilon: float


def _update_rows(weight_VH: nn.Parameter, state: dict[str, Any], learning_rate: float) -> None:
    state["step"] += 1
    corrections = [1 - beta ** state["step"] for beta in BETAS]
    step = learning_rate * math.sqrt(corrections[1]) / corrections[0]
    factors = Factors(1 - BETAS[0], 1 - BETAS[1], step, EPSILON)
    rows, gradient_RH = _rows_once(weight_VH.grad)  # type: ignore[arg-type]  # checked by step
    matrices = (weight_VH.detach(), state["exp_avg"], state["exp_avg_sq"])
    if not len(rows):
        return
    if native is not None and weight_VH.is_cpu and weight_VH.dtype == torch.float32:
        arrays = [
            matrix.numpy() for matrix in (*matrices, gradient_RH.contiguous(), rows.contiguous())
        ]
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
        weight, mean, square = (matrix.index_select(0, rows) for matrix in matrices)
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
