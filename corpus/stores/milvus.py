"""Reads rows of Milvus, as ``pymilvus.bulk_writer`` writes them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from corpus.columns import read_parquet
from corpus.detection.compressions import open_bytes
from corpus.json_rows import parse_json, parse_whole
from corpus.lines import LineError, read_all
from corpus.rows import BadLine, ReadError, Row
from corpus.stores.point import Point, is_vector

SUFFIXES = (".json", ".parquet")
DYNAMIC = "$meta"
"""The column for fields that the schema does not name."""


def read_milvus(path: Path) -> Iterator[Point]:
    """Yield the rows of a JSON or Parquet file, or of a folder of such files.

    Fields that the schema does not name are treated like the others. The files do not say which
    fields are vectors; a list of eight numbers or more counts as one.

    Raises:
        ReadError: if there is no such file, or a file cannot be read.
    """
    line = 0
    for part in _parts(path):
        for row in _rows(part):
            line += 1
            yield _point(part, line, row)


def _parts(path: Path) -> list[Path]:
    """Return the files in the order in which they were written: by the numbers in their names."""
    if not path.is_dir():
        if path.suffix not in SUFFIXES:
            raise ReadError(f"{path}: the suffix must be {' or '.join(SUFFIXES)}")
        return [path]
    parts = [part for suffix in SUFFIXES for part in path.rglob(f"*{suffix}")]
    if not parts:
        raise ReadError(f"{path}: is a folder without {' or '.join(SUFFIXES)} files")
    if len({part.suffix for part in parts}) > 1:
        raise ReadError(f"{path}: has files of both formats; it must have files of one")
    return sorted(parts, key=lambda part: ([*map(int, re.findall(r"\d+", part.stem))], str(part)))


def _rows(part: Path) -> Iterator[Row]:
    if part.suffix == ".parquet":
        yield from read_parquet(part, None)
        return
    with open_bytes(part) as stream:
        try:
            value = parse_whole(read_all(stream, str(part)))
        except LineError as error:
            raise ReadError(f"{part}: {error}") from None
    rows = value.get("rows") if isinstance(value, dict) else value
    if not isinstance(rows, list):
        raise ReadError(f'{part}: must be {{"rows": […]}} or a list of rows')
    yield from (Row(number, row) for number, row in enumerate(rows, start=1))


def _point(part: Path, line: int, row: Row) -> Point:
    reason = row.reason
    if reason is None and not isinstance(row.record, dict):
        reason = "must be an object"
    if reason is not None:
        raise ReadError(str(BadLine(str(part), row.line, reason)))
    record: dict[str, Any] = dict(row.record)  # type: ignore[call-overload]
    dynamic = record.pop(DYNAMIC, None)
    if isinstance(dynamic, str):
        try:
            dynamic = parse_json(dynamic, f"{DYNAMIC} ")
        except LineError as error:
            raise ReadError(str(BadLine(str(part), row.line, str(error)))) from None
    if isinstance(dynamic, dict):
        record = {**dynamic, **record}
    vectors = {name: value for name, value in record.items() if is_vector(value)}
    fields = {name: value for name, value in record.items() if name not in vectors}
    return Point(line, fields, vectors)
