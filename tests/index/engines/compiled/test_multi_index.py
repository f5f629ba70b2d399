from __future__ import annotations

import numpy as np
import pytest

from hummingbit.index.engines import choice, compiled
from hummingbit.index.engines.compiled import MultiIndex, ScanIndex, least_multi_index_work
from tests.support.codes import clustered_codes, random_codes

pytestmark = pytest.mark.parametrize("way", ["kernel"], indirect=True)


@pytest.mark.parametrize("n_bits", [16, 72, 96, 128])
@pytest.mark.parametrize("flips", [0.0, 0.02, 0.1, 0.5])
def test_lookups_take_at_least_what_is_said_without_tables(n_bits: int, flips: float) -> None:
    rng = np.random.default_rng(0)
    codes = clustered_codes(rng, 6_020, n_bits, centres=40, flips=flips)
    codes, queries = codes[:6_000], codes[6_000:]
    rows = np.arange(len(codes))
    found = ScanIndex(codes, rows).search(queries, 10)
    farthest = np.array([neighbours.distances[-1] for neighbours in found])
    taken = MultiIndex(codes, rows).work(queries, 10)
    assert least_multi_index_work(farthest, n_bits, len(codes)) <= taken


def test_what_lookups_take_at_least_by_hand() -> None:
    word, n = compiled.WORDS_PER_LOOKUP, 10**6
    # The row itself: looking its first half up settles it.
    assert least_multi_index_work(np.array([0]), 128, n) == word
    # Within one bit: both halves as they are.
    assert least_multi_index_work(np.array([1]), 128, n) == 2 * word
    assert least_multi_index_work(np.array([3]), 128, n) == 2 * (1 + 64) * word
    assert least_multi_index_work(np.array([0, 60]), 128, n) == (word + 2 * n) / 2


def test_no_tables_are_made_of_codes_that_are_scanned(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("tables were made")

    monkeypatch.setattr(compiled, "MultiIndex", refuse)
    codes = random_codes(np.random.default_rng(0), 20_000, 128)
    made = choice.build(codes, np.arange(len(codes)))
    assert made.code_index.name == "scan"
    assert "are near each other for lookups" in made.reason
