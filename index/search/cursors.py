"""Cursors: where a page ended, so that the next begins there whatever was written meanwhile.

A cursor holds the (score, row) of the last hit of a page, how many hits came before the next page,
the last row that had been given when the first page was made, and what scores depended on then
besides the documents themselves. Documents added later have higher rows and are left out. A
document that was there keeps its place in the order, so none comes twice and none is skipped. A
digest of the search and of the cursor refuses a cursor that belongs to another search or was
altered. It guards against mistakes, not against forgery: whoever can search may ask for any page
anyway.
"""

from __future__ import annotations

import binascii
import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from foundation.errors import InputError

_NUMBERS = struct.Struct(">dqqq")
_DIGEST_SIZE = 8


class Position(NamedTuple):
    """Where a page ended: after the hit with `score` and `row`, the `passed`-th of them all."""

    score: float
    row: int
    last_row: int
    """The last row that had been given when the first page was made."""
    passed: int
    statistics: tuple[float, ...] = ()
    """What scores depended on then; see :class:`index.rankings.protocol.RankedRows`."""


def write_cursor(position: Position, *search: object) -> str:
    """Return an opaque cursor for the search that `search` describes."""
    numbers, statistics = position[:4], np.array(position.statistics, dtype=">f8")
    packed = _NUMBERS.pack(*numbers) + statistics.tobytes()
    return _encode(packed + _digest(packed, search))


def read_cursor(cursor: str, *search: object) -> Position:
    """Return the position that :func:`write_cursor` was given with the same `search`.

    Raises:
        InputError: if the cursor is of another search, or was altered.
    """
    try:
        raw = urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4))
    except (UnicodeEncodeError, binascii.Error):
        raw = b""
    packed, digest = raw[:-_DIGEST_SIZE], raw[-_DIGEST_SIZE:]
    known, rest = packed[: _NUMBERS.size], packed[_NUMBERS.size :]
    whole = len(known) == _NUMBERS.size and len(rest) % 8 == 0
    if digest != _digest(packed, search) or _encode(raw) != cursor or not whole:
        shown = ascii(cursor[:60])
        message = f"is {shown}; it must be the next_cursor of a page of this same search"
        raise InputError("cursor", message)
    score, row, last_row, passed = _NUMBERS.unpack(known)
    statistics = tuple(np.frombuffer(rest, dtype=">f8").tolist())
    return Position(score, row, last_row, passed, statistics)


def _encode(raw: bytes) -> str:
    return urlsafe_b64encode(raw).decode().rstrip("=")


def _digest(packed: bytes, search: tuple[object, ...]) -> bytes:
    text = "\0".join(repr(one) for one in search).encode("utf-8", "surrogatepass")
    return blake2b(packed + text, digest_size=_DIGEST_SIZE).digest()
