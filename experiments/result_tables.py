"""What experiments write down: flat records for other programs, tables for people."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from foundation.files import replace_file

Record = dict[str, Any]
"""One measurement: what was measured (`dataset`, `method`, `seed`, …) and its figures."""


def write_records(path: Path, records: Sequence[Record]) -> None:
    """Write `records` as a JSON list in place of what `path` held."""
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, json.dumps(records, indent=1) + "\n")


def give_records(args: argparse.Namespace, records: Sequence[Record]) -> None:
    """Keep `records` for ``--json``, which prints them at the end, or write them to its FILE.

    An experiment that gives more of them later gives all of them again.
    """
    if args.json is True:
        args.records = list(records)
    elif args.json:
        write_records(args.json, records)


def read_records(path: Path) -> list[Record]:
    """Return what :func:`write_records` wrote to `path`."""
    return list(json.loads(path.read_text()))


def group(records: Sequence[Record], *keys: str) -> dict[tuple[Any, ...], list[Record]]:
    """Return the records by their values at `keys`, in the order of first appearance."""
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for record in records:
        groups.setdefault(tuple(record[key] for key in keys), []).append(record)
    return groups


def mean_and_deviation(records: Sequence[Record], figure: str) -> str:
    """Write the mean of a figure and, where there are several, its standard deviation."""
    return format_mean([record[figure] for record in records])


def format_mean(values: Sequence[float], *, digits: int = 3) -> str:
    """Write the mean of `values` and, where there are several, their standard deviation."""
    if len(values) == 1:
        return f"{values[0]:.{digits}f}"
    return f"{mean(values):.{digits}f} ± {stdev(values):.{digits}f}"


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a Markdown table whose columns line up."""
    lines = [list(header), *map(list, rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    for number, line in enumerate(lines):
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        print(f"| {' | '.join(cells)} |")
        if number == 0:
            print(f"|{'|'.join('-' * (width + 2) for width in widths)}|")
