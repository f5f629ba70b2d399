"""CSV and TSV. The encoding and the dialect are detected unless they are given."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from hummingbit.corpus.dialects import (
    QUOTED,
    Dialect,
    Fit,
    find_delimiter,
    find_preamble,
    fitting_dialect,
    has_bare_quotes,
    has_spaces_after,
)
from hummingbit.corpus.document import FIELDS
from hummingbit.corpus.field_types import NUMBER, STRING, FieldType, FieldTypes
from hummingbit.corpus.json_rows import parse_json
from hummingbit.corpus.layout import Layout
from hummingbit.corpus.lines import (
    BYTE_ORDER_MARK,
    MAX_LINE_BYTES,
    BadLine,
    LineError,
    Lines,
    ReadError,
    Row,
    check_utf8,
    open_source,
    open_text,
    unify_line_ends,
)
from hummingbit.foundation.errors import counted

# Lists in the cells of a table, as JSON and Python write them.


_NAME = r"""'[^'\\]*'|"[^"\\]*\""""
_LIST = re.compile(rf"\[\s*(?:(?:{_NAME})\s*(?:,\s*|(?=\])))*\]")
_QUOTED_NAME = re.compile(_NAME)


def list_in(cell: str) -> list[str] | None:
    """Return the strings of a list as JSON or Python writes it, or None if `cell` is no such list.

    A string with a backslash is none.
    """
    if cell[:1] != "[" or _LIST.fullmatch(cell) is None:
        return None
    return [quoted[1:-1] for quoted in _QUOTED_NAME.findall(cell)]


