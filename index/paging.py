"""Cursors: where a page ended, so that the next begins there whatever was written meanwhile.

A cursor holds the (distance, row) of the last hit of a page, how many hits came before the next
page, and the last row that had been given when the first page was made. Documents added later have
higher rows and are left out; a document that was there keeps its place in the order, so none comes
twice and none is skipped. A digest of the search and of the cursor itself refuses a cursor that
belongs to another search or was altered; it guards against mistakes, not against forgery, for
whoever can search may ask for any page anyway.
"""

from __future__ import annotations

import binascii
import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import blake2b
from typing import NamedTuple

from index.errors import InputError

_NUMBERS = struct.Struct(">qqqq")
_DIGEST_SIZE = 8


class Position(NamedTuple):
    """Where a page ended: after the hit at `distance` with `row`, the `passed`-th of them all."""

    distance: int
    row: int
    last_row: int
    """The last row that had been given when the first page was made."""
    passed: int


def write_cursor(position: Position, *search: object) -> str:
    """Return an opaque cursor for the search that `search` describes."""
    packed = _NUMBERS.pack(*position)
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
    packed, digest = raw[: _NUMBERS.size], raw[_NUMBERS.size :]
    if digest != _digest(packed, search) or _encode(raw) != cursor or len(packed) != _NUMBERS.size:
        shown = ascii(cursor[:60])
        message = f"is {shown}; it must be the next_cursor of a page of this same search"
        raise InputError("cursor", message)
    return Position(*_NUMBERS.unpack(packed))


def _encode(raw: bytes) -> str:
    return urlsafe_b64encode(raw).decode().rstrip("=")


def _digest(packed: bytes, search: tuple[object, ...]) -> bytes:
    described = "\0".join(repr(one) for one in search).encode("utf-8", "surrogatepass")
    return blake2b(packed + described, digest_size=_DIGEST_SIZE).digest()
