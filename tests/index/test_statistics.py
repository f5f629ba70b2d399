from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import entropy

from index.engines import ENGINES
from index.segments import Generation
from index.statistics import code_statistics


@given(st.lists(st.integers(0, 2**16 - 1), min_size=1, max_size=60), st.sampled_from(ENGINES))
def test_statistics_against_scipy(given: list[int], engine: str) -> None:
    codes = np.array(given, dtype=">u2").view(np.uint8).reshape(-1, 2)
    found = code_statistics(Generation.build(1, codes, np.arange(len(codes)), engine))
    counts = Counter(given)
    ones = np.unpackbits(codes, axis=1).mean(axis=0)
    assert found["distinct_codes"] == len(counts)
    assert found["code_entropy"] == pytest.approx(entropy([*counts.values()], base=2), abs=1e-9)
    by_bit = [entropy([share, 1 - share], base=2) for share in ones]
    assert found["bit_entropy"] == pytest.approx(np.mean(by_bit), abs=1e-9)
    assert found["dead_bits"] == [bit for bit, share in enumerate(ones) if share in {0, 1}]
    occupancy = found["bucket_occupancy"]
    assert occupancy["mean"] == pytest.approx(len(given) / len(counts))
    assert occupancy["median"] == np.median([*counts.values()])
    assert occupancy["most"] == max(counts.values())
    sizes = Counter(count.bit_length() - 1 for count in counts.values())
    assert occupancy["histogram"] == [sizes[i] for i in range(max(sizes) + 1)]


def test_nothing_has_no_statistics() -> None:
    nothing = Generation.build(0, np.empty((0, 2), dtype=np.uint8), np.arange(0), "auto")
    found = code_statistics(nothing)
    assert found.pop("distinct_codes") == 0
    assert found.pop("dead_bits") == []
    assert set(found.values()) == {None}
