"""Documents from any source: files by their suffix, standard input, and the named data sets."""

from __future__ import annotations

import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Literal

from corpus.columns import read_npz, read_parquet
from corpus.datasets import DATASETS, load_dataset
from corpus.document import Document, DocumentError, parse_document
from corpus.lines import open_bytes, read_json_lines, read_table
from corpus.rows import BadLine, ReadError, Row

__all__ = ["BadLine", "ReadError", "read_documents"]

STANDARD_INPUT = "-"
LINE_SUFFIXES = (".jsonl", ".json", ".csv", ".tsv")
COLUMN_SUFFIXES = (".parquet", ".npz")
COMPRESSION_SUFFIXES = (".gz", ".xz")


def read_documents(
    source: str | Path,
    *,
    on_error: Literal["stop", "skip"] = "stop",
    data_root: Path | None = None,
    report: Callable[[BadLine], None] | None = None,
    unique_ids: bool = True,
) -> Iterator[Document]:
    """Yield the documents of `source` in their order.

    `source` is a file ending in `.jsonl` or `.json` (JSON lines), `.csv`, `.tsv`, `.parquet` or
    `.npz`, the first four also with `.gz` or `.xz`; `-` for JSON lines on standard input; or a
    named data set, `NAME` or `NAME:SPLIT` (its first split where none is named), read from
    `data_root`. Whether the source exists is checked at once, the rest while reading.

    A line that gives no document, or repeats an id of this source, ends the reading where
    `on_error` is "stop"; where it is "skip", it goes to `report` and reading goes on.

    Raises:
        ReadError: at such a line, or if the source cannot be read at all.
    """
    if on_error not in ("stop", "skip"):
        raise ValueError(f"on_error is {on_error!a}; it must be 'stop' or 'skip'")
    if isinstance(source, str) and source.partition(":")[0] in DATASETS:
        name, _, split = source.partition(":")
        return load_dataset(name, split or DATASETS[name][0], data_root)
    if str(source) == STANDARD_INPUT:
        rows, shown = read_json_lines(sys.stdin.buffer, "standard input"), "standard input"
    else:
        path = Path(source)
        _check_file(path)
        rows, shown = _read_rows(path), str(path)
    return _documents(rows, shown, on_error, report, {} if unique_ids else None)


def count_documents(source: str | Path) -> int | None:
    """Return about how many documents a file holds, for a progress bar, or None.

    Lines are counted where the file is not compressed, which takes a fraction of reading it.
    """
    path = Path(source)
    if not path.is_file():
        return None
    suffix, compression = _suffixes(path)
    if suffix not in LINE_SUFFIXES or compression:
        return None
    with path.open("rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))


def _check_file(path: Path) -> None:
    """Raise :class:`ReadError` unless `path` is a file in one of the formats that are read."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        sets = ", ".join(DATASETS)
        message = f"{path}: {reason}; nor is it one of the named data sets {sets}"
        raise ReadError(message) from None
    if stat.S_ISDIR(mode):
        raise ReadError(f"{path}: is a directory; name one file")
    suffix, compression = _suffixes(path)
    if suffix in COLUMN_SUFFIXES and compression:
        raise ReadError(f"{path}: {suffix} is not read compressed; decompress it first")
    if suffix not in LINE_SUFFIXES + COLUMN_SUFFIXES:
        known = ", ".join(LINE_SUFFIXES + COLUMN_SUFFIXES)
        raise ReadError(f"{path}: the suffix {suffix!a} is not one of {known}")


def _suffixes(path: Path) -> tuple[str, str]:
    """Return the suffix that names the format, and that of the compression or an empty one."""
    last = path.suffix.lower()
    if last in COMPRESSION_SUFFIXES:
        return path.with_suffix("").suffix.lower(), last
    return last, ""


def _read_rows(path: Path) -> Iterator[Row]:
    suffix, _ = _suffixes(path)
    if suffix == ".parquet":
        yield from read_parquet(path)
    elif suffix == ".npz":
        yield from read_npz(path)
    else:
        try:
            stream = open_bytes(path)
        except OSError as error:
            raise ReadError(f"{path}: {error.strerror or error}") from None
        with stream:
            yield from _read_lines(stream, str(path), suffix)


def _read_lines(stream: BinaryIO, source: str, suffix: str) -> Iterator[Row]:
    if suffix in (".csv", ".tsv"):
        return read_table(stream, source, "," if suffix == ".csv" else "\t")
    return read_json_lines(stream, source)


def _documents(
    rows: Iterator[Row],
    source: str,
    on_error: str,
    report: Callable[[BadLine], None] | None,
    line_of: dict[str, int] | None,
) -> Iterator[Document]:
    for row in rows:
        document = _check_row(row, source, line_of)
        if isinstance(document, Document):
            yield document
        elif on_error == "stop":
            raise ReadError(str(document))
        elif report is not None:
            report(document)


def _check_row(row: Row, source: str, line_of: dict[str, int] | None) -> Document | BadLine:
    """Return the document of a row, its id noted in `line_of`, or what is wrong with the row."""
    if row.reason is not None:
        return BadLine(source, row.line, row.reason)
    try:
        document = parse_document(row.record)
    except DocumentError as error:
        return BadLine(source, row.line, str(error))
    first = row.line if line_of is None else line_of.setdefault(document.id, row.line)
    if first != row.line:
        return BadLine(source, row.line, f"id: is {document.id!a}, as on line {first} before")
    return document
