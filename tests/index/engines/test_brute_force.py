from __future__ import annotations

import numpy as np
import pytest

from tests.support.codes import random_codes, random_rows
from tests.support.oracles.brute_force import BruteForceIndex


@pytest.mark.parametrize("n_bits", [8, 24, 64])
@pytest.mark.parametrize("radius", [None, 0, 3, 12])
def test_it_sorts_every_row_by_distance_and_row(n_bits: int, radius: int | None) -> None:
    rng = np.random.default_rng(n_bits)
    codes, rows = random_codes(rng, 60, n_bits), random_rows(rng, 60)
    index = BruteForceIndex(codes, rows)
    queries = codes[:5]
    for query, found in zip(queries, index.search(queries, 10, radius), strict=True):
        number = int.from_bytes(query.tobytes())
        every = [
            ((number ^ int.from_bytes(code.tobytes())).bit_count(), row)
            for code, row in zip(codes, rows.tolist(), strict=True)
        ]
        expected = sorted(pair for pair in every if radius is None or pair[0] <= radius)[:10]
        assert list(zip(found.distances.tolist(), found.rows.tolist(), strict=True)) == expected


def test_codes_and_rows_must_fit() -> None:
    codes = np.zeros((2, 4), dtype=np.uint8)
    with pytest.raises(ValueError, match="rows must ascend"):
        BruteForceIndex(codes, np.array([3, 3]))
    with pytest.raises(ValueError, match="2 codes have rows of shape"):
        BruteForceIndex(codes, np.array([1, 2, 3]))
    with pytest.raises(ValueError, match=r"codes are float64\[2, 4\]"):
        BruteForceIndex(codes.astype(np.float64), np.array([1, 2]))
