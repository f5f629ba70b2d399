"""The dialect of CSV and TSV: where the table begins, and what separates and quotes its cells."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, Literal, NamedTuple

from hummingbit.corpus.lines import SAMPLE_BYTES, LineError, check_utf8

# The dialect of CSV and TSV: what separates and quotes the cells, and where the table begins.


DELIMITERS = (",", ";", "\t", "|")
SAMPLE_RECORDS = 50
NUMERIC_CELL = re.compile(r"[-+]?\d[\d.,:/eE+TZ-]*")
"""A number, a date or a time, as cells have them."""
QUOTED = re.compile(r'"(?:[^"]|"")*"')
_TITLE = re.compile(r'\s*|(?:"(?:[^"]|"")*"|[^,;\t|"]*)([,;\t|])\1+\s*')
_NO_NAME = re.compile(r"[-+]?[\d.,:/]+|.{61,}", re.DOTALL)
_SEPARATOR_LINE = re.compile(r'"?sep=(.)"?\s*', re.IGNORECASE)


class Preamble(NamedTuple):
    """The lines before the header of a table, and the delimiter that they name."""

    n_lines: int
    delimiter: str | None


def find_preamble(sample: bytes, *, with_comments: bool) -> Preamble:
    """Return the lines before the header: blank ones, comments, titles, and Excel's ``sep=;``.

    A comment begins with ``#`` and has other delimiters in it than the line after the comments, so
    a header such as ``#id,text`` is none. A title is one cell beside two or more empty ones, as a
    spreadsheet writes it; the header after it has three names or more.
    """
    lines = _whole_lines(sample).split("\n")
    first_filled = next((position for position, line in enumerate(lines) if line.strip()), None)
    if first_filled is None:
        return Preamble(0, None)
    if named := _SEPARATOR_LINE.fullmatch(lines[first_filled]):
        return Preamble(first_filled + 1, named[1])
    if not with_comments:
        return Preamble(first_filled, None)
    first = next(
        (at for at, line in enumerate(lines) if line.strip() and line[0] != "#"), first_filled
    )
    while first > first_filled and _delimiters_in(lines[first - 1]) == _delimiters_in(lines[first]):
        first -= 1
    return Preamble(_after_titles(lines, first), None)


def has_tabs_in_each_line(sample: bytes) -> bool:
    """Return whether there are two lines or more, each with as many tabs, and at least one."""
    lines = [line for line in _whole_lines(sample).split("\n") if line.strip()]
    return len(lines) > 1 and len({line.count("\t") for line in lines}) == 1 and "\t" in lines[0]


def _after_titles(lines: list[str], first: int) -> int:
    """Return the position of the header below the titles that begin at `first`, or `first`."""
    position, delimiter = first, ""
    while position < len(lines) and (title := _TITLE.fullmatch(lines[position])):
        delimiter = delimiter or title[1] or ""
        position += 1
    if not delimiter or position == len(lines):
        return first
    names = next(csv.reader([lines[position]], delimiter=delimiter))
    filled = [name for name in names if name.strip()]
    is_header = len(filled) >= 3 and not any(_NO_NAME.fullmatch(name) for name in filled)
    width = max(_delimiters_in(line)[delimiter] for line in lines[first:position])
    return position if is_header and len(names) == width + 1 else first


def _delimiters_in(line: str) -> Counter[str]:
    return Counter(character for character in QUOTED.sub("", line) if character in DELIMITERS)


def has_spaces_after(sample: bytes, delimiter: str) -> bool:
    """Return whether a space follows every delimiter of the first line, as in ``id, text``."""
    cells = _whole_lines(sample).partition("\n")[0].split(delimiter)[1:]
    return bool(cells) and all(cell.startswith(" ") and cell.strip() for cell in cells)


def has_bare_quotes(sample: bytes) -> bool:
    """Return whether the first lines of a TSV are consistent only if no cell is quoted."""
    text = _whole_lines(sample)
    rows = [line.split("\t") for line in text.splitlines() if line.strip()]
    candidates = [cell for row in rows for cell in row if cell.startswith('"')]
    bare = sum(QUOTED.fullmatch(cell) is None for cell in candidates)
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


def find_delimiter(sample: bytes) -> str:
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

    agreements = {delimiter: agreement(delimiter) for delimiter in DELIMITERS}
    best = max(agreements, key=agreements.__getitem__)
    return best if agreements[best][0] > 0 else ","


def lacks_header(records: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether the names of the columns look like the cells of a document.

    They do if one is a number or as long as a text, if one has three words and another stands
    twice or more in its own column, or if one is numbered as its column is: ``q1`` above ``q2``.
    """
    names = list(records[0]) if records else []
    if any(NUMERIC_CELL.fullmatch(name) or len(name) > 60 or name.count(" ") > 5 for name in names):
        return True
    if any(_is_numbered_like(name, [record.get(name) for record in records]) for name in names):
        return True
    return any(name.count(" ") > 1 for name in names) and any(
        sum(record.get(name) == name for record in records) > 1 for name in names
    )


