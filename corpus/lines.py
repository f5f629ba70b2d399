"""Formats in lines, and JSON, plain or compressed.

Lines are streamed: memory holds one record at a time, however long the file is.
"""

from __future__ import annotations

import io
import json
import lzma
import re
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import closing
from typing import BinaryIO, NoReturn

from corpus.rows import BadLine, ReadError, Row
from foundation.errors import HummingbitError
from foundation.quick_json import Unsure, parse_quickly

# Room for the longest text of a document, written in JSON escapes, and for a payload.
MAX_LINE_BYTES = 16 * 1024 * 1024

BYTE_ORDER_MARK = b"\xef\xbb\xbf"

# The exceptions of a stream that is truncated or has the wrong suffix.
STREAM_ERRORS = (OSError, EOFError, zlib.error, lzma.LZMAError)

_HEADING = re.compile(r" {0,3}(#{1,6})\s+(.*?)(?:\s+#+)?\s*$")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")

# How an object begins that is written over several lines.
SPREAD_OBJECT = re.compile(rb"\s*\{\s*\n")
_NOT_DOCUMENTS = "must hold an array of documents, or a document on each line"


class LineError(HummingbitError, ValueError):
    """A line is invalid. The lines after it can still be read."""


class Lines:
    """The lines of a byte stream as text; `number` is that of the last line read, from 1.

    This is a class because a generator could not continue after a line that raised. Bytes that are
    not UTF-8 become surrogates, which :func:`check_utf8` finds.
    """

    def __init__(self, stream: BinaryIO, source: str) -> None:
        self._stream = stream
        self.source = source
        self.number = 0

    def __iter__(self) -> Lines:
        return self

    def __next__(self) -> str:
        """Read the next line.

        Raises:
            LineError: if it is longer than :data:`MAX_LINE_BYTES`.
            ReadError: if the stream is truncated or has the wrong suffix.
        """
        return as_text(self.next_bytes())

    def next_bytes(self) -> bytes:
        """Read the next line as :meth:`__next__` does, but return its bytes."""
        line = self._read()
        if not line:
            raise StopIteration
        self.number += 1
        if len(line) > MAX_LINE_BYTES:
            while line and not line.endswith(b"\n"):
                line = self._read()
            raise LineError(f"is longer than {MAX_LINE_BYTES:,} bytes")
        return line.removeprefix(BYTE_ORDER_MARK) if self.number == 1 else line

    def close(self) -> None:
        """Close the stream."""
        self._stream.close()

    def _read(self) -> bytes:
        try:
            return self._stream.readline(MAX_LINE_BYTES + 1)
        except STREAM_ERRORS as error:
            bad_line = BadLine(self.source, self.number + 1, f"cannot be read: {error}")
            raise ReadError(str(bad_line)) from None


def as_text(line: bytes) -> str:
    """Return the text of a line; bytes that are not UTF-8 become surrogates."""
    return line.decode("utf-8", "surrogateescape")


def read_json_lines(stream: BinaryIO, source: str) -> Iterator[Row]:
    """Yield one row for each line of `stream` that is not blank; each must hold a JSON value.

    NaN and Infinity, which Python's parser accepts by default, are refused: they are not JSON.

    Raises:
        ReadError: if the stream is truncated.
    """
    lines = Lines(stream, source)
    while True:
        try:
            line = lines.next_bytes()
            try:
                yield Row(lines.number, parse_quickly(line))
            except Unsure:
                text = as_text(line)
                if text.strip():
                    check_utf8(text)
                    yield Row(lines.number, parse_strictly(text))
        except StopIteration:
            return
        except LineError as error:
            yield Row(lines.number, reason=str(error))


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

    Many services respond in this form: ``{"count": 2, "data": [{…}, {…}]}``. An object with one of
    `own_fields` is a document itself. Several objects, each on a line, are read as JSON lines.

    Raises:
        ReadError: if the stream is truncated or holds anything else.
    """
    raw = read_all(stream, source)
    try:
        value = parse_whole(raw)
    except LineError:
        if not SPREAD_OBJECT.match(raw):
            yield from read_json_lines(io.BytesIO(raw), source)
            return
        value = None
    members = value if isinstance(value, dict) else {}
    if not set(members).isdisjoint(own_fields):
        yield Row(1, value)
        return
    lists = [name for name, member in members.items() if _is_list_of_objects(member)]
    if len(lists) != 1:
        raise ReadError(f"{source}: {_NOT_DOCUMENTS}")
    notice(f"its documents are the list {lists[0][:40]!a}")
    yield from _numbered_rows(members[lists[0]])


def _is_list_of_objects(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)


def _numbered_rows(entries: list[object]) -> Iterator[Row]:
    return (Row(number, entry) for number, entry in enumerate(entries, start=1))


def read_all(stream: BinaryIO, source: str) -> bytes:
    """Return the rest of a stream; raise ReadError if it is truncated."""
    try:
        return stream.read()
    except STREAM_ERRORS as error:
        raise ReadError(f"{source}: cannot be read: {error}") from None


def read_text_lines(stream: BinaryIO, source: str) -> Iterator[Row]:
    """Yield one row, with the field `text`, for each line that is not blank; close the stream.

    Raises:
        ReadError: if the stream is truncated.
    """
    with closing(Lines(stream, source)) as lines:
        while True:
            try:
                line = next(lines).strip()
                check_utf8(line)
                if line:
                    yield Row(lines.number, {"text": line})
            except StopIteration:
                return
            except LineError as error:
                yield Row(lines.number, reason=str(error))


def read_markdown(stream: BinaryIO, source: str) -> Iterator[Row]:
    """Yield one row for each section with text of a Markdown file; close the stream.

    A section extends from one heading (``#`` to ``######``) to the next. Its `text` includes the
    heading; its `heading` also has those of the sections that contain it. The lines before the
    first heading are a section too, except YAML between lines of ``---``.

    Raises:
        ReadError: if the stream is truncated.
    """
    path: list[str] = []
    start, body, fence, in_yaml = 1, list[str](), "", False
    with closing(Lines(stream, source)) as lines:
        while True:
            try:
                line = next(lines, None)
                check_utf8(line or "")
            except LineError as error:
                yield Row(lines.number, reason=str(error))
                continue
            title = None if line is None or fence or in_yaml else _HEADING.match(line)
            if line is None or title:
                text = "\n".join([*path[-1:], "".join(body).strip()]).strip()
                if "".join(body).strip():
                    heading = " › ".join(filter(None, path))
                    yield Row(start, {"text": text, **({"heading": heading} if heading else {})})
                if line is None:
                    return
                start, body = lines.number, []
            if title:
                level = len(title[1])
                path = [*path[: level - 1], *[""] * (level - 1 - len(path)), title[2].strip()]
                continue
            if line.strip() == "---" and (in_yaml or lines.number == 1):
                in_yaml = not in_yaml
                continue
            mark = _FENCE.match(line)
            if mark and (not fence or (mark[1].startswith(fence) and not mark[2].strip())):
                fence = "" if fence else mark[1]
            if not in_yaml:
                body.append(line)


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
        raise LineError(f"the key {repeated[:40]!a} is given twice in one object")
    return members


def _refuse_constant(name: str) -> NoReturn:
    raise LineError(f"is not valid JSON: {name} is not a JSON number")


def check_utf8(text: str) -> None:
    """Raise LineError if `text` has a surrogate, which stands for a byte that is not UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        byte = ord(text[error.start]) - 0xDC00
        message = f"is not UTF-8: byte 0x{byte:02x} at character {error.start + 1}"
        raise LineError(message) from None
