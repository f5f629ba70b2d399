"""Folders as sources: of text files, or saved by the library ``datasets``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from corpus.columns import read_arrow
from corpus.layout import Layout
from corpus.rows import ReadError, Row
from corpus.tables import open_text

TEXT_SUFFIXES = (".txt", ".md")
STATE = "state.json"
SPLITS = "dataset_dict.json"


def read_folder(folder: Path, layout: Layout, notice: Callable[[str], object]) -> Iterator[Row]:
    """Yield the documents of a folder.

    Of text files, found in folders below it too, each is a document: its id is the path below
    `folder`, its label the name of the folder it lies in, if that is below. Of a data set that
    ``datasets.Dataset.save_to_disk`` wrote, each row is one.

    Raises:
        ReadError: if it is neither, or a file cannot be read.
    """
    if (folder / SPLITS).is_file():
        splits: list[str] = _read_json(folder / SPLITS, "splits")
        names = ", ".join(str(folder / name) for name in splits)
        raise ReadError(f"{folder}: holds several splits; name one: {names}")
    if (folder / STATE).is_file():
        files: list[dict[str, str]] = _read_json(folder / STATE, "_data_files")
        return read_arrow([folder / Path(one["filename"]).name for one in files], layout)
    paths = sorted(path for suffix in TEXT_SUFFIXES for path in folder.rglob(f"*{suffix}"))
    if not paths:
        message = f"is a folder without {' or '.join(TEXT_SUFFIXES)} files; name one file"
        raise ReadError(f"{folder}: {message}")
    return _read_texts(folder, paths, layout, notice)


def _read_texts(
    folder: Path, paths: list[Path], layout: Layout, notice: Callable[[str], object]
) -> Iterator[Row]:
    for number, path in enumerate(paths, start=1):
        place = path.relative_to(folder)
        record = {"id": place.as_posix()}
        if place.parent.name:
            record["label"] = place.parent.name
        try:
            with path.open("rb") as file:
                tell = partial(_tell_of, place, notice)
                stream, _ = open_text(file, str(path), layout.encoding, tell)
                text = stream.read().decode().removeprefix("\ufeff")
                yield Row(number, {**record, "text": text})
        except UnicodeDecodeError:
            yield Row(number, reason=f"{place} is not UTF-8; --encoding names another")
        except OSError as error:
            yield Row(number, reason=f"{place} cannot be read: {error.strerror or error}")


def _tell_of(place: Path, notice: Callable[[str], object], what: str) -> None:
    notice(f"{place} {what}")


def _read_json(path: Path, key: str) -> Any:
    try:
        return json.loads(path.read_bytes())[key]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ReadError(f"{path}: is not what the library datasets writes: {error}") from None
