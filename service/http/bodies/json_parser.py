"""Strict JSON (RFC 8259), parsed in slices.

Python's parser holds the interpreter lock until it is done, so 16 MiB would block the event loop
for a second. A long text is therefore cut at the commas of its containers, which numpy finds
without the lock, and parsed some tens of KiB at a time.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from foundation.quick_json import Unsure, parse_quickly
from foundation.slices import checkpoint
from service.http.problems import ProblemError, invalid_field

SLICE = 64 << 10
BLOCK = 256 << 10
OPEN, CLOSE, COMMA = 1, 2, 3
WHITESPACE = b" \t\n\r"
# A body of 16 MiB could hold millions of empty lists, and Python's garbage collector would visit
# all of them again and again.
MAX_VALUES = 2_000_000
MAX_CONTAINERS = 250_000

Positions = NDArray[np.int32]


def parse_json(
    raw: bytes, max_depth: int, max_entries: Mapping[str, int] | None = None, size: int = SLICE
) -> Any:
    """Parse UTF-8 JSON, `size` bytes at a time; a byte order mark before it is ignored.

    `max_entries` limits lists that are fields of the outermost object; a longer one is refused
    before its entries are parsed. Numbers too large for a float become infinity, and lone
    surrogates are kept: the code that validates the values can name their fields.

    Raises:
        ProblemError: 400 if it is not JSON, has NaN or Infinity, repeats a key within an object,
            holds an integer of thousands of digits, more than :data:`MAX_VALUES` values or more
            than :data:`MAX_CONTAINERS` containers, or is nested in more than `max_depth` levels;
            422 if a list is longer than its limit.
    """
    raw = raw.removeprefix(BOM_UTF8)
    if len(raw) > size or raw.count(b"[") + raw.count(b"{") > max_depth:
        structure = _Structure(raw, max_depth)
        if len(raw) > size:
            return _Slices(raw, structure, max_entries or {}, size).value(0, len(raw))
    return _parse(raw, 0, len(raw), raw)


def parse_short_json(raw: bytes, max_depth: int) -> Any:
    """Parse as :func:`parse_json` does, in half the time for a short text.

    Raises:
        ProblemError: as :func:`parse_json` does.
    """
    if len(raw) <= SLICE and raw.count(b"[") + raw.count(b"{") <= max_depth:
        with suppress(Unsure):
            return parse_quickly(raw)
    return parse_json(raw, max_depth)


class _Structure:
    """The positions of a text's commas, by level, and of the brackets that open its containers."""

    def __init__(self, raw: bytes, max_depth: int) -> None:
        # Once escaped quotes are gone, an odd number of quotes means inside a string.
        text = raw.replace(b"\\\\", b"  ").replace(b'\\"', b"  ") if b"\\" in raw else raw
        table = np.zeros(256, dtype=np.uint8)
        table[[ord("["), ord("{")]] = OPEN
        table[[ord("]"), ord("}")]] = CLOSE
        table[ord(",")] = COMMA
        steps = np.array([0, 1, -1, 0], dtype=np.int32)
        inside, depth, containers, values = 0, 0, 0, 0
        parts: list[tuple[NDArray[np.uint8], Positions, Positions]] = []
        for start in range(0, len(text), BLOCK):
            checkpoint()
            size = min(BLOCK, len(text) - start)
            block = np.frombuffer(text, dtype=np.uint8, count=size, offset=start)
            quoted = np.bitwise_xor.accumulate((block == ord('"')).view(np.uint8)) ^ inside
            kinds = table[block] * (quoted ^ 1)
            places = np.flatnonzero(kinds)
            kinds = kinds[places]
            levels = np.cumsum(steps[kinds], dtype=np.int32) + depth
            if levels.size:
                if levels.max() > max_depth:
                    raise _invalid_json(f"it is nested more than {max_depth} levels deep")
                depth = int(levels[-1])
            inside = int(quoted[-1])
            containers += int((kinds == OPEN).sum())
            values += int((kinds != CLOSE).sum())
            _check_size(containers, values)
            parts.append((kinds, (places + start).astype(np.int32), levels.astype(np.int32)))
        kinds, places, levels = (np.concatenate(part) for part in zip(*parts, strict=True))
        self.opens: Positions = places[kinds == OPEN]
        is_comma = kinds == COMMA
        commas, levels = places[is_comma], levels[is_comma].clip(0).astype(np.uint16)
        order = np.argsort(levels, kind="stable")
        self._commas: Positions = commas[order]
        self._ends = np.cumsum(np.bincount(levels, minlength=max_depth + 1))

    def commas(self, level: int, start: int, end: int) -> Positions:
        """Return the positions of the commas of a level from `start` to before `end`, in order."""
        first = self._ends[level - 1] if level else 0
        of_level = self._commas[first : self._ends[level]]
        return of_level[bisect_left(of_level, start) : bisect_left(of_level, end)]

    def next_open(self, start: int, end: int) -> int | None:
        """Return the first position from `start` to before `end` where a container opens."""
        place = bisect_left(self.opens, start)
        if place < len(self.opens) and self.opens[place] < end:
            return int(self.opens[place])
        return None


