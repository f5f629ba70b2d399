"""Lists in the cells of a table, as JSON and Python write them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

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
