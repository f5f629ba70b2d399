"""What a transaction can do to a store."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from corpus.document import Document
from encoder.codes import Codes
from index.protocol import Rows

# SQLite takes a limited number of parameters in one statement.
CHUNK = 500
LONE_SURROGATE = re.compile("[\ud800-\udfff]")


class Changes:
    """One transaction, as :meth:`index.store.Store.writing` begins it.

    `generation` is the store's before the transaction.
    """

    def __init__(self, connection: sqlite3.Connection, generation: int) -> None:
        self.generation = generation
        self._connection = connection
        query = "SELECT seq FROM sqlite_sequence WHERE name = 'documents'"
        self._last_row: int = (connection.execute(query).fetchone() or (0,))[0]

    def delete(self, ids: Sequence[str]) -> list[int]:
        """Delete the documents with these ids, where they are there, and return their rows."""
        query = "SELECT row FROM documents WHERE id IN "
        rows = sorted(row for (row,) in in_chunks(self._connection, query, storable(ids)))
        gone = [(row,) for row in rows]
        self._connection.executemany("DELETE FROM documents WHERE row = ?", gone)
        self._connection.executemany("DELETE FROM codes WHERE row = ?", gone)
        return rows

    def insert(self, documents: Sequence[Document], codes: Codes) -> Rows:
        """Insert documents, none of whose ids is there, and return their rows in order."""
        rows = self._last_row + 1 + np.arange(len(documents))
        self._last_row += len(documents)
        records = [_record(row, one) for row, one in zip(rows.tolist(), documents, strict=True)]
        packed = [(row, code.tobytes()) for row, code in zip(rows.tolist(), codes, strict=True)]
        self._connection.executemany("INSERT INTO documents VALUES (?, ?, ?, ?, ?)", records)
        self._connection.executemany("INSERT INTO codes VALUES (?, ?)", packed)
        return rows

    def commit(self) -> None:
        """Make the changes last, as the generation after this one."""
        query = "UPDATE meta SET value = ? WHERE key = 'generation'"
        self._connection.execute(query, (self.generation + 1,))
        self._connection.execute("COMMIT")


def in_chunks(
    connection: sqlite3.Connection, query: str, values: Sequence[Any]
) -> Iterator[tuple[Any, ...]]:
    """Run `query`, which ends in ``IN``, for all of `values` and yield what is found."""
    for start in range(0, len(values), CHUNK):
        chunk = values[start : start + CHUNK]
        yield from connection.execute(f"{query}({','.join('?' * len(chunk))})", chunk)


def storable(ids: Sequence[str]) -> list[str]:
    """Leave out ids with a lone surrogate: SQLite takes none, so no document can have one."""
    return [id_ for id_ in ids if not LONE_SURROGATE.search(id_)]


def _record(row: int, document: Document) -> tuple[Any, ...]:
    vector = document.vector
    payload = json.dumps(document.payload_with_labels, ensure_ascii=False, allow_nan=False)
    return (
        row,
        document.id,
        payload,
        document.text,
        None if vector is None else np.asarray(vector, dtype="<f4").tobytes(),
    )
