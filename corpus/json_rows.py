"""JSON lines, arrays and objects as rows, and the JSON that is accepted.

NaN and Infinity, which Python's parser accepts by default, are refused: they are not JSON. So is an
object with two members of one name.
"""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from itertools import count
from typing import BinaryIO, NoReturn, cast

from hummingbit.corpus.document import CONTENT_FIELDS
from hummingbit.corpus.layout import Layout
from hummingbit.corpus.lines import (
    BYTE_ORDER_MARK,
    STREAM_ERRORS,
    LineError,
    Lines,
    ReadError,
    Row,
    as_text,
    check_utf8,
    open_text,
    read_all,
)
from hummingbit.foundation.quick_json import Unsure, parse_lines_quickly, parse_quickly

# JSON begins with a character of ASCII, so a NUL beside it means UTF-16 or UTF-32 (RFC 4627, 3).
_WIDE = re.compile(rb"\xff\xfe|\xfe\xff|\0|[^\0]\0")
_ARRAY = re.compile(rb"\s*\[")
# The members before a list, or before the object that has it, may be anything but lists and objects
# of objects. The pattern can match them in one way only: with two ways for each, matching would
# take exponential time in their number.
_MEMBERS = rb'(?:"[^"]*"\s*:\s*(?:"[^"]*"\s*|\{[^{}]*\}\s*|[^"{[,\s][^"{[,]*),\s*)*+'
MAX_DEPTH = 3
"""A list of documents is inside so many objects at most, beside that of the whole file."""
_OBJECT_WITH_A_LIST = re.compile(
    rb"\s*\{\s*%b(?:\"[^\"]*\"\s*:\s*\{\s*%b){0,%d}" % (_MEMBERS, _MEMBERS, MAX_DEPTH)
    + rb'"[^"]*"\s*:\s*\[\s*\{'
)
# A line with the beginning of a value that is written over several lines, and with nothing else.
_ONLY_A_BEGINNING = re.compile(r"\s*[\[{][\s\[{]*\Z")
# How an object begins that is written over several lines.
_SPREAD_OBJECT = re.compile(rb"\s*\{\s*\n")
_BUFFER = 4096
_SEVERAL_LINES = (
    "is only the beginning of a JSON value; JSON lines have one document a line, and a file of one"
    " value over several lines must be named .json"
)
EXPORT = "hummingbit export"
"""The format that the first line of an exported collection names."""
_HEAD_OF_EXPORT = re.compile(rb'\s*\{\s*"format"\s*:\s*"' + EXPORT.encode() + b'"')
_NOT_DOCUMENTS = "must hold an array of documents, or a document on each line"


def read_json(
    stream: BinaryIO,
    source: str,
    layout: Layout,
    notice: Callable[[str], None],
    *,
    is_lines: bool,
) -> Iterator[Row]:
    """Yield the rows of JSON lines or, unless `is_lines`, also those of one array or object.

    Raises:
        ReadError: if the stream is truncated, or cannot be read as what it begins like.
    """
    if layout.encoding is not None or _begins(stream, _WIDE):
        stream = open_text(stream, source, layout.encoding, notice)[0]
    if not is_lines and _begins(stream, _ARRAY):
        return read_json_array(stream, source)
    if not is_lines and (_begins(stream, _OBJECT_WITH_A_LIST) or _begins(stream, _SPREAD_OBJECT)):
        own_fields = {*CONTENT_FIELDS, *layout.text_fields}
        return read_json_object(stream, source, own_fields, notice)
    if _begins(stream, _HEAD_OF_EXPORT):
        return read_export(stream, source)
    return read_json_lines(stream, source)


def _begins(stream: BinaryIO, pattern: re.Pattern[bytes]) -> bool:
    try:
        start = cast("io.BufferedReader", stream).peek(_BUFFER)[:_BUFFER]
    except STREAM_ERRORS:
        return False  # reading raises it again, and names the line
    return pattern.match(start.removeprefix(BYTE_ORDER_MARK)) is not None


def read_json_lines(stream: BinaryIO, source: str) -> Iterator[Row]:
    """Yield one row for each line of `stream` that is not blank; each must hold a JSON value.

    Raises:
        ReadError: if the stream is truncated.
    """
    lines = Lines(stream, source)
    while True:
        try:
            first, block = lines.next_block()
        except StopIteration:
            return
        except LineError as error:
            yield Row(lines.number, reason=str(error))
            continue
        try:
            records = parse_lines_quickly(block)
        except Unsure:
            for number, line in enumerate(block, start=first):
                yield from _rows_of_line(number, line)
        else:
            yield from map(Row, count(first), records)


def read_export(stream: BinaryIO, source: str) -> Iterator[Row]:
    """Yield the documents of an exported collection, with the labels that their payloads have.

    A code is left out where there is a text or a vector: it is of an encoder that others need not
    have. The first line, the last, and what people said of documents are left out.

    Raises:
        ReadError: if the stream is truncated.
    """
    for row in read_json_lines(stream, source):
        record = row.record
        if row.reason is None and isinstance(record, dict):
            if "id" not in record:
                continue
            if "text" in record or "vector" in record:
                record.pop("code", None)
            payload = record.get("payload")
            if isinstance(payload, dict) and "labels" not in record:
                labels = {name: payload[name] for name in ("label", "labels") if name in payload}
                record = {**labels, **record}
        yield row._replace(record=record)