MIN_NUMBERED = 3
"""Fewer cells do not show that their column is numbered."""
_NUMBERED = re.compile(r"(\D+)\d+")


def _is_numbered_like(name: str, cells: Sequence[object]) -> bool:
    """Return whether cells, all of them different, are the word of a name with other numbers."""
    own = _NUMBERED.fullmatch(name)
    if own is None or len(cells) < MIN_NUMBERED or len({*cells, name}) <= len(cells):
        return False
    found = (isinstance(cell, str) and _NUMBERED.fullmatch(cell) for cell in cells)
    return all(match and match[1] == own[1] for match in found)


# Dialects that RFC 4180 does not know.


RARE_DELIMITERS = ("^", "~", "\x01", "\x1f", "\x1e", "::", "||", ":")
"""Delimiters that are tried where none of :data:`DELIMITERS` splits the records alike."""
MAX_PREAMBLE = 20
MIN_BARE = 3
"""So many cells begin with a quotation mark and do not end with one, where none are quoted."""
_IN_SINGLE_MARKS = re.compile(
    r"(?:[,;\t|^~\x01\x1f:]|^)'[^\n]*?'(?=[,;\t|^~\x01\x1f:\r]|$)", re.MULTILINE
)
_MARKED = re.compile(r'(?:(?<=[,;\t|])|^)"[^,;\t|\n]*', re.MULTILINE)
_MULTIPLE = "\x1f"
"""What stands for a delimiter of several characters while a line is split."""
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "N": ""}
"""Escapes of databases; a backslash before another character stands for that character."""

Quoting = Literal['"', "'", "none"]


class Dialect(NamedTuple):
    """What separates and quotes the cells of a table.

    `quote` is the quotation mark. With `backslash`, a backslash stands before a mark in a cell (or,
    without marks, before a delimiter), where RFC 4180 doubles it. With `bare_marks`, marks inside
    of quoted cells are not marked at all: one ends a cell only before a delimiter.
    """

    delimiter: str = ","
    quote: Quoting = '"'
    backslash: bool = False
    bare_marks: bool = False
    skips_spaces: bool = False

    def cells(self, lines: Iterable[str]) -> Iterator[list[str]]:
        """Return the cells of the records in `lines`, of which a quoted cell may take several.

        The iterator raises csv.Error for a record that is not of this dialect, and goes on after
        it.
        """
        delimiter = self.delimiter
        if len(delimiter) > 1:
            lines = map(_replacing(delimiter, _MULTIPLE), lines)
            delimiter = _MULTIPLE
        if self.quote == "none" and self.backslash:
            return map(_splitting_escaped(delimiter), lines)
        if self.quote == "none":
            return csv.reader(lines, delimiter=delimiter, quoting=csv.QUOTE_NONE, strict=True)
        if self.backslash:
            lines = map(_doubling_escaped(self.quote), lines)
        if self.bare_marks:
            lines = map(_doubling_bare(self.quote, delimiter), lines)
        return csv.reader(
            lines,
            delimiter=delimiter,
            quotechar=self.quote,
            skipinitialspace=self.skips_spaces,
            strict=True,
        )

    def __str__(self) -> str:
        """Say what is unlike RFC 4180."""
        unlike = []
        if self.delimiter != ",":
            unlike.append(f"separated by {self.delimiter!r}")
        if self.quote == "'":
            unlike.append("quoted by '")
        if self.quote == "none":
            unlike.append("not quoted")
        if self.backslash:
            unlike.append("escaped by a backslash")
        if self.bare_marks:
            unlike.append("quoted, with bare quotation marks inside")
        return " and ".join(unlike)


