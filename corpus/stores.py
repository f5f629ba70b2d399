"""Reads the points of other stores: what Qdrant, Milvus and txtai write."""

from __future__ import annotations

import re
import shutil
import sqlite3
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast
from urllib.parse import quote

import numpy as np

from hummingbit.corpus.columns import byte_list_columns, json_columns, read_parquet
from hummingbit.corpus.document import CONTENT_FIELDS
from hummingbit.corpus.json_rows import parse_json, parse_whole, read_json_lines
from hummingbit.corpus.lines import (
    STREAM_ERRORS,
    BadLine,
    LineError,
    ReadError,
    Row,
    most_unpacked,
    open_bytes,
    read_all,
    suffixes_of,
)

# A point of another store, before it becomes a document.


# A list of fewer numbers is an ordinary field and not a vector.
MIN_VECTOR_LENGTH = 8
_PARTS = (*(name for name in CONTENT_FIELDS if name != "text"), "id", "payload")


class Point(NamedTuple):
    """A point of another store: its line, its fields by name, and its vectors by name."""

    line: int
    fields: dict[str, Any]
    """A record for :class:`hummingbit.corpus.layout.Layout`, without vectors."""
    vectors: dict[str, Any]
    byte_vectors: frozenset[str] = frozenset()
    """The vectors that are known to be bytes: packed bits, or numbers of two bytes each."""


def point_of(line: int, id_: Any, payload: Mapping[str, Any], vectors: Mapping[str, Any]) -> Point:
    """Return a point of a store that keeps the id and the payload apart.

    Fields of the payload that are named like a part of a document stay in the payload.
    """
    fields = {name: value for name, value in payload.items() if name not in _PARTS}
    clashing = {name: value for name, value in payload.items() if name in _PARTS}
    fields["id"] = id_
    if clashing:
        fields["payload"] = clashing
    return Point(line, fields, dict(vectors))


def is_vector(value: object) -> bool:
    """Return whether a value looks like a vector, in a store that does not mark vectors."""
    if isinstance(value, np.ndarray):
        return value.ndim == 1 and value.dtype.kind in "fiu" and len(value) >= MIN_VECTOR_LENGTH
    return (
        isinstance(value, list)
        and len(value) >= MIN_VECTOR_LENGTH
        and all(isinstance(item, int | float) and not isinstance(item, bool) for item in value)
    )


# Reads rows of Milvus, as ``pymilvus.bulk_writer`` writes them.


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
    parsed = json_columns(parts) - {DYNAMIC} if _is_parquet(parts[0]) else frozenset()
    for part in parts:
        byte_lists = byte_list_columns(part) if _is_parquet(part) else frozenset()
        for row in _rows(part):
            line += 1
            yield _milvus_point(part, line, row, parsed, byte_lists)


def _parts(path: Path) -> list[Path]:
    """Return the files in the order in which they were written: by the numbers in their names."""
    if not path.is_dir():
        if path.suffix.lower() not in SUFFIXES:
            raise ReadError(f"{path}: the suffix must be {' or '.join(SUFFIXES)}")
        return [path]
    parts = [part for part in path.rglob("*") if part.suffix.lower() in SUFFIXES]
    if not parts:
        raise ReadError(f"{path}: is a folder without {' or '.join(SUFFIXES)} files")
    if len({part.suffix.lower() for part in parts}) > 1:
        raise ReadError(f"{path}: has files of both formats; it must have files of one")
    return sorted(parts, key=lambda part: ([*map(int, re.findall(r"\d+", part.stem))], str(part)))


def _is_parquet(part: Path) -> bool:
    return part.suffix.lower() == PARQUET


def _rows(part: Path) -> Iterator[Row]:
    if _is_parquet(part):
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


