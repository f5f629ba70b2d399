"""Codes in blocks of thousands, so that a million of them load as one array.

A block holds rows, ``<i8`` in ascending order, their packed codes, and a CRC-32 of both. A write
adds blocks at the end. Small ones are merged as a binary counter carries: a block joins the one
before it unless that is the larger, so a collection written one document at a time has few blocks
and each code is rewritten at most log2(:data:`BLOCK_ROWS`) times. To delete a row is to list it in
``removed``; folding takes such rows out of their blocks.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from encoder.codes import Codes
from index.errors import StoreError
from index.protocol import Rows

BLOCK_ROWS = 4096
ROW_BYTES = 8
BLOCKS_AT_ONCE = 64


class BlockError(StoreError):
    """A block is not what was written."""


class Block(NamedTuple):
    """Codes ``uint8[n, C]`` and their ascending rows, ``int64[n]``."""

    codes: Codes
    rows: Rows


def joined(blocks: Sequence[Block]) -> Block:
    """Return one block of several, the rows of each above those of the one before."""
    codes = np.concatenate([block.codes for block in blocks])
    return Block(codes, np.concatenate([block.rows for block in blocks]))


def append_block(connection: sqlite3.Connection, block: Block) -> None:
    """Add codes whose rows lie above all others."""
    query = "SELECT first_row, length(rows) FROM codes ORDER BY first_row DESC LIMIT 1"
    while len(block.rows) and (tail := connection.execute(query).fetchone()) is not None:
        first, size = tail[0], tail[1] // ROW_BYTES
        if size > len(block.rows) or size + len(block.rows) > BLOCK_ROWS:
            break
        before = _read_block(connection, first, block.codes.shape[1])
        connection.execute("DELETE FROM codes WHERE first_row = ?", (first,))
        block = joined([before, block])
    for start in range(0, len(block.rows), BLOCK_ROWS):
        part = slice(start, start + BLOCK_ROWS)
        _insert_block(connection, Block(block.codes[part], block.rows[part]))


def read_blocks(connection: sqlite3.Connection, code_size: int, documents: int) -> Block:
    """Return every code whose row was not removed, as one array; there must be `documents`.

    Raises:
        BlockError: if a block is not what was written, the rows do not ascend, or there are more
            or fewer.
    """
    (size,) = connection.execute("SELECT coalesce(sum(length(rows)), 0) FROM codes").fetchone()
    rows = np.empty(size // ROW_BYTES, dtype=np.int64)
    codes = np.empty((len(rows), code_size), dtype=np.uint8)
    start = 0
    for stored in connection.execute("SELECT * FROM codes ORDER BY first_row"):
        block = _checked(stored, code_size)
        end = start + len(block.rows)
        rows[start:end], codes[start:end] = block.rows, block.codes
        start = end
    if (rows[1:] <= rows[:-1]).any():
        raise BlockError("the rows of the blocks of codes do not ascend")
    held = _without(Block(codes, rows), read_removed(connection))
    if len(held.rows) != documents:
        raise BlockError(f"the blocks hold {len(held.rows)} codes; there are {documents} documents")
    return held


def read_removed(connection: sqlite3.Connection) -> Rows:
    """Return the rows that were removed and are still in a block, ascending."""
    found = connection.execute("SELECT row FROM removed ORDER BY row")
    return np.fromiter((row for (row,) in found), dtype=np.int64)


def fold_removed(connection: sqlite3.Connection, code_size: int) -> bool:
    """Take removed rows out of some blocks; return whether there are more to take out."""
    for _ in range(BLOCKS_AT_ONCE):
        (lowest,) = connection.execute("SELECT min(row) FROM removed").fetchone()
        if lowest is None:
            return False
        query = "SELECT max(first_row) FROM codes WHERE first_row <= ?"
        (first,) = connection.execute(query, (lowest,)).fetchone()
        if first is None:
            raise BlockError(f"row {lowest} was removed, but no block of codes begins before it")
        block = _read_block(connection, first, code_size)
        last = int(block.rows[-1])
        query = "SELECT row FROM removed WHERE row <= ? ORDER BY row"
        found = connection.execute(query, (last,))
        gone = np.fromiter((row for (row,) in found), dtype=np.int64)
        connection.execute("DELETE FROM codes WHERE first_row = ?", (first,))
        kept = _without(block, gone)
        if len(kept.rows):
            _insert_block(connection, kept)
        connection.execute("DELETE FROM removed WHERE row <= ?", (max(last, lowest),))
    return True


def rewrite_blocks(connection: sqlite3.Connection, block: Block) -> None:
    """Put `block`, which holds everything, in the place of all blocks."""
    connection.execute("DELETE FROM codes")
    connection.execute("DELETE FROM removed")
    append_block(connection, block)


def damaged_blocks(connection: sqlite3.Connection, code_size: int) -> list[str]:
    """Check every block; return what is wrong, a sentence each."""
    problems: list[str] = []
    for stored in connection.execute("SELECT * FROM codes ORDER BY first_row"):
        try:
            _checked(stored, code_size)
        except BlockError as error:
            problems.append(str(error))
    return problems


def _insert_block(connection: sqlite3.Connection, block: Block) -> None:
    rows, codes = block.rows.astype("<i8").tobytes(), block.codes.tobytes()
    values = (int(block.rows[0]), rows, codes, zlib.crc32(codes, zlib.crc32(rows)))
    connection.execute("INSERT INTO codes VALUES (?, ?, ?, ?)", values)


def _read_block(connection: sqlite3.Connection, first: int, code_size: int) -> Block:
    query = "SELECT * FROM codes WHERE first_row = ?"
    return _checked(connection.execute(query, (first,)).fetchone(), code_size)


def _checked(stored: tuple[Any, ...], code_size: int) -> Block:
    first, rows, codes, crc = stored
    whole = isinstance(rows, bytes) and isinstance(codes, bytes) and len(rows) > 0
    if not whole or len(rows) // ROW_BYTES * code_size != len(codes):
        raise BlockError(f"the block of codes from row {first} has another length")
    if zlib.crc32(codes, zlib.crc32(rows)) != crc:
        raise BlockError(f"the block of codes from row {first} does not have its checksum")
    packed = np.frombuffer(codes, dtype=np.uint8).reshape(-1, code_size)
    return Block(packed, np.frombuffer(rows, dtype="<i8"))


def _without(block: Block, gone: Rows) -> Block:
    if not len(gone) or not len(block.rows):
        return block
    places = np.searchsorted(block.rows, gone)
    places = places[places < len(block.rows)]
    kept = np.ones(len(block.rows), dtype=np.bool_)
    kept[places[np.isin(block.rows[places], gone)]] = False
    return Block(block.codes[kept], block.rows[kept])
