"""The formats that come as lines: JSON lines, CSV and TSV, plain or compressed.

Lines are streamed: memory holds one record at a time, however long the file is.
"""

from __future__ import annotations

import csv
import gzip
import json
import lzma
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NoReturn

from corpus.document import CONTENT_FIELDS
from corpus.rows import BadLine, ReadError, Row

# The longest text that a document can hold, written as JSON escapes, and room for its payload.
MAX_LINE_BYTES = 16 * 1024 * 1024

CELL_FIELDS = ("id", *CONTENT_FIELDS, "label")


class _LineError(ValueError):
    """One line cannot be taken; the lines after it can."""


class _Lines:
    """The lines of a byte stream as text, `number` being the 1-based number of the last one read.

    An iterator in its own right, because a generator could not go on after a line that raised.
    Bytes that are not UTF-8 come as surrogates, which :func:`_check_utf8` finds.
    """

    def __init__(self, stream: BinaryIO, source: str) -> None:
        self._stream = stream
        self._source = source
        self.number = 0

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        """Read the next line.

        Raises:
            _LineError: if it is longer than :data:`MAX_LINE_BYTES`.
            ReadError: if the stream breaks off or is not what its suffix says.
        """
        line = self._read()
        if not line:
            raise StopIteration
        self.number += 1
        if len(line) > MAX_LINE_BYTES:
            while line and not line.endswith(b"\n"):
                line = self._read()
            raise _LineError(f"is longer than {MAX_LINE_BYTES:,} bytes")
        if self.number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
        return line.decode("utf-8", "surrogateescape")

    def _read(self) -> bytes:
        try:
            return self._stream.readline(MAX_LINE_BYTES + 1)
        except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
            bad = BadLine(self._source, self.number + 1, f"cannot be read on: {error}")
            raise ReadError(str(bad)) from None


def open_bytes(path: Path) -> BinaryIO:
    """Open a file for reading, decompressing by its suffix `.gz` or `.xz`.

    Raises:
        OSError: if it cannot be opened.
    """
    if path.suffix.lower() == ".gz":
        return gzip.open(path, "rb")  # type: ignore[return-value]
    if path.suffix.lower() == ".xz":
        return lzma.open(path, "rb")  # type: ignore[return-value]
    return path.open("rb")


def read_json_lines(stream: BinaryIO, source: str) -> Iterator[Row]:
    """Yield one row for each line of `stream` that is not blank; each must hold a JSON value.

    NaN and Infinity, which Python would take, are not JSON and are refused.

    Raises:
        ReadError: if the stream breaks off.
    """
    lines = _Lines(stream, source)
    while True:
        try:
            line = next(lines)
            if line.strip():
                _check_utf8(line)
                yield Row(lines.number, _parse_json(line))
        except StopIteration:
            return
        except _LineError as error:
            yield Row(lines.number, reason=str(error))


def read_table(stream: BinaryIO, source: str, delimiter: str) -> Iterator[Row]:
    """Yield one row for each record of a CSV or TSV file with a header row.

    The columns `id`, `text`, `code` and `label` are taken as they stand, `labels` is separated by
    `|`, `vector` is a JSON list, and every other column joins the payload as a string. An empty
    cell means that the record lacks the field, but for `text` where nothing else could stand in
    its place. Cells are quoted with `"` as RFC 4180 has it, in TSV too.

    Raises:
        ReadError: if the header is missing, lacks `id` or names a column twice, or the stream
            breaks off.
    """
    # The limit belongs to the process; 128 KiB, its default, is less than a long post.
    csv.field_size_limit(max(csv.field_size_limit(), MAX_LINE_BYTES))
    lines = _Lines(stream, source)
    cells = csv.reader(lines, delimiter=delimiter, strict=True)
    header: list[str] | None = None
    while True:
        start = lines.number + 1
        try:
            row = next(cells)
            _check_utf8("".join(row))
            if header is None:
                header = _check_header(row)
            elif row:
                yield Row(start, _table_record(header, row))
        except StopIteration:
            break
        except (_LineError, csv.Error) as error:
            reason = str(error) if isinstance(error, _LineError) else f"is not valid CSV: {error}"
            if header is None:
                raise ReadError(str(BadLine(source, start, reason))) from None
            yield Row(start, reason=reason)
    if header is None:
        raise ReadError(f"{source}: is empty; it must begin with a header row")


def _check_header(header: list[str]) -> list[str]:
    twice = sorted({name for name in header if header.count(name) > 1})
    if twice:
        raise _LineError(f"the header names the column {twice[0]!a} twice")
    if "id" not in header:
        raise _LineError(f"the header has no column id; it has {', '.join(map(ascii, header))}")
    if not set(header) & set(CONTENT_FIELDS):
        raise _LineError(f"the header has none of the columns {', '.join(CONTENT_FIELDS)}")
    return header


def _table_record(header: list[str], row: list[str]) -> dict[str, object]:
    if len(row) != len(header):
        raise _LineError(f"has {len(row)} cells; the header has {len(header)}")
    cells = dict(zip(header, row, strict=True))
    text_only = "text" in cells and "vector" not in cells and "code" not in cells
    record: dict[str, object] = {}
    payload: dict[str, str] = {}
    for name, cell in cells.items():
        if not cell and not (name == "text" and text_only):
            continue
        if name in CELL_FIELDS and name != "vector":
            record[name] = cell
        elif name == "labels":
            record[name] = cell.split("|")
        elif name == "vector":
            record[name] = _parse_json(cell, "vector: ")
        else:
            payload[name] = cell
    return {**record, "payload": payload}


def _parse_json(text: str, prefix: str = "") -> object:
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except _LineError as error:
        raise _LineError(f"{prefix}{error}") from None
    except json.JSONDecodeError as error:
        reason = f"is not valid JSON: {error.msg} at character {error.pos + 1}"
        raise _LineError(prefix + reason) from None
    except (ValueError, RecursionError) as error:  # an integer too long, or nested too deeply
        raise _LineError(f"{prefix}is not JSON that can be read: {error}") from None


def _refuse_constant(name: str) -> NoReturn:
    raise _LineError(f"is not valid JSON: {name} is not a JSON number")


def _check_utf8(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        byte = ord(text[error.start]) - 0xDC00
        message = f"is not UTF-8: byte 0x{byte:02x} at character {error.start + 1}"
        raise _LineError(message) from None
