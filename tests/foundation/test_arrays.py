from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hummingbit.foundation.arrays import sorted_distinct, unit_rows


@given(st.lists(st.integers(-5, 5) | st.integers(-(2**63), 2**63 - 1)))
def test_distinct_values_come_once_in_order(values: list[int]) -> None:
    found = sorted_distinct(np.array(values, dtype=np.int64))
    assert found.tolist() == sorted(set(values))


@given(st.lists(st.lists(st.floats(-1e6, 1e6, width=32), min_size=3, max_size=3), min_size=1))
def test_rows_of_unit_length_keep_their_direction_and_rows_of_zeros_stay(
    rows: list[list[float]],
) -> None:
    for row, found in zip(rows, unit_rows(np.array(rows)), strict=True):
        length = math.hypot(*row)
        expected = [value / length for value in row] if length else row
        assert np.allclose(found, expected, rtol=1e-5, atol=1e-7)
