from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hummingbit.encoder.codes import Codes
from hummingbit.foundation.cancellation import Cancelled, cancelled_by
from hummingbit.index.engines import self_join
from hummingbit.index.engines.self_join import pairs_within


def brute_force(codes: Codes, radius: int) -> list[tuple[int, int, int]]:
    pairs = []
    for item in range(len(codes)):
        for other in range(item + 1, len(codes)):
            distance = int(np.unpackbits(codes[item] ^ codes[other]).sum())
            if distance <= radius:
                pairs.append((item, other, distance))
    return pairs


def found(codes: Codes, radius: int) -> list[tuple[int, int, int]]:
    pairs = []
    for part in pairs_within(codes, radius):
        ends = zip(part.first.tolist(), part.second.tolist(), strict=True)
        pairs += [(*both, d) for both, d in zip(ends, part.distances.tolist(), strict=True)]
    return sorted(pairs)


@settings(deadline=None)
@given(
    st.integers(0, 25),
    st.sampled_from([1, 4, 8, 12]),
    st.integers(0, 5),
    st.integers(0, 3),
    st.integers(0, 2**32 - 1),
)
def test_pairs_are_those_of_brute_force_however_many_parts_agree(
    n_codes: int, size: int, radius: int, agreeing: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    centres = rng.integers(0, 256, (3, size), dtype=np.uint8)
    noise = np.packbits(rng.random((n_codes, size * 8)) < 0.06, axis=1)
    codes = centres[rng.integers(0, 3, n_codes)] ^ noise
    parts = radius + agreeing
    possible = parts <= size * 8 and size * 8 * agreeing // max(1, parts) <= 62
    with pytest.MonkeyPatch.context() as patch:
        if possible:
            patch.setattr(self_join, "_parts_agreeing", lambda *_: agreeing)
        assert found(codes, radius) == brute_force(codes, radius)


def test_many_codes_are_not_compared_with_all_others() -> None:
    codes = np.random.default_rng(0).integers(0, 256, (3000, 8), dtype=np.uint8)
    codes[2000] = codes[17]
    codes[2000, 3] ^= 0b10100
    assert found(codes, 3) == [(17, 2000, 2)]


def test_a_join_that_finds_nothing_ends_once_nobody_waits_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    codes = np.random.default_rng(0).integers(0, 256, (16_384, 8), dtype=np.uint8)
    monkeypatch.setattr(self_join, "_parts_agreeing", lambda *_: 0)
    asked = itertools.count()
    with cancelled_by(lambda: next(asked) > 4), pytest.raises(Cancelled):
        found(codes, 0)


def test_a_radius_below_0_is_refused() -> None:
    with pytest.raises(ValueError, match="radius is -1"):
        next(pairs_within(np.zeros((2, 4), dtype=np.uint8), -1))
