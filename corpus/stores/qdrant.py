"""Reads points of Qdrant, as ``POST /collections/NAME/points/scroll`` returns them."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from corpus.detection.compressions import open_bytes
from corpus.json_rows import parse_whole, read_json_lines
from corpus.lines import LineError, read_all
from corpus.rows import BadLine, ReadError
from corpus.stores.point import Point, point_of

UNNAMED = "vector"
SCROLL = "POST /collections/NAME/points/scroll with with_vector and with_payload"


def read_qdrant(path: Path) -> Iterator[Point]:
    """Yield the points of a file, plain or compressed.

    It holds JSON lines, each a point or a scroll response, or one JSON document: a scroll response,
    the body of an upsert (``{"points": […]}``) or a list of points. Sparse vectors and multivectors
    are left out.

    Raises:
        ReadError: if a value is not a point, or the file is a snapshot, whose format is internal to
            Qdrant.
    """
    if path.is_file() and path.suffix != ".gz" and tarfile.is_tarfile(path):
        reason = "is a snapshot, which only Qdrant can read; export the points with"
        raise ReadError(f"{path}: {reason} {SCROLL}, and import the responses")
    number = 0
    for line, value in _values(path):
        try:
            points = list(_points(value))
        except LineError as error:
            raise ReadError(str(BadLine(str(path), line, str(error)))) from None
        for point in points:
            number += 1
            yield _point(path, number, point)


def _values(path: Path) -> Iterator[tuple[int, object]]:
    """Yield the JSON values of a file with their lines: one for the whole file, or one a line."""
    if ".json" in path.suffixes:
        try:
            with open_bytes(path) as stream:
                yield 1, parse_whole(read_all(stream, str(path)))
                return
        except LineError:
            pass  # JSON lines with the suffix .json
    with open_bytes(path) as stream:
        for row in read_json_lines(stream, str(path)):
            if row.reason is not None:
                raise ReadError(str(BadLine(str(path), row.line, row.reason)))
            yield row.line, row.record


def _points(value: object) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, list):
        for item in value:
            yield from _points(item)
    elif isinstance(value, dict) and "id" in value:
        yield value
    elif isinstance(value, dict) and isinstance(value.get("result"), dict | list):
        yield from _points(value["result"])
    elif isinstance(value, dict) and isinstance(value.get("points"), list):
        yield from _points(value["points"])
    else:
        raise LineError(f"is neither a point with an id nor a response of {SCROLL}")


def _point(path: Path, number: int, point: Mapping[str, Any]) -> Point:
    payload, vectors = point.get("payload") or {}, point.get("vector")
    if not isinstance(payload, dict):
        raise ReadError(str(BadLine(str(path), number, "payload: must be an object")))
    if not isinstance(vectors, dict):
        vectors = {} if vectors is None else {UNNAMED: vectors}
    dense = {name: vector for name, vector in vectors.items() if _is_dense(vector)}
    return point_of(number, point["id"], payload, dense)


def _is_dense(vector: object) -> bool:
    return isinstance(vector, list) and not any(isinstance(item, list) for item in vector)
