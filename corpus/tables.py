"""CSV and TSV: the encoding and the delimiter are found out where nobody says them."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import BinaryIO, Literal, NamedTuple, TypeAlias, cast

from corpus.layout import Layout
from corpus.lines import (
    MAX_LINE_BYTES,
    STREAM_ERRORS,
    LineError,
    Lines,
    check_utf8,
    parse_json,
)
from corpus.rows import BadLine, ReadError, Row

SAMPLE_BYTES = 256 * 1024
DELIMITERS = (",", ";", "\t", "|")
SAMPLE_RECORDS = 50
# Fewer bytes that are not ASCII tell nothing about the language.
MIN_TELLING_BYTES = 20


# Of these, cp1252 is by far the most common where the language is none of those.
WESTERN = {"cp1250", "cp1252", "cp1254", "cp1257", "latin_1", "iso8859_15"}
CENTRAL_EUROPEAN = {"Polish", "Czech", "Slovak", "Hungarian", "Romanian", "Croatian", "Slovene"}

_QUOTED = re.compile(r'"(?:[^"]|"")*"')

Buffered: TypeAlias = "io.BufferedReader[io.RawIOBase]"


class Table(NamedTuple):
    """The columns of a table, in their order, and its rows."""

    names: list[str]
    rows: Iterator[Row]


@dataclass(frozen=True, slots=True)
class _Columns:
    """How the cells of a record are read."""

    names: list[str]
    texts: frozenset[str]
    """Those whose empty cells are empty texts; other empty cells are missing."""
    label: str | None
    """The one in which ``|`` separates labels; in ``labels`` it always does."""
    vector: str | None

    @classmethod
    def of(cls, names: list[str], layout: Layout) -> _Columns:
        """Return the columns `names` as `layout` has them."""
        texts = frozenset(layout.text_fields)
        if not texts and "vector" not in names and "code" not in names:
            texts = frozenset({"text"})
        return cls(names, texts, layout.label_field, None if layout.text_fields else "vector")

    def record(self, row: list[str]) -> dict[str, object]:
        """Return the cells of a record by name; raise LineError if they are too many or too few."""
        if len(row) != len(self.names):
            raise LineError(f"has {len(row)} cells; the header has {len(self.names)}")
        record: dict[str, object] = {}
        for name, cell in zip(self.names, row, strict=True):
            if not cell and name not in self.texts:
                continue
            if name == self.vector:
                record[name] = parse_json(cell, "vector: ")
            elif name == "labels" or (name == self.label and "|" in cell):
                record[name] = cell.split("|")
            else:
                record[name] = cell
        return record


def open_text(
    stream: BinaryIO, source: str, encoding: str | None, notice: Callable[[str], object]
) -> tuple[BinaryIO, bytes]:
    """Return `stream` as UTF-8, which is to be closed, and its first bytes, to be read again.

    Where `encoding` is None it is found out, and said if it is not UTF-8: by a byte order mark,
    else UTF-8 if most of what is not ASCII at the beginning is, else by charset-normalizer.

    Raises:
        ReadError: if there is no such encoding, or the stream breaks off.
    """
    buffered: Buffered = io.BufferedReader(cast("io.RawIOBase", stream), SAMPLE_BYTES)
    sample = _peek(buffered, source)
    if encoding is None:
        encoding = _find_encoding(sample)
        if encoding != "utf-8":
            notice(f"is not UTF-8; it is read as {encoding}")
    try:
        codec = codecs.lookup(encoding)
    except LookupError:
        raise ReadError(f"{source}: there is no encoding {encoding!a}") from None
    if codec.name in ("utf-8", "utf-8-sig"):
        return buffered, sample
    decoded: Buffered = io.BufferedReader(_Transcoder(buffered, codec), SAMPLE_BYTES)
    return decoded, _peek(decoded, source)


def _peek(stream: Buffered, source: str) -> bytes:
    try:
        return stream.peek(SAMPLE_BYTES)[:SAMPLE_BYTES]
    except STREAM_ERRORS as error:
        raise ReadError(str(BadLine(source, 1, f"cannot be read on: {error}"))) from None


def read_table(
    stream: BinaryIO,
    source: str,
    delimiter: str | None,
    layout: Layout,
    notice: Callable[[str], object],
) -> Table:
    """Read the header of a CSV or TSV file, and return the columns with one row for each record.

    Where `delimiter` is None it is the one of :data:`DELIMITERS` that splits the first records
    into equally many cells. Without a header the columns are ``column1``, ``column2`` and so on.
    Every cell is a string, but for ``vector``, a JSON list, and ``labels``, separated by ``|``. In
    the label field that `layout` names, ``|`` separates labels, too. An empty cell means that the
    record lacks the field, but for its text. Cells are quoted with ``"`` as RFC 4180 has it; in
    TSV, too, unless most cells that begin with ``"`` are not.

    Raises:
        ReadError: if the file is empty, its header names a column twice or is not what `layout`
            asks for, or the stream breaks off.
    """
    # The limit belongs to the process; 128 KiB, its default, is less than a long post.
    csv.field_size_limit(max(csv.field_size_limit(), MAX_LINE_BYTES))
    text, sample = open_text(stream, source, layout.encoding, notice)
    try:
        if delimiter is None:
            delimiter = _find_delimiter(sample)
            if delimiter != ",":
                notice(f"its cells are separated by {delimiter!a}")
        lines = Lines(text, source)
        quoting: Literal[0, 3] = csv.QUOTE_MINIMAL
        if delimiter == "\t" and _has_bare_quotes(sample):
            quoting = csv.QUOTE_NONE
            notice("its cells are not quoted; quotation marks are part of the texts")
        cells = csv.reader(lines, delimiter=delimiter, quoting=quoting, strict=True)
        names, first = _read_header(cells, lines, layout)
        layout.check(names, source)
    except ReadError:
        text.close()
        raise
    return Table(names, _read_rows(cells, lines, first, _Columns.of(names, layout)))


def _read_header(
    cells: Iterator[list[str]], lines: Lines, layout: Layout
) -> tuple[list[str], list[str] | None]:
    """Return the names of the columns, and the first record where that was read for them."""
    try:
        row = next(cells, None)
        if row is None:
            raise ReadError(f"{lines.source}: is empty; it must begin with a header row")
        check_utf8("".join(row))
        if not layout.has_header:
            return [f"column{number}" for number in range(1, len(row) + 1)], row
        twice = [name for name, count in Counter(row).items() if count > 1]
        if twice:
            raise LineError(f"the header names the column {min(twice)!a} twice")
    except (LineError, csv.Error) as error:
        raise ReadError(str(BadLine(lines.source, 1, _reason(error)))) from None
    return row, None


def _read_rows(
    cells: Iterator[list[str]],
    lines: Lines,
    first: list[str] | None,
    columns: _Columns,
) -> Iterator[Row]:
    with closing(lines):
        if first is not None:
            yield Row(1, columns.record(first))
        while True:
            start = lines.number + 1
            try:
                row = next(cells)
                check_utf8("".join(row))
                if row:
                    yield Row(start, columns.record(row))
            except StopIteration:
                return
            except (LineError, csv.Error) as error:
                yield Row(start, reason=_reason(error))


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, LineError) else f"is not valid CSV: {error}"


def _find_encoding(sample: bytes) -> str:
    for mark, name in ((codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16")):
        if sample.startswith(mark):
            return name
    if sample.isascii():
        return "utf-8"
    # Some broken bytes among UTF-8 are broken bytes; another code is hardly ever valid UTF-8.
    decoded = sample.decode("utf-8", "replace")
    broken = decoded.count("\ufffd")
    if sum(not char.isascii() for char in decoded) >= 2 * broken:
        return "utf-8"
    from charset_normalizer import from_bytes  # noqa: PLC0415 - takes longer than most files do

    found = from_bytes(sample).best()
    few = len(sample) - len(sample.decode("ascii", "ignore")) < MIN_TELLING_BYTES
    if found is None or few:
        return "cp1252"
    if found.encoding in WESTERN and found.language not in CENTRAL_EUROPEAN | {"Turkish"}:
        return "cp1252"
    return found.encoding


def _has_bare_quotes(sample: bytes) -> bool:
    """Tell whether the first lines of a TSV make sense only if they quote no cells."""
    text = _whole_lines(sample)
    rows = [line.split("\t") for line in text.splitlines() if line.strip()]
    marked = [cell for row in rows for cell in row if cell.startswith('"')]
    bare = sum(_QUOTED.fullmatch(cell) is None for cell in marked)
    if bare * 2 <= len(marked) or len(set(map(len, rows))) > 1:
        return False
    try:
        quoted = [row for row in csv.reader(io.StringIO(text), delimiter="\t", strict=True) if row]
    except csv.Error:
        return True
    return len(set(map(len, quoted))) > 1


def _whole_lines(sample: bytes) -> str:
    text = sample.decode("utf-8", "replace")
    return text[: text.rfind("\n") + 1] if len(sample) >= SAMPLE_BYTES else text


def _find_delimiter(sample: bytes) -> str:
    """Return the delimiter by which most of the first records have as many cells as the first."""
    text = _whole_lines(sample)

    def agreement(delimiter: str) -> tuple[float, int]:
        rows = []
        try:
            for row in csv.reader(io.StringIO(text), delimiter=delimiter):
                rows += [len(row)] if row else []
                if len(rows) == SAMPLE_RECORDS:
                    break
        except csv.Error:
            return 0.0, 0
        if not rows or rows[0] < 2:
            return 0.0, 0
        return rows.count(rows[0]) / len(rows), -DELIMITERS.index(delimiter)

    best = max(DELIMITERS, key=agreement)
    return best if agreement(best)[0] > 0 else ","


class _Transcoder(io.RawIOBase):
    """Reads bytes in one encoding as UTF-8."""

    def __init__(self, stream: BinaryIO, codec: codecs.CodecInfo) -> None:
        super().__init__()
        self._stream = stream
        self._decoder = codec.incrementaldecoder("strict")
        self._name = codec.name
        self._left = b""

    def close(self) -> None:
        self._stream.close()
        super().close()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Fill `buffer`; raise OSError, as any stream, where bytes are not of the encoding."""
        while not self._left:
            chunk = self._stream.read(len(buffer))
            try:
                self._left = self._decoder.decode(chunk, final=not chunk).encode("utf-8")
            except UnicodeError as error:
                raise OSError(f"is not {self._name}: {error}") from None
            if not chunk:
                break
        taken, self._left = self._left[: len(buffer)], self._left[len(buffer) :]
        buffer[: len(taken)] = taken
        return len(taken)
