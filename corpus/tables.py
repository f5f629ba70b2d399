"""CSV and TSV. The encoding and the delimiter are detected unless they are given."""

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
# Fewer bytes that are not ASCII say too little about the language.
MIN_NON_ASCII_BYTES = 20

# Of these, cp1252 is by far the most common unless the text is Central European or Turkish.
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
    """Columns whose empty cells are empty texts; in others, an empty cell is a missing field."""
    label: str | None
    """The column in which ``|`` separates labels; in ``labels`` it always does."""
    vector: str | None

    @classmethod
    def of(cls, names: list[str], layout: Layout) -> _Columns:
        """Return how `layout` reads the columns `names`."""
        texts = frozenset(layout.text_fields)
        if not texts and "vector" not in names and "code" not in names:
            texts = frozenset({"text"})
        return cls(names, texts, layout.label_field, None if layout.text_fields else "vector")

    def record(self, row: list[str]) -> dict[str, object]:
        """Return the cells of a record by name; raise LineError if it does not fit the columns."""
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
    """Return `stream` as a stream of UTF-8, which the caller closes, and a sample of its beginning.

    The sample is not consumed. If `encoding` is None it is detected: by a byte order mark, or as
    UTF-8 if most bytes of the sample that are not ASCII are valid UTF-8, or else by
    charset-normalizer. `notice` is called if it is not UTF-8.

    Raises:
        ReadError: if there is no such encoding, or the stream is truncated.
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
        raise ReadError(f"{source}: there is no encoding {encoding!a}; try utf-8") from None
    if codec.name in ("utf-8", "utf-8-sig"):
        return buffered, sample
    decoded: Buffered = io.BufferedReader(_Transcoder(buffered, codec), SAMPLE_BYTES)
    return decoded, _peek(decoded, source)


def _peek(stream: Buffered, source: str) -> bytes:
    try:
        return stream.peek(SAMPLE_BYTES)[:SAMPLE_BYTES]
    except STREAM_ERRORS as error:
        raise ReadError(str(BadLine(source, 1, f"cannot be read: {error}"))) from None


def read_table(
    stream: BinaryIO,
    source: str,
    delimiter: str | None,
    layout: Layout,
    notice: Callable[[str], object],
) -> Table:
    """Read the header of a CSV or TSV file, and return the columns and the rows.

    If `delimiter` is None, it is the one of :data:`DELIMITERS` that splits most of the first
    records into equally many cells. Without a header, the columns are ``column1``, ``column2`` and
    so on. Cells are strings, except that ``vector`` is a JSON list and ``labels`` are separated by
    ``|``, as they are in the label field of `layout`. An empty cell means that the record lacks the
    field, unless it is a text. Cells are quoted with ``"`` as in RFC 4180, also in TSV, unless most
    of the cells of a TSV that begin with ``"`` are not quoted.

    Raises:
        ReadError: if the file is empty, its header has a column twice or does not fit `layout`, or
            the stream is truncated.
    """
    # The limit is per process. Its default of 128 KiB is less than a long post.
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
    """Return the names of the columns and, if there is no header, the first record."""
    try:
        row = next(cells, None)
        if row is None:
            raise ReadError(f"{lines.source}: is empty; it must begin with a header row")
        check_utf8("".join(row))
        if not layout.has_header:
            return [f"column{number}" for number in range(1, len(row) + 1)], row
        repeated = [name for name, count in Counter(row).items() if count > 1]
        if repeated:
            raise LineError(f"the header has the column {min(repeated)!a} twice")
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
    # A few invalid bytes are damage. Text in another encoding is hardly ever valid UTF-8.
    decoded = sample.decode("utf-8", "replace")
    invalid = decoded.count("\ufffd")
    if sum(not char.isascii() for char in decoded) >= 2 * invalid:
        return "utf-8"
    # Importing it takes longer than reading most files.
    from charset_normalizer import from_bytes  # noqa: PLC0415

    match = from_bytes(sample).best()
    is_short = len(sample) - len(sample.decode("ascii", "ignore")) < MIN_NON_ASCII_BYTES
    if match is None or is_short:
        return "cp1252"
    if match.encoding in WESTERN and match.language not in CENTRAL_EUROPEAN | {"Turkish"}:
        return "cp1252"
    return match.encoding


def _has_bare_quotes(sample: bytes) -> bool:
    """Return whether the first lines of a TSV are consistent only if no cell is quoted."""
    text = _whole_lines(sample)
    rows = [line.split("\t") for line in text.splitlines() if line.strip()]
    candidates = [cell for row in rows for cell in row if cell.startswith('"')]
    bare = sum(_QUOTED.fullmatch(cell) is None for cell in candidates)
    if bare * 2 <= len(candidates) or len(set(map(len, rows))) > 1:
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
    """Return the delimiter that gives most of the first records as many cells as the first."""
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
    """A stream of bytes in another encoding, read as UTF-8."""

    def __init__(self, stream: BinaryIO, codec: codecs.CodecInfo) -> None:
        super().__init__()
        self._stream = stream
        self._decoder = codec.incrementaldecoder("strict")
        self._name = codec.name
        self._pending = b""

    def close(self) -> None:
        self._stream.close()
        super().close()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Fill `buffer`; raise OSError if bytes are invalid in the encoding."""
        while not self._pending:
            chunk = self._stream.read(len(buffer))
            try:
                self._pending = self._decoder.decode(chunk, final=not chunk).encode("utf-8")
            except UnicodeError as error:
                raise OSError(f"is not {self._name}: {error}") from None
            if not chunk:
                break
        filling, self._pending = self._pending[: len(buffer)], self._pending[len(buffer) :]
        buffer[: len(filling)] = filling
        return len(filling)
