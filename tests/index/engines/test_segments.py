from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hummingbit.index.engines import segments
from hummingbit.index.engines.protocol import rows_in_both, rows_without
from hummingbit.index.engines.segments import IndexSnapshot
from tests.support.codes import assert_same, clustered_codes
from tests.support.oracles.brute_force import BruteForceIndex


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_bits=st.sampled_from([8, 16, 32, 64]),
    start=st.integers(0, 60),
    writes=st.lists(st.tuples(st.integers(0, 15), st.floats(0, 0.6)), max_size=8),
    min_fold=st.sampled_from([0, 10, 4096]),
    k=st.integers(1, 30),
    radius=st.none() | st.integers(0, 6),
)
def test_every_generation_finds_what_the_oracle_finds(
    *,
    seed: int,
    n_bits: int,
    start: int,
    writes: list[tuple[int, float]],
    min_fold: int,
    k: int,
    radius: int | None,
) -> None:
    rng = np.random.default_rng(seed)
    pool = clustered_codes(rng, start + sum(added for added, _ in writes) + 5, n_bits, centres=3)
    queries, pool = pool[:5], pool[5:]
    rows = np.arange(1, start + 1)
    generation = IndexSnapshot.build(0, pool[:start], rows)
    last = start
    before = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments, "MIN_FOLD", min_fold)
        for number, (added, share) in enumerate(writes, start=1):
            before.append((generation, rows))
            removed = rows[rng.random(len(rows)) < share]
            added_rows = np.arange(last + 1, last + added + 1)
            added_codes = pool[last : last + added]
            generation = generation.with_changes(number, added_codes, added_rows, removed)
            rows = np.append(np.setdiff1d(rows, removed), added_rows)
            last += added
    for item, its_rows in [*before, (generation, rows)]:
        oracle = BruteForceIndex(pool[its_rows - 1], its_rows)
        assert_same(item.search(queries, k, radius), oracle.search(queries, k, radius))
        assert len(item) == len(its_rows)
        assert np.array_equal(item.codes()[1], its_rows)
        distinct, counts = item.distinct_codes()
        assert len(distinct) == len(set(map(bytes, pool[its_rows - 1])))
        assert counts.sum() == len(its_rows)
    assert generation.number == len(writes)


NO_ROWS = np.empty(0, dtype=np.int64)


def test_small_writes_share_a_segment_and_large_ones_stay_apart() -> None:
    codes = clustered_codes(np.random.default_rng(0), 50_000, 32)
    generation = IndexSnapshot.build(0, codes[:5000], np.arange(5000))
    sizes = []
    for start, end in [(5000, 6000), (6000, 9500), (9500, 9501), (9501, 9502), (9502, 50_000)]:
        rows = np.arange(start, end)
        generation = generation.with_changes(1, codes[start:end], rows, NO_ROWS)
        sizes.append([len(delta) for delta in generation.deltas])
    assert sizes == [[1000], [4500], [4500, 1], [4500, 2], [45_000]]
    assert len(generation.base) == 5000


def test_a_small_base_takes_what_is_added() -> None:
    codes = clustered_codes(np.random.default_rng(0), 6000, 32)
    generation = IndexSnapshot.build(0, codes[:0], NO_ROWS)
    generation = generation.with_changes(1, codes[:3000], np.arange(3000), NO_ROWS)
    generation = generation.with_changes(2, codes[3000:], np.arange(3000, 6000), NO_ROWS)
    assert (len(generation.base), generation.deltas) == (6000, ())


def test_compaction_is_due_once_much_was_added() -> None:
    codes = clustered_codes(np.random.default_rng(0), 10_000, 32)
    generation = IndexSnapshot.build(3, codes[:5000], np.arange(5000))
    generation = generation.with_changes(4, codes[5000:9000], np.arange(5000, 9000), NO_ROWS)
    assert not generation.needs_compaction
    rows = np.arange(9000, 10_000)
    generation = generation.with_changes(5, codes[9000:], rows, NO_ROWS)
    assert generation.needs_compaction
    compacted = generation.compacted()
    assert (compacted.number, len(compacted.base), compacted.deltas) == (5, 10_000, ())
    assert not compacted.needs_compaction
    assert_same(compacted.search(codes[:20], 30), generation.search(codes[:20], 30))


def test_compaction_is_due_once_much_is_tombstones() -> None:
    codes = clustered_codes(np.random.default_rng(0), 100, 32)
    generation = IndexSnapshot.build(0, codes, np.arange(100))
    marked = generation.with_changes(1, codes[:0], NO_ROWS, np.arange(25))
    assert (len(marked.base), marked.base.n_dead, marked.needs_compaction) == (75, 25, False)
    marked = marked.with_changes(2, codes[:0], NO_ROWS, np.array([60]))
    assert marked.needs_compaction
    assert (len(marked.compacted().base), marked.compacted().base.n_dead) == (74, 0)


@given(rows=st.sets(st.integers(0, 60)), others=st.sets(st.integers(0, 60)))
def test_ascending_rows_are_joined_and_left_out(rows: set[int], others: set[int]) -> None:
    ascending, removed = (np.array(sorted(some), dtype=np.int64) for some in (rows, others))
    assert rows_in_both(ascending, removed).tolist() == sorted(rows & others)
    assert rows_without(ascending, removed).tolist() == sorted(rows - others)
