"""The largest rounding error of a float32 result."""

from __future__ import annotations

from torch import Tensor

UNIT_ROUNDOFF = {"float32": 2.0**-24, "bfloat16": 2.0**-9}


def assert_within_rounding(
    found: Tensor, exact: Tensor, magnitude: Tensor, operations: int, dtype: str = "float32"
) -> None:
    """Assert |found − exact| ≤ n u M, entry by entry.

    `operations` n is the number of roundings that an entry went through, whatever their order, and
    `magnitude` M the sum of the absolute values that were added up. Source: Higham, "Accuracy and
    Stability of Numerical Algorithms" (2002), section 3.1, to first order.
    """
    bound = operations * UNIT_ROUNDOFF[dtype] * magnitude.double()
    error = (found.double() - exact.double()).abs()
    assert bool((error <= bound).all()), f"off by {float((error / bound).max()):.3g} of the bound"
