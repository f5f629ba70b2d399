from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from index.brute_force import BruteForceIndex
from index.distinct import DistinctIndex
from tests.support.codes import assert_same, clustered_codes, random_codes, random_rows

WIDTHS = [8, 16, 24, 32, 64, 128, 1024]


@settings(max_examples=300, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_bits=st.sampled_from(WIDTHS),
    k=st.integers(1, 40),
    size=st.sampled_from(["none", "one", "k - 1", "k", "k + 1", "100", "1000"]),
    radius=st.none() | st.integers(0, 20),
    spread=st.sampled_from([0.0, 0.01, 0.05, 0.5]),
    dead=st.sampled_from([0.0, 0.1, 0.9, 1.0]),
)
def test_it_finds_what_the_oracle_finds(
    *, seed: int, n_bits: int, k: int, size: str, radius: int | None, spread: float, dead: float
) -> None:
    rng = np.random.default_rng(seed)
    sizes = {"none": 0, "one": 1, "k - 1": k - 1, "k": k, "k + 1": k + 1, "100": 100, "1000": 1000}
    n = sizes[size]
    codes = clustered_codes(rng, n + 8, n_bits, centres=4, flips=spread)
    codes, queries = codes[:n], codes[n:]
    rows = random_rows(rng, n)
    gone = rng.random(n) < dead
    found = DistinctIndex(codes, rows).without(rows[gone]).search(queries, k, radius)
    assert_same(found, BruteForceIndex(codes[~gone], rows[~gone]).search(queries, k, radius))


@pytest.mark.parametrize("n_bits", [16, 32, 64])
@pytest.mark.parametrize("kind", ["random", "tie-heavy"])
def test_ten_thousand_queries_equal_the_oracle(n_bits: int, kind: str) -> None:
    rng = np.random.default_rng(n_bits)
    make = random_codes if kind == "random" else clustered_codes
    codes = make(rng, 12_000, n_bits)
    codes, queries = codes[:2000], codes[2000:]
    rows = random_rows(rng, len(codes))
    found = DistinctIndex(codes, rows).search(queries, 10)
    assert_same(found, BruteForceIndex(codes, rows).search(queries, 10))


@pytest.mark.parametrize("n_bits", [16, 32, 64])
def test_many_codes_and_large_k_equal_the_oracle(n_bits: int) -> None:
    rng = np.random.default_rng(n_bits)
    codes = np.concatenate(
        [random_codes(rng, 10_000, n_bits), clustered_codes(rng, 10_000, n_bits)]
    )
    rng.shuffle(codes)
    rows = random_rows(rng, len(codes))
    index, oracle = DistinctIndex(codes, rows), BruteForceIndex(codes, rows)
    queries = np.concatenate([codes[:100], random_codes(rng, 50, n_bits)])
    for k, radius in [(1, None), (100, None), (5000, None), (10**9, 6), (100, 2)]:
        assert_same(index.search(queries, k, radius), oracle.search(queries, k, radius))


def test_the_nearest_k_begin_the_nearest_k_plus_one() -> None:
    rng = np.random.default_rng(0)
    codes = clustered_codes(rng, 520, 16, centres=3)
    index = DistinctIndex(codes[:500], random_rows(rng, 500))
    everything = index.search(codes[500:], 500)
    for k in range(1, 500, 7):
        for found, whole in zip(index.search(codes[500:], k), everything, strict=True):
            assert found.rows.tolist() == whole.rows[:k].tolist()


def test_the_number_of_queries_asked_at_once_changes_nothing() -> None:
    rng = np.random.default_rng(0)
    codes = clustered_codes(rng, 700, 32)
    index = DistinctIndex(codes[:500], random_rows(rng, 500))
    together = index.search(codes[500:], 20)
    assert_same([index.search(query[None], 20)[0] for query in codes[500:]], together)


def test_codes_whose_rows_are_all_gone_do_not_crowd_out_others() -> None:
    # Zeros are nearest to the query, then 255 codes; all of them are struck out, except the last.
    codes = np.arange(256, dtype=np.uint8)[:, None].repeat(4, axis=1)
    index = DistinctIndex(codes, np.arange(256)).without(np.arange(255))
    (found,) = index.search(np.zeros((1, 4), dtype=np.uint8), 1)
    assert (found.rows.tolist(), found.distances.tolist()) == ([255], [32])


def test_striking_out_leaves_the_first_index_as_it_was() -> None:
    codes = np.zeros((4, 2), dtype=np.uint8)
    index = DistinctIndex(codes, np.array([2, 4, 6, 8]))
    less = index.without(np.array([4, 5, 4, 99, -1, 2])).without(np.array([2]))
    assert (len(index), len(less), less.n_dead) == (4, 2, 2)
    assert index.search(codes[:1], 9)[0].rows.tolist() == [2, 4, 6, 8]
    assert less.search(codes[:1], 9)[0].rows.tolist() == [6, 8]
    assert less.live_codes()[1].tolist() == [6, 8]
    assert less.counted_codes()[1].tolist() == [2]


def test_codes_come_back_as_they_went_in() -> None:
    rng = np.random.default_rng(0)
    codes, rows = clustered_codes(rng, 300, 24), random_rows(rng, 300)
    live_codes, live_rows = DistinctIndex(codes, rows).live_codes()
    assert np.array_equal(live_codes, codes)
    assert np.array_equal(live_rows, rows)


def test_no_queries_find_nothing() -> None:
    index = DistinctIndex(np.zeros((3, 2), dtype=np.uint8), np.arange(3))
    assert index.search(np.zeros((0, 2), dtype=np.uint8), 5) == []


def test_many_threads_find_what_one_finds() -> None:
    rng = np.random.default_rng(0)
    codes = clustered_codes(rng, 5400, 32)
    index = DistinctIndex(codes[:5000], random_rows(rng, 5000))
    batches = np.split(codes[5000:], 40)
    expected = [index.search(batch, 50) for batch in batches]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(5):
            for one, other in zip(
                pool.map(lambda batch: index.search(batch, 50), batches), expected, strict=True
            ):
                assert_same(one, other)


@pytest.mark.parametrize(
    ("shape", "k", "radius", "message"),
    [
        ((1, 4), 0, None, "k is 0; it must be at least 1"),
        ((1, 4), 1, -1, "radius is -1"),
        ((1, 3), 1, None, r"queries are uint8\[1, 3\]; they must be uint8\[Q, 4\]"),
        ((4,), 1, None, r"queries are uint8\[4\]"),
    ],
)
def test_bad_arguments(shape: tuple[int, ...], k: int, radius: int | None, message: str) -> None:
    index = DistinctIndex(np.zeros((3, 4), dtype=np.uint8), np.arange(3))
    with pytest.raises(ValueError, match=message):
        index.search(np.zeros(shape, dtype=np.uint8), k, radius)
