"""Labels and judgements in a store, in two tables beside those of the documents.

The first record creates the tables. A store without them, such as every store of version 0.1.0, has
no labels. Each record has a checksum.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Generic, TypeVar

from foundation.errors import InputError
from foundation.slices import checkpoint
from index.annotations.annotation_records import DocumentLabel, Judgement
from index.errors import StoreError
from index.sqlite.connection_pool import in_chunks

Record = TypeVar("Record", DocumentLabel, Judgement)

ANNOTATIONS_SCHEMA = (
    """CREATE TABLE labels (
    id TEXT NOT NULL,
    who TEXT NOT NULL,
    labels TEXT NOT NULL,
    grade INTEGER NOT NULL,
    "when" TEXT NOT NULL,
    checksum BLOB NOT NULL,
    PRIMARY KEY (id, who)
) WITHOUT ROWID""",
    """CREATE TABLE judgements (
    query TEXT NOT NULL,
    id TEXT NOT NULL,
    who TEXT NOT NULL,
    grade INTEGER NOT NULL,
    "when" TEXT NOT NULL,
    checksum BLOB NOT NULL,
    PRIMARY KEY (query, id, who)
) WITHOUT ROWID""",
    "CREATE INDEX judgements_of_documents ON judgements (id)",
)
# The number of records that are read between two checkpoints.
RECORDS_AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class Table(Generic[Record]):
    """One of the two tables: its key columns, the other columns, and the conversion of rows."""

    name: str
    key: tuple[str, ...]
    rest: tuple[str, ...]
    to_row: Callable[[Record], tuple[Any, ...]]
    from_row: Callable[[tuple[Any, ...]], Record]

    @property
    def columns(self) -> str:
        """The columns without the checksum, as a list in SQL."""
        return ", ".join(f'"{one}"' for one in (*self.key, *self.rest))

    @property
    def key_condition(self) -> str:
        """The SQL condition that the key columns equal the parameters."""
        return " AND ".join(f"{column} = ?" for column in self.key)


LABELS: Table[DocumentLabel] = Table(
    "labels",
    ("id", "who"),
    ("labels", "grade", "when"),
    lambda one: (one.id, one.who, _list_to_json(one.labels), one.grade, one.when),
    lambda row: DocumentLabel(row[0], tuple(json.loads(row[2])), row[1], row[3], row[4]),
)
JUDGEMENTS: Table[Judgement] = Table(
    "judgements",
    ("query", "id", "who"),
    ("grade", "when"),
    lambda one: (one.query, one.id, one.who, one.grade, one.when),
    lambda row: Judgement(row[0], row[1], row[3], row[2], row[4]),
)


def has_annotations(connection: sqlite3.Connection) -> bool:
    """Tell whether the store has the tables."""
    query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'labels'"
    return connection.execute(query).fetchone() is not None


def make_tables(connection: sqlite3.Connection) -> None:
    """Create the tables if they are missing, in the transaction of `connection`."""
    if not has_annotations(connection):
        for statement in ANNOTATIONS_SCHEMA:
            connection.execute(statement)


def read_records(
    connection: sqlite3.Connection,
    table: Table[Record],
    after: Sequence[str] = (),
    limit: int = -1,
    **equal: str | None,
) -> list[Record]:
    """Return the first `limit` records after the key `after`, in the order of their keys.

    `equal` gives the values that columns must have; None allows any.

    Raises:
        StoreError: if a record is damaged.
    """
    if not has_annotations(connection):
        return []
    conditions, values = ["1"], dict[str, Any]()
    for place, (column, value) in enumerate(equal.items()):
        if value is not None:
            conditions.append(f'"{column}" = :equal{place}')
            values[f"equal{place}"] = value
    if after:
        values |= {f"after{place}": value for place, value in enumerate(after)}
        last = ", ".join(f":after{place}" for place in range(len(after)))
        conditions.append(f"({', '.join(table.key)}) > ({last})")
    query = f"""
        SELECT {table.columns}, checksum FROM {table.name}
        WHERE {" AND ".join(conditions)} ORDER BY {", ".join(table.key)} LIMIT :limit
    """  # noqa: S608 - made of fixed parts
    cursor = connection.execute(query, {**values, "limit": limit})
    records: list[Record] = []
    while some := cursor.fetchmany(RECORDS_AT_ONCE):
        checkpoint()
        records += [_parse_record(table, row) for row in some]
    return records


def read_marks(connection: sqlite3.Connection, table: Table[Any]) -> dict[tuple[str, ...], bytes]:
    """Return the checksum of every record, by its key; equal records have equal checksums."""
    if not has_annotations(connection):
        return {}
    query = f"SELECT {', '.join(table.key)}, checksum FROM {table.name}"  # noqa: S608 - fixed parts
    return {tuple(key): mark for *key, mark in connection.execute(query)}


def find_records(
    connection: sqlite3.Connection, table: Table[Record], keys: Iterable[tuple[str, ...]]
) -> list[Record]:
    """Return the records with these keys; unknown keys are ignored.

    Raises:
        StoreError: if a record is damaged.
    """
    if not has_annotations(connection):
        return []
    query = f"SELECT {table.columns}, checksum FROM {table.name} WHERE {table.key_condition}"  # noqa: S608
    rows = (connection.execute(query, key).fetchone() for key in keys)
    return [_parse_record(table, row) for row in rows if row is not None]


def count_records(connection: sqlite3.Connection, table: Table[Any]) -> int:
    """Return the number of records."""
    if not has_annotations(connection):
        return 0
    query = f"SELECT count(*) FROM {table.name}"  # noqa: S608 - one of two names
    return int(connection.execute(query).fetchone()[0])


def write_records(
    connection: sqlite3.Connection, table: Table[Record], records: Iterable[Record]
) -> int:
    """Write records, which replace those with the same keys; return how many values changed."""
    make_tables(connection)
    find = f"SELECT {table.columns}, checksum FROM {table.name} WHERE {table.key_condition}"  # noqa: S608
    marks = ", ".join("?" * (len(table.key) + len(table.rest) + 1))
    write = f"INSERT OR REPLACE INTO {table.name} VALUES ({marks})"  # noqa: S608
    written = 0
    for record in records:
        stored = connection.execute(find, record.key).fetchone()
        if stored is not None and _parse_record(table, stored).value == record.value:
            continue
        row: tuple[Any, ...] = table.to_row(record)
        connection.execute(write, (*row, _checksum(row)))
        written += 1
    return written


def delete_records(
    connection: sqlite3.Connection, table: Table[Any], keys: Iterable[Sequence[str]]
) -> int:
    """Delete the records with these keys; return how many existed."""
    if not has_annotations(connection):
        return 0
    query = f"DELETE FROM {table.name} WHERE {table.key_condition}"  # noqa: S608 - made of fixed parts
    return sum(connection.execute(query, tuple(key)).rowcount for key in keys)


def delete_of_documents(connection: sqlite3.Connection, ids: Sequence[str] | None) -> None:
    """Delete the records of the documents with these ids; None means of all missing documents.

    Called after the documents are deleted, in the same transaction.
    """
    if not has_annotations(connection):
        return
    tables: tuple[Table[Any], ...] = (LABELS, JUDGEMENTS)
    for table in tables:
        query = f"DELETE FROM {table.name} WHERE id"  # noqa: S608 - one of two names
        if ids is None:
            connection.execute(f"{query} NOT IN (SELECT id FROM documents)")  # noqa: S608
        else:
            in_chunks(connection, f"{query} IN ", ids)


def damaged_records(connection: sqlite3.Connection) -> Iterator[str]:
    """Yield a sentence for each damaged record."""
    if not has_annotations(connection):
        return
    tables: tuple[Table[Any], ...] = (LABELS, JUDGEMENTS)
    for table in tables:
        query = f"SELECT {table.columns}, checksum FROM {table.name}"  # noqa: S608
        rows: Iterable[tuple[Any, ...]] = connection.execute(query)
        for at, row in enumerate(rows):
            if at % RECORDS_AT_ONCE == 0:
                checkpoint()
            try:
                _parse_record(table, row)
            except StoreError as error:
                yield str(error)


def _parse_record(table: Table[Record], row: tuple[Any, ...]) -> Record:
    *values, mark = row
    try:
        if mark != _checksum(values):
            raise ValueError("it does not match its checksum")
        return table.from_row(tuple(values))
    except (InputError, ValueError, TypeError, AttributeError) as error:
        key = ", ".join(repr(one)[:60] for one in values[: len(table.key)])
        message = f"the record of {table.name} ({key}) is damaged: {error}"
        raise StoreError(message) from None


def _checksum(values: Sequence[object]) -> bytes:
    return blake2b("\0".join(map(str, values)).encode(), digest_size=8).digest()


def _list_to_json(labels: Sequence[str]) -> str:
    return json.dumps(labels, ensure_ascii=False)
