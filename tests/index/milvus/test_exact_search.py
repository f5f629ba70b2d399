"""The search against an engine that breaks ties as badly as it can."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hummingbit.encoder.codes import Codes, hamming_distance
from hummingbit.index.engines.protocol import Neighbours, Rows
from hummingbit.index.milvus.store import Band, ExactSearch, Neighbour
from tests.support.codes import assert_same, clustered_codes, random_rows
from tests.support.oracles.brute_force import BruteForceIndex


class Capricious:
    """Returns the nearest, and of those as far as the last, any."""

    def __init__(self, codes: Codes, rows: Rows, max_answer: int, seed: int) -> None:
        self.codes, self.rows, self.max_answer = codes, rows, max_answer
        self.rng = np.random.default_rng(seed)
        self.asked = 0

    def __call__(self, queries: Sequence[bytes], limit: int, band: Band) -> list[list[Neighbour]]:
        assert 1 <= limit <= self.max_answer
        self.asked += 1
        return [self.answer(np.frombuffer(query, np.uint8), limit, band) for query in queries]

    def answer(self, query: Codes, limit: int, band: Band) -> list[Neighbour]:
        distances = hamming_distance(self.codes, query)
        kept = (distances >= band.nearest) & (distances <= band.farthest)
        for operator, bound in re.findall(r"row (>=|<) (\d+)", band.expression):
            kept &= self.rows >= int(bound) if operator == ">=" else self.rows < int(bound)
        places = np.flatnonzero(kept)
        order = np.lexsort((self.rng.random(len(places)), distances[places]))[:limit]
        self.rng.shuffle(order)
        return [Neighbour(int(distances[at]), int(self.rows[at]), "") for at in places[order]]


def neighbours(found: Sequence[Neighbour]) -> Neighbours:
    rows = np.array([item.row for item in found], dtype=np.int64)
    return Neighbours(rows, np.array([hit.distance for hit in found], dtype=np.int64))


@settings(deadline=None, max_examples=150)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.sampled_from([0, 1, 4, 5, 6, 60, 300]),
    k=st.sampled_from([1, 5, 29, 30, 200, 1000]),
    radius=st.none() | st.integers(0, 16),
    max_answer=st.sampled_from([2, 7, 30, 400]),
)
def test_it_finds_what_the_oracle_finds(
    seed: int, n: int, k: int, radius: int | None, max_answer: int
) -> None:
    rng = np.random.default_rng(seed)
    codes, rows = clustered_codes(rng, n, 16, centres=3), random_rows(rng, n)
    queries = clustered_codes(rng, 4, 16, centres=3)
    ask = Capricious(codes, rows, max_answer, seed)
    search = ExactSearch(ask, int(rows[-1]) if n else 0, max_answer)
    found = search.nearest(queries, k, Band(0, 16 if radius is None else radius))
    expected = BruteForceIndex(codes, rows).search(queries, k, radius)
    assert_same([neighbours(item) for item in found], expected)


@pytest.mark.parametrize("distance", [0, 3])
def test_a_crowd_at_one_distance_is_taken_by_rows(distance: int) -> None:
    codes = np.zeros((5000, 2), dtype=np.uint8)
    rows = np.arange(1, 5001, dtype=np.int64) * 3
    ask = Capricious(codes, rows, 64, 0)
    query = np.packbits(np.arange(16) < distance)[None]
    (found,) = ExactSearch(ask, 15000, 64).nearest(query, 100, Band(0, 16))
    assert [(hit.distance, hit.row) for hit in found] == [
        (distance, 3 * at) for at in range(1, 101)
    ]
    assert ask.asked < 30
