"""Rows, which the readers of every format yield, and the errors that they report."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from foundation.errors import HummingbitError

# Enough for what is done once a block; texts may have a million characters.
ROWS_AT_ONCE = 32


class ReadError(HummingbitError, ValueError):
    """A source cannot be read; the message gives the file, the line if there is one, and why."""


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line of a source that is not a document: where it is, and what is wrong with it.

    `n_lines` counts the lines that were read with it.
    """

    source: str
    line: int
    reason: str
    n_lines: int = 1

    def __str__(self) -> str:
        return f"{self.source}:{self.line}: {self.reason}"


class Row(NamedTuple):
    """A record of a source before it is checked, or the reason why it cannot be read.

    `line` is the line on which the record starts, from 1, or the row in a format without lines.
    `n_lines` counts its lines if it cannot be read.
    """

    line: int
    record: object = None
    reason: str | None = None
    n_lines: int = 1


def in_blocks(rows: Iterator[Row]) -> Iterator[list[Row]]:
    """Yield rows in lists of :data:`ROWS_AT_ONCE`; those before an exception come before it."""
    block: list[Row] = []
    try:
        for row in rows:
            block.append(row)
            if len(block) == ROWS_AT_ONCE:
                yield block
                block = []
    except Exception:
        yield block
        raise
    yield block
