"""JSON parsed by orjson, wherever Python's own strict parser would return the same value.

Python's parser, with hooks that refuse NaN and repeated keys, takes seven times as long, which was
a fifth of the time of ingestion. orjson differs in two ways: it keeps the last value of a repeated
key, and it turns integers beyond 64 bits into floats. Input that may contain either is left to
Python's parser. So is input that orjson refuses, so that error messages do not depend on the
parser.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import orjson

_QUOTE_AND_SPACE = (b'" ', b'"\t', b'"\r', b'"\n')
_KEY = re.compile(rb'"[ \t\r\n]*:')
# Translates every digit to "0", keeps the decimal point, and translates the rest to spaces.
_NUMBERS = bytes(48 if 48 <= byte < 58 else 46 if byte == 46 else 32 for byte in range(256))
# The least integer beyond 64 bits has 19 digits. The space keeps the digits of fractions out.
_LONG_INTEGER = b" " + b"0" * 19


class Unsure(ValueError):  # noqa: N818 - nothing is wrong yet
    """orjson may read this input differently, so Python's parser must decide."""


def parse_quickly(raw: bytes) -> Any:
    """Return the JSON value of `raw`.

    Raises:
        Unsure: if `raw` may be invalid JSON, repeat a key, or hold an integer of 19 digits or more.
    """
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise Unsure from error
    _check(raw, _count_keys(value))
    return value


def parse_lines_quickly(lines: Sequence[bytes]) -> list[Any]:
    """Return the JSON value of each of `lines`.

    Raises:
        Unsure: if :func:`parse_quickly` raises it for one of them.
    """
    try:
        values = [*map(orjson.loads, lines)]
    except orjson.JSONDecodeError as error:
        raise Unsure from error
    # No line has fewer colons than keys. So if all lines have as many of both, each line has.
    _check(b" ".join(lines), sum(map(_count_keys, values)))
    return values


def _check(raw: bytes, keys: int) -> None:
    """Raise Unsure if JSON in which orjson has found that many keys may be read differently."""
    # A colon follows every key, behind its closing quote. Strings can contain further colons.
    if raw.count(b":") != keys and _count_quoted(raw) != keys:
        raise Unsure
    if _LONG_INTEGER in (b" " + raw).translate(_NUMBERS):
        raise Unsure


def _count_quoted(raw: bytes) -> int:
    """Return how often a colon follows a quote, perhaps behind white space."""
    if any(raw.find(space) >= 0 for space in _QUOTE_AND_SPACE):
        return len(_KEY.findall(raw))
    return raw.count(b'":')


def _count_keys(value: object) -> int:
    """Return the number of keys of all objects in `value`.

    A list whose first entry is neither a list nor an object is not searched. If there are objects
    further on, the number is too small, and the caller leaves the input to Python's parser.
    """
    if type(value) is dict:
        keys = len(value)
        for member in value.values():
            if type(member) in _CONTAINERS:
                keys += _count_keys(member)
        return keys
    if type(value) is list and value and type(value[0]) in _CONTAINERS:
        return sum(map(_count_keys, value))
    return 0


_CONTAINERS = frozenset({dict, list})
