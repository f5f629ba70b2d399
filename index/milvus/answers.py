"""From queries to the answer of a search on Milvus."""

from __future__ import annotations

from collections.abc import Sequence

from encoder.codes import Codes
from index.answers import make_hits, next_cursor, rerank_hits
from index.backend import CollectionBackend
from index.engines.protocol import Neighbours
from index.errors import StoreError
from index.filters import Filter, filter_to_json
from index.milvus.catalogue import Counters
from index.milvus.schema import to_code, to_payload
from index.milvus.search import Band, ExactSearch, to_neighbours
from index.milvus.store import MilvusStore
from index.paging import read_cursor
from index.records import Query, SearchResult
from index.searching import (
    Page,
    Wanted,
    check_cursor_use,
    check_request,
    find_pages,
    query_probabilities,
)
from index.sqlite.store import StoredRow

ENGINE = "milvus"
# A search is repeated where a hit is replaced before its payload is read.
ATTEMPTS = 10


def search_on_milvus(
    collection: CollectionBackend,
    store: MilvusStore,
    now: Counters,
    queries: Sequence[Query],
    *,
    k: int,
    radius: int | None,
    with_payload: bool,
    with_code: bool,
    filter_: Filter | None,
    offset: int,
    cursor: str | None,
    rerank: bool,
) -> SearchResult:
    """See :meth:`index.backend.CollectionBackend.search`; `now` is where the collection stands."""
    check_request(k, radius, offset, collection.n_bits)
    if cursor is not None:
        check_cursor_use(queries, offset)
    probabilities = query_probabilities(queries, collection.encoder) if rerank else None
    codes = collection.encode_queries(queries)
    shown = None if filter_ is None else filter_to_json(filter_)
    search = (collection.name, collection.n_bits, codes.tobytes(), radius, shown)
    after = None if cursor is None else read_cursor(cursor, *search)
    last_row = now.last_row if after is None else after.last_row
    condition = store.condition(filter_, now.last_row)
    farthest = collection.n_bits if radius is None else radius
    for _ in range(ATTEMPTS):
        finder = _Finder(store, Band(0, farthest, condition), now.last_row)
        pages = find_pages(finder.nearest, codes, Wanted(k, offset, after))
        known = finder.known(pages, with_payload=with_payload, with_code=with_code or rerank)
        if known is not None:
            break
    else:
        raise StoreError(f"collection {collection.name!r} changes too fast to be searched")
    hits = [make_hits(page, known, with_code=with_code) for page in pages]
    if probabilities is not None:
        pairs = zip(hits, probabilities, strict=True)
        hits = [rerank_hits(some, known, alpha) for some, alpha in pairs]
    single = len(codes) == 1
    return SearchResult(
        generation=now.generation,
        hits=hits,
        next_cursors=[next_cursor(page, last_row, *search) if single else None for page in pages],
        ties_cut=[page.tie_cut for page in pages],
        engine=ENGINE,
        reranked=rerank,
    )


class _Finder:
    """Finds neighbours within a band and remembers their ids."""

    def __init__(self, store: MilvusStore, within: Band, last_row: int) -> None:
        self._store = store
        self._within = within
        self._search = ExactSearch(store.nearest, last_row)
        self._ids: dict[int, str] = {}

    def nearest(self, codes: Codes, count: int) -> list[Neighbours]:
        found = self._search.nearest(codes, count, self._within)
        self._ids.update((one.row, one.id) for some in found for one in some)
        return [to_neighbours(some) for some in found]

    def known(
        self, pages: Sequence[Page], *, with_payload: bool, with_code: bool
    ) -> dict[int, StoredRow] | None:
        """Return what is known of the hits, or None if one was replaced or deleted meanwhile."""
        rows = {row for page in pages for row in page.hits.rows.tolist()}
        if not (with_payload or with_code):
            return {row: StoredRow(self._ids[row], None, None) for row in rows}
        fields = ["row", "code", "payload", "original"]
        found = self._store.of_ids([self._ids[row] for row in rows], fields)
        known = {
            entity["row"]: StoredRow(
                id_, to_payload(entity) if with_payload else None, to_code(entity)
            )
            for id_, entity in found.items()
        }
        return known if rows <= known.keys() else None
