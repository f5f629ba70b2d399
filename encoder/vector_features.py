"""Features of a vector: the vector itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from encoder.features import Floats
from foundation.arrays import unit_rows
from foundation.errors import InputError, counted


@dataclass(frozen=True)
class VectorFeatures:
    """Vectors of a fixed dimension D, scaled to unit length with `l2_normalize`."""

    dimension: int
    l2_normalize: bool = False

    def transform(self, vectors: Floats) -> Floats:
        """Return the features of `vectors`, float32 of shape ``(N, D)``.

        Raises:
            InputError: unless `vectors` has shape ``(N, D)`` and finite entries.
        """
        rows = check_vectors(vectors, self.dimension)
        return unit_rows(rows) if self.l2_normalize else rows


def check_vectors(vectors: Floats, dimension: int) -> Floats:
    """Return a copy of `vectors` as float32.

    Raises:
        InputError: unless `vectors` has shape ``(N, dimension)`` and finite entries.
    """
    rows = np.asarray(vectors)
    if rows.ndim != 2 or rows.shape[1] != dimension or rows.dtype.kind not in "fiu":
        expected = f"this encoder takes vectors of {counted(dimension, 'number')}"
        found = (
            f"has {counted(rows.shape[1], 'number')}"
            if rows.ndim == 2
            else "is not a list of numbers"
        )
        raise InputError("vector", f"{found}; {expected}")
    with np.errstate(over="ignore"):
        rows = rows.astype(np.float32)
    if not np.isfinite(rows).all():
        raise InputError("vector", "holds NaN or infinity; every number must be finite")
    return rows
