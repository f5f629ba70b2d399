"""From the rows that a search found to its answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from index.paging import Position, write_cursor
from index.records import Hit
from index.searching import Page, Probabilities, asymmetric_scores
from index.store import Store, StoredRow


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
