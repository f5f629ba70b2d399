"""CSV and TSV. The encoding and the delimiter are detected unless they are given."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple

from corpus.detection.cell_lists import list_in
from corpus.detection.dialects import (
    QUOTED,
    find_delimiter,
    find_preamble,
    has_bare_quotes,
    has_spaces_after,
)
from corpus.detection.encodings import open_text, unify_line_ends
from corpus.document import FIELDS
from corpus.json_rows import parse_json
from corpus.layout import Layout
from corpus.lines import (
    BYTE_ORDER_MARK,
    MAX_LINE_BYTES,
    LineError,
    Lines,
    check_utf8,
    open_source,
)
from corpus.rows import BadLine, ReadError, Row
from foundation.errors import counted

_BARE_RETURN = re.compile(rb"\r(?!\n|\Z)")
_QUOTED_BYTES = re.compile(QUOTED.pattern.encode())
_JSON = re.compile(rb'\s*(?:\{\s*"|\[\s*[{"\[])')
_MARKUP = re.compile(rb"\s*<(?:!doctype|html|\?xml)\b", re.IGNORECASE)
# A number as JSON writes it. "007" and "+49" are none: they are codes whose every character counts.
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?")
_MAX_DIGITS = 15
"""A float holds so many digits exactly."""


class _Table(NamedTuple):
    """The names of the columns of a table, in their order, and its cells, by record."""

    names: list[str]
    lines: Lines
    cells: Iterator[list[str]]
    first: tuple[int, list[str]] | None
    """The first record and its line if there is no header."""


@dataclass(frozen=True, slots=True)
class _Columns:
    """How the cells of a record are read."""

    names: list[str]
    texts: frozenset[str]
    """Columns whose empty cells are empty texts; in others, an empty cell is a missing field."""
    label: str | None
    """The column in which ``|`` separates labels; in ``labels`` it always does."""
    vector: str | None
    numbers: Collection[str]
    """Columns whose cells are numbers."""

    @classmethod
    def of(cls, names: list[str], layout: Layout, numbers: Collection[str]) -> _Columns:
        """Return how `layout` reads the columns `names`, of which `numbers` hold numbers."""
        texts = frozenset(layout.text_fields)
        if not texts and "vector" not in names and "code" not in names:
            texts = frozenset({"text"})
        vector = None if layout.text_fields else "vector"
        return cls(names, texts, layout.label_field, vector, numbers)

    def record(self, row: list[str]) -> dict[str, object]:
        """Return the cells of a record by name; raise LineError if it does not fit the columns."""
        if len(row) != len(self.names):
            raise LineError(f"has {counted(len(row), 'cell')}; the header has {len(self.names)}")
        record: dict[str, object] = {}
        for name, cell in zip(self.names, row, strict=True):
            if not cell and name not in self.texts:
                continue
            if name == self.vector:
                record[name] = parse_json(cell, "vector: ")
            elif name in ("label", "labels", self.label):
                record[name] = self._labels_in(cell, name)
            else:
                record[name] = _to_number(cell) if name in self.numbers else cell
        return record

    def _labels_in(self, cell: str, name: str) -> str | list[str]:
        labels = list_in(cell)
        if labels is None and (name == "labels" or (name == self.label and "|" in cell)):
            return [label.strip() for label in cell.split("|")]
        return cell if labels is None else labels


def read_table(
    path: Path,
    delimiter: str | None,
    layout: Layout,
    notice: Callable[[str], object],
    with_numbers: bool,
) -> Iterator[Row]:
    """Yield the rows of a CSV or TSV file.

    If `delimiter` is None, it is the one that splits most of the first records into equally many
    cells. The lines of :func:`find_preamble` are passed over, comments only if there is a header.
    Without a header, the columns are ``column1``, ``column2`` and so on; so are columns without a
    name if there are several. Later columns of one name are ``name_2`` and so on. Cells are quoted
    with ``"`` as in RFC 4180, also in TSV, unless most of the cells of a TSV that begin with ``"``
    are not quoted. Spaces after the delimiters are dropped if they are after each one in the
    header. If a line outside quotes ends with a carriage return alone, all of these become line
    feeds.

    Cells are strings, except that ``vector`` is a JSON list and ``labels`` are separated by ``|``,
    as they are in the label field of `layout`. Labels may also be a list (:func:`list_in`). If
    `with_numbers`, those of the columns that :func:`_find_number_columns` finds are numbers, and
    the file is read twice. An empty cell means that the record lacks the field, unless it is a
    text.

    Raises:
        ReadError: if the file is empty, its header does not fit `layout`, or the stream is
            truncated.
    """
    source = str(path)
    numbers: Collection[str] = ()
    if with_numbers:
        # What is wrong with the file is reported when it is read for its rows.
        with suppress(ReadError), open_source(path) as stream:
            table = _open_table(stream, source, delimiter, layout, lambda _: None)
            numbers = _find_number_columns(table, layout)
    with open_source(path) as stream:
        table = _open_table(stream, source, delimiter, layout, notice)
        yield from _read_rows(table, _Columns.of(table.names, layout, numbers))


def _open_table(
    stream: BinaryIO,
    source: str,
    delimiter: str | None,
    layout: Layout,
    notice: Callable[[str], object],
) -> _Table:
    """Read the lines of a table up to the header; raise ReadError as :func:`read_table`."""
    # The limit is per process. Its default of 128 KiB is less than a long post.
    csv.field_size_limit(max(csv.field_size_limit(), MAX_LINE_BYTES))
    text, sample = open_text(stream, source, layout.encoding, notice)
    try:
        if _JSON.match(sample):
            raise ReadError(f"{source}: looks like JSON; name it .jsonl or .json")
        if _MARKUP.match(sample):
            raise ReadError(f"{source}: is HTML or XML, perhaps a web page saved in its place")
        if _BARE_RETURN.search(_QUOTED_BYTES.sub(b"", sample)):
            sample = sample.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
            text = unify_line_ends(text)
            notice("lines end with a carriage return, or some do")
        lines = Lines(text, source)
        sample = sample.removeprefix(BYTE_ORDER_MARK)
        preamble = find_preamble(sample, with_comments=layout.has_header)
        for _ in range(preamble.n_lines):
            sample = sample[len(lines.next_bytes()) :]
        if preamble.n_lines:
            notice(f"the table begins on line {preamble.n_lines + 1}")
        delimiter = preamble.delimiter or delimiter
        if delimiter is None:
            delimiter = find_delimiter(sample)
            if delimiter != ",":
                notice(f"its cells are separated by {delimiter!r}")
        quoting: Literal[0, 3] = csv.QUOTE_MINIMAL
        if delimiter == "\t" and has_bare_quotes(sample):
            quoting = csv.QUOTE_NONE
            notice("its cells are not quoted; quotation marks are part of the texts")
        has_spaces = layout.has_header and has_spaces_after(sample, delimiter)
        cells = csv.reader(
            lines,
            delimiter=delimiter,
            quoting=quoting,
            skipinitialspace=has_spaces,
            strict=True,
        )
        start = lines.number + 1
        names, record = _read_header(cells, lines, layout, notice)
        layout.check(names, source)
    except ReadError:
        text.close()
        raise
    first = None if record is None else (start, record)
    return _Table(names, lines, cells, first)


def _find_number_columns(table: _Table, layout: Layout) -> Collection[str]:
    """Return the columns of the payload that hold numbers, and read until none may be left.

    Each cell of theirs is a number of up to 15 digits, as JSON writes it, or empty.
    """
    payload = table.names if layout.payload_fields is None else layout.payload_fields
    others = {*FIELDS, layout.id_field, layout.label_field, *layout.text_fields}
    columns = {name for name in payload if name not in others}
    seen: set[str] = set()
    with closing(_read_rows(table, _Columns.of(table.names, layout, ()))) as rows:
        for row in rows:
            if not columns:
                break
            if isinstance(row.record, dict):
                cells = {name: cell for name, cell in row.record.items() if name in columns}
                seen.update(cells)
                columns.difference_update(one for one in cells if not _is_number(cells[one]))
    return columns & seen


def _is_number(cell: str) -> bool:
    return _NUMBER.fullmatch(cell) is not None and sum(map(str.isdigit, cell)) <= _MAX_DIGITS


def _to_number(cell: str) -> float | str:
    """Return the number in a cell; if a file has changed since, the cell."""
    number = _NUMBER.fullmatch(cell)
    if number is None:
        return cell
    return int(cell) if number[1] is None else float(cell)


def _read_header(
    cells: Iterator[list[str]], lines: Lines, layout: Layout, notice: Callable[[str], object]
) -> tuple[list[str], list[str] | None]:
    """Return the names of the columns and, if there is no header, the first record."""
    try:
        row = next(cells, None)
        if row is None or not "".join(row).strip():
            raise ReadError(f"{lines.source}: is empty; it must begin with a header row")
        check_utf8("".join(row))
        if not layout.has_header:
            return [f"column{number}" for number in range(1, len(row) + 1)], row
        row, renamed = _tell_apart(_name_unnamed(row))
        if renamed:
            notice(f"its header has names twice; the later ones are read as {', '.join(renamed)}")
    except (LineError, csv.Error) as error:
        raise ReadError(str(BadLine(lines.source, lines.number or 1, _reason(error)))) from None
    return row, None


def _name_unnamed(names: list[str]) -> list[str]:
    """Give columns without a name their numbers, but for one, which is often that of the ids."""
    if names.count("") < 2:
        return names
    return [name or (f"column{at}" if at > 1 else "") for at, name in enumerate(names, start=1)]


def _tell_apart(names: list[str]) -> tuple[list[str], list[str]]:
    """Number the second and later columns of one name: ``name_2``; return these names, too."""
    told: list[str] = []
    renamed: list[str] = []
    for name in names:
        unused = (f"{name}_{number}" for number in count(2))
        one = name if name not in told else next(n for n in unused if n not in {*names, *told})
        renamed += [one] if one != name else []
        told.append(one)
    return told, renamed


def _read_rows(table: _Table, columns: _Columns) -> Generator[Row]:
    lines, cells = table.lines, table.cells
    with closing(lines):
        if table.first is not None:
            start, row = table.first
            yield Row(start, columns.record(row))
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
