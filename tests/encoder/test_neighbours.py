from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hummingbit.encoder.neighbours import LEAST_COSINE, N_CANDIDATES, TermTable

LETTERS = "abcdefghij"


def stem(words: Sequence[str]) -> list[str]:
    """Return words without their last letter, so that several words have one term."""
    return [word[:-1] for word in words]


def mean_of_unit_rows(rows: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray((rows / np.where(lengths > 0, lengths, 1)).mean(axis=0))


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n_numbers=st.sampled_from([3, 64, 100]))
def test_the_nearest_terms_are_those_of_all_cosines(seed: int, n_numbers: int) -> None:
    rng = np.random.default_rng(seed)
    letters = rng.choice(list(LETTERS), (90, 3))
    words = [*dict.fromkeys("".join(some) for some in letters.tolist()), "x", "12", "ab-c"]
    rows = rng.normal(size=(len(words), n_numbers)) * rng.uniform(0.1, 3, (len(words), 1))
    rows[0] = 0
    table = TermTable(words, rows.astype(np.float32), stem)
    places: dict[str, list[int]] = {}
    for place, word in enumerate(words[:-3]):
        places.setdefault(word[:-1], []).append(place)
    means = {term: mean_of_unit_rows(rows[some]) for term, some in places.items()}
    assert len(means) <= N_CANDIDATES  # so all are compared
    for term, mean in means.items():
        expected = {}
        for other, vector in means.items():
            length = np.linalg.norm(mean) * np.linalg.norm(vector)
            cosine = float(mean @ vector / length) if length else 0.0
            if other != term and cosine >= LEAST_COSINE + 1e-5:
                expected[other] = cosine
        found = {near.term: near.cosine for near in table.neighbours(term)}
        assert list(found.values()) == sorted(found.values(), reverse=True)
        nearest = sorted(expected, key=lambda other: -expected[other])[: len(found)]
        assert [found.get(other) for other in nearest] == pytest.approx(
            [expected[other] for other in nearest], abs=1e-5
        )
        assert len(found) >= min(64, len(expected))


def test_a_term_is_shown_by_its_shortest_word_and_others_have_no_neighbours() -> None:
    rows = np.array([[1, 0], [1, 0.1], [1, 0.2], [0, 1]], dtype=np.float32)
    table = TermTable(
        ["mirrors", "mirroring", "glass", "dog"],
        rows,
        lambda words: [
            {"mirrors": "mirror", "mirroring": "mirror"}.get(word, word) for word in words
        ],
    )
    assert [(near.term, near.word) for near in table.neighbours("glass")] == [("mirror", "mirrors")]
    assert table.neighbours("dog") == table.neighbours("cat") == ()
    assert TermTable([], rows[:0], stem).neighbours("cat") == ()
