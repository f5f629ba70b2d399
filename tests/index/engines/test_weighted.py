"""Every engine finds by weighted distance what the oracle finds, in the same order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hummingbit.index.engines.choice import MAKERS, build
from hummingbit.index.engines.protocol import MAX_BIT_WEIGHT, After, CodeIndex, Weights
from hummingbit.index.engines.segments import IndexSnapshot
from hummingbit.index.engines.weighted import (
    MIN_CODES_FOR_PAIRS,
    weighted_distances,
    within_distance,
)
from tests.support.codes import assert_same, clustered_codes, random_codes, random_rows
from tests.support.oracles.brute_force import BruteForceIndex


def random_weights(rng: np.random.Generator, n: int, n_bits: int, kind: str) -> Weights:
    """Weights as queries have them: spread out, saturated, equal, or of a few values."""
    if kind == "spread":
        return rng.integers(-MAX_BIT_WEIGHT, MAX_BIT_WEIGHT + 1, (n, n_bits))
    if kind == "saturated":
        signs = rng.choice([-1, 1], (n, n_bits))
        return signs * rng.integers(MAX_BIT_WEIGHT // 2, MAX_BIT_WEIGHT + 1, (n, n_bits))
    if kind == "equal":
        return rng.choice(np.array([-1, 1]), (n, n_bits))
    return rng.integers(-2, 3, (n, n_bits))


KINDS = ["spread", "saturated", "equal", "few"]


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.sampled_from([0, 1, 5, 300, 3000]),
    k=st.sampled_from([1, 3, 50, 4000]),
    n_bits=st.sampled_from([8, 16, 24, 32, 64, 72, 128]),
    kind=st.sampled_from(KINDS),
    engine=st.sampled_from([*MAKERS, "generation"]),
)
def test_engines_find_what_the_oracle_finds(  # noqa: PLR0917 - what hypothesis draws
    seed: int, n: int, k: int, n_bits: int, kind: str, engine: str
) -> None:
    rng = np.random.default_rng(seed)
    least, most = {"lookup": (8, 64), "halves": (16, 128)}.get(engine, (8, 128))
    n_bits = max(least, min(n_bits, most))
    codes, rows = clustered_codes(rng, n, n_bits, centres=4), random_rows(rng, n)
    weights = random_weights(rng, 3, n_bits, kind)
    gone = rows[rng.random(n) < 0.3]
    live = ~np.isin(rows, gone)
    oracle = BruteForceIndex(codes[live], rows[live])
    if engine == "generation":
        half = n // 2
        whole = IndexSnapshot.build(1, codes[:half], rows[:half], "flat")
        index: CodeIndex = whole.with_changes(2, codes[half:], rows[half:], gone[:0]).with_changes(
            3, codes[:0], rows[:0], gone
        )
    else:
        index = build(codes, rows, engine).code_index.without(gone)
    assert_same(index.search_weighted(weights, k), oracle.search_weighted(weights, k))
    some = np.unique(rng.choice(rows, n // 3)) if n else rows
    assert_same(index.search_weighted(weights, k, some), oracle.search_weighted(weights, k, some))
    (first,) = oracle.search_weighted(weights[:1], 20)
    after = After(
        *(0, 0) if not len(first.rows) else (int(first.distances[-1]), int(first.rows[-1]))
    )
    for allowed_rows in (None, some):
        expected = oracle.search_weighted(weights, k, allowed_rows, after)
        assert_same(index.search_weighted(weights, k, allowed_rows, after), expected)


def test_weights_of_one_give_hamming_distances() -> None:
    rng = np.random.default_rng(0)
    codes, rows = clustered_codes(rng, 2000, 32), random_rows(rng, 2000)
    queries = clustered_codes(rng, 20, 32)
    signs = np.unpackbits(queries, axis=1).astype(np.int64) * 2 - 1
    index = build(codes, rows, "lookup").code_index
    assert_same(index.search_weighted(signs, 25), index.search(queries, 25))


@pytest.mark.parametrize("n_bits", [24, 64, 256])
def test_distances_of_many_codes_are_sums_of_weights(n_bits: int) -> None:
    rng = np.random.default_rng(1)
    codes = random_codes(rng, MIN_CODES_FOR_PAIRS + 3, n_bits)
    (weights,) = random_weights(rng, 1, n_bits, "spread")
    places = rng.integers(0, len(codes), 200)
    bits = np.unpackbits(codes[places], axis=1)
    expected = [
        sum(abs(w) for w, bit in zip(weights.tolist(), row, strict=True) if bit != (w > 0))
        for row in bits.tolist()
    ]
    distances = weighted_distances(codes, weights)
    assert distances[places].tolist() == expected
    limit = int(np.partition(distances, 500)[500])
    numbers, near = within_distance(codes, weights, limit)
    assert numbers.tolist() == np.flatnonzero(distances <= limit).tolist()
    assert near.tolist() == distances[numbers].tolist()


def test_weights_that_cannot_be_are_refused() -> None:
    rng = np.random.default_rng(3)
    index = MAKERS["flat"](random_codes(rng, 5, 16), random_rows(rng, 5))
    with pytest.raises(ValueError, match=r"weights are int64\[1, 8\]; they must be int64\[Q, 16\]"):
        index.search_weighted(np.zeros((1, 8), dtype=np.int64), 1)
    # The least of all has no positive counterpart.
    for weight in (MAX_BIT_WEIGHT + 1, -MAX_BIT_WEIGHT - 1, np.iinfo(np.int64).min):
        with pytest.raises(ValueError, match="must be within ±1048576"):
            index.search_weighted(np.full((1, 16), weight), 1)
    with pytest.raises(ValueError, match="k is 0"):
        index.search_weighted(np.zeros((1, 16), dtype=np.int64), 0)
