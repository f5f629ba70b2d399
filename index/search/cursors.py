"""Cursors: where a page ended, so that the next begins there whatever was written meanwhile.

A cursor holds the (score, row) of the last hit of a page, the number of hits before the next page,
the last row that had been assigned when the first page was made, and whatever else scores depended
on then besides the documents. Documents added later have higher rows and are left out. Other
documents keep their place in the order, so none appears twice and none is skipped. A digest over
the search and the cursor detects a cursor that belongs to another search or was altered. It guards
against mistakes, not against forgery: whoever can search may read any page anyway.
"""

from __future__ import annotations

import binascii
import math
import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from foundation.errors import InputError

_NUMBERS = struct.Struct(">dqqq")
_DIGEST_SIZE = 8
# No search has more hits.
MAX_PASSED = 2**53


class Position(NamedTuple):
    """The end of a page: the hit with `score` and `row`, after `passed` hits in all."""

    score: float
    row: int
    last_row: int
    """The last row that had been assigned when the first page was made."""
    passed: int
    statistics: tuple[float, ...] = ()
    """The statistics of the scores; see :class:`index.rankings.protocol.RankedRows`."""


def write_cursor(position: Position, *search: object) -> str:
    """Return an opaque cursor for the search that `search` describes."""
    numbers, statistics = position[:4], np.array(position.statistics, dtype=">f8")
    packed = _NUMBERS.pack(*numbers) + statistics.tobytes()
    return _encode(packed + _digest(packed, search))


def read_cursor(cursor: str, *search: object) -> Position:
    """Return the position in a cursor that :func:`write_cursor` wrote for the same `search`.

    Raises:
        InputError: if the cursor belongs to another search, or was altered.
    """
    try:
        raw = urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4))
    except (UnicodeEncodeError, binascii.Error):
        raw = b""
    packed, digest = raw[:-_DIGEST_SIZE], raw[-_DIGEST_SIZE:]
    numbers, statistics_bytes = packed[: _NUMBERS.size], packed[_NUMBERS.size :]
    whole = len(numbers) == _NUMBERS.size and len(statistics_bytes) % 8 == 0
    if digest != _digest(packed, search) or _encode(raw) != cursor or not whole:
        raise _refusal(cursor)
    score, row, last_row, passed = _NUMBERS.unpack(numbers)
    if math.isnan(score) or not 0 <= passed <= MAX_PASSED:
        raise _refusal(cursor)
    statistics = tuple(np.frombuffer(statistics_bytes, dtype=">f8").tolist())
    return Position(score, row, last_row, passed, statistics)


def _refusal(cursor: str) -> InputError:
    message = "it must be the next_cursor of a page of the same search"
    return InputError("cursor", f"is {cursor[:60]!r}; {message}")


def _encode(raw: bytes) -> str:
    return urlsafe_b64encode(raw).decode().rstrip("=")


def _digest(packed: bytes, search: tuple[object, ...]) -> bytes:
    text = "\0".join(repr(one) for one in search).encode("utf-8", "surrogatepass")
    return blake2b(packed + text, digest_size=_DIGEST_SIZE).digest()
