from __future__ import annotations

import json
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hummingbit.encoder.codes import unpack_codes
from hummingbit.index.code_statistics import code_statistics
from hummingbit.index.engines.segments import IndexSnapshot
from tests.support.codes import clustered_codes, random_codes


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_bits=st.sampled_from([8, 16, 32, 128]),
    n=st.integers(1, 200),
    flips=st.sampled_from([0.0, 0.02, 0.5]),
    engine=st.sampled_from(["auto", "lookup", "flat"]),
)
def test_it_says_what_counting_says(
    *, seed: int, n_bits: int, n: int, flips: float, engine: str
) -> None:
    rng = np.random.default_rng(seed)
    codes = clustered_codes(rng, n + 50, n_bits, centres=4, flips=flips)
    engine = "auto" if n_bits > 64 else engine
    generation = IndexSnapshot.build(0, codes[:n], np.arange(n), engine)
    generation = generation.with_changes(1, codes[n:], np.arange(n, n + 50), np.arange(0, n, 3))
    held = np.concatenate([np.delete(codes[:n], np.arange(0, n, 3), axis=0), codes[n:]])
    found = code_statistics(generation)
    counts = Counter(map(bytes, held))
    shares = [count / len(held) for count in counts.values()]
    assert found["distinct_codes"] == len(counts)
    assert found["largest_share"] == pytest.approx(max(shares))
    assert found["entropy"] == pytest.approx(-sum(p * math.log2(p) for p in shares), abs=1e-9)
    bits = unpack_codes(held)
    balance = bits.mean(axis=0)
    assert found["bit_balance"] == pytest.approx(
        {"least": balance.min(), "mean": balance.mean(), "most": balance.max()}
    )
    entropies = [-sum(p * math.log2(p) for p in (b, 1 - b) if p) for b in balance.tolist()]
    assert found["bit_entropy"] == pytest.approx(
        {"least": min(entropies), "mean": sum(entropies) / n_bits, "most": max(entropies)}
    )
    dead = [bit for bit in range(n_bits) if len(set(bits[:, bit].tolist())) == 1]
    assert found["dead_bits"] == dead
    alive = [bits[:, bit] for bit in range(n_bits) if bit not in dead]
    if len(alive) > 1:
        pairs = np.abs(np.asarray(np.corrcoef(alive))[np.triu_indices(len(alive), 1)])
        expected = {"mean": pairs.mean(), "most": pairs.max()}
        assert found["bit_correlation"] == pytest.approx(expected)
    else:
        assert found["bit_correlation"] is None
    occupancy = Counter(2 ** (count.bit_length() - 1) for count in counts.values())
    assert {int(least): codes for least, codes in found["occupancy"].items() if codes} == occupancy
    json.dumps(found, allow_nan=False)


def test_nothing_is_said_without_documents() -> None:
    generation = IndexSnapshot.build(0, np.empty((0, 4), dtype=np.uint8), np.arange(0))
    assert code_statistics(generation) == {
        "distinct_codes": 0,
        "largest_share": None,
        "entropy": None,
        "bit_balance": None,
        "bit_entropy": None,
        "bit_correlation": None,
        "dead_bits": [],
        "occupancy": {},
    }


def test_a_sample_tells_the_correlation_of_many_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = random_codes(np.random.default_rng(0), 20_000, 32)
    codes[:, 3] = codes[:, 0]
    generation = IndexSnapshot.build(0, codes, np.arange(20_000))
    whole = code_statistics(generation)["bit_correlation"]
    monkeypatch.setattr("hummingbit.index.code_statistics.CODES_CORRELATED", 5000)
    sample = code_statistics(generation)["bit_correlation"]
    assert whole["most"] == pytest.approx(1)
    assert sample == pytest.approx(whole, abs=0.02)
