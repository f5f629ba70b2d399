"""Layers for sparse and dense rows, and differentiable bits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, TypeVar

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor, nn
from torch.nn import functional

from hummingbit.training.batches import SparseBatch

# Two parts of a step of training, at the same time if a second thread may be used.
#
# The caller divides the work, in the same way on one thread and on two, and joins the two results
# in the same order. So the number of threads changes no result.


First = TypeVar("First")
Second = TypeVar("Second")

_second_thread: ContextVar[ThreadPoolExecutor | None] = ContextVar("second_thread", default=None)


def both(first: Callable[[], First], second: Callable[[], Second]) -> tuple[First, Second]:
    """Return the results of `first` and `second`, which compute without gradients.

    The second thread computes `second`, if there is one. If it has not begun when `first` is done,
    because the other cores are busy, the calling thread computes `second` too.
    """
    pool = _second_thread.get()
    # Autocast is on in the calling thread only.
    if pool is None or torch.is_autocast_enabled("cpu"):
        return first(), second()
    promised = pool.submit(second)
    result = first()
    return result, second() if promised.cancel() else promised.result()


@contextmanager
def each_on_one_core(*, second_thread: bool) -> Iterator[None]:
    """Compute every operation of torch on one core, so that the order of its sums never changes.

    The matrices of a batch are small. Torch's own threads save little, and cost many times as much
    if a core is busy, since they wait for each other in busy loops. With `second_thread`, and if
    torch may use two cores, :func:`both` uses two.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        if not second_thread or threads == 1:
            yield
            return
        with ThreadPoolExecutor(1, "training", _prepare_thread) as pool:
            before = _second_thread.set(pool)
            try:
                yield
            finally:
                _second_thread.reset(before)
    finally:
        torch.set_num_threads(threads)


def _prepare_thread() -> None:
    torch.set_num_threads(1)
    torch.set_grad_enabled(mode=False)


# Differentiable bits: random draws, relaxations and straight-through signs.
#
# Bits are ±1, with −1 for a 0, so that inner products count agreements. Only those of
# :func:`relaxed_bernoulli` are 0 or 1.


def straight_through_signs(logits_NB: Tensor) -> Tensor:
    """Return the signs of logits, −1 at 0, ``(N, B)``, with the gradient of tanh(logits).

    Source: Bengio, Léonard and Courville, "Estimating or Propagating Gradients Through Stochastic
    Neurons" (2013).
    """
    smooth_NB = torch.tanh(logits_NB)
    signs_NB = (logits_NB > 0).to(logits_NB.dtype) * 2 - 1
    return smooth_NB + (signs_NB - smooth_NB).detach()


def relaxed_hamming(x_NB: Tensor, y_MB: Tensor) -> Tensor:
    """Return ½ (1 − x·y / B), ``[N, M]``: the share of bits that differ, for bits of ±1.

    For bits relaxed to [−1, 1] it is the expected share if each bit is drawn independently with
    that mean. Unlike a cosine, it increases as bits saturate. So a student must decide its bits to
    separate what its teacher separates.
    """
    return 0.5 * (1 - x_NB @ y_MB.T / x_NB.shape[1])


def relaxed_bernoulli(logits: Tensor, temperature: float, generator: torch.Generator) -> Tensor:
    """Draw σ((logits + L) / τ) with L ~ Logistic(0, 1): the binary Gumbel-softmax."""
    # Drawn on the CPU, so that the draws are the same on every device.
    uniform = torch.rand(logits.shape, generator=generator).to(logits.device)
    # The logistic noise would be infinite at 0 and 1.
    uniform = uniform.clamp(1e-6, 1 - 1e-6)
    return torch.sigmoid((logits + torch.logit(uniform)) / temperature)


# First layers for sparse and dense rows, with a scale, and the log partition function.
#
# Shapes: N rows of a batch, V terms (or D vector entries), B bits.


# Exponentials whose sum is between this and its inverse have no error worth a subtraction.
_LEAST_SUM = 1e-20


