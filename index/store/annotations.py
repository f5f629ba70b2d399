"""Labels and judgements, and their tables in a store."""

from __future__ import annotations

import json
import re
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b
from typing import Any, Generic, TypeVar

from hummingbit.corpus.grades import check_grade
from hummingbit.corpus.labels import name_of
from hummingbit.foundation.errors import InputError, abbreviate
from hummingbit.foundation.times import now
from hummingbit.index.errors import StoreError
from hummingbit.index.store.connections import has_table, in_chunks
from hummingbit.index.store.expiries import has_expiries

# Labels of documents and judgements of their relevance, with author, time and grade.
#
# A person has at most one label record for a document and one judgement for a (query, document)
# pair; a later record replaces it. People may disagree about a document.


MAX_LABELS = 100
MAX_LABEL_LENGTH = 512
MAX_WHO_LENGTH = 64
MAX_QUERY_LENGTH = 10_000
ANONYMOUS = "anonymous"

_NOT_STORABLE = re.compile("[\ud800-\udfff\0]")


@dataclass(frozen=True, slots=True)
class DocumentLabel:
    """The labels that a person gave a document.

    `grade` says how well they fit, 1 by default; 0 means that they do not fit. Empty `labels` mean
    that the document belongs to none of the classes.
    """

    id: str
    labels: tuple[str, ...]
    who: str = ANONYMOUS
    grade: int = 1
    when: str = ""
    """UTC, ISO 8601."""

    def __post_init__(self) -> None:
        _check_text("id", self.id, 512)
        if len(self.labels) > MAX_LABELS:
            message = f"has {len(self.labels):,} labels; it must have at most {MAX_LABELS}"
            raise InputError("labels", message)
        for label in self.labels:
            _check_text("labels", label, MAX_LABEL_LENGTH)
        if len(set(self.labels)) != len(self.labels):
            raise InputError("labels", "has the same label twice")
        object.__setattr__(self, "grade", check_grade(self.grade, 0))
        _check_who_and_when(self.who, self.when)

    @property
    def key(self) -> tuple[str, ...]:
        """The key of the record, which is unique."""
        return (self.id, self.who)

    @property
    def value(self) -> tuple[object, ...]:
        """The content of the record, without its key and time."""
        return (self.labels, self.grade)


@dataclass(frozen=True, slots=True)
class Judgement:
    """A person's judgement of a document for a query; a grade above 0 means relevant."""

    query: str
    id: str
    grade: int
    who: str = ANONYMOUS
    when: str = ""
    """UTC, ISO 8601."""

    def __post_init__(self) -> None:
        _check_text("query", self.query, MAX_QUERY_LENGTH)
        _check_text("id", self.id, 512)
        object.__setattr__(self, "grade", check_grade(self.grade))
        _check_who_and_when(self.who, self.when)

    @property
    def key(self) -> tuple[str, ...]:
        """The key of the record, which is unique."""
        return (self.query, self.id, self.who)

    @property
    def value(self) -> tuple[object, ...]:
        """The content of the record, without its key and time."""
        return (self.grade,)


def parse_label(record: object) -> DocumentLabel:
    """Make a :class:`DocumentLabel` from decoded JSON; ``label`` is short for a list of one.

    Raises:
        InputError: if a field is invalid; it names the field, its value and what would be right.
    """
    fields = _fields(record, ("id", "label", "labels", "grade", "who", "when"))
    label, labels = fields.get("label"), fields.get("labels")
    if (label is None) == (labels is None):
        raise InputError("label", "exactly one of label and labels must be given")
    if labels is not None and not isinstance(labels, list):
        raise InputError("labels", f"is {abbreviate(labels)}; it must be a list of strings")
    given = [label] if labels is None else labels
    return DocumentLabel(
        fields.get("id", ""),
        tuple(map(_label_name, given)),
        fields.get("who") or ANONYMOUS,
        fields.get("grade", 1),
        fields.get("when") or now(),
    )


def _label_name(label: object) -> str:
    try:
        return name_of(label) or ""
    except ValueError as error:
        raise InputError("labels", str(error)) from None


def parse_judgement(record: object) -> Judgement:
    """Make a :class:`Judgement` from decoded JSON.

    Raises:
        InputError: if a field is invalid; it names the field, its value and what would be right.
    """
    fields = _fields(record, ("query", "id", "grade", "who", "when"))
    return Judgement(
        fields.get("query", ""),
        fields.get("id", ""),
        fields.get("grade", ""),
        fields.get("who") or ANONYMOUS,
        fields.get("when") or now(),
    )


def label_to_json(label: DocumentLabel) -> dict[str, Any]:
    """Return the JSON object that :func:`parse_label` reads."""
    return {
        "id": label.id,
        "labels": list(label.labels),
        "grade": label.grade,
        "who": label.who,
        "when": label.when,
    }


def judgement_to_json(judgement: Judgement) -> dict[str, Any]:
    """Return the JSON object that :func:`parse_judgement` reads."""
    return {
        "query": judgement.query,
        "id": judgement.id,
        "grade": judgement.grade,
        "who": judgement.who,
        "when": judgement.when,
    }