class Fit(NamedTuple):
    """How a dialect splits a sample: the better of two is the greater."""

    splits_alike: bool
    """All records have as many cells as the header, and two or more."""
    leaves_no_marks: bool
    """No column is in quotation marks still, and no mark follows a backslash."""
    begins_at_once: bool
    """The header is the first line."""
    n_lines_before: int = 0
    """Lines before the header."""
    unnamed: Literal["", "first", "last"] = ""
    """Which column the header has no name for, if it is one short."""


def fitting_dialect(
    sample: bytes, usual: Dialect, *, is_given: bool, has_header: bool
) -> tuple[Dialect, Fit]:
    """Return the dialect that splits the records of a sample alike, and how it does.

    It is `usual` if that does and leaves no marks, or if no other dialect does. If `is_given`, its
    delimiter stays. Where nothing fits, clevercsv is asked if it is installed.

    Source: van den Burg, Nazábal, Sutton 2019, "Wrangling messy CSV files by detecting row and type
    patterns", for the idea that the right dialect gives records of one pattern; Python's and
    clevercsv's own detectors weigh patterns, whereas a dialect here must fit the whole sample.
    """
    text = _whole_lines(sample)
    is_cut = len(sample) >= SAMPLE_BYTES
    as_usual = _fit(text, usual, is_cut=is_cut, has_header=has_header)
    if as_usual.splits_alike and as_usual.leaves_no_marks and as_usual.begins_at_once:
        return usual, as_usual
    others = (
        [_variants([usual.delimiter])]
        if is_given
        else [
            _variants([usual.delimiter, *DELIMITERS]),
            _variants(RARE_DELIMITERS),
            _by_clevercsv(text),
        ]
    )
    best, best_fit = usual, as_usual
    for candidates in others:
        for dialect in candidates:
            if not _has_evidence(text, dialect):
                continue
            fit = _fit(text, dialect, is_cut=is_cut, has_header=has_header)
            if fit[:3] > best_fit[:3]:
                best, best_fit = dialect, fit
        if best_fit.splits_alike:
            return best, best_fit
    return usual, as_usual


def _has_evidence(text: str, dialect: Dialect) -> bool:
    """Return whether the text has what tells a dialect apart from one mark that is not closed."""
    if dialect.quote == "'":
        return len(_IN_SINGLE_MARKS.findall(text)) > 1
    if dialect.quote == "none" and dialect.backslash:
        return f"\\{dialect.delimiter}" in text
    if dialect.quote == "none":
        return sum(QUOTED.fullmatch(field) is None for field in _MARKED.findall(text)) >= MIN_BARE
    return True


def _variants(delimiters: Iterable[str]) -> Iterator[Dialect]:
    """Yield the dialects with these delimiters, the most usual first."""
    kinds: list[tuple[Quoting, bool, bool]] = [
        ('"', False, False),
        ("'", False, False),
        ('"', True, False),
        ("'", True, False),
        ('"', False, True),
        ("none", True, False),
        ("none", False, False),
    ]
    for kind, delimiter in product(kinds, dict.fromkeys(delimiters)):
        yield Dialect(delimiter, *kind)


def _by_clevercsv(text: str) -> Iterator[Dialect]:
    """Yield the dialect that clevercsv detects, if it is installed and detects any."""
    try:
        from clevercsv.detect import Detector  # noqa: PLC0415 - it is optional
    except ModuleNotFoundError:
        return
    found = Detector().detect(text)
    if found is None or not found.delimiter:
        return
    quote: Quoting = "'" if found.quotechar == "'" else '"'
    yield Dialect(found.delimiter, quote, bool(found.escapechar))


def _fit(text: str, dialect: Dialect, *, is_cut: bool, has_header: bool) -> Fit:
    rows, starts, is_valid = _sample_rows(text, dialect, is_cut=is_cut)
    at = _header_among(rows) if has_header else 0
    header, records = rows[at : at + 1], rows[at + 1 :]
    if not header or not records:
        return Fit(False, False, True)
    widths = set(map(len, records))
    (width,) = widths if len(widths) == 1 else (0,)
    one_short = has_header and width == len(header[0]) + 1 > 2
    alike = is_valid and width > 1 and (width == len(header[0]) or one_short)
    unnamed: Literal["", "first", "last"] = ""
    if alike and one_short:
        unnamed = "last" if not any(record[-1] for record in records) else "first"
    return Fit(alike, alike and not _has_marks(records), at == 0, starts[at] if at else 0, unnamed)


