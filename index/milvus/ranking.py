"""The ranking by Hamming distance on Milvus, and the search that uses it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from foundation.errors import InputError
from index.engines.protocol import Rows
from index.errors import StoreError
from index.milvus.catalogue import Counters
from index.milvus.exact_search import Band, ExactSearch, Neighbour
from index.milvus.schema import to_code, to_payload, to_text
from index.milvus.store import MilvusStore
from index.rankings.hamming import AGREEMENTS, bit_agreement
from index.rankings.protocol import HAMMING, RankedRows
from index.records import EncodedQueries, SearchResult, StoredRow
from index.search.search_steps import Search, rows_of

ENGINE = "milvus"
# A search is repeated if a hit is replaced before its payload is read.
ATTEMPTS = 10


def search_on_milvus(search: Search, store: MilvusStore, now: Counters) -> SearchResult:
    """Run a search and return its result; `now` are the counters of the collection.

    Raises:
        InputError: if Milvus does not support the ranking or rescoring.
        StoreError: if Milvus cannot be reached or refuses.
    """
    options = search.options
    check_on_milvus(search.ranking)
    if options.rescore is not None:
        raise InputError("rescore", "is not supported by a collection on Milvus; leave it out")
    condition = store.condition(options.filter, now.last_row)
    for _ in range(ATTEMPTS):
        ranking = _HammingOnMilvus(store, now.last_row, condition, options.radius)
        pages = search.pages(ranking, None)
        stored_rows = ranking.read_hits(search, rows_of(pages))
        if stored_rows is not None:
            return search.result(
                ranking,
                pages,
                stored_rows,
                generation=now.generation,
                last_row=now.last_row,
                engine=ENGINE,
            )
    raise StoreError(f"collection {search.name!r} changes too fast to be searched")


def check_on_milvus(ranking: str) -> None:
    """Raise an InputError unless collections on Milvus support the ranking."""
    if ranking != HAMMING:
        message = f"is {ranking!r}; a collection on Milvus is ranked by {HAMMING!r} only"
        raise InputError("ranking", message)


class _HammingOnMilvus:
    """A :class:`~index.rankings.protocol.Ranking` that remembers the ids of what it finds."""

    name = HAMMING

    def __init__(
        self, store: MilvusStore, last_row: int, condition: str, radius: int | None
    ) -> None:
        """Rank the documents that match an expression, within `radius` and up to `last_row`."""
        self._store = store
        self._condition = condition
        self._radius = radius
        self._search = ExactSearch(store.nearest, last_row)
        self._ids: dict[int, str] = {}

    def rank(
        self, queries: EncodedQueries, k: int, allowed: Rows | None = None
    ) -> list[RankedRows]:
        """See :meth:`index.rankings.protocol.Ranking.rank`; the expression limits the rows."""
        if allowed is not None:
            raise ValueError("rows are allowed by the expression of a filter only")
        n_bits = queries.codes.shape[1] * 8
        within = Band(0, n_bits if self._radius is None else self._radius, self._condition)
        ranked = self._search.nearest(queries.codes, k, within)
        self._ids.update((one.row, one.id) for some in ranked for one in some)
        return [_to_ranked_rows(some) for some in ranked]

    def hit_scores(self, queries: EncodedQueries, found: Sequence[RankedRows]) -> list[list[float]]:
        """Return 1 - distance / n_bits: the share of bits that agree."""
        return bit_agreement(queries, found)

    def anchors(
        self,
        queries: EncodedQueries,  # noqa: ARG002
        found: Sequence[RankedRows],
    ) -> list[tuple[float, float]]:
        """Return :data:`index.rankings.hamming.AGREEMENTS`."""
        return [AGREEMENTS] * len(found)

    def read_hits(self, search: Search, rows: Sequence[int]) -> dict[int, StoredRow] | None:
        """Return the stored rows of the hits, or None if one was replaced or deleted meanwhile."""
        options = search.options
        fields = ["row"]
        fields += ["payload", "original"] if options.with_payload else []
        fields += ["content"] if options.with_text or options.highlight else []
        fields += ["code"] if search.needs_codes else []
        if fields == ["row"]:
            return {row: (self._ids[row], None, None, None) for row in rows}
        entities = self._store.by_ids([self._ids[row] for row in rows], fields)
        known: dict[int, StoredRow] = {
            entity["row"]: (
                id_,
                to_payload(entity) if options.with_payload else None,
                to_text(entity) if options.with_text or options.highlight else None,
                to_code(entity) if search.needs_codes else None,
            )
            for id_, entity in entities.items()
        }
        return known if set(rows) <= known.keys() else None


def _to_ranked_rows(neighbours: Sequence[Neighbour]) -> RankedRows:
    rows = np.array([one.row for one in neighbours], dtype=np.int64)
    return RankedRows(rows, np.array([-one.distance for one in neighbours], dtype=np.int64))
