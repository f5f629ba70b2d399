"""From the rows that a search found to its answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from encoder.codes import Codes
from index.engines.protocol import Rows
from index.paging import Position, write_cursor
from index.publication import Published
from index.records import Hit, SearchResult
from index.searching import Page, Probabilities, Wanted, asymmetric_scores, find_pages
from index.sqlite.store import Store, StoredRow


@dataclass(frozen=True, slots=True)
class Search:
    """A search whose queries are encoded, ``uint8[Q, C]``; what a cursor of it is bound to."""

    codes: Codes
    wanted: Wanted
    radius: int | None
    probabilities: Probabilities | None
    with_payload: bool
    with_code: bool
    identity: tuple[object, ...]


def answer(
    search: Search, store: Store, published: Published, among: Rows | None
) -> SearchResult | None:
    """Return the answer as of a generation, or None if a hit is no longer in the store."""
    generation = published.generation
    pages = find_pages(
        lambda codes, count: generation.search(codes, count, search.radius, among),
        search.codes,
        search.wanted,
    )
    rerank = search.probabilities is not None
    with_code = search.with_code or rerank
    known = read_hits(store, pages, with_payload=search.with_payload, with_code=with_code)
    if known is None:
        return None
    hits = [make_hits(page, known, with_code=search.with_code) for page in pages]
    if search.probabilities is not None:
        pairs = zip(hits, search.probabilities, strict=True)
        hits = [rerank_hits(some, known, alpha) for some, alpha in pairs]
    after = search.wanted.after
    last_row = published.last_row if after is None else after.last_row
    return SearchResult(
        generation=generation.number,
        hits=hits,
        next_cursors=[next_cursor(page, last_row, *search.identity) for page in pages]
        if len(pages) == 1
        else [None] * len(pages),
        ties_cut=[page.tie_cut for page in pages],
        engine=generation.engine,
        reranked=rerank,
    )


def read_hits(
    store: Store, pages: Sequence[Page], *, with_payload: bool, with_code: bool
) -> dict[int, StoredRow] | None:
    """Read what is known of the hits, or return None if one of them is no longer there."""
    found = (page.hits.rows for page in pages)
    rows = np.unique(np.concatenate([np.empty(0, np.int64), *found])).tolist()
    known = store.read_rows(rows, with_payload=with_payload, with_code=with_code)
    return known if len(known) == len(rows) else None


def make_hits(page: Page, known: Mapping[int, StoredRow], *, with_code: bool) -> list[Hit]:
    """Return the hits of a page, nearest first."""
    hits: list[Hit] = []
    for row, distance in zip(page.hits.rows.tolist(), page.hits.distances.tolist(), strict=True):
        id_, payload, code = known[row]
        shown = code.hex() if with_code and code is not None else None
        hits.append(Hit(id_, distance, row, payload, shown))
    return hits


def rerank_hits(
    hits: Sequence[Hit], known: Mapping[int, StoredRow], probabilities: Probabilities
) -> list[Hit]:
    """Return the same hits with scores, by (score, distance, row)."""
    packed = b"".join(known[hit.row].code or b"" for hit in hits)
    codes = np.frombuffer(packed, dtype=np.uint8).reshape(-1, len(probabilities) // 8)
    scores = asymmetric_scores(probabilities, codes).tolist()
    scored = [replace(hit, score=score) for hit, score in zip(hits, scores, strict=True)]
    return sorted(scored, key=lambda hit: (hit.score, hit.distance, hit.row))


def next_cursor(page: Page, last_row: int, *search: object) -> str | None:
    """Return the cursor of the page after this one, or None if this is the last."""
    if not page.more:
        return None
    distance, row = int(page.hits.distances[-1]), int(page.hits.rows[-1])
    return write_cursor(Position(distance, row, last_row, page.passed), *search)
