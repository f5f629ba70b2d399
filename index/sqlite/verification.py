"""Whether a store is what was written, and an index what the store holds."""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Iterator
from itertools import islice

import numpy as np

from encoder.codes import Codes
from foundation.slices import checkpoint
from index.records import Verification
from index.schema import checksum, last_row, number_in_meta
from index.sqlite.annotation_tables import damaged_records
from index.sqlite.blocks import Block, BlockError, damaged_blocks, read_blocks

MAX_PROBLEMS = 100
# So many documents are checked between two checkpoints.
ROWS_AT_ONCE = 500


def verify_store(
    connection: sqlite3.Connection, code_size: int, indexed: Block | None
) -> Verification:
    """Check pages, documents, labels, blocks of codes and the index against one another.

    Every document is read and held against its checksum, every block of codes against its own. The
    codes in the blocks, and those that are `indexed`, must be the documents' codes. `connection`
    must see one moment. Of one kind at most :data:`MAX_PROBLEMS` problems are listed.
    """
    rows, codes = array("q"), bytearray()
    problems: list[str] = []
    try:
        problems += _pages(connection)
        problems += _documents(connection, code_size, rows, codes)
        held = Block(_packed(codes, code_size), np.frombuffer(rows, dtype=np.int64))
        problems += _counts(connection, held)
        problems += _blocks(connection, code_size, held)
        problems += islice(damaged_records(connection), MAX_PROBLEMS)
        if indexed is not None and not _same(indexed, held):
            problems.append("the index does not hold the codes of the documents")
    except sqlite3.DatabaseError as error:
        problems.append(f"SQLite: {error}")
    return Verification(len(rows), problems)


def _pages(connection: sqlite3.Connection) -> Iterator[str]:
    for (found,) in connection.execute(f"PRAGMA integrity_check({MAX_PROBLEMS})"):
        if found != "ok":
            yield f"SQLite: {found}"


def _documents(
    connection: sqlite3.Connection, code_size: int, rows: array[int], codes: bytearray
) -> Iterator[str]:
    """Check every document and append its row and code."""
    found = 0
    query = "SELECT row, id, code, payload, text, vector, checksum FROM documents ORDER BY row"
    for row, id_, code, payload, text, vector, mark in connection.execute(query):
        if len(rows) % ROWS_AT_ONCE == 0:
            checkpoint()
        rows.append(row)
        codes += code[:code_size].ljust(code_size, b"\0")
        if checksum(id_, code, payload, text, vector) != mark or len(code) != code_size:
            found += 1
            if found <= MAX_PROBLEMS:
                yield f"document {id_!a} (row {row}) is not what was written"
    if found > MAX_PROBLEMS:
        yield f"{found - MAX_PROBLEMS:,} more documents are not what was written"


def _counts(connection: sqlite3.Connection, held: Block) -> Iterator[str]:
    documents = number_in_meta(connection, "documents")
    if documents != len(held.rows):
        yield f"there are {len(held.rows):,} documents; {documents:,} were written"
    removed = number_in_meta(connection, "removed")
    (listed,) = connection.execute("SELECT count(*) FROM removed").fetchone()
    if removed != listed:
        yield f"{listed:,} rows are listed as removed; {removed:,} were written"
    last = last_row(connection)
    if len(held.rows) and held.rows[-1] > last:
        yield f"there is a row {held.rows[-1]}; the last that was given is {last}"


def _blocks(connection: sqlite3.Connection, code_size: int, held: Block) -> Iterator[str]:
    damaged = damaged_blocks(connection, code_size)
    yield from damaged[:MAX_PROBLEMS]
    if damaged:
        return
    try:
        blocks = read_blocks(connection, code_size, len(held.rows))
    except BlockError as error:
        yield str(error)
        return
    if not _same(blocks, held):
        yield "the blocks of codes do not hold the codes of the documents"


def _same(one: Block, other: Block) -> bool:
    return np.array_equal(one.rows, other.rows) and np.array_equal(one.codes, other.codes)


def _packed(codes: bytearray, code_size: int) -> Codes:
    return np.frombuffer(codes, dtype=np.uint8).reshape(-1, code_size)