def with_lists(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record of a table with lists in place of the cells that are written as lists.

    A cell with an empty list is left out.
    """
    lists = {name: list_in(cell) for name, cell in record.items() if isinstance(cell, str)}
    read = {name: cell if lists.get(name) is None else lists[name] for name, cell in record.items()}
    return {name: cell for name, cell in read.items() if cell != []}


def separator_of(cells: Sequence[str]) -> str | None:
    """Return what separates the values in the cells of a column, if cells hold several, or None.

    Each value occurs three times on average. At least a quarter of the cells hold several values,
    or at least a twentieth does and there are fewer different values than different cells: with
    'Home, Garden' for one category there would be more.
    """
    for separator in (";", ","):
        values = [value.strip() for cell in cells for value in cell.split(separator)]
        several = sum(separator in cell for cell in cells)
        share = 20 if len(set(values)) < len(set(cells)) else 4
        if several and share * several >= len(cells) and len(values) >= 3 * len(set(values)):
            return separator
    return None


# CSV and TSV. The encoding and the delimiter are detected unless they are given.


_BARE_RETURN = re.compile(rb"\r(?!\n|\Z)")
_QUOTED_BYTES = re.compile(QUOTED.pattern.encode())
_JSON = re.compile(rb'\s*(?:\{\s*"|\[\s*[{"\[])')
_MARKUP = re.compile(rb"\s*<(?:!doctype|html|\?xml)\b", re.IGNORECASE)
# A number as JSON writes it. "007" and "+49" are none: they are codes whose every character counts.
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?")
_MAX_DIGITS = 15
"""A float holds so many digits exactly."""
_MISSING = frozenset(
    ("na", "n/a", "n.a.", "#n/a", "<na>", "nan", "null", "none", "-", "--", "\u2013", "\u2014")
)
"""What programs write, in any case, where a column of numbers has no value."""
_MAX_MESSAGES = 10

_BOOLEANS = {"true": True, "false": False}


class _Table(NamedTuple):
    """The names of the columns of a table, in their order, and its cells, by record."""

    names: list[str]
    lines: Lines
    cells: Iterator[list[str]]
    first: tuple[int, list[str]] | None
    """The first record and its line if there is no header."""


@dataclass(slots=True)
class _Cells:
    """Cells of a field that are not of its type."""

    example: str
    count: int = 0

    def __str__(self) -> str:
        return f"{counted(self.count, 'cell')} such as {self.example[:40]!r}"


@dataclass(frozen=True, slots=True)
class _Columns:
    """How the cells of a record are read, and what was not read as its field's type."""

    names: list[str]
    texts: frozenset[str]
    """Columns whose empty cells are empty texts; in others, an empty cell is a missing field."""
    label: str | None
    """The column in which ``|`` separates labels; in ``labels`` it always does."""
    vector: str | None
    numbers: Collection[str]
    """Columns whose cells are numbers."""
    booleans: Collection[str]
    """Columns of labels whose cells are true or false."""
    strings: dict[str, int]
    """Columns of strings, and how many numbers they hold, until they hold anything else."""
    missing: dict[str, _Cells] = field(default_factory=dict)
    """The cells of columns of numbers that stand for a missing value."""
    kept: dict[str, _Cells] = field(default_factory=dict)
    """The other cells of columns of numbers that are no numbers."""

    @classmethod
    def of(
        cls,
        names: list[str],
        layout: Layout,
        types: Mapping[str, FieldType],
        booleans: Collection[str] = (),
    ) -> _Columns:
        """Return how `layout` reads the columns `names`, some of which have `types`."""
        texts = frozenset(layout.text_fields)
        if not texts and "vector" not in names and "code" not in names:
            texts = frozenset({"text"})
        vector = None if layout.text_fields else "vector"
        numbers = {name for name, type_ in types.items() if type_ == NUMBER}
        strings = {name: 0 for name, type_ in types.items() if type_ == STRING}
        return cls(names, texts, layout.label_field, vector, numbers, booleans, strings)

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
            else:
                value: object = self._value(name, cell)
                if name in ("label", "labels", self.label) and isinstance(value, str):
                    value = self._labels_in(cell, name)
                if value is not None:
                    record[name] = value
        return record

    def _value(self, name: str, cell: str) -> float | str | None:
        """Return the value of a cell, or None; count it if its field holds anything else."""
        if name in self.booleans:
            return _BOOLEANS.get(cell.strip().lower())
        if name in self.numbers:
            number = _to_number(cell)
            if number is not None:
                return number
            is_missing = _is_missing(cell)
            others = self.missing if is_missing else self.kept
            others.setdefault(name, _Cells(cell)).count += 1
            return None if is_missing else cell
        if name in self.strings:
            if _to_number(cell) is not None:
                self.strings[name] += 1
            elif not _is_missing(cell):
                del self.strings[name]
        return cell

    def _labels_in(self, cell: str, name: str) -> str | list[str]:
        """Return the label or labels in a cell of texts."""
        labels = list_in(cell)
        if labels is None and (name == "labels" or (name == self.label and "|" in cell)):
            return [label.strip() for label in cell.split("|")]
        return cell if labels is None else labels

    def messages(self) -> Iterator[str]:
        """Yield what was not read as its field's type, with counts, a sentence for each field."""
        for name, cells in self.missing.items():
            are = "is a missing value" if cells.count == 1 else "are missing values"
            yield f"{name!r} holds numbers; {cells} {are}"
        for name, cells in self.kept.items():
            are = "is none, and is kept as a string"
            if cells.count > 1:
                are = "are none, and are kept as strings"
            yield f"{name!r} holds numbers; {cells} {are}"
        for name, n_numbers in self.strings.items():
            if n_numbers:
                are = "is read as a string" if n_numbers == 1 else "are read as strings"
                found = f"{counted(n_numbers, 'number')} {are}"
                yield f"{name!r} holds strings in the collection, so {found}"


def read_table(
    path: Path,
    delimiter: str | None,
    layout: Layout,
    notice: Callable[[str], object],
    types: FieldTypes | None,
) -> Iterator[Row]:
    """Yield the rows of a CSV or TSV file.

    If `delimiter` is None, it is the one that splits most of the first records into equally many
    cells. If RFC 4180 does not fit the first records, another dialect is looked for
    (:func:`hummingbit.corpus.dialects.fitting_dialect`). The lines of :func:`find_preamble` are
    passed over, comments only if there is a header.
    Without a header, the columns are ``column1``, ``column2`` and so on; so are columns without a
    name if there are several. Later columns of one name are ``name_2`` and so on. Cells are quoted
    with ``"`` as in RFC 4180, also in TSV, unless most of the cells of a TSV that begin with ``"``
    are not quoted. Spaces after the delimiters are dropped if they are after each one in the
    header. If a line outside quotes ends with a carriage return alone, all of these become line
    feeds.

    Cells are strings, except that ``vector`` is a JSON list and ``labels`` are separated by ``|``,
    as they are in the label field of `layout`. Labels may also be a list (:func:`list_in`). An
    empty cell means that the record lacks the field, unless it is a text.

    Unless `types` is None, the cells of labels and payload fields that hold numbers are numbers. A
    field whose type is unknown holds numbers if each of its cells is one of up to 15 digits, as
    JSON writes it, or missing: empty, ``NA``, ``n/a``, ``-``, ``null`` and the like. To find that
    out, the file is read twice, and `types` remember it of payload fields. Where a field holds
    numbers, missing values are left out and other cells stay strings; `notice` says how many there
    were. Labels of which each is true or false, in any case, are booleans. The cells of a pipe,
    which can be read only once, are strings.

    Raises:
        ReadError: if the file is empty, its header does not fit `layout`, or the stream is
            truncated.
    """
    source = str(path)
    known, booleans = dict[str, FieldType](), set[str]()
    if types is not None and path.is_file():  # a pipe cannot be read twice
        known, booleans = _types_of(path, delimiter, layout, types)
    with open_source(path) as stream:
        table = _open_table(stream, source, delimiter, layout, notice)
        reading = _Columns.of(table.names, layout, known, booleans)
        yield from _read_rows(table, reading)
    messages = list(reading.messages())
    for message in messages[:_MAX_MESSAGES]:
        notice(message)
    if more := messages[_MAX_MESSAGES:]:
        notice(f"cells of {counted(len(more), 'more field')} are no numbers, either")


def _types_of(
    path: Path, delimiter: str | None, layout: Layout, types: FieldTypes
) -> tuple[dict[str, FieldType], set[str]]:
    """Return the types of the labels and payload fields of a table, and the labels of booleans.

    `types` remember those of new payload fields.
    """
    known: dict[str, FieldType] = {}
    booleans: set[str] = set()
    # What is wrong with the file is reported when it is read for its rows.
    with suppress(ReadError), open_source(path) as stream:
        table = _open_table(stream, str(path), delimiter, layout, lambda _: None)
        with closing(table.lines):
            columns = _payload_columns(table.names, layout) if types.of_payload else set()
            labels = {*table.names} & {"label", "labels", layout.label_field}
            known = types.known(columns)
            if undecided := (columns | labels) - known.keys():
                decided, booleans = _decide_types(table, layout, undecided, labels)
                types.remember({name: decided[name] for name in columns & decided.keys()})
                known |= {name: decided[name] for name in decided.keys() - booleans}
    return known, booleans


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
        dialect, fit = _find_dialect(sample, delimiter, layout, notice)
        for _ in range(fit.n_lines_before):
            lines.next_bytes()
        if fit.n_lines_before:
            notice(f"the table begins on line {lines.number + 1}")
        cells = dialect.cells(lines)
        start = lines.number + 1
        names, record = _read_header(cells, lines, layout, fit, notice)
        layout.check(names, source)
    except ReadError:
        text.close()
        raise
    first = None if record is None else (start, record)
    return _Table(names, lines, cells, first)


def _find_dialect(
    sample: bytes, delimiter: str | None, layout: Layout, notice: Callable[[str], object]
) -> tuple[Dialect, Fit]:
    """Return the dialect of a table without its preamble, and how it fits; say what is unusual."""
    usual = Dialect(find_delimiter(sample) if delimiter is None else delimiter)
    if usual.delimiter == "\t" and has_bare_quotes(sample):
        notice("its cells are not quoted; quotation marks are part of the texts")
        return usual._replace(quote="none"), Fit(True, True, True)
    has_spaces = layout.has_header and has_spaces_after(sample, usual.delimiter)
    dialect, fit = fitting_dialect(
        sample,
        usual._replace(skips_spaces=has_spaces),
        is_given=delimiter is not None,
        has_header=layout.has_header,
    )
    if unlike := str(
        dialect._replace(delimiter=",") if dialect.delimiter == delimiter else dialect
    ):
        notice(f"its cells are {unlike}")
    return dialect, fit


def _payload_columns(names: Collection[str], layout: Layout) -> set[str]:
    """Return the columns that go to the payload, without those of ids and texts."""
    payload = names if layout.payload_fields is None else {*names} & {*layout.payload_fields}
    others = {*FIELDS, layout.id_field, *layout.text_fields}
    return {name for name in payload if name not in others}


def _decide_types(
    table: _Table, layout: Layout, columns: set[str], labels: set[str]
) -> tuple[dict[str, FieldType], set[str]]:
    """Return the types of those of `columns` that have a value, and the `labels` of booleans."""
    with_numbers: set[str] = set()
    left = set(columns)
    booleans = columns & labels
    with closing(_read_rows(table, _Columns.of(table.names, layout, {}))) as rows:
        for row in rows:
            if not left | booleans:
                break
            if isinstance(row.record, dict):
                for name in (left | booleans).intersection(row.record):
                    cell = str(row.record[name])
                    if _to_number(cell) is not None:
                        with_numbers.add(name)
                        booleans.discard(name)
                    elif not _is_missing(cell):
                        left.discard(name)
                        booleans -= set() if cell.strip().lower() in _BOOLEANS else {name}
    numbers: dict[str, FieldType] = dict.fromkeys(left & with_numbers, NUMBER)
    strings: dict[str, FieldType] = dict.fromkeys(columns - left, STRING)
    return numbers | strings, booleans - left


def _to_number(cell: str) -> float | None:
    """Return the number in a cell, or None."""
    number = _NUMBER.fullmatch(cell)
    if number is None:
        return None
    if len(cell) > _MAX_DIGITS and sum(map(str.isdigit, cell)) > _MAX_DIGITS:
        return None
    return int(cell) if number[1] is None else float(cell)


def _is_missing(cell: str) -> bool:
    return cell.strip().lower() in _MISSING


def _read_header(
    cells: Iterator[list[str]],
    lines: Lines,
    layout: Layout,
    fit: Fit,
    notice: Callable[[str], object],
) -> tuple[list[str], list[str] | None]:
    """Return the names of the columns and, if there is no header, the first record."""
    try:
        row = next(cells, None)
        if row is None or not "".join(row).strip():
            raise ReadError(f"{lines.source}: is empty; it must begin with a header row")
        check_utf8("".join(row))
        if not layout.has_header:
            return [f"column{number}" for number in range(1, len(row) + 1)], row
        if fit.unnamed:
            row = [*row, ""] if fit.unnamed == "last" else ["", *row]
            notice(f"its header has no name for the {fit.unnamed} column")
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
        unique = name if name not in told else next(n for n in unused if n not in {*names, *told})
        renamed += [unique] if unique != name else []
        told.append(unique)
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
                reason, n_lines = _reason(error), max(lines.number - start + 1, 1)
                if n_lines > 1:
                    after = "line" if n_lines == 2 else f"{n_lines - 1:,} lines"
                    reason += f"; it takes in the {after} after it, up to line {lines.number}"
                    reason += ", perhaps because a quotation mark is not closed"
                yield Row(start, reason=reason, n_lines=n_lines)


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, LineError) else f"is not valid CSV: {error}"
