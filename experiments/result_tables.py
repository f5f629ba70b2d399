"""The results of experiments: flat records for other programs, tables for people."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from hummingbit.foundation.files import replace_file

Record = dict[str, Any]
"""One measurement: what was measured (`dataset`, `method`, `seed`, …) and its figures."""


def write_records(path: Path, records: Sequence[Record]) -> None:
    """Write `records` as a JSON list to `path`, replacing the file at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, json.dumps(records, indent=1) + "\n")


def save_records(args: argparse.Namespace, records: Sequence[Record]) -> None:
    """Keep `records` for ``--json``, which prints them at the end, or write them to its FILE.

    Each call replaces the records of the last one, so pass all records so far.
    """
    if args.json is True:
        args.records = list(records)
    elif args.json:
        write_records(args.json, records)


def read_records(path: Path) -> list[Record]:
    """Return what :func:`write_records` wrote to `path`."""
    return list(json.loads(path.read_text()))


def group(records: Sequence[Record], *keys: str) -> dict[tuple[Any, ...], list[Record]]:
    """Group records by their values of `keys`, in the order of first appearance."""
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for record in records:
        groups.setdefault(tuple(record[key] for key in keys), []).append(record)
    return groups


def mean_and_deviation(records: Sequence[Record], figure: str) -> str:
    """Format the mean of a figure of records, with its standard deviation if there are several."""
    return format_mean([record[figure] for record in records])


def format_mean(values: Sequence[float], *, digits: int = 3) -> str:
    """Format the mean of `values`, with their standard deviation if there are several."""
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
