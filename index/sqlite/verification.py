"""Checks a store against its checksums, and an index against its store."""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Iterator
from itertools import islice

import numpy as np

from encoder.codes import Codes
from foundation.errors import counted
from foundation.slices import checkpoint
from foundation.stages import begin_stage
from index.records import Verification
from index.schema import checksum, last_row, number_in_meta
from index.sqlite.annotation_tables import damaged_records
from index.sqlite.blocks import Block, BlockError, damaged_blocks, read_blocks

MAX_PROBLEMS = 100
# The number of documents that are checked between two checkpoints.
ROWS_AT_ONCE = 500


def verify_store(
    connection: sqlite3.Connection, code_size: int, indexed: Block | None
) -> Verification:
    """Check pages, documents, labels, blocks of codes and the index against one another.

    Every document, record and block of codes must match its checksum. The codes in the blocks, and
    the `indexed` codes, must equal those of the documents. `connection` must be in a read
    transaction. At most :data:`MAX_PROBLEMS` problems of each kind are listed.
    """
    rows, codes = array("q"), bytearray()
    problems: list[str] = []
    try:
        problems += _pages(connection)
        problems += _documents(connection, code_size, rows, codes)
        stored = Block(_packed_codes(codes, code_size), np.frombuffer(rows, dtype=np.int64))
        problems += _counts(connection, stored)
        problems += _blocks(connection, code_size, stored)
        problems += islice(damaged_records(connection), MAX_PROBLEMS)
        if indexed is not None and not _are_equal(indexed, stored):
            problems.append("the index and the documents have different codes")
    except sqlite3.DatabaseError as error:
        problems.append(f"SQLite: {error}")
    return Verification(len(rows), problems)


def _pages(connection: sqlite3.Connection) -> Iterator[str]:
    begin_stage("checking the pages of the store")
    for (message,) in connection.execute(f"PRAGMA integrity_check({MAX_PROBLEMS})"):
        if message != "ok":
            yield f"SQLite: {message}"


def _documents(
    connection: sqlite3.Connection, code_size: int, rows: array[int], codes: bytearray
) -> Iterator[str]:
    """Check every document and append its row and code."""
    begin_stage("checking documents")
    damaged = 0
    query = "SELECT row, id, code, payload, text, vector, checksum FROM documents ORDER BY row"
    for row, id_, code, payload, text, vector, mark in connection.execute(query):
        if len(rows) % ROWS_AT_ONCE == 0:
            checkpoint()
        rows.append(row)
        codes += code[:code_size].ljust(code_size, b"\0")
        if checksum(id_, code, payload, text, vector) != mark or len(code) != code_size:
            damaged += 1
            if damaged <= MAX_PROBLEMS:
                yield f"document {id_!r} (row {row}) does not match its checksum"
    if damaged > MAX_PROBLEMS:
        yield f"{damaged - MAX_PROBLEMS:,} more documents do not match their checksums"


def _counts(connection: sqlite3.Connection, stored: Block) -> Iterator[str]:
    documents = number_in_meta(connection, "documents")
    if documents != len(stored.rows):
        count = counted(len(stored.rows), "document")
        yield f"the store holds {count}, not {documents:,} as recorded"
    removed = number_in_meta(connection, "removed")
    (listed,) = connection.execute("SELECT count(*) FROM removed").fetchone()
    if removed != listed:
        yield f"the store lists {counted(listed, 'removed row')}, not {removed:,} as recorded"
    last = last_row(connection)
    if len(stored.rows) and stored.rows[-1] > last:
        yield f"there is a row {stored.rows[-1]}, but the last assigned row is {last}"


def _blocks(connection: sqlite3.Connection, code_size: int, stored: Block) -> Iterator[str]:
    begin_stage("checking blocks of codes")
    damaged = damaged_blocks(connection, code_size)
    yield from damaged[:MAX_PROBLEMS]
    if damaged:
        return
    try:
        blocks = read_blocks(connection, code_size, len(stored.rows))
    except BlockError as error:
        yield str(error)
        return
    if not _are_equal(blocks, stored):
        yield "the blocks of codes and the documents have different codes"


def _are_equal(one: Block, other: Block) -> bool:
    return np.array_equal(one.rows, other.rows) and np.array_equal(one.codes, other.codes)


def _packed_codes(codes: bytearray, code_size: int) -> Codes:
    return np.frombuffer(codes, dtype=np.uint8).reshape(-1, code_size)
