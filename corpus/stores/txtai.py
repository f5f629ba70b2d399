"""Reads documents of txtai, as ``Embeddings.save`` writes them for an index with content.

Texts, data and tags are in a SQLite database named ``documents``. Vectors are in the files of an
approximate index, whose format depends on the backend; they are not read.
"""

from __future__ import annotations

import shutil
import sqlite3
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from corpus.json_rows import parse_json
from corpus.lines import STREAM_ERRORS, LineError, most_unpacked
from corpus.rows import ReadError
from corpus.stores.point import Point, point_of

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
        yield from _points(path, file)


@contextmanager
def _database(path: Path) -> Iterator[Path]:
    """Yield the path of the database of an index, extracted if the index is an archive."""
    if path.is_dir():
        if not (path / DATABASE).is_file():
            raise ReadError(f"{path}: {_MISSING}")
        yield path / DATABASE
        return
    with tempfile.TemporaryDirectory(prefix="hummingbit-txtai-") as folder:
        place = Path(folder) / DATABASE
        with place.open("wb") as out:
            try:
                for block in _blocks(path):
                    out.write(block)
            except OSError as error:
                raise ReadError(
                    f"{path}: cannot be unpacked in {folder}: {error.strerror}"
                ) from None
        yield place


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
    place = tempfile.gettempdir()
    free = shutil.disk_usage(place).free
    if size > free:
        message = f"{DATABASE} has {size:,} bytes, and {place} has room for {free:,}"
        raise ReadError(f"{path}: {message}; set TMPDIR to another folder, or {hint}")


def _is_sqlite(file: Path) -> bool:
    with file.open("rb") as stream:
        return stream.read(len(_SQLITE)) == _SQLITE


def _points(path: Path, file: Path) -> Iterator[Point]:
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