def _sample_rows(
    text: str, dialect: Dialect, *, is_cut: bool
) -> tuple[list[list[str]], list[int], bool]:
    """Return the first records, how many lines are before each, and whether all are valid."""
    rows: list[list[str]] = []
    starts: list[int] = []
    reading = _Counted(io.StringIO(text, newline=""))
    cells = dialect.cells(reading)
    while len(rows) <= SAMPLE_RECORDS:
        start = reading.number
        try:
            row = next(cells)
            check_utf8("".join(row))
        except StopIteration:
            break
        except (csv.Error, LineError):
            at_end = reading.number == text.count("\n")
            return rows, starts, is_cut and at_end
        if row and row != [""]:
            rows.append(row)
            starts.append(start)
    return rows, starts, True


class _Counted(Iterator[str]):
    """Lines, of which `number` were read."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = iter(lines)
        self.number = 0

    def __next__(self) -> str:
        line = next(self._lines)
        self.number += 1
        return line


def _header_among(rows: Sequence[Sequence[str]]) -> int:
    """Return the position of the header: 0, or below lines that are split in another way.

    The records from the header on have as many cells each, and it has distinct names.
    """
    if len(rows) < 3:
        return 0
    width = len(rows[-1])
    at = len(rows) - 1
    while at and len(rows[at - 1]) == width:
        at -= 1
    names = [name.strip() for name in rows[at]]
    is_header = len({*names}) == len(names) and all(
        name and len(name) <= 40 and not _NO_NAME.fullmatch(name) for name in names
    )
    are_titles = all(len(row) < width for row in rows[:at])
    one_name_short = at == 1 and len(rows[0]) == width - 1 > 1 and " " not in "".join(rows[0])
    is_below = 0 < at <= MAX_PREAMBLE and len(rows) - at >= 3 and width > 1
    return at if is_below and is_header and are_titles and not one_name_short else 0


def _has_marks(records: Sequence[Sequence[str]]) -> bool:
    """Return whether a column is in quotation marks, or a mark follows a backslash."""
    for column in zip(*records, strict=True):
        cells = [cell.strip() for cell in column if cell.strip()]
        quoted = sum(len(cell) > 1 and cell[0] == cell[-1] and cell[0] in "'\"" for cell in cells)
        if len(cells) > 1 and quoted == len(cells):
            return True
    return any('\\"' in cell or "\\'" in cell for record in records for cell in record)


def _replacing(old: str, new: str) -> Callable[[str], str]:
    return lambda line: line.replace(old, new)


def _doubling_escaped(quote: str) -> Callable[[str], str]:
    """Return what writes ``\\"`` as ``""``, and two backslashes as one."""
    pattern = re.compile(rf"\\([\\{quote}])")
    return lambda line: pattern.sub(lambda found: found[1] * (1 + (found[1] == quote)), line)


def _doubling_bare(quote: str, delimiter: str) -> Callable[[str], str]:
    """Return what doubles the marks inside of a quoted cell that are not doubled."""
    mark, sep = re.escape(quote), re.escape(delimiter)
    inside = re.compile(rf"(?<=[^{sep}{mark}]){mark}(?=[^{sep}{mark}\r\n])")
    last = re.compile(rf"(?<=[^{sep}{mark}]){mark}{mark}(?=[{sep}\r\n]|\Z)")
    first = re.compile(rf"(?:(?<=\A)|(?<={sep})){mark}{mark}(?=[^{sep}{mark}\r\n])")

    def doubled(line: str) -> str:
        line = inside.sub(quote * 2, line)
        return first.sub(quote * 3, last.sub(quote * 3, line))

    return doubled


def _splitting_escaped(delimiter: str) -> Callable[[str], list[str]]:
    """Return what splits a line at delimiters without a backslash before them."""
    cell = re.compile(
        rf"((?:\\.|\\\Z|[^\\{re.escape(delimiter)}])*)(?:{re.escape(delimiter)}|\Z)", re.S
    )
    escape = re.compile(r"\\(.)", re.S)

    def split(line: str) -> list[str]:
        line = line.rstrip("\r\n")
        if not line:
            return []
        cells, at = [], 0
        while (found := cell.match(line, at)) is not None:
            cells.append(escape.sub(lambda match: _ESCAPES.get(match[1], match[1]), found[1]))
            at = found.end()
            if at == found.end(1):
                break
        return cells

    return split
