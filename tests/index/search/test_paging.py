from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hummingbit.encoder.codes import Codes
from hummingbit.foundation.errors import InputError
from hummingbit.index.collection import Collection
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.engines.protocol import Neighbours
from hummingbit.index.engines.segments import IndexSnapshot
from hummingbit.index.filters import parse_filter
from hummingbit.index.names import MAX_K
from hummingbit.index.options import MAX_OFFSET
from hummingbit.index.records import Query
from hummingbit.index.search import (
    MAX_PASSED,
    Position,
    read_cursor,
    write_cursor,
)
from tests.support.codes import random_hex
from tests.support.collections import code_collection, code_documents

NUMBERS = st.integers(0, 2**63 - 1)
PASSED = st.integers(0, MAX_PASSED)
SCORES = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False)
AT = Query(code="0000")


@pytest.fixture
def collection(tmp_path: Path) -> Iterator[Collection]:
    with closing(code_collection(tmp_path)) as collection:
        collection.upsert(code_documents(random_hex(np.random.default_rng(0), 200, 16)))
        yield collection


FINITE = st.floats(allow_nan=False, allow_infinity=False)
STATISTICS = st.dictionaries(st.text(), FINITE | st.lists(FINITE | st.text(), max_size=5))


@given(st.builds(Position, SCORES, NUMBERS, NUMBERS, PASSED, STATISTICS), st.text())
def test_a_cursor_comes_back(position: Position, word: str) -> None:
    assert read_cursor(write_cursor(position, word, None), word, None) == position


@given(st.data())
def test_an_altered_cursor_is_refused(data: st.DataObject) -> None:
    cursor = write_cursor(Position(-3, 17, 200, 10), "search")
    place = data.draw(st.integers(0, len(cursor) - 1))
    letter = data.draw(
        st.sampled_from("Aa0-_=! é\ud800").filter(lambda item: item != cursor[place])
    )
    for altered in (
        cursor[:place] + letter + cursor[place + 1 :],
        cursor[:place],
        cursor[:place] + letter + cursor[place:],
    ):
        with pytest.raises(InputError, match="cursor: is "):
            read_cursor(altered, "search")


def test_pages_put_together_are_the_whole_order(collection: Collection) -> None:
    whole = [hit.id for hit in collection.search([AT], 300).hits[0]]
    assert len(whole) == 200
    paged: list[str] = []
    cursor = None
    for k in [1, 7, 50, 300]:
        result = collection.search([AT], k, cursor=cursor)
        paged += [hit.id for hit in result.hits[0]]
        (cursor,) = result.next_cursors
    assert paged == whole
    assert cursor is None
    by_offset = [collection.search([AT], 9, offset=start).hits[0] for start in range(0, 207, 9)]
    assert [hit.id for hits in by_offset for hit in hits] == whole
    assert collection.search([AT], 9, offset=200).hits == [[]]