class SparseLinear(nn.Module):
    """s x W + b for sparse x, as a weighted sum of the rows of W that x selects.

    Adam changes all weights by about its step size, which is slow for inputs as small as rows of
    unit length. Scaled up by s, the first layer learns as fast as the others. The export folds s
    into the weights. With `sparse_gradient`, the gradient of W holds only the selected rows.
    """

    def __init__(
        self, inputs: int, outputs: int, scale: float = 1.0, *, sparse_gradient: bool = True
    ) -> None:
        super().__init__()
        self.scale = scale
        self.sparse_gradient = sparse_gradient
        self.weight = nn.Parameter(torch.empty(inputs, outputs))
        self.bias = nn.Parameter(torch.zeros(outputs))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, x: SparseBatch) -> Tensor:
        """Return ``(N, outputs)``."""
        return self.scale * weighted_sum(x, self.weight, sparse=self.sparse_gradient) + self.bias

    def scaled_weight(self) -> Tensor:
        """Return s W, the weight of the same layer without a scale."""
        return self.scale * self.weight


class ScaledLinear(nn.Linear):
    """s x W + b for dense x; s is as in :class:`SparseLinear`."""

    def __init__(self, inputs: int, outputs: int, scale: float = 1.0) -> None:
        super().__init__(inputs, outputs)
        self.scale = scale

    def forward(self, x: Tensor) -> Tensor:
        """Return ``(N, outputs)``."""
        return functional.linear(self.scale * x, self.weight, self.bias)

    def scaled_weight(self) -> Tensor:
        """Return s W, shape ``(inputs, outputs)``, the weight of the same layer without a scale."""
        return self.scale * self.weight.T


class HalvedLinear(nn.Linear):
    """x W + b, of which each of two threads computes a half; see ``layers``."""

    def forward(self, x: Tensor) -> Tensor:
        """Return ``(N, outputs)``."""
        if not x.is_cpu or torch.is_autocast_enabled("cpu"):
            return super().forward(x)
        outputs: Tensor = _HalvedProduct.apply(x, self.weight, self.bias)  # type: ignore[no-untyped-call]
        return outputs


class _HalvedProduct(torch.autograd.Function):
    """The product of half of the rows by each thread, and the gradient of one factor by each."""

    @staticmethod
    def forward(ctx: Any, x_NI: Tensor, weight_OI: Tensor, bias_O: Tensor) -> Tensor:
        ctx.save_for_backward(x_NI, weight_OI)
        outputs_NO, middle = x_NI.new_empty(len(x_NI), len(bias_O)), len(x_NI) // 2

        def of_half(rows: slice) -> None:
            torch.addmm(bias_O, x_NI[rows], weight_OI.T, out=outputs_NO[rows])

        with torch.no_grad():
            both(partial(of_half, slice(middle)), partial(of_half, slice(middle, None)))
        return outputs_NO

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient_NO: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x_NI, weight_OI = ctx.saved_tensors
        of_weight_OI, of_x_NI = both(lambda: gradient_NO.T @ x_NI, lambda: gradient_NO @ weight_OI)
        return of_x_NI, of_weight_OI, gradient_NO.sum(dim=0)


def weighted_sum(x: SparseBatch, weight: Tensor, *, sparse: bool) -> Tensor:
    """Return x W, ``(N, outputs)``, with a sparse gradient for W or a dense one.

    The sparse gradient has each row that x selects once, in ascending order.
    """
    if sparse:
        entries = (x.columns, x.values, x.starts, x.lengths)
        selected: Tensor = _SelectedRows.apply(*entries, weight)  # type: ignore[no-untyped-call]
        return selected
    return _sum_rows(x.columns, x.values, x.starts, weight)


def _sum_rows(columns: Tensor, values: Tensor, starts: Tensor, weight: Tensor) -> Tensor:
    """Return the weighted sums of the rows of `weight` that `columns` select."""
    sums: Tensor = functional.embedding_bag(
        columns, weight, starts, mode="sum", per_sample_weights=values
    )
    return sums


class _SelectedRows(torch.autograd.Function):
    @staticmethod
    def forward(  # noqa: PLR0917
        ctx: Any, columns: Tensor, values: Tensor, starts: Tensor, lengths: Tensor, weight: Tensor
    ) -> Tensor:
        ctx.save_for_backward(columns, values, lengths)
        ctx.weight_shape = weight.shape
        return _sum_rows(columns, values, starts, weight)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient_NH: Tensor) -> tuple[Tensor | None, ...]:
        # xᵀ times the gradient: the entries of x, sorted by column, select rows of the gradient.
        columns, values, lengths = ctx.saved_tensors
        in_order, order = columns.sort(stable=True)
        selected, counts = in_order.unique_consecutive(return_counts=True)
        rows = torch.arange(len(lengths), device=lengths.device).repeat_interleave(lengths)
        starts = counts.cumsum(0) - counts
        sums = _sum_rows(rows[order], values[order], starts, gradient_NH.contiguous())
        of_weight = torch.sparse_coo_tensor(
            selected.unsqueeze(0), sums, ctx.weight_shape, check_invariants=False
        )
        return None, None, None, None, of_weight


