"""The logarithm of a softmax's denominator, with its gradient in closed form."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional


def log_partition(b_NB: Tensor, weight_VB: Tensor, bias_V: Tensor) -> Tensor:
    """Return log Σ_v exp(E_v·b + c_v) for each row b, shape ``(N,)``.

    With p = softmax(E b + c) its gradients are Eᵀ p for b, Σ_n p_n b_nᵀ for E and Σ_n p_n for c,
    each row weighed by what flows back to it. Only the exponentials are kept for that, and the
    denominators go to the small side of the products: of N × V numbers nothing else is made, where
    differentiating ``logsumexp`` step by step would make three arrays more. There are no second
    derivatives.
    """
    found: Tensor = _LogPartition.apply(b_NB, weight_VB, bias_V)  # type: ignore[no-untyped-call]
    return found


class _LogPartition(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, b_NB: Tensor, weight_VB: Tensor, bias_V: Tensor) -> Tensor:
        # Where the product is computed in bfloat16, the sum is not.
        scores_NV = functional.linear(b_NB, weight_VB, bias_V).to(b_NB.dtype)
        largest_N1 = scores_NV.amax(dim=1, keepdim=True)
        exponentials_NV = scores_NV.sub_(largest_N1).exp_()
        sums_N1 = exponentials_NV.sum(dim=1, keepdim=True)
        ctx.save_for_backward(b_NB, weight_VB, exponentials_NV, sums_N1)
        return (largest_N1 + sums_N1.log()).squeeze(1)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient_N: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        b_NB, weight_VB, exponentials_NV, sums_N1 = ctx.saved_tensors
        share_N1 = gradient_N.unsqueeze(1) / sums_N1
        return (
            exponentials_NV @ weight_VB * share_N1,
            exponentials_NV.T @ (b_NB * share_N1),
            (exponentials_NV.T @ share_N1).squeeze(1),
        )
