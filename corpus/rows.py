"""What every format is read into, and how what cannot be read is reported."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from foundation.errors import HummingbitError


class ReadError(HummingbitError, ValueError):
    """A source cannot be read; the message names the file, the line where there is one, and why."""


@dataclass(frozen=True, slots=True)
class BadLine:
    """One line of a source that gives no document: where it is and what is wrong with it."""

    source: str
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.source}:{self.line}: {self.reason}"


class Row(NamedTuple):
    """One record of a source before it is checked, or the reason why there is none.

    `line` counts from 1: the line a record starts on, or the row in a format without lines.
    """

    line: int
    record: object = None
    reason: str | None = None
