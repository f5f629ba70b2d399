"""Random sequences of calls to a collection, compared with a model of its content."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from hummingbit.corpus.document import Document
from hummingbit.index.backend import CollectionBackend
from hummingbit.index.filters import Filter, parse_filter
from hummingbit.index.records import Query
from hummingbit.index.search import Hit
from tests.support.collections import Found, Model

IDS = st.sampled_from([f"d{i}" for i in range(12)])
# Few codes, so that they repeat and tie.
CODES = st.sampled_from(["0000", "0001", "0003", "000f", "00ff", "ffff", "8000"])
PAYLOADS = st.fixed_dictionaries({"n": st.integers(0, 3)}, optional={"tag": st.sampled_from("ab")})
DOCUMENTS = st.builds(
    lambda id_, code, payload: Document(id=id_, code=code, payload=payload), IDS, CODES, PAYLOADS
)
RECORDS: list[dict[str, Any]] = [
    {"field": "n", "eq": 1},
    {"field": "n", "gte": 1},
    {"field": "tag", "exists": False},
    {"or": [{"field": "tag", "eq": "a"}, {"field": "n", "eq": 3}]},
]
FILTERS = st.sampled_from([parse_filter(record) for record in RECORDS])
RADII = st.none() | st.integers(0, 16)


class Paging(NamedTuple):
    """A paged search; `left` holds the expected hits of the pages to come."""

    code: str
    radius: int | None
    filter: Filter | None
    left: list[Found]
    cursor: str


class Scrolling(NamedTuple):
    filter: Filter | None
    left: list[tuple[int, str]]
    cursor: str


def found_in(hits: list[Hit]) -> list[tuple[int, str]]:
    return [(hit.distance or 0, hit.id) for hit in hits]


class CollectionMachine(RuleBasedStateMachine):
    """Makes the same changes to a collection and to its model, and compares the two."""

    collection: CollectionBackend

    def begin(self) -> CollectionBackend:
        """Make an empty collection for codes of 16 bits."""
        raise NotImplementedError

    def end(self) -> None:
        """Close and delete the collection."""
        raise NotImplementedError

    def __init__(self) -> None:
        super().__init__()
        self.model = Model(16)
        self.collection = self.begin()
        self.generation = self.collection.generation
        self.paging: Paging | None = None
        self.scrolling: Scrolling | None = None

    @rule(documents=st.lists(DOCUMENTS, max_size=8), batch_size=st.integers(1, 4))
    def upsert(self, documents: list[Document], batch_size: int) -> None:
        result = self.collection.upsert(documents, batch_size=batch_size)
        self.model.upsert(documents)
        self.generation += bool(documents)
        assert result.upserted == len({document.id for document in documents})
        assert result.generation == self.generation

    @rule(ids=st.lists(IDS, max_size=6))
    def delete(self, ids: list[str]) -> None:
        result = self.collection.delete(ids)
        gone = self.model.delete(ids)
        self.generation += bool(gone)
        assert (result.deleted, result.generation) == (gone, self.generation)

    @rule(filter_=FILTERS)
    def delete_where(self, filter_: Filter) -> None:
        result = self.collection.delete_where(filter_)
        gone = self.model.delete(self.model.matching(filter_))
        self.generation += bool(gone)
        assert (result.deleted, result.generation) == (gone, self.generation)

    @rule(code=CODES, k=st.integers(1, 15), radius=RADII, filter_=st.none() | FILTERS)
    def search(self, code: str, k: int, radius: int | None, filter_: Filter | None) -> None:
        result = self.collection.search(
            [Query(code=code)], k, radius, filter=filter_, with_payload=True, with_code=True
        )
        expected = self.model.ranked(code, radius, filter_)
        hits = result.hits[0]
        assert found_in(hits) == [(hit.distance, hit.id) for hit in expected[:k]]
        assert [(hit.distance, hit.row) for hit in hits] == sorted(
            (h.distance, h.row) for h in hits
        )
        assert all(hit.code == self.model.held[hit.id][1] for hit in hits)
        assert all(hit.payload == self.model.payloads[hit.id] for hit in hits)
        tied = len(expected) > k and expected[k].distance == expected[k - 1].distance
        assert result.ties_cut == [tied]
        assert (result.next_cursors[0] is None) == (len(expected) <= k)
        assert result.generation == self.generation

    @rule(codes=st.lists(CODES, max_size=3), offset=st.integers(0, 14), filter_=FILTERS)
    def search_in_batches(self, codes: list[str], offset: int, filter_: Filter) -> None:
        queries = [Query(code=code) for code in codes]
        result = self.collection.search(queries, 2, filter=filter_, offset=offset)
        found = [[hit.id for hit in hits] for hits in result.hits]
        expected = [self.model.ranked(code, None, filter_) for code in codes]
        assert found == [
            [document.id for document in ranked[offset : offset + 2]] for ranked in expected
        ]

    @rule(code=CODES, radius=RADII, filter_=st.none() | FILTERS)
    def begin_paging(self, code: str, radius: int | None, filter_: Filter | None) -> None:
        result = self.collection.search([Query(code=code)], 1, radius, filter=filter_)
        (cursor,) = result.next_cursors
        if cursor is not None:
            left = self.model.ranked(code, radius, filter_)[1:]
            self.paging = Paging(code, radius, filter_, left, cursor)

    @precondition(lambda self: self.paging is not None)
    @rule(k=st.integers(1, 4))
    def next_page(self, k: int) -> None:
        assert self.paging is not None
        code, radius, filter_, left, cursor = self.paging
        left = [
            document
            for document in left
            if self.model.held.get(document.id, (0,))[0] == document.row
        ]
        result = self.collection.search(
            [Query(code=code)], k, radius, filter=filter_, cursor=cursor
        )
        assert found_in(result.hits[0]) == [(hit.distance, hit.id) for hit in left[:k]]
        (following,) = result.next_cursors
        assert (following is None) == (len(left) <= k)
        more = following is not None
        self.paging = Paging(code, radius, filter_, left[k:], following or "") if more else None

    @rule(filter_=st.none() | FILTERS, limit=st.integers(1, 3))
    def begin_scrolling(self, filter_: Filter | None, limit: int) -> None:
        there = [(self.model.held[id_][0], id_) for id_ in self.model.matching(filter_)]
        page = self.collection.scroll(limit, filter=filter_)
        assert [document.id for document in page.documents] == [id_ for _, id_ in there[:limit]]
        if page.next_cursor is not None:
            self.scrolling = Scrolling(filter_, there[limit:], page.next_cursor)

    @precondition(lambda self: self.scrolling is not None)
    @rule(limit=st.integers(1, 4))
    def scroll_on(self, limit: int) -> None:
        assert self.scrolling is not None
        filter_, left, cursor = self.scrolling
        left = [(row, id_) for row, id_ in left if self.model.held.get(id_, (0,))[0] == row]
        page = self.collection.scroll(limit, cursor, filter_)
        assert [document.id for document in page.documents] == [id_ for _, id_ in left[:limit]]
        assert (page.next_cursor is None) == (len(left) <= limit)
        more = page.next_cursor
        self.scrolling = None if more is None else Scrolling(filter_, left[limit:], more)

    @rule(document=DOCUMENTS)
    def get(self, document: Document) -> None:
        stored = self.collection.get(document.id)
        expected = self.model.held.get(document.id)
        assert (stored is None) == (expected is None)
        if stored is not None and expected is not None:
            assert stored.code == expected[1]
        payload = self.model.payloads.get(document.id)
        same = expected is not None and expected[1] == document.code
        # As it was given means in the order of its keys, too.
        same = same and json.dumps(payload) == json.dumps(document.payload)
        assert (self.collection.new_or_changed([document]) == []) == same

    @rule(filter_=FILTERS)
    def count(self, filter_: Filter) -> None:
        assert self.collection.count(filter_) == len(self.model.matching(filter_))

    @invariant()
    def holds_as_many_as_the_model(self) -> None:
        assert len(self.collection) == self.collection.count() == len(self.model.held)
        assert self.collection.generation == self.generation

    def teardown(self) -> None:
        try:
            verification = self.collection.verify()
            assert verification.problems == []
            assert verification.documents == len(self.model.held)
        finally:
            self.end()
