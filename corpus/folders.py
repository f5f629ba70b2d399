"""Readers of folders: of text files, or saved by the library ``datasets``."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from corpus.columns import read_arrow
from corpus.detection.encodings import open_text
from corpus.document import FIELDS
from corpus.layout import Layout
from corpus.rows import ReadError, Row

_FRONT_MATTER = re.compile(r"---[ \t]*\r?\n((?:.*\n)*?)---[ \t]*(?:\r?\n|\Z)")
_FIELD = re.compile(r"^([\w-]+):(.*)$((?:\n[ \t]*- .*)*)", re.MULTILINE)
_ITEM = re.compile(r"\n[ \t]*- *(.*)")
_INTEGER = re.compile(r"-?(?:0|[1-9]\d{0,14})")
TEXT_SUFFIXES = (".txt", ".md")
STATE = "state.json"
SPLITS = "dataset_dict.json"


def read_folder(folder: Path, layout: Layout, notice: Callable[[str], object]) -> Iterator[Row]:
    """Yield the documents of a folder.

    In a folder of text files, each file is a document, also in folders below. Its id is its path
    relative to `folder`; its label is the name of the subfolder that it is in, if any. What YAML
    between lines of ``---`` says at the top of a Markdown file are fields, except the title, with
    which the text begins (:func:`_split_front_matter`). Files and folders whose names begin with a
    dot are left out: editors and version control make them. In a data set that
    ``datasets.Dataset.save_to_disk`` wrote, each row is a document.

    Raises:
        ReadError: if `folder` is neither, or a file cannot be read.
    """
    if (folder / SPLITS).is_file():
        splits: list[str] = _read_json(folder / SPLITS, "splits")
        names = ", ".join(str(folder / name) for name in splits)
        raise ReadError(f"{folder}: holds several splits; name one: {names}")
    if (folder / STATE).is_file():
        files: list[dict[str, str]] = _read_json(folder / STATE, "_data_files")
        return read_arrow([folder / Path(file["filename"]).name for file in files], layout)
    texts = (path for suffix in TEXT_SUFFIXES for path in folder.rglob(f"*{suffix}"))
    paths = sorted(path for path in texts if not _is_hidden(path.relative_to(folder)))
    if not paths:
        message = f"is a folder without {' or '.join(TEXT_SUFFIXES)} files; name one file"
        raise ReadError(f"{folder}: {message}")
    return _read_texts(folder, paths, layout, notice)


def _is_hidden(path: Path) -> bool:
    return any(name.startswith(".") for name in path.parts)


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
                notice_of_file = partial(_notice_of_file, place, notice)
                stream, _ = open_text(file, str(path), layout.encoding, notice_of_file)
                text = stream.read().decode().removeprefix("\ufeff")
                fields, text = _split_front_matter(text) if path.suffix == ".md" else ({}, text)
                yield Row(number, {**fields, **record, "text": text})
        except UnicodeDecodeError:
            yield Row(number, reason=f"{place} is not UTF-8; name its encoding with --encoding")
        except OSError as error:
            yield Row(number, reason=f"{place} cannot be read: {error.strerror or error}")


def _split_front_matter(text: str) -> tuple[dict[str, Any], str]:
    """Return the fields at the top of a Markdown file, and the text below them.

    A field is a line ``name: value``. Its value is a string, perhaps in quotation marks, ``true``
    or ``false``, a number, or a list: ``[a, b]``, or lines of ``- a`` below the name. What lies
    deeper, and fields with the name of a part of a document, are left out.
    """
    front = _FRONT_MATTER.match(text)
    if front is None:
        return {}, text
    fields: dict[str, Any] = {}
    for name, rest, items in _FIELD.findall(front[1]):
        value = rest.strip(" \t\r")
        if name not in FIELDS and (value or items):
            listed = _ITEM.findall(items) if items else value[1:-1].split(",")
            is_list = not value or (value[0] == "[" and value[-1] == "]")
            fields[name] = [_scalar(one) for one in listed if one] if is_list else _scalar(value)
    body = text[front.end() :].strip()
    title = str(fields.pop("title", ""))
    return fields, body if body.lstrip("# ").startswith(title) else f"{title}\n\n{body}"


def _scalar(value: str) -> object:
    value = value.strip()
    if value in ("true", "false"):
        return value == "true"
    if _INTEGER.fullmatch(value):
        return int(value)
    is_quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
    return value[1:-1] if is_quoted else value


def _notice_of_file(place: Path, notice: Callable[[str], object], message: str) -> None:
    notice(f"{place} {message}")


def _read_json(path: Path, key: str) -> Any:
    try:
        return json.loads(path.read_bytes())[key]
    except (OSError, ValueError, KeyError, TypeError) as error:
        message = f"is not a file that the library datasets wrote: {error}"
        raise ReadError(f"{path}: {message}") from None