def _rows_of_line(number: int, line: bytes) -> Iterator[Row]:
    """Yield the row of one line, or nothing if the line is blank."""
    try:
        text = as_text(line)
        if text.strip():
            check_utf8(text)
            if _ONLY_A_BEGINNING.match(text):
                raise LineError(_SEVERAL_LINES)
            yield Row(number, parse_json(text))
    except LineError as error:
        yield Row(number, reason=str(error))


def read_json_array(stream: BinaryIO, source: str) -> Iterator[Row]:
    """Yield one row for each entry of a JSON array, which is read into memory whole.

    Raises:
        ReadError: if the stream is truncated, or is not a single array.
    """
    try:
        entries = parse_whole(read_all(stream, source))
    except LineError as error:
        raise ReadError(f"{source}: {error}") from None
    if not isinstance(entries, list):
        raise ReadError(f"{source}: {_NOT_DOCUMENTS}")
    yield from _numbered_rows(entries)


def read_json_object(
    stream: BinaryIO, source: str, own_fields: Collection[str], notice: Callable[[str], None]
) -> Iterator[Row]:
    """Yield one row for each entry of the list in a JSON object, which is read into memory whole.

    Many services respond in this form: ``{"count": 2, "data": [{…}, {…}]}``. The list may be inside
    objects, as in ``{"hits": {"total": 2, "hits": [{…}, {…}]}}``. An object with one of
    `own_fields` is a document itself. Several objects, each on a line, are read as JSON lines.

    Raises:
        ReadError: if the stream is truncated or holds anything else.
    """
    raw = read_all(stream, source)
    try:
        value = parse_whole(raw)
    except LineError:
        if not _SPREAD_OBJECT.match(raw):
            yield from read_json_lines(io.BytesIO(raw), source)
            return
        value = None
    members = value if isinstance(value, dict) else {}
    if not set(members).isdisjoint(own_fields):
        yield Row(1, value)
        return
    lists = _lists_of_objects(members)
    if not lists:
        raise ReadError(f"{source}: {_NOT_DOCUMENTS}")
    if len(lists) > 1:
        names = " or ".join(repr(name[:40]) for name in [*lists][:3])
        raise ReadError(f"{source}: {_NOT_DOCUMENTS}; its documents could be those of {names}")
    ((name, entries),) = lists.items()
    notice(f"its documents are the list {name[:40]!r}")
    yield from _numbered_rows(entries)


def _lists_of_objects(members: dict[str, object]) -> dict[str, list[object]]:
    """Return the lists of objects that are inside the fewest objects, by their paths."""
    for _ in range(MAX_DEPTH + 1):
        lists = {
            name: value
            for name, value in members.items()
            if isinstance(value, list) and value and all(isinstance(item, dict) for item in value)
        }
        if lists:
            return lists
        members = {
            f"{name}.{key}": value
            for name, inner in members.items()
            if isinstance(inner, dict)
            for key, value in inner.items()
        }
    return {}


def _numbered_rows(entries: list[object]) -> Iterator[Row]:
    return (Row(number, entry) for number, entry in enumerate(entries, start=1))


def parse_whole(raw: bytes) -> object:
    """Return the JSON value that a whole file contains; raise LineError if it is invalid."""
    raw = raw.removeprefix(BYTE_ORDER_MARK)
    try:
        return parse_quickly(raw)
    except Unsure:
        check_utf8(text := as_text(raw))
        return parse_strictly(text)


def parse_json(text: str, prefix: str = "") -> object:
    """Return the JSON value of `text`; a LineError for invalid JSON begins with `prefix`."""
    try:
        return parse_quickly(text.encode())
    except (Unsure, UnicodeEncodeError):
        return parse_strictly(text, prefix)


def parse_strictly(text: str, prefix: str = "") -> object:
    """Do the same as :func:`parse_json` with Python's parser."""
    try:
        return json.loads(text, object_pairs_hook=distinct_keys, parse_constant=_refuse_constant)
    except LineError as error:
        raise LineError(f"{prefix}{error}") from None
    except json.JSONDecodeError as error:
        reason = f"is not valid JSON: {error.msg} at character {error.pos + 1}"
        raise LineError(prefix + reason) from None
    except (ValueError, RecursionError) as error:  # an integer too long, or nested too deeply
        raise LineError(f"{prefix}cannot be read as JSON: {str(error).partition(';')[0]}") from None


def distinct_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return the members of a JSON object; raise LineError if two have the same key."""
    members = dict(pairs)
    if len(members) != len(pairs):
        ((repeated, _),) = Counter(key for key, _ in pairs).most_common(1)
        raise LineError(f"the key {repeated[:40]!r} is given twice in one object")
    return members


def _refuse_constant(name: str) -> NoReturn:
    raise LineError(f"is not valid JSON: {name} is not a JSON number")
