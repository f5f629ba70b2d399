"""The bounds of what encoders may have, which options and settings name without importing numpy."""

from __future__ import annotations

from typing import Literal, get_args

from hummingbit.foundation.errors import InputError

MIN_BITS, MAX_BITS = 8, 4096
MIN_HYBRID_WEIGHT, MAX_HYBRID_WEIGHT = 0.001, 1000.0
"""The bounds of the weight of codes in a hybrid ranking, within which neither score is lost."""
MAX_SUMMARY_WEIGHT = 100.0
"""The highest weight of the summary in the features of a document."""
MAX_TOKENS = 8192
"""The longest text that a language model reads, in its tokens."""
Precision = Literal["float32", "int8"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
Packing = Literal["sign", "ubinary", "binary"]
"""How the vectors of other tools represent codes; see :func:`.codes_of_vectors`."""
PACKINGS: tuple[Packing, ...] = get_args(Packing)


class CodeError(InputError):
    """A code or a length of codes is invalid."""

    def __str__(self) -> str:
        return f"{self.field} {self.reason}"


def check_n_bits(n_bits: int) -> int:
    """Return `n_bits` if codes can have this length.

    Raises:
        CodeError: unless `n_bits` is a multiple of 8 from 8 to 4096.
    """
    if n_bits % 8 or not MIN_BITS <= n_bits <= MAX_BITS:
        rule = f"it must be a multiple of 8 from {MIN_BITS} to {MAX_BITS}"
        raise CodeError("n_bits", f"is {n_bits}; {rule}")
    return n_bits