def transposed_product(
    x: SparseBatch, factors_NH: Tensor, n_columns: int, *, sparse: bool
) -> Tensor:
    """Return xᵀ F, ``(n_columns, H)``, of `factors_NH` F: the gradient of the W of x W.

    If `sparse`, it has the rows that x selects, each once, in ascending order. Both must be on the
    CPU, where scipy adds rows up in a small part of the time of torch's gradients.
    """
    columns = x.columns.numpy()
    used = None
    if sparse:
        is_used = np.zeros(n_columns, dtype=np.bool_)
        is_used[columns] = True
        used = np.flatnonzero(is_used)
        places = np.empty(n_columns, dtype=np.int64)
        places[used] = np.arange(len(used))
        columns = places[columns]
    indptr = np.append(x.starts.numpy(), len(columns))
    shape = (len(x.lengths), n_columns if used is None else len(used))
    rows = csr_array((x.values.numpy(), columns, indptr), shape=shape)
    product = torch.from_numpy(rows.T @ factors_NH.numpy())
    if used is None:
        return product
    indices = torch.from_numpy(used).unsqueeze(0)
    size = (n_columns, product.shape[1])
    return torch.sparse_coo_tensor(indices, product, size, check_invariants=False)


def with_gradients(value: Tensor, gradients: Mapping[Tensor, Tensor]) -> Tensor:
    """Return a scalar whose gradient for each parameter is given, however it was computed."""
    result: Tensor = _WithGradients.apply(value, [*gradients.values()], *gradients)  # type: ignore[no-untyped-call]
    return result


class _WithGradients(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor, gradients: list[Tensor], *_: Tensor) -> Tensor:
        ctx.gradients = gradients
        return value.clone()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, factor: Tensor) -> tuple[Tensor | None, ...]:
        gradients, ctx.gradients = ctx.gradients, None
        is_whole = factor.item() == 1
        of_value = (part if is_whole else part * factor for part in gradients)
        return None, None, *of_value


def log_partition(b_NB: Tensor, weight_VB: Tensor, bias_V: Tensor) -> Tensor:
    """Return log Σ_v exp(E_v·b + c_v) for each row b, shape ``(N,)``.

    With p = softmax(E b + c) its gradients are Eᵀ p for b, Σ_n p_n b_nᵀ for E and Σ_n p_n for c,
    with each row weighted by its incoming gradient. Only the exponentials are saved for the
    backward pass, and the denominators divide the smaller factors of the products. So there is one
    array of N × V numbers, where automatic differentiation of ``logsumexp`` would need three more.
    The largest score is subtracted only where exponentials would overflow or vanish, and the two
    halves of the vocabulary may be computed at the same time. There are no second derivatives.
    """
    log_sums: Tensor = _LogPartition.apply(b_NB, weight_VB, bias_V)  # type: ignore[no-untyped-call]
    return log_sums


def expected_score(targets: SparseBatch, b_NB: Tensor, weight_VB: Tensor, bias_V: Tensor) -> Tensor:
    """Return Σ_v t_v (E_v·b + c_v) for each row b and its targets t, shape ``(N,)``.

    The gradients of E and c are sums over the nonzero targets. There are no second derivatives.
    """
    entries = (targets.columns, targets.values, targets.starts, targets.lengths)
    scores: Tensor = _ExpectedScore.apply(*entries, b_NB, weight_VB, bias_V)  # type: ignore[no-untyped-call]
    return scores


