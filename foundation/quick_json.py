"""JSON parsed by orjson, wherever Python's own strict parser would return the same.

Python's parser with hooks that refuse NaN and keys given twice takes seven times as long, and that
was a fifth of the work of ingestion. orjson keeps the last of two values of a key and makes floats
of integers beyond 64 bits, so what may hold either is left to Python's parser, and so is whatever
orjson refuses: the message about it is then the same as ever.
"""

from __future__ import annotations

import re
from typing import Any

import orjson

_KEY = re.compile(rb'"[ \t\r\n]*:')
# Every digit is a zero, a point itself, and anything else a space.
_NUMBERS = bytes(48 if 48 <= byte < 58 else 46 if byte == 46 else 32 for byte in range(256))
# The least integer beyond 64 bits has so many digits; the digits of a fraction follow its point.
_LONG_INTEGER = b" " + b"0" * 19


class Unsure(ValueError):  # noqa: N818 - nothing is wrong yet
    """Python's parser has to say what this is."""


def parse_quickly(raw: bytes) -> Any:
    """Return the JSON value of `raw`.

    Raises:
        Unsure: if it may be no JSON, give a key twice, or hold an integer of 19 digits or more.
    """
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise Unsure from error
    # Every key has a colon, and a colon after its quote. A text can hold more of them.
    keys = _count_keys(value)
    if raw.count(b":") != keys and len(_KEY.findall(raw)) != keys:
        raise Unsure
    if _LONG_INTEGER in (b" " + raw).translate(_NUMBERS):
        raise Unsure
    return value


def _count_keys(value: object) -> int:
    """Return how many keys the objects in `value` have; some in lists may be left out."""
    if type(value) is dict:
        keys = len(value)
        for one in value.values():
            if type(one) in _NESTS:
                keys += _count_keys(one)
        return keys
    if type(value) is list and value and type(value[0]) in _NESTS:
        return sum(map(_count_keys, value))
    return 0


_NESTS = frozenset({dict, list})