@pytest.mark.parametrize("restricted", ["no", "by radius", "by a filter", "by deletions"])
def test_a_page_far_down_asks_for_no_more_hits_than_the_first(
    collection: Collection, restricted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    radius = 9 if restricted == "by radius" else None
    filter_ = parse_filter({"field": "at", "gte": 60}) if restricted == "by a filter" else None
    if restricted == "by deletions":
        collection.delete([f"d{i}" for i in range(0, 200, 3)])
    whole = [hit.id for hit in collection.search([AT], 300, radius, filter=filter_).hits[0]]
    asked: list[int] = []
    search = IndexSnapshot.search

    def recorded(self: IndexSnapshot, queries: Codes, k: int, *others: Any) -> list[Neighbours]:
        asked.append(k)
        return search(self, queries, k, *others)

    monkeypatch.setattr(IndexSnapshot, "search", recorded)
    result = collection.search([AT], 7, radius, filter=filter_)
    paged = [hit.id for hit in result.hits[0]]
    while result.next_cursors[0] is not None:
        (cursor,) = result.next_cursors
        result = collection.search([AT], 7, radius, filter=filter_, cursor=cursor)
        paged += [hit.id for hit in result.hits[0]]
    assert paged == whole
    assert len(paged) > 60
    assert set(asked) == {8}


@pytest.mark.parametrize("score", [math.inf, -math.inf, 1e300, -1e300, 2.5, -0.5])
def test_a_cursor_that_someone_made_up_finds_some_page_or_none(
    collection: Collection, score: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = {hit.id for hit in collection.search([AT], 300).hits[0]}
    for row in (-(2**63), 0, 2**63 - 1):
        position = Position(score, row, 200, MAX_PASSED)
        monkeypatch.setattr("hummingbit.index.search.read_cursor", lambda *_, at=position: at)
        result = collection.search([AT], 7, cursor="made up")
        assert {hit.id for hit in result.hits[0]} <= whole


@pytest.mark.parametrize(("score", "passed"), [(math.nan, 10), (-3, -1), (-3, 2**63 - 1)])
def test_a_cursor_with_impossible_numbers_is_refused(score: float, passed: int) -> None:
    cursor = write_cursor(Position(score, 17, 200, passed), "search")
    with pytest.raises(InputError, match=r"cursor: is .* must be the next_cursor of a page"):
        read_cursor(cursor, "search")


def test_thousands_of_documents_added_before_the_page_do_not_disturb_it(
    collection: Collection,
) -> None:
    whole = [hit.id for hit in collection.search([AT], 200).hits[0]]
    (cursor,) = collection.search([AT], 10).next_cursors
    collection.upsert(code_documents(["0000"] * 3000, prefix="near"))
    assert cursor is not None
    result = collection.search([AT], 10, cursor=cursor)
    assert [hit.id for hit in result.hits[0]] == whole[10:20]
    assert result.generation == 2


@pytest.mark.parametrize("other", ["code", "radius", "filter", "collection"])
def test_a_cursor_is_of_one_search(collection: Collection, tmp_path: Path, other: str) -> None:
    (cursor,) = collection.search([AT], 1, 16).next_cursors
    query = Query(code="0001") if other == "code" else AT
    radius = 15 if other == "radius" else 16
    filter_ = parse_filter({"field": "at", "gte": 0}) if other == "filter" else None
    if other == "collection":
        (tmp_path / "other").mkdir()
        collection = code_collection(tmp_path / "other", n_bits=24)
        query = Query(code="000000")
    with pytest.raises(InputError, match="it must be the next_cursor of a page of the same search"):
        collection.search([query], 1, radius, filter=filter_, cursor=cursor)
    collection.close()


def test_cursors_and_offsets_have_bounds(collection: Collection) -> None:
    (cursor,) = collection.search([AT], 1).next_cursors
    with pytest.raises(InputError, match="cursor: continues a single query; this search has 2"):
        collection.search([AT, AT], 1, cursor=cursor)
    with pytest.raises(InputError, match="offset: is 3; with a cursor it must be left out"):
        collection.search([AT], 1, cursor=cursor, offset=3)
    for offset in (-1, MAX_OFFSET + 1):
        with pytest.raises(InputError, match=f"offset: is {offset}; it must be from 0 to"):
            collection.search([AT], 1, offset=offset)
    assert collection.search([AT, AT], 1).next_cursors == [None, None]


def test_scrolling_has_bounds_and_cursors_of_its_own(collection: Collection) -> None:
    for limit in (0, MAX_K + 1):
        with pytest.raises(InputError, match=f"limit: is {limit}; it must be from 1 to {MAX_K}"):
            collection.scroll(limit)
    (cursor,) = collection.search([AT], 1).next_cursors
    with pytest.raises(InputError, match="cursor: is "):
        collection.scroll(10, cursor)
    page = collection.scroll(10)
    with pytest.raises(InputError, match="cursor: is "):
        collection.scroll(10, page.next_cursor, parse_filter({"field": "at", "eq": 1}))
    assert [document.id for document in collection.scroll(3, page.next_cursor).documents] == [
        "d10",
        "d11",
        "d12",
    ]


def test_a_cursor_is_of_no_collection_that_was_made_later(tmp_path: Path) -> None:
    documents = code_documents(["0000"] * 30)
    with DataFolder(tmp_path, writable=True) as folder:
        collection = folder.create_collection("c", n_bits=16)
        collection.upsert(documents)
        snapshot = folder.snapshots.file(folder.create_snapshot("c").id)
        (cursor,) = collection.search([AT], 10).next_cursors
        scrolled = collection.scroll(10).next_cursor
        assert cursor is not None
        assert scrolled is not None
    with DataFolder(tmp_path, writable=True) as folder:
        collection = folder.collection("c")
        assert len(collection.search([AT], 10, cursor=cursor).hits[0]) == 10
        assert len(collection.scroll(10, scrolled).documents) == 10
        for make in (
            lambda: folder.create_collection("c", n_bits=16).upsert(documents),
            lambda: folder.restore_snapshot(snapshot, "c"),
        ):
            folder.drop_collection("c")
            make()
            again = folder.collection("c")
            assert len(again) == 30
            with pytest.raises(InputError, match="must be the next_cursor of a page of the same"):
                again.search([AT], 10, cursor=cursor)
            with pytest.raises(InputError, match="cursor"):
                again.scroll(10, scrolled)