def agreed_labels(records: Iterable[DocumentLabel]) -> dict[str, tuple[str, ...]]:
    """Return the labels of each document by majority of the people who labelled it.

    In a tie, the latest record wins. Records of grade 0 do not count.
    """
    by_document: dict[str, list[DocumentLabel]] = {}
    for record in records:
        if record.grade > 0:
            by_document.setdefault(record.id, []).append(record)
    agreed = {}
    for id_, document_records in by_document.items():
        votes = Counter(frozenset(record.labels) for record in document_records)
        winner = max(
            document_records,
            key=lambda record: (votes[frozenset(record.labels)], record.when, record.who),
        )
        agreed[id_] = winner.labels
    return agreed


def is_storable(text: str) -> bool:
    """Tell whether SQLite can store a text unchanged: without lone surrogates and NUL."""
    return _NOT_STORABLE.search(text) is None


def _fields(record: object, known: tuple[str, ...]) -> Mapping[str, Any]:
    if not isinstance(record, Mapping):
        raise InputError("record", f"is {abbreviate(record)}; it must be an object")
    unknown = sorted(set(map(str, record)) - set(known))
    if unknown:
        raise InputError(unknown[0], f"is not a field; the fields are {', '.join(known)}")
    return record


def _check_text(field: str, value: object, longest: int) -> None:
    if not isinstance(value, str) or not 0 < len(value) <= longest:
        rule = f"it must be a string of 1 to {longest:,} characters"
        raise InputError(field, f"is {abbreviate(value)}; {rule}")
    if not is_storable(value):
        rule = "it must not contain a lone surrogate or a NUL"
        raise InputError(field, f"is {abbreviate(value)}; {rule}")


def _check_who_and_when(who: object, when: object) -> None:
    _check_text("who", who, MAX_WHO_LENGTH)
    try:
        moment = datetime.fromisoformat(when) if isinstance(when, str) and when else None
    except ValueError:
        moment = None
    if when != "" and (moment is None or moment.tzinfo is None):
        rule = "it must be a time with a time zone, such as 2026-01-31T12:00:00+00:00"
        raise InputError("when", f"is {abbreviate(when)}; {rule}")


# Labels and judgements in a store, in two tables beside those of the documents.
#
# The first record creates the tables. A store without them, such as every store of version 0.1.0,
# has no labels. Each record has a checksum.


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
        return ", ".join(f'"{column}"' for column in (*self.key, *self.rest))

    @property
    def key_condition(self) -> str:
        """The SQL condition that the key columns equal the parameters."""
        return " AND ".join(f"{column} = ?" for column in self.key)


LABELS: Table[DocumentLabel] = Table(
    "labels",
    ("id", "who"),
    ("labels", "grade", "when"),
    lambda record: (record.id, record.who, _list_to_json(record.labels), record.grade, record.when),
    lambda row: DocumentLabel(row[0], tuple(json.loads(row[2])), row[1], row[3], row[4]),
)
JUDGEMENTS: Table[Judgement] = Table(
    "judgements",
    ("query", "id", "who"),
    ("grade", "when"),
    lambda record: (record.query, record.id, record.who, record.grade, record.when),
    lambda row: Judgement(row[0], row[1], row[3], row[2], row[4]),
)


def has_annotations(connection: sqlite3.Connection) -> bool:
    """Tell whether the store has the tables."""
    return has_table(connection, "labels")


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
    conditions, values = [_of_living_documents(connection)], dict[str, Any]()
    for position, (column, value) in enumerate(equal.items()):
        if value is not None:
            conditions.append(f'"{column}" = :equal{position}')
            values[f"equal{position}"] = value
    if after:
        values |= {f"after{position}": value for position, value in enumerate(after)}
        last = ", ".join(f":after{position}" for position in range(len(after)))
        conditions.append(f"({', '.join(table.key)}) > ({last})")
    query = f"""
        SELECT {table.columns}, checksum FROM {table.name}
        WHERE {" AND ".join(conditions)} ORDER BY {", ".join(table.key)} LIMIT :limit
    """  # noqa: S608 - made of fixed parts
    cursor = connection.execute(query, {**values, "limit": limit})
    records: list[Record] = []
    while some := cursor.fetchmany(RECORDS_AT_ONCE):
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
    condition = _of_living_documents(connection)
    query = f"SELECT count(*) FROM {table.name} WHERE {condition}"  # noqa: S608 - fixed parts
    return int(connection.execute(query).fetchone()[0])


def _of_living_documents(connection: sqlite3.Connection) -> str:
    """Return the condition that the document of a record has not expired."""
    if not has_expiries(connection):
        return "1"
    expired = f"SELECT row FROM expiries WHERE at <= {time.time()!r}"  # noqa: S608 - a number
    return f"id NOT IN (SELECT id FROM documents WHERE row IN ({expired}))"  # noqa: S608


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
        for row in rows:
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
        key = ", ".join(repr(value)[:60] for value in values[: len(table.key)])
        raise StoreError(f"the record of {table.name} ({key}) is damaged: {error}") from None


def _checksum(values: Sequence[object]) -> bytes:
    return blake2b("\0".join(map(str, values)).encode(), digest_size=8).digest()


def _list_to_json(labels: Sequence[str]) -> str:
    return json.dumps(labels, ensure_ascii=False)