def _milvus_point(
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


# Reads points of Qdrant, as ``POST /collections/NAME/points/scroll`` returns them.


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
    if path.is_file() and path.suffix.lower() != ".gz" and tarfile.is_tarfile(path):
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
                yield _qdrant_point(path, number, point)
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
    if suffixes_of(path)[0] == ".json":
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


def _qdrant_point(path: Path, number: int, point: Mapping[str, Any]) -> Point:
    payload, vectors = point.get("payload") or {}, point.get("vector")
    if not isinstance(payload, dict):
        raise ReadError(str(BadLine(str(path), number, "payload: must be an object")))
    if not isinstance(vectors, dict):
        vectors = {} if vectors is None else {UNNAMED: vectors}
    dense = {name: vector for name, vector in vectors.items() if _is_dense(vector)}
    return point_of(number, point["id"], payload, dense)


def _is_dense(vector: object) -> bool:
    return isinstance(vector, list) and not any(isinstance(item, list) for item in vector)


# Reads documents of txtai, as ``Embeddings.save`` writes them for an index with content.
#
# Texts, data and tags are in a SQLite database named ``documents``. Vectors are in the files of an
# approximate index, whose format depends on the backend; they are not read.


DATABASE = "documents"
_MISSING = f"has no file {DATABASE!r}; txtai writes it for an index with content=True"
_SQLITE = b"SQLite format 3\0"
_QUERY = (
    "SELECT s.id, s.text, s.tags, d.data FROM sections s LEFT JOIN documents d ON d.id = s.id"
    " ORDER BY s.indexid"
)


def read_txtai(path: Path) -> Iterator[Point]:
    """Yield the texts of an index that was saved to a folder, a tar file or a ``.zip`` file.

    If the data of a document are an object, they become the payload; its tags join them. Nothing is
    unpickled: the other files of the index are not opened.

    Raises:
        ReadError: if there is no such index, or it was built without ``content=True``.
    """
    with _database(path) as file:
        if not _is_sqlite(file):
            raise ReadError(f"{path}: {DATABASE} is not a SQLite database; txtai writes one")
        yield from _txtai_points(path, file)


@contextmanager
def _database(path: Path) -> Iterator[Path]:
    """Yield the path of the database of an index, extracted if the index is an archive."""
    if path.is_dir():
        if not (path / DATABASE).is_file():
            raise ReadError(f"{path}: {_MISSING}")
        yield path / DATABASE
        return
    with tempfile.TemporaryDirectory(prefix="hummingbit-txtai-") as folder:
        target = Path(folder) / DATABASE
        with target.open("wb") as out:
            try:
                for block in _blocks(path):
                    out.write(block)
            except OSError as error:
                raise ReadError(
                    f"{path}: cannot be unpacked in {folder}: {error.strerror}"
                ) from None
        yield target


def _blocks(path: Path) -> Iterator[bytes]:
    """Yield the content of the member ``documents``; no other is read, and no name is a path."""
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                names = [name for name in archive.namelist() if Path(name).name == DATABASE]
                if not names:
                    raise ReadError(f"{path}: {_MISSING}")
                _check_size(path, archive.getinfo(names[0]).file_size)
                with archive.open(names[0]) as member:
                    yield from iter(partial(member.read, 1 << 20), b"")
            return
        with tarfile.open(path) as tar:
            for info in tar:
                if Path(info.name).name != DATABASE or info.isdir():
                    continue
                content = tar.extractfile(info) if info.isreg() else None
                if content is None:
                    raise ReadError(f"{path}: {info.name} is a link or a device; it must be a file")
                _check_size(path, info.size)
                yield from iter(partial(content.read, 1 << 20), b"")
                return
    except RuntimeError as error:  # from zipfile: encrypted, or an unknown compression
        raise ReadError(f"{path}: cannot be read as an index of txtai: {error}") from None
    except (tarfile.TarError, zipfile.BadZipFile, *STREAM_ERRORS) as error:
        reason = getattr(error, "strerror", None) or "it must be a folder, a .zip or a .tar file"
        raise ReadError(f"{path}: cannot be read as an index of txtai: {reason}") from None
    raise ReadError(f"{path}: {_MISSING}")


def _check_size(path: Path, size: int) -> None:
    """Raise ReadError if a member of `size` bytes is too large to be unpacked from `path`."""
    hint = "unpack it yourself, and give the folder"
    most = most_unpacked(path.stat().st_size)
    if size > most:
        raise ReadError(f"{path}: {DATABASE} has {size:,} bytes, more than {most:,}; {hint}")
    target = tempfile.gettempdir()
    free = shutil.disk_usage(target).free
    if size > free:
        message = f"{DATABASE} has {size:,} bytes, and {target} has room for {free:,}"
        raise ReadError(f"{path}: {message}; set TMPDIR to another folder, or {hint}")


def _is_sqlite(file: Path) -> bool:
    with file.open("rb") as stream:
        return stream.read(len(_SQLITE)) == _SQLITE


def _txtai_points(path: Path, file: Path) -> Iterator[Point]:
    address = f"file:{quote(str(file))}?mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(address, uri=True)) as database:
            for line, (id_, text, tags, data) in enumerate(database.execute(_QUERY), start=1):
                # "text" comes first among the fields, and data cannot replace it.
                fields = {"text": text} if tags is None else {"text": text, "tags": tags}
                yield point_of(line, id_, {**fields, **_data(path, id_, data), "text": text}, {})
    except sqlite3.DatabaseError as error:
        raise ReadError(f"{path}: {DATABASE} cannot be read: {error}") from None


def _data(path: Path, id_: Any, data: Any) -> dict[str, Any]:
    """Return the data of a document if they are an object; otherwise, nothing."""
    if not isinstance(data, str):
        return {}
    try:
        parsed = parse_json(data)
    except LineError as error:
        raise ReadError(f"{path}: the data of document {id_!r} {error}") from None
    return parsed if isinstance(parsed, dict) else {}
