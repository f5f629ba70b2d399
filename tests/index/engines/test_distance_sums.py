from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hummingbit.encoder.codes import hamming_distance
from hummingbit.index.engines import choice, kernel
from hummingbit.index.engines.choice import SizedCodes
from tests.index.engines.conftest import PATHS, WITHOUT
from tests.support.codes import clustered_codes, random_codes


@pytest.fixture(params=PATHS or ["none"])
def path(request: pytest.FixtureRequest, way: str) -> Iterator[None]:
    """Make the kernel use each path that this processor has, in turn."""
    if way == WITHOUT:
        yield
        return
    kernel.built.use(request.param)
    yield
    kernel.built.use(PATHS[0])


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.sampled_from([0, 1, 7, 8, 9, 500, 8193]),
    n_bits=st.sampled_from([8, 24, 64, 72, 128, 1024]),
    flips=st.sampled_from([0.0, 0.02, 0.5]),
    compared=st.sampled_from([1, 1000, choice.COMPARED_AT_ONCE]),
)
@pytest.mark.usefixtures("path")
def test_documents_are_counted_by_distance(
    *, seed: int, n: int, n_bits: int, flips: float, compared: int
) -> None:
    rng = np.random.default_rng(seed)
    codes = clustered_codes(rng, n + 5, n_bits, centres=3, flips=flips)
    codes, queries = codes[:n], codes[n:]
    sizes = rng.integers(0, rng.choice([2, 2**31]), n)
    counted = SizedCodes(codes, sizes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choice, "COMPARED_AT_ONCE", compared)
        found = counted.by_distance(queries)
    distances = np.array([hamming_distance(query, codes) for query in queries]).reshape(5, n)
    assert np.array_equal(counted.distances(queries), distances)
    expected = np.zeros((5, n_bits + 1), dtype=np.int64)
    for row, of_query in enumerate(distances):
        np.add.at(expected[row], of_query, sizes)
    assert np.array_equal(found, expected)


@pytest.mark.parametrize("way", ["kernel"], indirect=True)
def test_the_kernel_refuses_buffers_that_are_too_short() -> None:
    rng = np.random.default_rng(0)
    groups = kernel.group_codes(kernel.words_of(random_codes(rng, 9, 64)))
    sizes, counts = np.ones(9, dtype=np.int32), np.zeros(2 * 65, dtype=np.int64)
    query = np.zeros(2, dtype=np.uint64)
    kernel.native.count(9, 1, groups, sizes, 2, query, 65, counts)
    assert counts.sum() == 18
    for short in [
        (9, 1, groups[:1], sizes, 2, query, 65, counts),
        (9, 1, groups, sizes[:8], 2, query, 65, counts),
        (9, 1, groups, sizes, 2, query[:1], 65, counts),
        (9, 1, groups, sizes, 2, query, 65, counts[:-1]),
    ]:
        with pytest.raises(ValueError, match="is too short"):
            kernel.native.count(*short)
    # Distances that are not asked about are left out.
    few = np.zeros(2, dtype=np.int64)
    kernel.native.count(9, 1, groups, sizes, 2, query, 1, few)
    assert few.sum() == 0
