"""Reads and writes the documents of one collection on Milvus, and searches it exactly."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from hummingbit.encoder.codes import Codes
from hummingbit.index.errors import StoreError, StoreUnavailable
from hummingbit.index.filters import Filter
from hummingbit.index.milvus.cluster import Cluster
from hummingbit.index.milvus.filters import Condition, expression, quote
from hummingbit.index.milvus.schema import (
    CONTENT_FIELDS,
    make_ready,
    name_on_milvus,
    to_code,
    to_payload,
)
from hummingbit.index.schema import Description
from hummingbit.index.store.store import storable_ids

# Exact neighbours from searches of Milvus, which guarantee less.
#
# Milvus returns the nearest L documents of a query, where L is at most 16,384, and chooses freely
# among ties at the last distance. So everything nearer than the last document is complete, and so
# is an answer with fewer than L documents. The search requests more than it needs. If ties reach
# the end of the answer, it requests still more. If they fill the largest answer, it continues
# distance by distance, and reads the documents of a crowded distance by ranges of rows.


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
            crowded = max(neighbour.distance for neighbour in neighbours)
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
    farthest = max(neighbour.distance for neighbour in neighbours)
    return sorted(neighbour for neighbour in neighbours if neighbour.distance < farthest)


# Reads and writes the documents of one collection on Milvus.


IDS_AT_ONCE = 1000
DOCUMENTS_AT_ONCE = 4000
# So many whole documents have at most 20 MB; an answer may have 100 MB.
MIN_FETCHED = 100
BYTES_AT_ONCE = 8 << 20
ATTEMPTS = 3


class MilvusStore:
    """One collection on Milvus."""

    def __init__(self, cluster: Cluster, description: Description) -> None:
        """Open the existing collection of that description.

        Raises:
            StoreError: if Milvus cannot be reached or refuses.
        """
        self._cluster = cluster
        self._name = name_on_milvus(description.name)
        self._n_bits = description.n_bits
        self._open = True
        make_ready(cluster, self._name)

    def count(self, condition: str = "") -> int:
        """Return the number of documents, or of those that match an expression."""
        return int(self._query(condition, ["count(*)"])[0]["count(*)"])

    def codes_of(self, ids: Sequence[str]) -> dict[str, Codes]:
        """Return the code, ``uint8[C]``, of each document; unknown ids are left out."""
        entities = self.by_ids(ids, ["code"])
        return {id_: np.frombuffer(to_code(entity), np.uint8) for id_, entity in entities.items()}

    def by_ids(self, ids: Sequence[str], fields: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Return fields of the documents with these ids; unknown ids are left out."""
        entities: dict[str, dict[str, Any]] = {}
        for some in _in_chunks(storable_ids(ids), IDS_AT_ONCE):
            for entity in self._query(_id_in(some), fields):
                entities[entity["id"]] = entity
        return entities

    def by_row(
        self, fields: Sequence[str], first: int, last: int, condition: str = ""
    ) -> Iterator[dict[str, Any]]:
        """Yield fields of the documents with rows from `first` to `last`, by row."""
        most = DOCUMENTS_AT_ONCE if "content" in fields else MAX_ANSWER
        width = most - 1
        while first <= last:
            rows = f"row >= {first} and row < {min(first + width, last + 1)}"
            both = f"({condition}) and {rows}" if condition else rows
            try:
                entities = self._query(both, fields, limit=most)
            except StoreUnavailable:
                raise
            except StoreError:
                # The answer may have been too large; a request for few documents shows whether.
                if width <= MIN_FETCHED:
                    raise
                most = max(MIN_FETCHED, width // 4)
                width = most - 1
                continue
            if len(entities) == most and width > 1:
                # The answer may be incomplete; fewer rows than its limit always fit.
                width = max(1, width // 4)
                continue
            yield from sorted(entities, key=lambda entity: int(entity["row"]))
            first += width
            if len(entities) < most // 8:
                width *= 2

    def nearest(self, codes: Sequence[bytes], limit: int, band: Band) -> list[list[Neighbour]]:
        """Request neighbours; see :data:`hummingbit.index.milvus.store.Ask`."""
        # In Milvus, `radius` is exclusive and `range_filter` is inclusive.
        within = {"range_filter": band.nearest, "radius": band.farthest + 1}
        # A range with all documents would be collected completely before the nearest are chosen.
        everything = band.nearest == 0 and band.farthest >= self._n_bits
        answers = self._call(
            "search",
            self._name,
            data=list(codes),
            anns_field="code",
            limit=limit,
            filter=band.expression,
            output_fields=["row"],
            search_params={"metric_type": "HAMMING", "params": {} if everything else within},
            **self._cluster.consistency(),
        )
        return [
            [Neighbour(round(hit["distance"]), hit["entity"]["row"], hit["id"]) for hit in hits]
            for hits in answers
        ]

    def condition(self, filter_: Filter | None, last_row: int) -> str:
        """Return the expression of a filter; empty for no filter."""

        def find_rows(condition: str, wanted: Condition) -> list[int]:
            fields = ["id", "row", "payload", "original"]
            entities = self.by_row(fields, 1, last_row, condition)
            return [entity["row"] for entity in entities if wanted.matches(to_payload(entity))]

        return "" if filter_ is None else expression(filter_, find_rows)

    def documents(self, first: int, last: int, condition: str = "") -> Iterator[dict[str, Any]]:
        """Yield whole documents with rows from `first` to `last`, by row."""
        return self.by_row(CONTENT_FIELDS, first, last, condition)

    def upsert(self, entities: Sequence[dict[str, Any]]) -> None:
        """Insert documents or replace those with the same ids; repeating this changes nothing."""
        batch: list[dict[str, Any]] = []
        size = 0
        for entity in entities:
            size += len(entity["content"]) + 2 * len(entity["original"]) + 1000
            batch.append(entity)
            if size > BYTES_AT_ONCE:
                self._write("upsert", batch)
                batch, size = [], 0
        if batch:
            self._write("upsert", batch)

    def delete(self, ids: Sequence[str]) -> None:
        """Delete the documents with these ids."""
        for some in _in_chunks(ids, IDS_AT_ONCE):
            self._write("delete", filter=_id_in(some))

    def whole(self, id_: str) -> dict[str, Any] | None:
        """Return all fields of a document, or None if no document has the id."""
        return self.by_ids([id_], CONTENT_FIELDS).get(id_)

    def wait_for_all(self) -> None:
        """See :meth:`hummingbit.index.milvus.cluster.Cluster.wait_for_all`."""
        self._cluster.wait_for_all()

    def close(self) -> None:
        """Refuse all further requests."""
        self._open = False

    def compact(self) -> None:
        """Ask Milvus to merge segments and drop deleted documents, in the background."""
        self._call("flush", self._name)
        self._call("compact", self._name)

    def _call(self, method: str, *args: Any, **options: Any) -> Any:
        if not self._open:
            raise StoreError(f"{self._name} on Milvus is closed")
        return self._cluster.call(method, *args, **options)

    def _query(self, condition: str, fields: Sequence[str], **options: Any) -> Any:
        return self._call(
            "query",
            self._name,
            filter=condition,
            output_fields=list(fields),
            **self._cluster.consistency(),
            **options,
        )

    def _write(self, method: str, *args: Any, **options: Any) -> None:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                self._call(method, self._name, *args, **options)
                return
            except StoreUnavailable:
                if attempt == ATTEMPTS:
                    raise
                time.sleep(attempt)


def _id_in(ids: Sequence[str]) -> str:
    return f"id in [{', '.join(map(quote, ids))}]"


def _in_chunks(values: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    for start in range(0, len(values), size):
        yield values[start : start + size]
