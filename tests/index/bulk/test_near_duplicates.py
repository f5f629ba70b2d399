from __future__ import annotations

import itertools
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hummingbit.corpus.document import Document
from hummingbit.encoder.artifact import write_artifact
from hummingbit.foundation.cancellation import Cancelled, cancelled_by
from hummingbit.foundation.errors import InputError
from hummingbit.index import duplicates
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.duplicates import (
    DuplicateCriteria,
    find_duplicates,
    near_codes,
    near_texts,
    shingles_of,
)
from tests.support.codes import random_codes
from tests.support.encoders import random_texts, text_encoder


def brute_force(alike: list[tuple[int, int]], size: int) -> list[list[int]]:
    """Return what pairs connect: clusters of two or more, by merging sets."""
    clusters = [{position} for position in range(size)]
    for item, other in alike:
        first = next(some for some in clusters if item in some)
        second = next(some for some in clusters if other in some)
        if first is not second:
            clusters.remove(second)
            first |= second
    return sorted(sorted(some) for some in clusters if len(some) > 1)


def bits_apart(one: np.ndarray, other: np.ndarray) -> int:
    return int(np.unpackbits(one ^ other).sum())


@pytest.mark.parametrize("compares_all", [True, False])
@settings(deadline=None)
@given(st.integers(0, 40), st.integers(0, 6), st.sampled_from([2, 9]), st.integers(0, 2**32 - 1))
def test_clusters_are_what_pairs_of_codes_connect(
    compares_all: bool, size: int, radius: int, code_size: int, seed: int
) -> None:
    codes = np.random.default_rng(seed).integers(0, 256, (size, code_size), dtype=np.uint8)
    codes[:, 2:] &= 1  # so that some are near
    pairs = itertools.combinations(range(size), 2)
    alike = [(a, b) for a, b in pairs if bits_apart(codes[a], codes[b]) <= radius]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(duplicates, "compares_all_pairs", lambda *_: compares_all)
        patch.setattr(duplicates, "EDGES_AT_ONCE", 5)
        found = near_codes(codes, radius)
    assert [some.tolist() for some in found] == brute_force(alike, size)


def test_a_large_radius_takes_few_comparisons_and_little_memory() -> None:
    """A third of all pairs lie within it: 600 million of them would take gigabytes."""
    codes = random_codes(np.random.default_rng(0), 60_000, 64)
    told: list[tuple[str, int, int]] = []
    tracemalloc.start()
    try:
        (cluster,) = near_codes(codes, 30, lambda *step: told.append(step))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(cluster) == len(codes)
    assert most < 20 << 20
    assert len(told) < 10


def test_work_ends_once_nobody_waits_for_it_and_says_how_far_it_is() -> None:
    codes = random_codes(np.random.default_rng(0), 20_000, 64)
    told: list[tuple[str, int, int]] = []

    def is_abandoned() -> bool:
        return len(told) == 3

    with pytest.raises(Cancelled), cancelled_by(is_abandoned):
        near_codes(codes, 16, lambda *step: told.append(step))
    assert [step for step, _, _ in told] == ["comparing"] * 3
    done = [done for _, done, _ in told]
    assert done == sorted(done)


@settings(deadline=None)
@given(
    st.lists(st.lists(st.sampled_from("aa bb cc".split()), max_size=6), max_size=8),
    st.integers(1, 3),
    st.sampled_from([0.2, 0.5, 1.0]),
)
def test_texts_are_alike_by_the_jaccard_similarity_of_their_shingles(
    words: list[list[str]], shingle: int, least: float
) -> None:
    def shingles(one: list[str]) -> set[tuple[str, ...]]:
        starts = range(max(1, len(one) - shingle + 1))
        return {tuple(one[start : start + shingle]) for start in starts}

    codes = np.arange(len(words), dtype=np.uint8)[:, None]
    alike = [
        (a, b)
        for a, b in itertools.combinations(range(len(words)), 2)
        if len(shingles(words[a]) & shingles(words[b]))
        >= least * len(shingles(words[a]) | shingles(words[b]))
        and bits_apart(codes[a], codes[b]) <= 1
    ]
    texts = [" ".join(word) for word in words]
    found = near_texts(texts, codes, DuplicateCriteria(1, least, shingle))
    assert [some.tolist() for some in found] == brute_force(alike, len(words))


@pytest.mark.parametrize("end", ["", " {}"])
def test_texts_that_begin_alike_take_little_memory(end: str) -> None:
    size = 4000
    texts = ["the same few words" + end.format(position) for position in range(size)]
    tracemalloc.start()
    try:
        found = near_texts(texts, np.zeros((size, 1), dtype=np.uint8), DuplicateCriteria(0, 0.3, 2))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [some.tolist() for some in found] == [[*range(size)]]
    # What all pairs share takes more than a gigabyte.
    assert most < 100e6


def test_shingles_of_a_text_without_spaces_are_runs_of_pairs_of_characters() -> None:
    assert shingles_of("北京大学", 2) == {("北京", "京大"), ("京大", "大学")}
    assert shingles_of("One word", 5) == {("one", "word")}


def test_near_duplicates_of_a_collection_come_oldest_first(tmp_path: Path) -> None:
    write_artifact(tmp_path / "encoders" / "words", text_encoder(), random_texts(40))
    texts = {"b": "apple bread cheese", "x": "rank trace", "a": "cheese apple bread", "y": "jam"}
    with DataFolder(tmp_path, writable=True) as folder:
        collection = folder.create_collection("c", encoder="words")
        collection.upsert([Document(id=id_, text=text) for id_, text in texts.items()])
        collection.upsert([Document(id="x", text="apple bread cheese")])
        by_codes = list(find_duplicates(collection, DuplicateCriteria(0)))
        by_texts = list(find_duplicates(collection, DuplicateCriteria(0, confirm=0.9, shingle=2)))
        everything = list(find_duplicates(collection, DuplicateCriteria(32)))
    assert by_codes == [["b", "a", "x"]]
    assert by_texts == [["b", "x"]]
    assert everything == [["b", "a", "y", "x"]]


@pytest.mark.parametrize(
    ("likeness", "message"),
    [
        (DuplicateCriteria(-1), "radius: is -1; it must be from 0 to 32"),
        (DuplicateCriteria(33), "radius: is 33; it must be from 0 to 32"),
        (DuplicateCriteria(1, confirm=0.0), "confirm: is 0.0; it must be above 0 and at most 1"),
        (DuplicateCriteria(1, shingle=0), "shingle: is 0; it must be from 1 to 100"),
    ],
)
def test_what_cannot_be_compared_is_refused(likeness: DuplicateCriteria, message: str) -> None:
    with pytest.raises(InputError, match=message):
        likeness.check(32)
