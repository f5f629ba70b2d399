"""Adam for a matrix of which each batch touches few rows.

Source: Kingma and Ba, "Adam: A Method for Stochastic Optimization" (2015), algorithm 1, applied to
the rows that have a gradient, as ``torch.optim.SparseAdam`` applies it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from training.compiled import adam_rows
from training.optimizers.adam import BETAS, EPSILON, Adam, State

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
    if adam_rows.native is not None and weight_VH.is_cpu and weight_VH.dtype == torch.float32:
        arrays = [one.numpy() for one in (*matrices, gradient_RH.contiguous(), rows.contiguous())]
        adam_rows.native.update_rows(*arrays, *factors)
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

    Those of one product come so (:func:`training.models.layers.weighted_sum`). Autograd does not
    pass that on, and coalescing copies all values.
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