class _LogPartition(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, b_NB: Tensor, weight_VB: Tensor, bias_V: Tensor) -> Tensor:
        halves = _halves(weight_VB, bias_V)
        parts = both(*(partial(_exponentials, b_NB, *half) for half in halves))
        largest_N1, sums_N1 = b_NB.new_zeros(len(b_NB), 1), parts[0][1] + parts[1][1]
        if not bool(((sums_N1 > _LEAST_SUM) & (sums_N1 < 1 / _LEAST_SUM)).all()):
            largest_N1 = torch.addmm(bias_V, b_NB, weight_VB.T).amax(dim=1, keepdim=True)
            parts = both(*(partial(_exponentials, b_NB, *half, largest_N1) for half in halves))
            sums_N1 = parts[0][1] + parts[1][1]
        ctx.save_for_backward(b_NB, weight_VB, parts[0][0], parts[1][0], sums_N1)
        return (largest_N1 + sums_N1.log()).squeeze(1)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient_N: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        b_NB, weight_VB, *exponentials, sums_N1 = ctx.saved_tensors
        share_N1 = gradient_N.unsqueeze(1) / sums_N1
        # The bias is the weight of one more bit, which is always 1.
        shares_NB1 = torch.cat((b_NB * share_N1, share_N1), dim=1)
        of_weight_VB, of_bias_V = torch.empty_like(weight_VB), weight_VB.new_empty(len(weight_VB))

        def of_half(exponentials_NV: Tensor, start: int) -> Tensor:
            rows = slice(start, start + exponentials_NV.shape[1])
            # The same sums as those of the transposed product, which takes twice as long.
            sums_B1V = shares_NB1.T @ exponentials_NV
            of_weight_VB[rows] = sums_B1V[:-1].T
            of_bias_V[rows] = sums_B1V[-1]
            of_b_NB: Tensor = exponentials_NV @ weight_VB[rows]
            return of_b_NB

        starts = (0, exponentials[0].shape[1])
        of_b = both(*(partial(of_half, *half) for half in zip(exponentials, starts, strict=True)))
        return (of_b[0] + of_b[1]) * share_N1, of_weight_VB, of_bias_V


def _halves(weight_VB: Tensor, bias_V: Tensor) -> list[tuple[Tensor, Tensor]]:
    middle = len(bias_V) // 2
    return [(weight_VB[:middle], bias_V[:middle]), (weight_VB[middle:], bias_V[middle:])]


def _exponentials(
    b_NB: Tensor, weight_VB: Tensor, bias_V: Tensor, largest_N1: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return the exponentials of the scores minus `largest_N1`, and their sums, ``(N, 1)``."""
    # The sum is not computed in bfloat16, even if the product is. A product to which the bias is
    # added takes half of the time of functional.linear, which copies the bias to each row.
    scores_NV = (b_NB @ weight_VB.T).to(b_NB.dtype).add_(bias_V)
    if largest_N1 is not None:
        scores_NV.sub_(largest_N1)
    exponentials_NV = scores_NV.exp_()
    return exponentials_NV, exponentials_NV.sum(dim=1, keepdim=True)


class _ExpectedScore(torch.autograd.Function):
    @staticmethod
    def forward(  # noqa: PLR0917
        ctx: Any,
        columns: Tensor,
        values: Tensor,
        starts: Tensor,
        lengths: Tensor,
        b_NB: Tensor,
        weight_VB: Tensor,
        bias_V: Tensor,
    ) -> Tensor:
        x = SparseBatch(columns, values, starts, lengths)
        mean_weight_NB = weighted_sum(x, weight_VB, sparse=False)
        mean_bias_N1 = weighted_sum(x, bias_V.unsqueeze(1), sparse=False)
        ctx.save_for_backward(columns, values, lengths, b_NB, mean_weight_NB)
        ctx.n_terms = len(bias_V)
        return (mean_weight_NB * b_NB).sum(dim=1) + mean_bias_N1.squeeze(1)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient_N: Tensor) -> tuple[Tensor | None, ...]:
        columns, values, lengths, b_NB, mean_weight_NB = ctx.saved_tensors
        shares = values * gradient_N.repeat_interleave(lengths)
        of_entries = b_NB.repeat_interleave(lengths, dim=0) * shares.unsqueeze(1)
        of_weight_VB = b_NB.new_zeros(ctx.n_terms, b_NB.shape[1]).index_add_(0, columns, of_entries)
        of_bias_V = b_NB.new_zeros(ctx.n_terms).index_add_(0, columns, shares)
        of_b_NB = mean_weight_NB * gradient_N.unsqueeze(1)
        return None, None, None, None, of_b_NB, of_weight_VB, of_bias_V
