"""Pages of a search: which hits they hold, whether anything is left, and re-ranking.

Both kinds of collection use this: what differs is only how nearest rows are found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from corpus.document import parse_vector
from encoder.codes import Codes, unpack_codes
from encoder.encoder import Encoder
from index.backend import MAX_K
from index.engines.protocol import Neighbours
from index.errors import InputError
from index.paging import Position
from index.records import Query

MAX_OFFSET = 100_000
# Bounds the memory of a batch whose every query asks for much.
HITS_AT_ONCE = 4_000_000

Probabilities = npt.NDArray[np.float64]
Nearest = Callable[[Codes, int], list[Neighbours]]
"""Finds so many of the nearest of each query, in the order (distance, row)."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The part of a search's results that is asked for: `k` after `offset`, or after a position."""

    k: int
    offset: int = 0
    after: Position | None = None


class Page(NamedTuple):
    """The hits of one query, whether others come after them, and whether any is as far."""

    hits: Neighbours
    more: bool
    tie_cut: bool
    passed: int
    """How many hits came before the next page."""


def check_request(k: int, radius: int | None, offset: int, n_bits: int) -> None:
    """Raise InputError unless the numbers are ones that a search takes."""
    if not 1 <= k <= MAX_K:
        raise InputError("k", f"is {k}; it must be from 1 to {MAX_K}")
    if radius is not None and not 0 <= radius <= n_bits:
        raise InputError("radius", f"is {radius}; it must be from 0 to {n_bits}")
    if not 0 <= offset <= MAX_OFFSET:
        hint = f"it must be from 0 to {MAX_OFFSET}; a cursor goes on from there"
        raise InputError("offset", f"is {offset}; {hint}")


def check_cursor_use(queries: Sequence[Query], offset: int) -> None:
    """Raise InputError where a cursor cannot be followed."""
    if len(queries) != 1:
        raise InputError("cursor", f"continues one query; there are {len(queries)}")
    if offset:
        raise InputError("offset", f"is {offset}; beside a cursor it must be left out")


def find_pages(nearest: Nearest, codes: Codes, wanted: Wanted) -> list[Page]:
    """Return the page of each query that is `wanted`."""
    if wanted.after is not None:
        return [_page_after(nearest, codes, wanted.k, wanted.after)]
    count = wanted.offset + wanted.k + 1
    step = max(1, HITS_AT_ONCE // count)
    return [
        _page(found, wanted.offset, wanted.k, wanted.offset)
        for start in range(0, len(codes), step)
        for found in nearest(codes[start : start + step], count)
    ]


def _page_after(nearest: Nearest, codes: Codes, k: int, after: Position) -> Page:
    """Find the page after a position, among the rows that there were when the first was made."""
    count = after.passed + k + 1
    while True:
        (found,) = nearest(codes, count)
        exhausted = len(found.rows) < count
        old = found.rows <= after.last_row
        rows, distances = found.rows[old], found.distances[old]
        later = (distances > after.distance) | ((distances == after.distance) & (rows > after.row))
        hits = Neighbours(rows[later], distances[later])
        # Documents that were added since lie before the page and took the places of others.
        if exhausted or len(hits.rows) > k:
            return _page(hits, 0, k, after.passed)
        count *= 2


def _page(found: Neighbours, start: int, k: int, passed: int) -> Page:
    hits = Neighbours(found.rows[start : start + k], found.distances[start : start + k])
    n_hits = len(hits.rows)
    more = n_hits > 0 and len(found.rows) > start + n_hits
    tie_cut = more and bool(found.distances[start + n_hits] == hits.distances[-1])
    return Page(hits, more, tie_cut, passed + n_hits)


def query_probabilities(queries: Sequence[Query], encoder: Encoder | None) -> Probabilities:
    """Return the encoder's probability that each bit of a query is 1, ``float64[Q, n_bits]``.

    It is sigmoid(logit_b - threshold_b), so that a bit of the query's code is 1 where it is above
    one half.

    Raises:
        InputError: if a query is none that an encoder has seen, so that nothing is known of it but
            its code.
    """
    for position, query in enumerate(queries):
        if encoder is None or (query.text is None and query.vector is None):
            message = "needs a query that the collection's encoder encodes: a text or a vector"
            raise InputError("rerank", message, position)
    if encoder is None or not queries:
        return np.empty((0, 0))
    if encoder.kind == "text":
        logits = encoder.logits([query.text or "" for query in queries])
    else:
        logits = encoder.logits(np.stack([parse_vector(query.vector) for query in queries]))
    margins = logits.astype(np.float64) - encoder.thresholds
    # In terms of exp(-|m|), which cannot overflow.
    small = np.exp(-np.abs(margins))
    return np.asarray(np.where(margins >= 0, 1 / (1 + small), small / (1 + small)))


def asymmetric_scores(probabilities: Probabilities, codes: Codes) -> Probabilities:
    """Return the sum over b of |alpha_b - c_b| for each of `codes`, ``float64[m]``.

    alpha, ``float64[n_bits]``, are the query's probabilities and c the bits of a code.
    """
    return np.asarray(np.abs(probabilities - unpack_codes(codes)).sum(axis=1))
