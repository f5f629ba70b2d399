"""Blocks of rows, so that a table of queries by documents never exists as a whole."""

from __future__ import annotations

from collections.abc import Iterator

from foundation.slices import checkpoint

BLOCK_ENTRIES = 2_000_000
"""Entries of a table in one block. A few arrays of this size are in memory together."""


def row_blocks(n_rows: int, row_width: int) -> Iterator[slice]:
    """Yield slices of `n_rows` rows that hold at most :data:`BLOCK_ENTRIES` entries each.

    A row has `row_width` entries. A row is never cut: if it is wider than that, a block is one row.
    """
    step = max(1, BLOCK_ENTRIES // max(1, row_width))
    for start in range(0, n_rows, step):
        checkpoint()
        yield slice(start, min(start + step, n_rows))
