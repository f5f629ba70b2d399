from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from foundation.arrays import sorted_distinct


@given(st.lists(st.integers(-5, 5) | st.integers(-(2**63), 2**63 - 1)))
def test_distinct_values_come_once_in_order(values: list[int]) -> None:
    found = sorted_distinct(np.array(values, dtype=np.int64))
    assert found.tolist() == sorted(set(values))
