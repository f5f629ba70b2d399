"""Every engine against the oracle, on few codes with the thresholds of many."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import NamedTuple

import faiss
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hummingbit.encoder.codes import Codes
from hummingbit.index.engines.choice import MAKERS, AnyIndex, build
from hummingbit.index.engines.protocol import After, Neighbours, Rows
from tests.index.engines.conftest import WITHOUT
from tests.support.codes import assert_same, clustered_codes, random_codes, random_rows
from tests.support.oracles.brute_force import BruteForceIndex

WIDTHS = [8, 16, 24, 32, 40, 64, 72, 128, 1024, 3072, 4096]
COMPILED = ["halves", "lookup", "scan"]
NAMES = {"kernel": COMPILED, WITHOUT: ["flat"]}
each_engine = pytest.mark.parametrize(
    ("way", "name"),
    [(way, name) for way, names in NAMES.items() for name in names],
    indirect=["way"],
)


# The fewest and the most bytes of codes that an engine takes, and what takes others.
SIZES = {"lookup": (1, 8, "halves"), "halves": (2, 16, "scan")}


def make(name: str, codes: Codes, rows: Rows) -> AnyIndex:
    """Make an engine; of codes that it does not take, another."""
    while name in SIZES:
        least, most, other = SIZES[name]
        if least <= codes.shape[1] <= most:
            break
        name = other
    return MAKERS[name](codes, rows)


@settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    seed=st.integers(0, 2**32 - 1),
    number=st.integers(0, 11),
    n_bits=st.sampled_from(WIDTHS),
    k=st.integers(1, 40),
    size=st.sampled_from(["none", "one", "k - 1", "k", "k + 1", "100", "1000"]),
    radius=st.none() | st.integers(0, 20),
    spread=st.sampled_from([0.0, 0.01, 0.05, 0.5]),
    dead=st.sampled_from([0.0, 0.1, 0.9, 1.0]),
    allowed=st.none() | st.sampled_from([0.0, 0.05, 0.5, 1.0]),
    nearer=st.none() | st.floats(0, 1),
)
def test_it_finds_what_the_oracle_finds(
    *,
    way: str,
    seed: int,
    number: int,
    n_bits: int,
    k: int,
    size: str,
    radius: int | None,
    spread: float,
    dead: float,
    allowed: float | None,
    nearer: float | None,
) -> None:
    rng = np.random.default_rng(seed)
    sizes = {"none": 0, "one": 1, "k - 1": k - 1, "k": k, "k + 1": k + 1, "100": 100, "1000": 1000}
    n = sizes[size]
    codes = clustered_codes(rng, n + 8, n_bits, centres=4, flips=spread)
    codes, queries = codes[:n], codes[n:]
    rows = random_rows(rng, n)
    gone = rng.random(n) < dead
    # Rows that are not there may be allowed.
    allowed_rows = None if allowed is None else np.flatnonzero(rng.random(3 * n + 3) < allowed)
    oracle = BruteForceIndex(codes[~gone], rows[~gone])
    index = make(NAMES[way][number % len(NAMES[way])], codes, rows).without(rows[gone])
    expected = oracle.search(queries, k, radius, allowed_rows)
    assert_same(index.search(queries, k, radius, allowed_rows), expected)
    assert_same(index.search(queries[:1], k, radius, allowed_rows), expected[:1])
    assert (len(index), index.n_dead, index.n_bits) == (len(oracle), gone.sum(), n_bits)
    if nearer is not None:
        # The place of a hit, or one between two hits.
        whole = oracle.search(queries[:1], n + 1)[0].distances
        distance = int(whole[int(nearer * (len(whole) - 1))]) if len(whole) else 3
        after = After(distance, int(rng.integers(-1, 3 * n + 3)))
        expected = oracle.search(queries, k, radius, allowed_rows, after)
        assert_same(index.search(queries, k, radius, allowed_rows, after), expected)


class Removal(NamedTuple):
    """Queries, of which half are asked before rows are removed, and what the oracle finds."""

    codes: Codes
    rows: Rows
    gone: Rows
    queries: tuple[Codes, Codes]
    expected: tuple[list[Neighbours], list[Neighbours]]


def removal(codes: Codes, queries: Codes, k: int, rng: np.random.Generator) -> Removal:
    rows = random_rows(rng, len(codes))
    half = len(queries) // 2
    gone = rng.random(len(codes)) < 0.3
    before, after = BruteForceIndex(codes, rows), BruteForceIndex(codes[~gone], rows[~gone])
    expected = before.search(queries[:half], k), after.search(queries[half:], k)
    return Removal(codes, rows, rows[gone], (queries[:half], queries[half:]), expected)


def agree(name: str, case: Removal, k: int) -> None:
    """Fail unless an engine finds what the oracle finds, before and after rows are removed."""
    index = make(name, case.codes, case.rows)
    assert_same(index.search(case.queries[0], k), case.expected[0])
    assert_same(index.without(case.gone).search(case.queries[1], k), case.expected[1])


@cache
def a_thousand_queries(n_bits: int, kind: str) -> Removal:
    rng = np.random.default_rng(n_bits)
    codes = {"random": random_codes, "clustered": clustered_codes}[kind](rng, 3000, n_bits)
    return removal(codes[:2000], codes[2000:], 10, rng)


@each_engine
@pytest.mark.parametrize("n_bits", [16, 32, 64, 128])
@pytest.mark.parametrize("kind", ["random", "clustered"])
def test_a_thousand_queries_equal_the_oracle(name: str, n_bits: int, kind: str) -> None:
    agree(name, a_thousand_queries(n_bits, kind), 10)


@pytest.mark.fuzz
@each_engine
def test_a_hundred_thousand_queries_equal_the_oracle(name: str) -> None:
    rng = np.random.default_rng(0)
    asked = 0
    while asked < 100_000:
        for n_bits in WIDTHS:
            for k in (1, 10, 100):
                n = int(rng.choice([0, 1, k - 1, k, k + 1, 300, 2000]))
                flips = float(rng.choice([0.0, 0.01, 0.04, 0.5]))
                codes = clustered_codes(rng, n + 500, n_bits, centres=8, flips=flips)
                agree(name, removal(codes[:n], codes[n:], k, rng), k)
                asked += 500


LIMITS = [(1, None), (100, None), (5000, None), (10**9, 6), (100, 2)]


@cache
def many_codes(n_bits: int) -> tuple[Codes, Rows, Codes, list[list[Neighbours]]]:
    """Codes, their rows, queries, and what the oracle finds within each of the limits."""
    rng = np.random.default_rng(n_bits)
    codes = np.concatenate([random_codes(rng, 5000, n_bits), clustered_codes(rng, 5000, n_bits)])
    rng.shuffle(codes)
    rows = random_rows(rng, len(codes))
    oracle = BruteForceIndex(codes, rows)
    queries = np.concatenate([codes[:30], random_codes(rng, 20, n_bits)])
    return codes, rows, queries, [oracle.search(queries, k, radius) for k, radius in LIMITS]


@each_engine
@pytest.mark.parametrize("n_bits", [16, 32, 64])
def test_many_codes_and_large_k_equal_the_oracle(name: str, n_bits: int) -> None:
    codes, rows, queries, expected = many_codes(n_bits)
    index = make(name, codes, rows)
    for (k, radius), wanted in zip(LIMITS, expected, strict=True):
        assert_same(index.search(queries, k, radius), wanted)


def test_faiss_keeps_equal_distances_in_the_order_of_codes() -> None:
    rng = np.random.default_rng(0)
    for n_bits in (32, 64, 128, 192, 256, 1024):
        codes = clustered_codes(rng, 5000, n_bits, centres=3)
        scan = faiss.IndexBinaryFlat(n_bits)
        scan.add(codes)
        oracle = BruteForceIndex(codes, np.arange(5000))
        for k in (1, 9, 100, 2000):
            _, found = scan.search(codes[:20], k)
            expected = [neighbours.rows.tolist() for neighbours in oracle.search(codes[:20], k)]
            assert found.tolist() == expected


@pytest.mark.parametrize("way", [WITHOUT], indirect=True)
@pytest.mark.parametrize(("n_bits", "n"), [(64, 40), (16, 5000), (128, 40_000)])
def test_without_the_kernel_faiss_scans_the_codes(n_bits: int, n: int) -> None:
    codes = clustered_codes(np.random.default_rng(0), n, n_bits, flips=0.02)
    choice = build(codes, np.arange(n))
    assert choice.code_index.name == "flat"
    assert choice.reason == "There is no compiled kernel, so FAISS scans the codes."


@pytest.mark.parametrize("way", ["kernel"], indirect=True)
@pytest.mark.parametrize(
    ("n_bits", "n", "flips", "name", "reason"),
    [
        (64, 4000, 0.01, "scan", "fewer than 4,096 codes"),
        (16, 5000, 0.01, "lookup", "5,000 rows hold"),
        (64, 40_000, 0.02, "lookup", "40,000 rows hold"),
        (64, 40_000, 0.5, "scan", "are near each other for lookups"),
        (128, 40_000, 0.01, "halves", "share about a half of their code"),
        (128, 40_000, 0.5, "scan", "are near each other for lookups"),
        (256, 40_000, 0.05, "scan", "too long for tables"),
        (256, 40_000, 0.0, "scan", "too long for tables"),
    ],
)
def test_the_engine_of_the_kernel_is_chosen_from_the_codes(
    *, n_bits: int, n: int, flips: float, name: str, reason: str
) -> None:
    codes = clustered_codes(np.random.default_rng(0), n, n_bits, flips=flips)
    choice = build(codes, np.arange(n))
    assert choice.code_index.name == name
    assert reason in choice.reason
    assert choice.reason.endswith(".")


def test_the_engine_can_be_forced(way: str) -> None:
    codes, rows = np.zeros((3, 2), dtype=np.uint8), np.arange(3)
    for name in MAKERS:
        assert build(codes, rows, name).code_index.name == ("flat" if way == WITHOUT else name)
    with pytest.raises(ValueError, match="is 'fast'; it must be one of auto, scan"):
        build(codes, rows, "fast")
    with pytest.raises(ValueError, match="codes have 72 bits; lookups allow 64 at most"):
        build(np.zeros((3, 9), dtype=np.uint8), rows, "lookup")
    with pytest.raises(ValueError, match="codes have 8 bits; halves need 16 to 128"):
        build(np.zeros((3, 1), dtype=np.uint8), rows, "halves")


@each_engine
def test_the_nearest_k_begin_the_nearest_k_plus_one(name: str) -> None:
    rng = np.random.default_rng(0)
    codes = clustered_codes(rng, 520, 16, centres=3)
    index = make(name, codes[:500], random_rows(rng, 500))
    everything = index.search(codes[500:], 500)
    for k in range(1, 500, 7):
        for found, whole in zip(index.search(codes[500:], k), everything, strict=True):
            assert found.rows.tolist() == whole.rows[:k].tolist()


@each_engine
def test_the_number_of_queries_asked_at_once_changes_nothing(name: str) -> None:
    rng = np.random.default_rng(0)
    codes = clustered_codes(rng, 700, 32)
    index = make(name, codes[:500], random_rows(rng, 500))
    together = index.search(codes[500:], 20)
    assert_same([index.search(query[None], 20)[0] for query in codes[500:]], together)


@each_engine
def test_codes_whose_rows_are_all_gone_do_not_crowd_out_others(name: str) -> None:
    # Zeros are nearest to the query, then 255 codes; all of them are tombstones, except the last.
    codes = np.arange(256, dtype=np.uint8)[:, None].repeat(4, axis=1)
    index = make(name, codes, np.arange(256)).without(np.arange(255))
    (found,) = index.search(np.zeros((1, 4), dtype=np.uint8), 1)
    assert (found.rows.tolist(), found.distances.tolist()) == ([255], [32])


@each_engine
def test_striking_out_leaves_the_first_index_as_it_was(name: str) -> None:
    codes = np.zeros((4, 2), dtype=np.uint8)
    index = make(name, codes, np.array([2, 4, 6, 8]))
    less = index.without(np.array([4, 5, 4, 99, -1, 2])).without(np.array([2]))
    assert (len(index), len(less), less.n_dead) == (4, 2, 2)
    assert index.search(codes[:1], 9)[0].rows.tolist() == [2, 4, 6, 8]
    assert less.search(codes[:1], 9)[0].rows.tolist() == [6, 8]
    assert less.live_codes()[1].tolist() == [6, 8]
    assert less.counted_codes()[1].sum() == 2


@each_engine
def test_codes_come_back_as_they_went_in(name: str) -> None:
    rng = np.random.default_rng(0)
    codes, rows = clustered_codes(rng, 300, 24), random_rows(rng, 300)
    live_codes, live_rows = make(name, codes, rows).live_codes()
    assert np.array_equal(live_codes, codes)
    assert np.array_equal(live_rows, rows)


@each_engine
def test_no_queries_find_nothing(name: str) -> None:
    index = make(name, np.zeros((3, 2), dtype=np.uint8), np.arange(3))
    assert index.search(np.zeros((0, 2), dtype=np.uint8), 5) == []


@each_engine
def test_many_threads_find_what_one_finds(name: str) -> None:
    rng = np.random.default_rng(0)
    codes = clustered_codes(rng, 5400, 32)
    index = make(name, codes[:5000], random_rows(rng, 5000))
    batches = np.split(codes[5000:], 40)
    expected = [index.search(batch, 50) for batch in batches]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(5):
            for item, other in zip(
                pool.map(lambda batch: index.search(batch, 50), batches),
                expected,
                strict=True,
            ):
                assert_same(item, other)


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
    index = make("flat", np.zeros((3, 4), dtype=np.uint8), np.arange(3))
    with pytest.raises(ValueError, match=message):
        index.search(np.zeros(shape, dtype=np.uint8), k, radius)


def test_rows_to_find_must_ascend() -> None:
    index = make("flat", np.zeros((3, 4), dtype=np.uint8), np.arange(3))
    query = np.zeros((1, 4), dtype=np.uint8)
    with pytest.raises(ValueError, match="allowed_rows must ascend"):
        index.search(query, 1, allowed_rows=np.array([2, 1]))
    with pytest.raises(ValueError, match=r"allowed_rows is float64\[1\]"):
        index.search(query, 1, allowed_rows=np.array([1.0]))
