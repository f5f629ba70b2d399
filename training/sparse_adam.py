"""Adam for a matrix of which each batch touches few rows.

Source: Kingma and Ba, "Adam: A Method for Stochastic Optimization" (2015), algorithm 1, applied to
the rows that have a gradient, as ``torch.optim.SparseAdam`` applies it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from training.adam import BETAS, EPSILON, Adam, State, update

# So few rows of 500 numbers stay in a processor's cache from the first step to the last.
ROWS_AT_ONCE = 128


class SparseAdam(Adam):
    """Updates rows as ``torch.optim.SparseAdam`` does, up to rounding, in half of the time.

    Torch reads the rows of its averages as sparse tensors and adds sparse tensors to them. Here the
    rows are read and written by their numbers, a few at a time, and updated by the kernel of dense
    Adam.
    """

    def _no_steps(self, parameter: nn.Parameter) -> int:  # noqa: ARG002
        return 0

    def _update(self, parameters: Sequence[nn.Parameter], learning_rate: float) -> None:
        for one in parameters:
            _update_rows(one, self._start(one), learning_rate)


def _update_rows(weight_VH: nn.Parameter, state: State, learning_rate: float) -> None:
    state["step"] += 1
    # Torch adds epsilon to the root of the sum of squares, and its dense Adam to the corrected one.
    epsilon = EPSILON / math.sqrt(1 - BETAS[1] ** state["step"])
    step = torch.tensor(float(state["step"]), device=weight_VH.device)
    all_rows, gradient_AH = _rows_once(weight_VH.grad)  # type: ignore[arg-type]  # checked by step
    matrices = (weight_VH, state["exp_avg"], state["exp_avg_sq"])
    # On a GPU each operation has a cost of its own, whatever its size.
    n_rows = ROWS_AT_ONCE if weight_VH.is_cpu else max(1, len(all_rows))
    pieces = zip(torch.split(all_rows, n_rows), torch.split(gradient_AH, n_rows), strict=True)
    for rows, gradient_RH in pieces:
        weight_RH, mean_RH, square_RH = (one.index_select(0, rows) for one in matrices)
        update([weight_RH], [gradient_RH], [mean_RH], [square_RH], [step], learning_rate, epsilon)
        for matrix, values in zip(matrices, (weight_RH, mean_RH, square_RH), strict=True):
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


def _write_rows(matrix_VH: Tensor, rows: Tensor, values_RH: Tensor) -> None:
    """Replace `rows` of a matrix; on a CPU numpy takes a third of torch's time."""
    if matrix_VH.is_cpu:
        matrix_VH.detach().numpy()[rows.numpy()] = values_RH.numpy()
    else:
        matrix_VH.index_copy_(0, rows, values_RH)
