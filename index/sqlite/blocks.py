"""Codes in blocks of thousands, so that a million of them load as one array.

A block holds rows, ``<i8`` in ascending order, their packed codes, and a CRC-32 of both. A write
adds blocks at the end. Small blocks are merged as a binary counter carries: a block joins the
previous one unless that is larger. So a collection that is written one document at a time has few
blocks, and each code is rewritten at most log2(:data:`BLOCK_ROWS`) times. A deleted row is listed
in ``removed``; folding takes such rows out of their blocks. Once the share :data:`REMOVED_SHARE`
has been removed, each write folds some blocks, in proportion to what it removes itself.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from encoder.codes import Codes
from index.engines.protocol import Rows
from index.errors import StoreError

BLOCK_ROWS = 4096
ROW_BYTES = 8
REMOVED_SHARE = 1 / 4


class BlockError(StoreError):
    """A block is damaged."""


class Block(NamedTuple):
    """Codes ``uint8[n, C]`` and their ascending rows, ``int64[n]``."""

    codes: Codes
    rows: Rows


def join_blocks(blocks: Sequence[Block]) -> Block:
    """Return one block of several whose rows follow one another."""
    codes = np.concatenate([block.codes for block in blocks])
    return Block(codes, np.concatenate([block.rows for block in blocks]))


def append_block(connection: sqlite3.Connection, block: Block) -> None:
    """Add codes whose rows follow all others."""
    query = "SELECT first_row, length(rows) FROM codes ORDER BY first_row DESC LIMIT 1"
    while len(block.rows) and (tail := connection.execute(query).fetchone()) is not None:
        first, size = tail[0], tail[1] // ROW_BYTES
        if size > len(block.rows) or size + len(block.rows) > BLOCK_ROWS:
            break
        last = int(block.rows[0]) - 1
        before = _read_or_make_block(connection, first, last, block.codes.shape[1])
        connection.execute("DELETE FROM codes WHERE first_row = ?", (first,))
        block = join_blocks([before, block])
    for start in range(0, len(block.rows), BLOCK_ROWS):
        part = slice(start, start + BLOCK_ROWS)
        _insert_block(connection, Block(block.codes[part], block.rows[part]))


def read_blocks(connection: sqlite3.Connection, code_size: int, documents: int) -> Block:
    """Return every code whose row was not removed, as one array.

    Raises:
        BlockError: if a block is damaged, the rows do not ascend, or there are not as many codes as
            `documents`.
    """
    (size,) = connection.execute("SELECT coalesce(sum(length(rows)), 0) FROM codes").fetchone()
    rows = np.empty(size // ROW_BYTES, dtype=np.int64)
    codes = np.empty((len(rows), code_size), dtype=np.uint8)
    start = 0
    for stored in connection.execute("SELECT * FROM codes ORDER BY first_row"):
        block = _parse_block(stored, code_size)
        end = start + len(block.rows)
        rows[start:end], codes[start:end] = block.rows, block.codes
        start = end
    if (rows[1:] <= rows[:-1]).any():
        raise BlockError("the rows of the blocks of codes do not ascend")
    live = _remove_rows(Block(codes, rows), read_removed(connection))
    if len(live.rows) != documents:
        raise BlockError(f"the blocks hold {len(live.rows)} codes; there are {documents} documents")
    return live


def read_removed(connection: sqlite3.Connection, up_to: int = 2**63 - 1) -> Rows:
    """Return the removed rows that are still in a block, ascending."""
    query = "SELECT row FROM removed WHERE row <= ? ORDER BY row"
    cursor = connection.execute(query, (up_to,))
    return np.fromiter((row for (row,) in cursor), dtype=np.int64)


def fold_some(
    connection: sqlite3.Connection, code_size: int, *, documents: int, removed: int, deleted: int
) -> int:
    """Fold some blocks if many rows were removed; return how many rows were taken out.

    The arguments are the numbers of documents, of removed rows still in blocks, and of rows that
    this write deleted.
    """
    if removed <= max(BLOCK_ROWS, REMOVED_SHARE * (documents + removed)):
        return 0
    # On average more than a quarter of a block is removed, so this keeps up with deletions.
    blocks = 1 + deleted * 8 // BLOCK_ROWS
    return sum(_fold_first(connection, code_size) for _ in range(blocks))


def rewrite_blocks(connection: sqlite3.Connection, block: Block) -> None:
    """Replace all blocks by `block`, which holds every code."""
    connection.execute("DELETE FROM codes")
    connection.execute("DELETE FROM removed")
    append_block(connection, block)


def damaged_blocks(connection: sqlite3.Connection, code_size: int) -> list[str]:
    """Check every block; return a sentence for each damaged one."""
    problems: list[str] = []
    for stored in connection.execute("SELECT * FROM codes ORDER BY first_row"):
        try:
            _parse_block(stored, code_size)
        except BlockError as error:
            problems.append(str(error))
    return problems


def _fold_first(connection: sqlite3.Connection, code_size: int) -> int:
    """Fold the first block with removed rows; return how many rows were taken out."""
    (lowest,) = connection.execute("SELECT min(row) FROM removed").fetchone()
    if lowest is None:
        return 0
    last = lowest
    query = "SELECT max(first_row) FROM codes WHERE first_row <= ?"
    (first,) = connection.execute(query, (lowest,)).fetchone()
    if first is not None:
        last = max(lowest, _last_row(connection, first))
        block = _read_or_make_block(connection, first, last, code_size)
        connection.execute("DELETE FROM codes WHERE first_row = ?", (first,))
        remaining = _remove_rows(block, read_removed(connection, last))
        if len(remaining.rows):
            _insert_block(connection, remaining)
    return connection.execute("DELETE FROM removed WHERE row <= ?", (last,)).rowcount


def _insert_block(connection: sqlite3.Connection, block: Block) -> None:
    rows, codes = block.rows.astype("<i8").tobytes(), block.codes.tobytes()
    values = (int(block.rows[0]), rows, codes, zlib.crc32(codes, zlib.crc32(rows)))
    connection.execute("INSERT INTO codes VALUES (?, ?, ?, ?)", values)


def _read_or_make_block(
    connection: sqlite3.Connection, first: int, last: int, code_size: int
) -> Block:
    """Read a block; if it is damaged, rebuild it from the documents up to row `last`."""
    query = "SELECT * FROM codes WHERE first_row = ?"
    try:
        return _parse_block(connection.execute(query, (first,)).fetchone(), code_size)
    except BlockError:
        query = "SELECT row, code FROM documents WHERE row BETWEEN ? AND ? ORDER BY row"
        rows = connection.execute(query, (first, last)).fetchall()
    codes = np.frombuffer(b"".join(code for _, code in rows), dtype=np.uint8)
    return Block(codes.reshape(-1, code_size), np.array([row for row, _ in rows], dtype=np.int64))


def _last_row(connection: sqlite3.Connection, first: int) -> int:
    """Return the last row that a block starting at row `first` can hold."""
    query = "SELECT min(first_row) FROM codes WHERE first_row > ?"
    (following,) = connection.execute(query, (first,)).fetchone()
    if following is not None:
        return int(following) - 1
    # Either table may be empty, and SQLite's max() of arguments with a NULL is NULL.
    query = """
        SELECT max(coalesce((SELECT max(row) FROM documents), 0),
                   coalesce((SELECT max(row) FROM removed), 0), ?)
    """
    return int(connection.execute(query, (first,)).fetchone()[0])


def _parse_block(stored: tuple[Any, ...], code_size: int) -> Block:
    first, rows, codes, crc = stored
    whole = isinstance(rows, bytes) and isinstance(codes, bytes) and len(rows) > 0
    if not whole or len(rows) // ROW_BYTES * code_size != len(codes):
        raise BlockError(f"the block of codes from row {first} has the wrong length")
    if zlib.crc32(codes, zlib.crc32(rows)) != crc:
        raise BlockError(f"the block of codes from row {first} does not match its checksum")
    packed = np.frombuffer(codes, dtype=np.uint8).reshape(-1, code_size)
    return Block(packed, np.frombuffer(rows, dtype="<i8"))


def _remove_rows(block: Block, removed: Rows) -> Block:
    if not len(removed) or not len(block.rows):
        return block
    places = np.searchsorted(block.rows, removed)
    places = places[places < len(block.rows)]
    remaining = np.ones(len(block.rows), dtype=np.bool_)
    remaining[places[np.isin(block.rows[places], removed)]] = False
    return Block(block.codes[remaining], block.rows[remaining])
