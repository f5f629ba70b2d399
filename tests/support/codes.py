"""Random codes to search, and a check that two searches agree."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hummingbit.encoder.codes import Codes, code_to_hex
from hummingbit.index.engines.protocol import Neighbours, Rows


def random_codes(rng: np.random.Generator, n: int, n_bits: int) -> Codes:
    """Return codes of independent, fair bits."""
    return rng.integers(0, 256, (n, n_bits // 8), dtype=np.uint8)


def clustered_codes(
    rng: np.random.Generator, n: int, n_bits: int, *, centres: int = 20, flips: float = 0.04
) -> Codes:
    """Codes near a few centres, as an encoder makes them: many repeat, and most distances tie."""
    around = rng.integers(0, 2, (centres, n_bits), dtype=np.uint8)[rng.integers(0, centres, n)]
    return np.packbits(around ^ (rng.random((n, n_bits)) < flips), axis=1)


def random_rows(rng: np.random.Generator, n: int) -> Rows:
    """Ascending row numbers with gaps, as deletions leave them."""
    return np.cumsum(rng.integers(1, 4, n, dtype=np.int64))


def random_hex(rng: np.random.Generator, n: int, n_bits: int) -> list[str]:
    """Random codes in hexadecimal."""
    return [code_to_hex(code) for code in random_codes(rng, n, n_bits)]


def assert_same(found: Sequence[Neighbours], expected: Sequence[Neighbours]) -> None:
    """Fail unless both searches found the same rows at the same distances in the same order."""
    assert len(found) == len(expected)
    for neighbours, other in zip(found, expected, strict=True):
        assert neighbours.rows.tolist() == other.rows.tolist()
        assert neighbours.distances.tolist() == other.distances.tolist()
        assert neighbours.rows.dtype == neighbours.distances.dtype == np.int64
