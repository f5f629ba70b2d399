from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hummingbit.encoder.codes import unpack_codes
from hummingbit.index import moments
from hummingbit.index.engines import kernel
from hummingbit.index.moments import CodeMoments, StandardScore, sums_of_scores


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_bits=st.sampled_from([8, 16, 64]),
    sizes=st.lists(st.integers(0, 300), min_size=3, max_size=3),
    at_once=st.sampled_from([7, 64, 2**14]),
    compiled=st.booleans(),
)
def test_standard_scores_are_those_of_scoring_every_document(
    *, seed: int, n_bits: int, sizes: list[int], at_once: int, compiled: bool
) -> None:
    rng = np.random.default_rng(seed)
    kept, removed, added = (
        rng.integers(0, 256, (size, n_bits // 8), dtype=np.uint8) for size in sizes
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(moments, "CODES_AT_ONCE", at_once)
        if not compiled:
            patch.setattr(kernel, "native", None)
        before = CodeMoments.of_codes(np.concatenate([kept, removed]))
        counts = rng.integers(1, 5, len(kept))
        counted = CodeMoments.of_codes(kept, counts)
    after = before.with_changes(added, removed)
    weights = rng.integers(-(2**24), 2**24, n_bits)
    for found, codes in (
        (after, np.concatenate([kept, added])),
        (counted, np.repeat(kept, counts, axis=0)),
    ):
        scores = (unpack_codes(codes).astype(np.int64) * 2 - 1) @ weights
        assert found.n_codes == len(codes)
        standard = found.standard_score(weights)
        if len(codes):
            assert standard.mean == pytest.approx(scores.mean())
            assert standard.deviation == pytest.approx(scores.std(), rel=1e-9, abs=1e-3)


def test_the_same_codes_have_the_same_moments_however_they_came() -> None:
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 256, (500, 4), dtype=np.uint8)
    weights = rng.integers(-1000, 1000, 32)
    at_once = CodeMoments.of_codes(codes[100:]).standard_score(weights)
    in_turn = CodeMoments.of_codes(codes[:300]).with_changes(codes[300:], codes[:100])
    assert in_turn.standard_score(weights) == at_once


@given(
    st.sampled_from([2**10, 2**24, 2**30, 2**31]).flatmap(
        lambda bound: st.lists(st.integers(0, bound - 1), max_size=50)
    ),
    st.sampled_from([np.int32, np.int64]),
    st.sampled_from([1, 8, 2**40]),
)
def test_sums_are_exact(values: list[int], dtype: type[np.signedinteger], fewest: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(moments, "SCORES_AT_ONCE", 8)
        patch.setattr(moments, "MOST_AT_ONCE", 16)
        patch.setattr(moments, "FEWEST_AT_ONCE", fewest)
        total, squares = sums_of_scores(np.array(values, dtype=dtype))
    assert total == sum(values)
    assert squares == sum(value * value for value in values)


def test_where_all_scores_are_equal_standard_scores_are_zero() -> None:
    assert StandardScore.of_sums(3, 21, 147).standardize(np.array([7, 7])).tolist() == [0, 0]
    assert StandardScore.of_sums(0, 0, 0).standardize(np.array([7])).tolist() == [0]
    assert StandardScore.of_sums(2, 10, 68).standardize(np.array([2, 8])).tolist() == [-1, 1]


@pytest.mark.skipif(kernel.native is None, reason="the kernel was not built")
@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_bits=st.sampled_from([8, 24, 64, 200]),
    n_codes=st.integers(0, 60),
    times=st.sampled_from([1, 7, 2**24]),
)
def test_the_kernel_computes_what_numpy_does(
    *, seed: int, n_bits: int, n_codes: int, times: int
) -> None:
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 256, (n_codes, n_bits // 8), dtype=np.uint8)
    weights = rng.integers(-(2**20), 2**20, n_bits)
    of_codes = CodeMoments.of_codes(codes, np.full(n_codes, times))
    by_kernel = of_codes.standard_score(weights)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel, "native", None)
        by_numpy = of_codes.standard_score(weights)
    assert by_kernel == by_numpy
