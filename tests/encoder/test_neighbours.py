from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hummingbit.encoder.neighbours import (
    LEAST_COSINE,
    N_CANDIDATES,
    Terms,
    TermTable,
    find_terms,
    open_terms,
)

LETTERS = "abcdefghij"


def stem(words: Sequence[str]) -> list[str]:
    """Return words without their last letter, so that several words have one term."""
    return [word[:-1] for word in words]


def table_of(
    words: Sequence[str], rows: np.ndarray, stem: Callable[[list[str]], list[str]]
) -> TermTable:
    rows = rows.astype(np.float32)
    return TermTable(words, rows.__getitem__, find_terms(words, rows.__getitem__, stem))


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
    table = table_of(words, rows, stem)
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
    table = table_of(
        ["mirrors", "mirroring", "glass", "dog"],
        rows,
        lambda words: [
            {"mirrors": "mirror", "mirroring": "mirror"}.get(word, word) for word in words
        ],
    )
    assert [(near.term, near.word) for near in table.neighbours("glass")] == [("mirror", "mirrors")]
    assert [*table.neighbours("dog"), *table.neighbours("cat")] == []
    assert [*table_of([], rows[:0], stem).neighbours("cat")] == []


def test_terms_are_kept_in_a_file_of_the_same_origin_only(tmp_path: Path) -> None:
    words = ["mirror", "glass", "café", "dog"]
    rows = np.random.default_rng(0).normal(size=(len(words), 70)).astype(np.float32)
    found: list[str] = []

    def find(name: str) -> Callable[[], Terms]:
        def find_them() -> Terms:
            found.append(name)
            return find_terms(words, rows.__getitem__, stem)

        return find_them

    path = tmp_path / "visible.terms"
    once = open_terms(path, ("fingerprint", None), find("once"))
    again = open_terms(path, ("fingerprint", None), find("again"))
    assert found == ["once"]
    assert [array.tobytes() for array in once] == [array.tobytes() for array in again]
    near = [
        [*TermTable(words, rows.__getitem__, terms).neighbours("caf")] for terms in (once, again)
    ]
    assert near[0] == near[1]
    open_terms(path, ("another", None), find("another"))
    raw = path.read_bytes()
    path.write_bytes(raw[:-100] + bytes([raw[-100] ^ 1]) + raw[-99:])
    open_terms(path, ("another", None), find("damaged"))
    path.write_bytes(raw[: len(raw) // 2])
    open_terms(path, ("another", None), find("truncated"))
    open_terms(path, ("another", None), find("whole"))
    open_terms(tmp_path / "missing" / "visible.terms", (), find("nowhere to write"))
    assert found == ["once", "another", "damaged", "truncated", "nowhere to write"]