class _Slices:
    """Parses a long text by its structure."""

    def __init__(
        self, raw: bytes, structure: _Structure, max_entries: Mapping[str, int], size: int
    ) -> None:
        self._raw = raw
        self._structure = structure
        self._max_entries = max_entries
        self._size = size

    def value(self, start: int, end: int, level: int = 0) -> Any:
        """Parse the value from `start` to before `end`, in a container of `level`."""
        start, end = self._strip(start, end)
        first, last = self._raw[start : start + 1], self._raw[end - 1 : end]
        if end - start > self._size and (first, last) == (b"[", b"]"):
            return self._list(start + 1, end - 1, level + 1)
        if end - start > self._size and (first, last) == (b"{", b"}"):
            return self._object(start + 1, end - 1, level + 1)
        return _parse(self._raw, start, end, self._raw[start:end])

    def _list(self, start: int, end: int, level: int) -> list[Any]:
        parsed: list[Any] = []
        for low, high in self._runs(start, end, level):
            if high - low > self._size:
                parsed.append(self.value(low, high, level))
            else:
                parsed += _parse(self._raw, low - 1, high, b"[" + self._raw[low:high] + b"]")
        return parsed

    def _object(self, start: int, end: int, level: int) -> dict[str, Any]:
        parsed: dict[str, Any] = {}
        for low, high in self._runs(start, end, level):
            opens = self._structure.next_open(low, high) if high - low > self._size else None
            if opens is None:
                part = _parse(self._raw, low - 1, high, b"{" + self._raw[low:high] + b"}")
            else:
                # The name of a long member, with 0 in place of its value.
                member = b"{" + self._raw[low:opens] + b"0}"
                part = _parse(self._raw, low - 1, opens, member)
                if len(part) != 1 or next(iter(part.values())) != 0:
                    raise _invalid_json("a member of an object has no value of its own")
                (name,) = part
                if level == 1:
                    self._check_count(name, opens, high)
                part = {name: self.value(opens, high, level)}
            if not parsed.keys().isdisjoint(part):
                raise _duplicate_key(next(key for key in part if key in parsed))
            parsed |= part
        return parsed

    def _check_count(self, name: str, start: int, end: int) -> None:
        limit = self._max_entries.get(name)
        if limit is not None and self._raw[start : start + 1] == b"[":
            count = len(self._structure.commas(2, start, end)) + 1
            if count > limit:
                raise too_many_entries(count, limit, name)

    def _runs(self, start: int, end: int, level: int) -> Iterator[tuple[int, int]]:
        """Yield runs of a container's entries, from comma to comma, each at most a slice long.

        A longer entry is a run by itself.
        """
        commas = self._structure.commas(level, start, end)
        if not self._raw[start:end].strip(WHITESPACE):
            return
        while True:
            place = bisect_right(commas, start + self._size)
            if place == len(commas) and end - start <= self._size:
                cut = end
            else:
                place = max(place - 1, bisect_left(commas, start))
                cut = int(commas[place]) if place < len(commas) else end
            if not self._raw[start:cut].strip(WHITESPACE):
                raise _invalid_json(f"a value is missing ({_position(self._raw, cut)})")
            checkpoint()
            yield start, cut
            if cut == end:
                return
            start = cut + 1

    def _strip(self, start: int, end: int) -> tuple[int, int]:
        text = self._raw[start:end]
        shorter = text.lstrip(WHITESPACE)
        start += len(text) - len(shorter)
        return start, start + len(shorter.rstrip(WHITESPACE))


def _check_size(containers: int, values: int) -> None:
    for count, limit, noun in (
        (containers, MAX_CONTAINERS, "lists and objects"),
        (values, MAX_VALUES, "values"),
    ):
        if count > limit:
            raise _invalid_json(f"it has more than {limit:,} {noun}, the limit")


def too_many_entries(count: int, limit: int, *place: str | int) -> ProblemError:
    """Return the problem, 422, of a list at `place` with more than `limit` entries."""
    return invalid_field(f"has {count:,} entries; at most {limit:,} are allowed", *place)


def _parse(raw: bytes, start: int, end: int, text: bytes) -> Any:
    """Parse `text` at once; it is what `raw` holds from `start` to before `end`."""
    try:
        return _DECODER.decode(text.decode())
    except UnicodeDecodeError as error:
        raise _invalid_json(f"byte {start + error.start} is not UTF-8") from None
    except json.JSONDecodeError as error:
        offset = min(start + len(error.doc[: error.pos].encode()), end)
        raise _invalid_json(f"{error.msg} ({_position(raw, offset)})") from None
    except RecursionError:
        raise _invalid_json("it is nested too deeply") from None
    except ValueError:
        raise _invalid_json("it has an integer with too many digits") from None


def _position(raw: bytes, offset: int) -> str:
    line = raw.count(b"\n", 0, offset) + 1
    begin = raw.rfind(b"\n", 0, offset) + 1
    return f"line {line}, column {len(raw[begin:offset].decode('utf-8', 'replace')) + 1}"


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    parsed = dict(pairs)
    if len(parsed) != len(pairs):
        ((key, _),) = Counter(key for key, _ in pairs).most_common(1)
        raise _duplicate_key(key)
    return parsed


def _duplicate_key(key: str) -> ProblemError:
    return _invalid_json(f"the key {key[:40]!r} is given twice in one object")


def _refuse_constant(name: str) -> NoReturn:
    raise _invalid_json(f"{name} is not a JSON number; numbers must be finite")


def _invalid_json(reason: str) -> ProblemError:
    return ProblemError(400, "invalid_json", f"the body cannot be read as JSON: {reason}")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_refuse_constant)
