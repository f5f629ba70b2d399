"""Exact neighbours from a search that promises less.

Milvus returns the nearest L of a query, L being at most 16,384, and of several at the same distance
as the last it returns any. What is nearer than the last it returned is therefore complete, and so
is an answer of fewer than L. The search asks for more than it needs; where ties reach the end of
the answer it asks for more again; and where they fill the largest answer there is, it goes on from
distance to distance, taking the documents of a crowded distance by ranges of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from encoder.codes import Codes

MAX_ANSWER = 16_384
# How many hits one request may bring, over all of its queries.
HITS_AT_ONCE = 200_000


class Neighbour(NamedTuple):
    """A document and how far it is. Sorted, the order is that of results."""

    distance: int
    row: int
    id: str


class Band(NamedTuple):
    """Which documents are asked for: by distance, both ends included, and by an expression."""

    nearest: int
    farthest: int
    expression: str = ""


Ask = Callable[[Sequence[bytes], int, Band], list[list[Neighbour]]]
"""Returns up to so many of the documents nearest to each code within a band, in any order."""


class ExactSearch:
    """Finds the nearest of each query by (distance, row), by asking as often as it takes."""

    def __init__(self, ask: Ask, last_row: int, max_answer: int = MAX_ANSWER) -> None:
        """Search through `ask`, which returns at most `max_answer`; no row is above `last_row`."""
        self._ask = ask
        self._last_row = last_row
        self._max_answer = max_answer

    def nearest(self, codes: Codes, k: int, within: Band) -> list[list[Neighbour]]:
        """Return the `k` nearest of each of `codes`, ``uint8[Q, C]``, within a band, in order."""
        queries = [code.tobytes() for code in codes]
        answers: dict[int, list[Neighbour]] = {}
        limit = min(k + k // 2 + 16, self._max_answer)
        open_ = list(range(len(queries)))
        while open_:
            step = max(1, HITS_AT_ONCE // limit)
            for start in range(0, len(open_), step):
                group = open_[start : start + step]
                results = self._ask([queries[at] for at in group], limit, within)
                for at, found in zip(group, results, strict=True):
                    complete = _complete(found, limit)
                    if len(found) < limit or len(complete) >= k:
                        answers[at] = complete[:k]
            open_ = [at for at in open_ if at not in answers]
            if limit == self._max_answer:
                break
            limit = min(limit * 4, self._max_answer)
        for at in open_:
            answers[at] = self._by_distance(queries[at], k, within)
        return [answers[at] for at in range(len(queries))]

    def _by_distance(self, query: bytes, k: int, within: Band) -> list[Neighbour]:
        """Gather the answer from the near end of the band to the far one."""
        gathered: list[Neighbour] = []
        low = within.nearest
        while len(gathered) < k and low <= within.farthest:
            (found,) = self._ask([query], self._max_answer, within._replace(nearest=low))
            gathered += _complete(found, self._max_answer)
            if len(found) < self._max_answer:
                break
            crowded = max(one.distance for one in found)
            if len(gathered) < k:
                at_once = Band(crowded, crowded, within.expression)
                gathered += self._by_rows(query, k - len(gathered), at_once)
            low = crowded + 1
        return gathered[:k]

    def _by_rows(self, query: bytes, k: int, band: Band) -> list[Neighbour]:
        """Return the first `k` rows of a band of one distance."""
        gathered: list[Neighbour] = []
        first, width = 1, self._last_row
        while len(gathered) < k and first <= self._last_row:
            rows = f"(row >= {first} and row < {first + width})"
            both = f"{band.expression} and {rows}" if band.expression else rows
            (found,) = self._ask([query], self._max_answer, band._replace(expression=both))
            if len(found) == self._max_answer and width > 1:
                # So many rows hold so many documents at least, so this comes to an end.
                width = max(1, width // 4)
                continue
            gathered += sorted(found)
            first += width
            if len(found) < self._max_answer // 8:
                width *= 2
        return gathered


def _complete(found: Sequence[Neighbour], limit: int) -> list[Neighbour]:
    """Leave out, unless this is all there is, those as far as the farthest; return it in order."""
    if len(found) < limit:
        return sorted(found)
    farthest = max(one.distance for one in found)
    return sorted(one for one in found if one.distance < farthest)
