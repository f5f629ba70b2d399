"""Reads rows of Milvus, as ``pymilvus.bulk_writer`` writes them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from corpus.columns import byte_list_columns, json_columns, read_parquet
from corpus.detection.compressions import open_bytes
from corpus.json_rows import parse_json, parse_whole
from corpus.lines import LineError, read_all
from corpus.rows import BadLine, ReadError, Row
from corpus.stores.point import Point, is_vector

PARQUET = ".parquet"
SUFFIXES = (".json", PARQUET)
DYNAMIC = "$meta"
"""The column for fields that the schema does not name."""


def read_milvus(path: Path) -> Iterator[Point]:
    """Yield the rows of a JSON or Parquet file, or of a folder of such files.

    Fields that the schema does not name are treated like the others. The files do not say which
    fields are vectors; a list of eight numbers or more counts as one, and in Parquet so does every
    list of bytes. Columns of Parquet that hold JSON as text are parsed.

    Raises:
        ReadError: if there is no such file, or a file cannot be read.
    """
    line = 0
    parts = _parts(path)
    parsed = json_columns(parts) - {DYNAMIC} if parts[0].suffix == PARQUET else frozenset()
    for part in parts:
        byte_lists = byte_list_columns(part) if part.suffix == PARQUET else frozenset()
        for row in _rows(part):
            line += 1
            yield _point(part, line, row, parsed, byte_lists)


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
    if part.suffix == PARQUET:
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


def _point(
    part: Path, line: int, row: Row, parsed: frozenset[str], byte_lists: frozenset[str]
) -> Point:
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
    for name in parsed & record.keys():
        record[name] = parse_json(record[name])
    vectors = {
        name: value for name, value in record.items() if name in byte_lists or is_vector(value)
    }
    fields = {name: value for name, value in record.items() if name not in vectors}
    return Point(line, fields, vectors, byte_lists)
