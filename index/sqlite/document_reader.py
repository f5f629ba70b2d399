"""Reads the documents of a store and checks them against their checksums."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from encoder.codes import Codes, code_to_hex
from foundation.slices import about_to_hold, checkpoint
from index.annotations.annotation_records import agreed_labels
from index.errors import StoreError
from index.filters import Filter
from index.kept_vectors import unpack_vector
from index.payload_labels import labels_of
from index.records import LONG_PAYLOAD, CodedPayloads, StoredDocument, parse_payload
from index.schema import checksum, last_row
from index.sqlite.annotation_tables import LABELS, read_records
from index.sqlite.changes import storable_ids
from index.sqlite.connection_pool import PARAMETERS, RowReader, in_chunks
from index.sqlite.database import Database
from index.sqlite.field_indexes import is_covered, matching_in_runs
from index.sqlite.filter_sql import where

# Reading so many payloads takes some tens of milliseconds.
ROWS_OF_A_SLICE = 20_000
# The number of documents that are read between two checkpoints.
ROWS_AT_ONCE = 500
STORED = "row, id, code, text, vector, payload, checksum"


class DocumentReader(RowReader):
    """Reads the documents of a store, in any number of threads."""

    def __init__(self, path: Path, database: Database) -> None:
        super().__init__(path, database.connections)
        self.description = database.description
        self._keep_vectors = database.description.keep_vectors
        self._database = database

    def read_payloads(self, *, with_given_labels: bool) -> CodedPayloads:
        """Return the code and payload of every document of one generation, by row.

        With `with_given_labels`, also return the labels that people agree on.

        Raises:
            StoreError: if a label is damaged.
        """
        with self._database.reading() as connection:
            agreed = agreed_labels(read_records(connection, LABELS)) if with_given_labels else {}
            query = "SELECT row, id FROM documents WHERE id IN "
            labels = {row: agreed[id_] for row, id_ in in_chunks(connection, query, list(agreed))}
            codes = bytearray()
            payloads: list[Mapping[str, Any]] = []
            given_labels: list[tuple[str, ...]] = []
            for rows, some_codes, some_payloads in self._coded_payloads(connection):
                codes += some_codes
                payloads += some_payloads
                if with_given_labels:
                    given_labels += [labels.get(row, ()) for row in rows]
        return CodedPayloads(self._as_codes(codes, len(payloads)), payloads, given_labels)

    def read_labels(self, field: str) -> tuple[Codes, list[tuple[str, ...]]]:
        """Return the code of every document of one generation, and its labels, by row.

        Payloads are dropped as soon as their labels are read: to free a million of them at once
        takes a third of a second, and keeps the interpreter lock.

        Raises:
            InputError: as :func:`index.payload_labels.labels_of`.
        """
        codes = bytearray()
        labels: list[tuple[str, ...]] = []
        distinct: dict[tuple[str, ...], tuple[str, ...]] = {}
        with self._database.reading() as connection:
            for _, some_codes, payloads in self._coded_payloads(connection):
                codes += some_codes
                for payload in payloads:
                    found = labels_of(payload, field)
                    labels.append(distinct.setdefault(found, found))
        return self._as_codes(codes, len(labels)), labels

    def _coded_payloads(
        self, connection: sqlite3.Connection
    ) -> Iterator[tuple[list[int], bytes, list[Mapping[str, Any]]]]:
        """Yield rows, their joined codes and their payloads, some at a time, by row."""
        cursor = connection.execute("SELECT row, code, payload FROM documents ORDER BY row")
        while some := cursor.fetchmany(ROWS_AT_ONCE):
            checkpoint()
            codes = self._pack_codes([code for _, code, _ in some])
            payloads = _parse_payloads([payload for _, _, payload in some])
            yield [row for row, _, _ in some], codes.tobytes(), payloads

    def _as_codes(self, joined: bytearray, count: int) -> Codes:
        return np.frombuffer(joined, dtype=np.uint8).reshape(count, self._code_size)

    def read_contents(self) -> list[StoredDocument]:
        """Return every document of one generation, by row.

        Raises:
            StoreError: if a document does not match its checksum.
        """
        query = f"SELECT {STORED} FROM documents ORDER BY row"  # noqa: S608 - a fixed list
        with self._database.reading() as connection:
            return self._parse_documents(connection.execute(query))

    def read_documents(self, rows: Sequence[int]) -> list[StoredDocument]:
        """Return the documents of `rows`, by row; missing rows are left out.

        Raises:
            StoreError: if a document does not match its checksum.
        """
        query = f"SELECT {STORED} FROM documents WHERE row IN "  # noqa: S608 - a fixed list
        with self._database.reading() as connection:
            stored = in_chunks(connection, query, rows)
        return sorted(map(self._parse_document, stored), key=lambda document: document.row)

    def rows_of(self, ids: Sequence[str]) -> list[int]:
        """Return the rows of the documents with these ids, ascending; unknown ids are ignored."""
        query = "SELECT row FROM documents WHERE id IN "
        with self._database.reading() as connection:
            return sorted(row for (row,) in in_chunks(connection, query, storable_ids(ids)))

    def read_codes_of(self, ids: Sequence[str]) -> dict[str, Codes]:
        """Return the code, ``uint8[C]``, of each document; unknown ids are left out."""
        return {id_: self._pack_codes([code])[0] for id_, (code, _) in self.read_marks(ids).items()}

    def read_marks(self, ids: Sequence[str]) -> dict[str, tuple[bytes, bytes]]:
        """Return the code and the checksum of each document; unknown ids are left out."""
        if not ids:
            return {}
        query = "SELECT id, code, checksum FROM documents WHERE id IN "
        with self._database.reading() as connection:
            marks = in_chunks(connection, query, storable_ids(ids))
            return {id_: (code, mark) for id_, code, mark in marks}

    def get(self, id_: str) -> StoredDocument | None:
        """Return the document with the id, or None.

        Raises:
            StoreError: if it does not match its checksum.
        """
        query = f"SELECT {STORED} FROM documents WHERE id IN "  # noqa: S608 - a fixed list
        with self._database.reading() as connection:
            stored = in_chunks(connection, query, storable_ids([id_]))
        return self._parse_document(stored[0]) if stored else None

    def count_matching(self, filter_: Filter) -> int:
        """Return the number of documents of one generation that match the filter."""
        with self._database.reading(transaction=True) as connection:
            last, count = last_row(connection), 0
            condition, values = where(connection, filter_)
            query = (
                f"SELECT count(*) FROM documents WHERE row > :after AND row <= :to AND {condition}"  # noqa: S608 - made of fixed parts
            )
            for after in range(0, last, ROWS_OF_A_SLICE):
                checkpoint()
                bounds = {"after": after, "to": after + ROWS_OF_A_SLICE}
                count += int(connection.execute(query, {**values, **bounds}).fetchone()[0])
            return count

    def scroll(
        self, limit: int, after: int, up_to: int | None, filter_: Filter | None
    ) -> tuple[list[StoredDocument], int]:
        """Return the first documents after row `after`, and the last row that was ever assigned.

        Rows after `up_to`, and those that do not match the filter, are left out.
        """
        with self._database.reading(transaction=True) as connection:
            last = last_row(connection)
            if filter_ is not None and is_covered(connection, filter_):
                to = last if up_to is None else up_to
                return self._scroll_in_runs(connection, limit, filter_, after, to), last
            condition, values = ("1", {}) if filter_ is None else where(connection, filter_)
            query = f"""
                SELECT {STORED} FROM documents
                WHERE row > :after AND row <= :up_to AND {condition} ORDER BY row LIMIT :limit
            """  # noqa: S608 - made of fixed parts
            bounds = {"after": after, "up_to": last if up_to is None else up_to, "limit": limit}
            stored = connection.execute(query, {**values, **bounds})
            return self._parse_documents(stored), last

    def _scroll_in_runs(
        self, connection: sqlite3.Connection, limit: int, filter_: Filter, after: int, up_to: int
    ) -> list[StoredDocument]:
        """Return the documents of :meth:`scroll` by the indexes of fields."""
        documents: list[StoredDocument] = []
        at_once = min(limit, PARAMETERS)
        for rows in matching_in_runs(connection, filter_, after, up_to):
            for start in range(0, len(rows), at_once):
                some: list[int] = rows[start : start + at_once].tolist()
                query = f"SELECT {STORED} FROM documents WHERE row IN "  # noqa: S608 - a fixed list
                stored = in_chunks(connection, query, some)
                documents += sorted(
                    map(self._parse_document, stored), key=lambda document: document.row
                )
                if len(documents) >= limit:
                    return documents[:limit]
        return documents

    def _parse_documents(self, cursor: sqlite3.Cursor) -> list[StoredDocument]:
        """Read the documents of a query in slices."""
        documents: list[StoredDocument] = []
        checkpoint()
        while some := cursor.fetchmany(ROWS_AT_ONCE):
            documents += self._parse_some(some)
            checkpoint()
        return documents

    def _parse_document(self, stored: tuple[Any, ...]) -> StoredDocument:
        return self._parse_some([stored])[0]

    def _parse_some(self, stored: Sequence[tuple[Any, ...]]) -> list[StoredDocument]:
        """Check documents and parse them; their codes and payloads are parsed together."""
        for _, id_, code, text, vector, payload, mark in stored:
            about_to_hold(len(payload) + len(text or "") + len(vector or b""))
            if checksum(id_, code, payload, text, vector) != mark:
                message = f"document {id_!r} does not match its checksum"
                raise StoreError(f"{self.path}: is damaged: {message}")
        digits = code_to_hex(self._pack_codes([one[2] for one in stored]))
        size = 2 * self._code_size
        payloads = _parse_payloads([one[5] for one in stored])
        return [
            StoredDocument(
                id_,
                row,
                digits[place * size : (place + 1) * size],
                text,
                None if vector is None else unpack_vector(vector, self._keep_vectors),
                payloads[place],
            )
            for place, (row, id_, _, text, vector, *_) in enumerate(stored)
        ]

    @property
    def _code_size(self) -> int:
        return self.description.n_bits // 8

    def _pack_codes(self, codes: Sequence[bytes]) -> Codes:
        size = self._code_size
        if any(not isinstance(code, bytes) or len(code) != size for code in codes):
            raise StoreError(f"{self.path}: is damaged: a code is not {size} bytes long")
        return np.frombuffer(b"".join(codes), dtype=np.uint8).reshape(len(codes), size)


def _parse_payloads(stored: Sequence[str]) -> list[Mapping[str, Any]]:
    """Return the payloads that are stored as JSON."""
    if max(map(len, stored), default=0) > LONG_PAYLOAD:
        return [*map(parse_payload, stored)]
    # One list is parsed in a third of the time of its items.
    parsed: list[Mapping[str, Any]] = json.loads(f"[{','.join(stored)}]")
    return parsed
