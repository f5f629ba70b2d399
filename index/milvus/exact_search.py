"""Exact neighbours from searches of Milvus, which guarantee less.

Milvus returns the nearest L documents of a query, where L is at most 16,384, and chooses freely
among ties at the last distance. So everything nearer than the last document is complete, and so is
an answer with fewer than L documents. The search requests more than it needs. If ties reach the end
of the answer, it requests still more. If they fill the largest answer, it continues distance by
distance, and reads the documents of a crowded distance by ranges of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from encoder.codes import Codes

MAX_ANSWER = 16_384
# The most hits of one request, over all of its queries.
HITS_AT_ONCE = 200_000


class Neighbour(NamedTuple):
    """A document and its distance; sorting gives the order of results."""

    distance: int
    row: int
    id: str


class Band(NamedTuple):
    """The range of distances, both ends included, and the filter expression of a request."""

    nearest: int
    farthest: int
    expression: str = ""


Ask = Callable[[Sequence[bytes], int, Band], list[list[Neighbour]]]
"""Returns at most so many of the documents nearest to each code within a band, in any order."""


class ExactSearch:
    """Finds the nearest documents of each query by (distance, row), in one or more requests."""

    def __init__(self, ask: Ask, last_row: int, max_answer: int = MAX_ANSWER) -> None:
        """Search with `ask`, which returns at most `max_answer`; `last_row` is the highest row."""
        self._ask = ask
        self._last_row = last_row
        self._max_answer = max_answer

    def nearest(self, codes: Codes, k: int, within: Band) -> list[list[Neighbour]]:
        """Return the `k` nearest documents of `codes`, ``uint8[Q, C]``, within a band, in order."""
        queries = [code.tobytes() for code in codes]
        answers: dict[int, list[Neighbour]] = {}
        limit = min(k + k // 2 + 16, self._max_answer)
        unanswered = list(range(len(queries)))
        while unanswered:
            step = max(1, HITS_AT_ONCE // limit)
            for start in range(0, len(unanswered), step):
                group = unanswered[start : start + step]
                results = self._ask([queries[at] for at in group], limit, within)
                for at, neighbours in zip(group, results, strict=True):
                    complete = _complete(neighbours, limit)
                    if len(neighbours) < limit or len(complete) >= k:
                        answers[at] = complete[:k]
            unanswered = [at for at in unanswered if at not in answers]
            if limit == self._max_answer:
                break
            limit = min(limit * 4, self._max_answer)
        for at in unanswered:
            answers[at] = self._by_distance(queries[at], k, within)
        return [answers[at] for at in range(len(queries))]

    def _by_distance(self, query: bytes, k: int, within: Band) -> list[Neighbour]:
        """Collect the answer from the nearest distance of the band to the farthest."""
        gathered: list[Neighbour] = []
        low = within.nearest
        while len(gathered) < k and low <= within.farthest:
            (neighbours,) = self._ask([query], self._max_answer, within._replace(nearest=low))
            gathered += _complete(neighbours, self._max_answer)
            if len(neighbours) < self._max_answer:
                break
            crowded = max(one.distance for one in neighbours)
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
            (neighbours,) = self._ask([query], self._max_answer, band._replace(expression=both))
            if len(neighbours) == self._max_answer and width > 1:
                # Few enough rows cannot fill an answer, so this ends.
                width = max(1, width // 4)
                continue
            gathered += sorted(neighbours)
            first += width
            if len(neighbours) < self._max_answer // 8:
                width *= 2
        return gathered


def _complete(neighbours: Sequence[Neighbour], limit: int) -> list[Neighbour]:
    """Return the sorted documents, without those at the last distance if there may be more."""
    if len(neighbours) < limit:
        return sorted(neighbours)
    farthest = max(one.distance for one in neighbours)
    return sorted(one for one in neighbours if one.distance < farthest)
