"""Reads points of Qdrant, as ``POST /collections/NAME/points/scroll`` returns them."""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from corpus.detection.compressions import open_bytes
from corpus.json_rows import parse_whole, read_json_lines
from corpus.lines import LineError, read_all
from corpus.rows import BadLine, ReadError
from corpus.stores.point import Point, point_of

UNNAMED = "vector"
SCROLL = "POST /collections/NAME/points/scroll with with_vector and with_payload"


def read_qdrant(
    path: Path, incomplete: Callable[[str], object] = lambda _: None
) -> Iterator[Point]:
    """Yield the points of a file, plain or compressed.

    It holds JSON lines, each a point or a scroll response, or one JSON document: a scroll response,
    the body of an upsert (``{"points": […]}``) or a list of points. Sparse vectors and multivectors
    are left out. If a response names a next page that does not follow, `incomplete` is called with
    a sentence about it, after the last point.

    Raises:
        ReadError: if a value is not a point, or the file is a snapshot, whose format is internal to
            Qdrant.
    """
    if path.is_file() and path.suffix != ".gz" and tarfile.is_tarfile(path):
        reason = "is a snapshot, which only Qdrant can read; export the points with"
        raise ReadError(f"{path}: {reason} {SCROLL}, and import the responses")
    number = 0
    next_pages: dict[object, None] = {}
    first_ids: set[str] = set()
    for line, value in _values(path):
        try:
            pages = list(_pages(value))
        except LineError as error:
            raise ReadError(str(BadLine(str(path), line, str(error)))) from None
        for points, next_page in pages:
            for point in points:
                number += 1
                yield _point(path, number, point)
            first_ids.update(str(point["id"]) for point in points[:1])
            if next_page is not None:
                next_pages[str(next_page)] = None
    missing = [offset for offset in next_pages if offset not in first_ids]
    if missing:
        incomplete(
            f"{path}: is incomplete: its next_page_offset names the point {missing[0]}, at which"
            " no other response begins; scroll on with this offset, and import the responses, too"
        )


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


def _pages(value: object) -> Iterator[tuple[list[Mapping[str, Any]], object]]:
    """Yield the points of each response, and the offset of the response that follows, if any."""
    if isinstance(value, list) and value and all(map(_is_point, value)):
        yield value, None
    elif isinstance(value, list):
        for item in value:
            yield from _pages(item)
    elif _is_point(value):
        yield [cast("dict[str, Any]", value)], None
    elif isinstance(value, dict) and isinstance(value.get("result"), dict | list):
        yield from _pages(value["result"])
    elif isinstance(value, dict) and isinstance(value.get("points"), list):
        pages = list(_pages(value["points"]))
        yield [point for points, _ in pages for point in points], value.get("next_page_offset")
    else:
        raise LineError(f"is neither a point with an id nor a response of {SCROLL}")


def _is_point(value: object) -> bool:
    return isinstance(value, dict) and "id" in value


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
