"""Uncertainty herding: documents near many others whose classes are uncertain.

Source: Bae et al., "Uncertainty Herding: One Active Learning Method for All Label Budgets" (2025),
here with a kernel of fixed width. With equal weights it is MaxHerding (Bae et al., "Generalized
Coverage for More Robust Low-Budget Active Learning", 2024).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from encoder.features import Floats
from foundation.slices import checkpoint

Rows = npt.NDArray[np.int64]

WIDTH = 0.4
# Of more documents, so many are drawn: to choose from, and to be covered.
CANDIDATES = 2500
COVERED = 4000
# Bounds the similarities that are held at once: of each of these rows to all that are covered.
ROWS_AT_ONCE = 256


def herd(
    vectors: Floats,
    weights: npt.NDArray[np.float64] | None,
    labelled: Rows,
    available: Rows,
    *,
    n: int,
    seed: int,
) -> Rows:
    """Return `n` of the rows `available`, each the one that then adds most to the coverage.

    The coverage is ``Σ_x w(x) max_c k(x, c)`` over the documents x, where c runs over the rows
    `labelled` and those chosen so far, and ``k(x, c) = exp(−‖x − c‖² / (2 · 0.4²))``. `vectors` are
    ``float32[N, D]``, rows of unit length; `weights` are ``float64[N]``, or None if all are 1. If
    there are more than 4,000 documents, or more than 2,500 available ones, random samples count.
    """
    rng = np.random.default_rng((seed, len(labelled)))
    covered = _drawn(np.arange(len(vectors)), COVERED, rng)
    candidates = _drawn(available, max(CANDIDATES, n), rng)
    nearest = np.zeros(len(covered), dtype=np.float32)
    for start in range(0, len(labelled), ROWS_AT_ONCE):
        checkpoint()
        known = vectors[labelled[start : start + ROWS_AT_ONCE]]
        nearest = np.maximum(nearest, _kernel(known, vectors[covered]).max(axis=0))
    alike = _kernel(vectors[candidates], vectors[covered])
    weight = np.ones(len(covered)) if weights is None else weights[covered]
    weight = weight.astype(np.float32)
    # What a document adds only shrinks as others are chosen, so an earlier gain is a bound.
    gains = np.maximum(alike - nearest, 0) @ weight
    chosen: list[int] = []
    while len(chosen) < n:
        checkpoint()
        best = int(gains.argmax())
        gains[best] = np.maximum(alike[best] - nearest, 0) @ weight
        if int(gains.argmax()) == best:
            chosen.append(best)
            nearest = np.maximum(nearest, alike[best])
            gains[best] = -1
    return np.asarray(candidates[chosen])


def _drawn(rows: Rows, most: int, rng: np.random.Generator) -> Rows:
    return np.sort(rng.choice(rows, most, replace=False)) if len(rows) > most else rows


def _kernel(some: Floats, others: Floats) -> Floats:
    """Return k of unit vectors, ``float32[M, N]``: ‖x − c‖² = 2 − 2 x·c."""
    alike = some @ others.T
    alike -= 1
    alike /= WIDTH**2
    return np.asarray(np.exp(np.minimum(alike, 0, out=alike), out=alike))
