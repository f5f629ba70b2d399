"""When documents of a store expire, by row, so that those that have are found at once.

The table is derived from the payloads (:mod:`hummingbit.corpus.expiry`). A store has it from the
first document that expires, and other stores pay one look into SQLite's schema for it. A document
that has expired is in the file until a write removes it, and no read returns it.
"""

from __future__ import annotations

import json
import math
import sqlite3
import time
from collections.abc import Iterable

from hummingbit.corpus.expiry import EXPIRES_AT, expiry_of
from hummingbit.index.store.connections import has_table

EXPIRIES_SCHEMA = (
    "CREATE TABLE expiries (row INTEGER PRIMARY KEY, at REAL NOT NULL)",
    "CREATE INDEX expiries_by_time ON expiries (at)",
)


def make_expiry_tables(connection: sqlite3.Connection) -> None:
    """Create the table and its index, which must not exist."""
    for statement in EXPIRIES_SCHEMA:
        connection.execute(statement)


def has_expiries(connection: sqlite3.Connection) -> bool:
    """Tell whether the store ever had a document that expires."""
    return has_table(connection, "expiries")


def set_expiries(
    connection: sqlite3.Connection, expiries: Iterable[tuple[int, float | None]]
) -> None:
    """Set when documents expire, by row; None means never. The table must exist."""
    for row, at in expiries:
        if at is None:
            connection.execute("DELETE FROM expiries WHERE row = ?", (row,))
        else:
            connection.execute("INSERT OR REPLACE INTO expiries VALUES (?, ?)", (row, at))


def expired_documents(
    connection: sqlite3.Connection, now: float, limit: int = -1
) -> list[tuple[int, int]]:
    """Return the rows of the first documents that have expired, and the lengths of their codes."""
    query = """
        SELECT row, length(code) FROM expiries JOIN documents USING (row)
        WHERE at <= ? ORDER BY at, row LIMIT ?
    """
    return connection.execute(query, (now, limit)).fetchall()


def count_expired(connection: sqlite3.Connection, now: float) -> int:
    """Return how many documents have expired and are still in the file."""
    query = "SELECT count(*) FROM expiries WHERE at <= ?"
    return int(connection.execute(query, (now,)).fetchone()[0])


def next_expiry(connection: sqlite3.Connection, now: float) -> float:
    """Return when the next document expires after `now`; infinity if none does."""
    query = "SELECT min(at) FROM expiries WHERE at > ?"
    (at,) = connection.execute(query, (now,)).fetchone()
    return math.inf if at is None else float(at)


def unexpired(connection: sqlite3.Connection) -> str:
    """Return what to select from to read the documents that have not expired by now."""
    if not has_expiries(connection):
        return "documents"
    rows = f"SELECT row FROM expiries WHERE at <= {time.time()!r}"  # noqa: S608 - a number
    return f"(SELECT * FROM documents WHERE row NOT IN ({rows}))"  # noqa: S608 - fixed parts


def derive_expiries(connection: sqlite3.Connection) -> None:
    """Write the table anew from the payloads, if there is one."""
    if not has_expiries(connection):
        return
    connection.execute("DELETE FROM expiries")
    query = "SELECT row, payload FROM documents WHERE instr(payload, ?) ORDER BY row"
    stored = connection.execute(query, (EXPIRES_AT,)).fetchall()
    set_expiries(connection, ((row, expiry_of(json.loads(payload))) for row, payload in stored))
