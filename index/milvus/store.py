"""Reads and writes the documents of one collection on Milvus."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from encoder.codes import Codes
from index.errors import StoreError, StoreUnavailable
from index.filters import Filter
from index.milvus.cluster import Cluster
from index.milvus.exact_search import MAX_ANSWER, Band, Neighbour
from index.milvus.filters import Condition, expression, quote
from index.milvus.schema import CONTENT_FIELDS, make_ready, name_on_milvus, to_code, to_payload
from index.schema import Description
from index.sqlite.changes import storable_ids

IDS_AT_ONCE = 1000
DOCUMENTS_AT_ONCE = 4000
# So many whole documents have at most 20 MB; an answer may have 100 MB.
FEW = 100
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
        return {id_: np.frombuffer(to_code(one), np.uint8) for id_, one in entities.items()}

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
                if width <= FEW:
                    raise
                most = max(FEW, width // 4)
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
        """Request neighbours; see :data:`index.milvus.exact_search.Ask`."""
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
            return [one["row"] for one in entities if wanted.matches(to_payload(one))]

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
        """See :meth:`index.milvus.cluster.Cluster.wait_for_all`."""
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
