"""The formats that come as lines, and JSON, plain or compressed.

Lines are streamed: memory holds one record at a time, however long the file is.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import re
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, cast

from corpus.rows import BadLine, ReadError, Row
from foundation.errors import HummingbitError
from foundation.quick_json import Unsure, parse_quickly

# The longest text that a document can hold, written as JSON escapes, and room for its payload.
MAX_LINE_BYTES = 16 * 1024 * 1024

BYTE_ORDER_MARK = b"\xef\xbb\xbf"

# What a stream raises that breaks off, or is not what its suffix says.
STREAM_ERRORS = (OSError, EOFError, zlib.error, lzma.LZMAError)

_HEADING = re.compile(r" {0,3}(#{1,6})\s+(.*?)(?:\s+#+)?\s*$")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")

COMPRESSIONS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}


class LineError(HummingbitError, ValueError):
    """One line cannot be taken; the lines after it can."""


class Lines:
    """The lines of a byte stream as text, `number` being the 1-based number of the last one read.

    An iterator in its own right, because a generator could not go on after a line that raised.
    Bytes that are not UTF-8 come as surrogates, which :func:`check_utf8` finds.
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
            ReadError: if the stream breaks off or is not what its suffix says.
        """
        return as_text(self.next_bytes())

    def next_bytes(self) -> bytes:
        """Read the next line as :meth:`__next__` does, without its bytes being looked at."""
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
            bad = BadLine(self.source, self.number + 1, f"cannot be read on: {error}")
            raise ReadError(str(bad)) from None


def as_text(line: bytes) -> str:
    """Return the text of a line; bytes that are not UTF-8 come as surrogates."""
    return line.decode("utf-8", "surrogateescape")


def open_bytes(path: Path) -> BinaryIO:
    """Open a file for reading, decompressing by its suffix `.gz`, `.xz` or `.bz2`.

    Raises:
        OSError: if it cannot be opened.
    """
    decompress = COMPRESSIONS.get(path.suffix.lower())
    return path.open("rb") if decompress is None else cast("BinaryIO", decompress(path, "rb"))


def read_json_lines(stream: BinaryIO, source: str) -> Iterator[Row]:
    """Yield one row for each line of `stream` that is not blank; each must hold a JSON value.

    NaN and Infinity, which Python would take, are not JSON and are refused.

    Raises:
        ReadError: if the stream breaks off.
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
        ReadError: if the stream breaks off, or is not one array.
    """
    try:
        entries = parse_whole(read_all(stream, source))
    except LineError as error:
        raise ReadError(f"{source}: {error}") from None
    if not isinstance(entries, list):
        raise ReadError(f"{source}: must hold an array of documents, or a document on each line")
    yield from _numbered(entries)


def read_json_object(
    stream: BinaryIO, source: str, own_fields: Collection[str], notice: Callable[[str], None]
) -> Iterator[Row]:
    """Yield one row for each entry of the list in a JSON object, which is read into memory whole.

    That is what many services answer: ``{"count": 2, "data": [{…}, {…}]}``. Where there is no such
    list, or several, or the object has one of `own_fields` and so is a document itself, the stream
    is read as JSON lines.

    Raises:
        ReadError: if the stream breaks off.
    """
    raw = read_all(stream, source)
    found = None
    with suppress(LineError):  # mostly documents on a line each
        found = parse_whole(raw)
    given = found if isinstance(found, dict) and not set(found) & set(own_fields) else {}
    lists = [name for name, value in given.items() if _is_list_of_objects(value)]
    if len(lists) != 1:
        yield from read_json_lines(io.BytesIO(raw), source)
        return
    notice(f"its documents are the list {lists[0][:40]!a}")
    yield from _numbered(given[lists[0]])


def _is_list_of_objects(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, dict) for one in value)


def _numbered(entries: list[object]) -> Iterator[Row]:
    return (Row(number, entry) for number, entry in enumerate(entries, start=1))


def read_all(stream: BinaryIO, source: str) -> bytes:
    """Return all that is left of a stream; raise ReadError if it breaks off."""
    try:
        return stream.read()
    except STREAM_ERRORS as error:
        raise ReadError(f"{source}: cannot be read on: {error}") from None


def read_text_lines(stream: BinaryIO, source: str) -> Iterator[Row]:
    """Yield one row, with the field `text`, for each line that is not blank; close the stream.

    Raises:
        ReadError: if the stream breaks off.
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
    """Yield one row for each section of a Markdown file that holds text; close the stream.

    A section goes from one heading (``#`` to ``######``) to the next. Its `text` is the heading and
    what follows, its `heading` also names the headings above it. What precedes the first heading is
    a section as well, but for YAML between lines of ``---``. In fenced code, ``#`` is no heading.

    Raises:
        ReadError: if the stream breaks off.
    """
    path: list[str] = []
    begun, body, fence, yaml = 1, list[str](), "", False
    with closing(Lines(stream, source)) as lines:
        while True:
            try:
                line = next(lines, None)
                check_utf8(line or "")
            except LineError as error:
                yield Row(lines.number, reason=str(error))
                continue
            found = None if line is None or fence or yaml else _HEADING.match(line)
            if line is None or found:
                text = "\n".join([*path[-1:], "".join(body).strip()]).strip()
                if "".join(body).strip():
                    heading = " › ".join(filter(None, path))
                    yield Row(begun, {"text": text, **({"heading": heading} if heading else {})})
                if line is None:
                    return
                begun, body = lines.number, []
            if found:
                level = len(found[1])
                path = [*path[: level - 1], *[""] * (level - 1 - len(path)), found[2].strip()]
                continue
            if line.strip() == "---" and (yaml or (lines.number == 1)):
                yaml = not yaml
                continue
            mark = _FENCE.match(line)
            if mark and (not fence or (mark[1].startswith(fence) and not mark[2].strip())):
                fence = "" if fence else mark[1]
            if not yaml:
                body.append(line)


