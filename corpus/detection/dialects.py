"""The dialect of CSV and TSV: what separates and quotes the cells, and where the table begins."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from corpus.detection.encodings import SAMPLE_BYTES

DELIMITERS = (",", ";", "\t", "|")
SAMPLE_RECORDS = 50
NUMBER = re.compile(r"[-+]?\d[\d.,:/eE+TZ-]*")
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
    first_filled = next((place for place, line in enumerate(lines) if line.strip()), None)
    if first_filled is None:
        return Preamble(0, None)
    if named := _SEPARATOR_LINE.fullmatch(lines[first_filled]):
        return Preamble(first_filled + 1, named[1])
    if not with_comments:
        return Preamble(first_filled, None)
    first = next(
        (at for at, one in enumerate(lines) if one.strip() and one[0] != "#"), first_filled
    )
    while first > first_filled and _delimiters_in(lines[first - 1]) == _delimiters_in(lines[first]):
        first -= 1
    return Preamble(_after_titles(lines, first), None)


def has_tabs_in_each_line(sample: bytes) -> bool:
    """Return whether there are two lines or more, each with as many tabs, and at least one."""
    lines = [line for line in _whole_lines(sample).split("\n") if line.strip()]
    return len(lines) > 1 and len({line.count("\t") for line in lines}) == 1 and "\t" in lines[0]


def _after_titles(lines: list[str], first: int) -> int:
    """Return the place of the header below the titles that begin at `first`, or `first`."""
    place, delimiter = first, ""
    while place < len(lines) and (title := _TITLE.fullmatch(lines[place])):
        delimiter = delimiter or title[1] or ""
        place += 1
    if not delimiter or place == len(lines):
        return first
    names = next(csv.reader([lines[place]], delimiter=delimiter))
    filled = [name for name in names if name.strip()]
    is_header = len(filled) >= 3 and not any(_NO_NAME.fullmatch(name) for name in filled)
    width = max(_delimiters_in(line)[delimiter] for line in lines[first:place])
    return place if is_header and len(names) == width + 1 else first


def _delimiters_in(line: str) -> Counter[str]:
    return Counter(one for one in QUOTED.sub("", line) if one in DELIMITERS)


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

    They do if one is a number or as long as a text, or if one has three words and another stands
    twice or more in its own column.
    """
    names = list(records[0]) if records else []
    if any(NUMBER.fullmatch(name) or len(name) > 60 or name.count(" ") > 5 for name in names):
        return True
    return any(name.count(" ") > 1 for name in names) and any(
        sum(record.get(name) == name for record in records) > 1 for name in names
    )
