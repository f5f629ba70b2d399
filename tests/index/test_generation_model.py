"""A generation against a plain list of what it must hold, through any sequence of changes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from hummingbit.encoder.codes import Codes
from hummingbit.index.engines import segments
from hummingbit.index.engines.protocol import Rows
from hummingbit.index.engines.segments import IndexSnapshot
from hummingbit.index.names import INDEX_TYPES
from tests.support.codes import assert_same, clustered_codes
from tests.support.oracles.brute_force import BruteForceIndex

SEEDS = st.integers(0, 2**32 - 1)


class GenerationMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        # So that a few codes are divided into segments as a million would be.
        self.patch.setattr(segments, "MIN_FOLD", 8)

    @initialize(n_bits=st.sampled_from([8, 16, 32, 64, 72]), engine=st.sampled_from(INDEX_TYPES))
    def begin(self, n_bits: int, engine: str) -> None:
        sizes = {"lookup": (8, 64), "halves": (16, 128)}
        least, most = sizes.get(engine, (8, 1024))
        if not least <= n_bits <= most:
            engine = "scan"
        self.codes: Codes = np.empty((0, n_bits // 8), dtype=np.uint8)
        self.rows: Rows = np.empty(0, dtype=np.int64)
        self.last = 0
        self.generation = IndexSnapshot.build(0, self.codes, self.rows, engine)
        self.earlier: list[tuple[IndexSnapshot, BruteForceIndex]] = []

    @rule(seed=SEEDS, n=st.sampled_from([0, 1, 3, 10, 60]), share=st.sampled_from([0, 0, 0.1, 0.9]))
    def change(self, seed: int, n: int, share: float) -> None:
        rng = np.random.default_rng(seed)
        self.earlier.append((self.generation, self.oracle()))
        codes = self.drawn(rng, n)
        rows = self.last + np.cumsum(rng.integers(1, 3, n, dtype=np.int64))
        gone = rng.random(len(self.rows)) < share
        self.generation = self.generation.with_changes(
            self.generation.number + 1, codes, rows, self.rows[gone]
        )
        self.last = int(rows[-1]) if n else self.last
        self.codes = np.concatenate([self.codes[~gone], codes])
        self.rows = np.concatenate([self.rows[~gone], rows])

    @rule()
    def compact(self) -> None:
        self.generation = self.generation.compacted()
        assert not self.generation.needs_compaction
        assert not self.generation.deltas

    @rule(
        seed=SEEDS,
        k=st.sampled_from([1, 2, 9, 10, 11, 100]),
        radius=st.none() | st.integers(0, 20),
        allowed=st.none() | st.sampled_from([0.0, 0.03, 0.6]),
    )
    def search(self, seed: int, k: int, radius: int | None, allowed: float | None) -> None:
        rng = np.random.default_rng(seed)
        queries = np.concatenate([self.drawn(rng, 3), self.codes[:2]])
        allowed_rows = None
        if allowed is not None:
            allowed_rows = np.flatnonzero(rng.random(self.last + 3) < allowed)
        for generation, oracle in [*self.earlier[-2:], (self.generation, self.oracle())]:
            found = generation.search(queries, k, radius, allowed_rows)
            assert_same(found, oracle.search(queries, k, radius, allowed_rows))

    @invariant()
    def holds_what_it_should(self) -> None:
        codes, rows = self.generation.codes()
        assert rows.tolist() == self.rows.tolist()
        assert codes.tolist() == self.codes.tolist()
        assert len(self.generation) == len(self.rows)
        some = np.arange(-3, max(self.rows, default=0) + 4, 2)
        assert self.generation.live_rows(some).tolist() == np.intersect1d(self.rows, some).tolist()

    def oracle(self) -> BruteForceIndex:
        return BruteForceIndex(self.codes, self.rows)

    def drawn(self, rng: np.random.Generator, n: int) -> Codes:
        flips = float(rng.choice([0.0, 0.05, 0.5]))
        return clustered_codes(rng, n, self.codes.shape[1] * 8, centres=3, flips=flips)

    def teardown(self) -> None:
        self.patch.undo()


GenerationMachine.TestCase.settings = settings(
    max_examples=60, stateful_step_count=20, deadline=None
)
test_generation_against_its_model = GenerationMachine.TestCase