def parse_whole(raw: bytes) -> object:
    """Return the JSON value that is all of a file; raise LineError if it is none."""
    raw = raw.removeprefix(BYTE_ORDER_MARK)
    try:
        return parse_quickly(raw)
    except Unsure:
        check_utf8(text := as_text(raw))
        return parse_strictly(text)


def parse_json(text: str, prefix: str = "") -> object:
    """Return the JSON value of `text`; raise LineError, begun by `prefix`, if it is none."""
    try:
        return parse_quickly(text.encode())
    except (Unsure, UnicodeEncodeError):
        return parse_strictly(text, prefix)


def parse_strictly(text: str, prefix: str = "") -> object:
    """Do as :func:`parse_json`, by Python's parser."""
    try:
        return json.loads(text, object_pairs_hook=distinct_keys, parse_constant=_refuse_constant)
    except LineError as error:
        raise LineError(f"{prefix}{error}") from None
    except json.JSONDecodeError as error:
        reason = f"is not valid JSON: {error.msg} at character {error.pos + 1}"
        raise LineError(prefix + reason) from None
    except (ValueError, RecursionError) as error:  # an integer too long, or nested too deeply
        raise LineError(f"{prefix}is not JSON that can be read: {error}") from None


def distinct_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return an object of JSON of its members; raise LineError if two have the same key."""
    parsed = dict(pairs)
    if len(parsed) != len(pairs):
        ((twice, _),) = Counter(key for key, _ in pairs).most_common(1)
        raise LineError(f"the key {twice[:40]!a} is given twice in one object")
    return parsed


def _refuse_constant(name: str) -> NoReturn:
    raise LineError(f"is not valid JSON: {name} is not a JSON number")


def check_utf8(text: str) -> None:
    """Raise LineError if `text` holds a surrogate, which stands for a byte that is not UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        byte = ord(text[error.start]) - 0xDC00
        message = f"is not UTF-8: byte 0x{byte:02x} at character {error.start + 1}"
        raise LineError(message) from None
