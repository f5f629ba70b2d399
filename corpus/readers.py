"""Documents from any source: files by their suffix, folders, standard input, named data sets."""

from __future__ import annotations

import json
import re
import stat
import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import date, time
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple

from hummingbit.corpus.columns import read_arrow, read_npz, read_parquet
from hummingbit.corpus.dialects import has_tabs_in_each_line
from hummingbit.corpus.document import (
    CONTENT_FIELDS,
    FIELDS,
    Document,
    DocumentError,
    parse_document,
    parse_usual_documents,
)
from hummingbit.corpus.field_types import FieldTypes
from hummingbit.corpus.json_rows import read_json, read_json_lines
from hummingbit.corpus.layout import IN_LIST, Layout, Numbering, value_at
from hummingbit.corpus.lines import (
    HINTS,
    BadLine,
    ReadError,
    Row,
    in_blocks,
    open_source,
    open_text,
    read_markdown,
    read_text_lines,
    suffixes_of,
)
from hummingbit.corpus.named_sets import DATASETS, load_dataset
from hummingbit.corpus.tables import read_table

# Readers of folders: of text files, or saved by the library ``datasets``.


_FRONT_MATTER = re.compile(r"---[ \t]*\r?\n((?:.*\n)*?)---[ \t]*(?:\r?\n|\Z)")
_TOML = re.compile(r"\+\+\+[ \t]*\r?\n((?:.*\n)*?)\+\+\+[ \t]*(?:\r?\n|\Z)")
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
    between lines of ``---``, or TOML between lines of ``+++``, says at the top of a Markdown file
    are fields, except the title, with which the text begins (:func:`_split_front_matter`).
    Files and folders whose names begin with a dot are left out: editors and version control make
    them. In a data set that ``datasets.Dataset.save_to_disk`` wrote, each row is a document.

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
    texts = (path for path in folder.rglob("*") if path.suffix.lower() in TEXT_SUFFIXES)
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
        relative = path.relative_to(folder)
        record = {"id": relative.as_posix()}
        if relative.parent.name:
            record["label"] = relative.parent.name
        try:
            with path.open("rb") as file:
                notice_of_file = partial(_notice_of_file, relative, notice)
                stream, _ = open_text(file, str(path), layout.encoding, notice_of_file)
                text = stream.read().decode().removeprefix("\ufeff")
                fields, text = (
                    _split_front_matter(text) if path.suffix.lower() == ".md" else ({}, text)
                )
                yield Row(number, {**fields, **record, "text": text})
        except UnicodeDecodeError:
            yield Row(number, reason=f"{relative} is not UTF-8; name its encoding with --encoding")
        except OSError as error:
            yield Row(number, reason=f"{relative} cannot be read: {error.strerror or error}")


def _split_front_matter(text: str) -> tuple[dict[str, Any], str]:
    """Return the fields at the top of a Markdown file, and the text below them.

    A field of YAML is a line ``name: value``. Its value is a string, perhaps in quotation marks,
    ``true`` or ``false``, a number, or a list: ``[a, b]``, or lines of ``- a`` below the name. What
    lies deeper, and fields with the name of a part of a document, are left out.
    """
    front = _FRONT_MATTER.match(text) or _TOML.match(text)
    if front is None:
        return {}, text
    try:
        fields = _fields_of_toml(front[1]) if text[0] == "+" else _fields_of_yaml(front[1])
    except ValueError:  # no TOML
        return {}, text
    body = text[front.end() :].strip()
    title = str(fields.pop("title", ""))
    return fields, body if body.lstrip("# ").startswith(title) else f"{title}\n\n{body}"


def _fields_of_yaml(front: str) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, rest, items in _FIELD.findall(front):
        value = rest.strip(" \t\r")
        if name not in FIELDS and (value or items):
            listed = _ITEM.findall(items) if items else value[1:-1].split(",")
            is_list = not value or (value[0] == "[" and value[-1] == "]")
            fields[name] = [_scalar(item) for item in listed if item] if is_list else _scalar(value)
    return fields


def _fields_of_toml(front: str) -> dict[str, Any]:
    import tomllib  # noqa: PLC0415 - few files have it

    read = tomllib.loads(front.replace("\r\n", "\n"))
    fields = {
        name: value.isoformat() if isinstance(value, date | time) else value
        for name, value in read.items()
        if name not in FIELDS
    }
    return {name: value for name, value in fields.items() if _is_simple(value)}


def _is_simple(value: object) -> bool:
    if isinstance(value, list):
        return all(isinstance(part, str | int) for part in value)
    return isinstance(value, str | int) or (isinstance(value, float) and isfinite(value))


def _scalar(value: str) -> object:
    value = value.strip()
    if value in ("true", "false"):
        return value == "true"
    if _INTEGER.fullmatch(value):
        return int(value)
    is_quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
    return value[1:-1] if is_quoted else value


def _notice_of_file(relative: Path, notice: Callable[[str], object], message: str) -> None:
    notice(f"{relative} {message}")


def _read_json(path: Path, key: str) -> Any:
    try:
        return json.loads(path.read_bytes())[key]
    except (OSError, ValueError, KeyError, TypeError) as error:
        message = f"is not a file that the library datasets wrote: {error}"
        raise ReadError(f"{path}: {message}") from None


# Documents from any source: files by their suffix, folders, standard input, named data sets.


__all__ = ["BadLine", "Layout", "ReadError", "read_documents"]

STANDARD_INPUT = "-"
DEFAULT_LAYOUT = Layout()
Notice = Callable[[str], object]


class Format(NamedTuple):
    """How the files of a suffix are read. Another format is a line in :data:`FORMATS`.

    `read` yields the rows of the file at a path. It gets the layout, what takes notices of whatever
    was detected, and the types of the fields of a table; None if cells are to be strings.
    """

    read: Callable[[Path, Layout, Notice, FieldTypes | None], Iterator[Row]]
    can_be_compressed: bool = True
    has_fields: bool = True
    """Whether a survey can find which fields hold the text and the label."""
    has_line_for_each: bool = True
    """Whether lines are counted as documents, for progress."""


def _of_lines(
    read: Callable[[BinaryIO, str, Layout, Notice], Iterator[Row]],
) -> Callable[[Path, Layout, Notice, FieldTypes | None], Iterator[Row]]:
    """Return what reads a file, perhaps a compressed one, from what reads a stream."""

    def read_file(
        path: Path, layout: Layout, notice: Notice, _types: FieldTypes | None
    ) -> Iterator[Row]:
        with open_source(path) as stream:
            yield from read(stream, str(path), layout, notice)

    return read_file


def _of_table(delimiter: str | None) -> Format:
    return Format(
        lambda path, layout, notice, types: read_table(path, delimiter, layout, notice, types)
    )


def _of_columns(read: Callable[[Path, Layout], Iterator[Row]], *, has_fields: bool) -> Format:
    return Format(
        lambda path, layout, _notice, _types: read(path, layout),
        can_be_compressed=False,
        has_fields=has_fields,
        has_line_for_each=False,
    )


def _read_text(stream: BinaryIO, source: str, layout: Layout, notice: Notice) -> Iterator[Row]:
    text, sample = open_text(stream, source, layout.encoding, notice)
    if has_tabs_in_each_line(sample):
        notice("each line has tabs and is one document; to read it as a table, name it .tsv")
    return read_text_lines(text, source)


def _read_headed(stream: BinaryIO, source: str, layout: Layout, notice: Notice) -> Iterator[Row]:
    return read_markdown(open_text(stream, source, layout.encoding, notice)[0], source)


_JSON_LINES = Format(_of_lines(partial(read_json, is_lines=True)))
_ARROW = _of_columns(lambda path, layout: read_arrow([path], layout), has_fields=False)
FORMATS: Mapping[str, Format] = {
    ".jsonl": _JSON_LINES,
    ".ndjson": _JSON_LINES,
    ".json": Format(_of_lines(partial(read_json, is_lines=False))),
    ".csv": _of_table(None),
    ".tsv": _of_table("\t"),
    ".txt": Format(_of_lines(_read_text), has_fields=False),
    ".md": Format(_of_lines(_read_headed), has_fields=False, has_line_for_each=False),
    ".parquet": _of_columns(read_parquet, has_fields=True),
    ".arrow": _ARROW,
    ".feather": _ARROW,
    ".npz": _of_columns(lambda path, _layout: read_npz(path), has_fields=False),
}
"""The formats of files by their suffixes."""


def read_documents(
    source: str | Path,
    *,
    on_error: Literal["stop", "skip"] = "stop",
    data_root: Path | None = None,
    report: Callable[[BadLine], object] | None = None,
    notice: Callable[[str], object] | None = None,
    unique_ids: bool = True,
    layout: Layout = DEFAULT_LAYOUT,
    uses_payload: bool = True,
    field_types: FieldTypes | None = None,
) -> Iterator[Document]:
    """Yield the documents of `source` in order.

    `source` is one of:

    - a file with a suffix in :data:`FORMATS`, followed by `.gz`, `.xz` or `.bz2` if it is
      compressed;
    - a folder (:func:`hummingbit.corpus.readers.read_folder`);
    - `-`, for JSON lines on standard input;
    - a named data set, `NAME` or `NAME:SPLIT`, read from `data_root`; `NAME` is its first split.

    `layout` names the fields of the records; named data sets ignore it. `field_types` are those of
    the collection that the documents are for, and learn those of its other fields from a table. If
    not `uses_payload`, the payload of a table is strings. The existence of the source is checked at
    once, the rest while reading.

    A line is bad if it is not a document or repeats an id. If `on_error` is "stop", the first bad
    line ends the reading; if it is "skip", bad lines are passed to `report`. What was detected and
    may be wrong, such as an encoding, is passed to `notice`.

    Raises:
        ReadError: if a line is bad and `on_error` is "stop", or the source cannot be read.
    """
    if on_error not in ("stop", "skip"):
        raise ValueError(f"on_error is {on_error!r}; it must be 'stop' or 'skip'")
    if isinstance(source, str) and source.partition(":")[0] in DATASETS:
        name, _, split = source.partition(":")
        return load_dataset(name, split or DATASETS[name][0], data_root)

    def notice_of_source(message: str) -> None:
        if notice is not None:
            notice(f"{source_name}: {message}")

    if str(source) == STANDARD_INPUT:
        source_name, stem = "standard input", "stdin"
        rows = read_json_lines(sys.stdin.buffer, source_name)
    else:
        path = Path(source)
        source_name, stem = str(path), path.name.partition(".")[0]
        _check_file(path)
        types = field_types or FieldTypes(of_payload=uses_payload)
        rows = _read_rows(path, layout, notice_of_source, types)
    documents = _Documents(source_name, stem, layout, notice_of_source, unique_ids=unique_ids)
    return documents.read(rows, on_error, report)


def documents_of(
    rows: Iterator[Row],
    source: str,
    layout: Layout,
    notice: Callable[[str], object],
    *,
    unique_ids: bool = True,
) -> Iterator[Document]:
    """Yield the documents in `rows`, which were read from `source`, according to `layout`.

    Raises:
        ReadError: if a row is not a document.
    """
    stem = Path(source).name.partition(".")[0]
    documents = _Documents(source, stem, layout, notice, unique_ids=unique_ids)
    return documents.read(rows, "stop", None)


def read_rows(source: Path, layout: Layout = DEFAULT_LAYOUT) -> Iterator[Row]:
    """Yield the records of a file or folder before they become documents; cells are strings.

    Raises:
        ReadError: as for :func:`read_documents`.
    """
    _check_file(source)
    return _read_rows(source, layout, lambda _: None, None)


def count_documents(source: str | Path) -> int | None:
    """Return roughly how many documents a file holds, for a progress bar, or None if unknown.

    This counts the lines of an uncompressed file, in a fraction of the time of reading it.
    """
    path = Path(source)
    if not path.is_file():
        return None
    suffix, compression = suffixes_of(path)
    if suffix not in FORMATS or not FORMATS[suffix].has_line_for_each or compression:
        return None
    with path.open("rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))


def _check_file(path: Path) -> None:
    """Raise :class:`ReadError` unless `path` is a folder, or a file in a known format."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        if path.name.partition(":")[0] in DATASETS:
            reason += "; a named data set is not read here: write it to a file"
        elif not path.suffix:
            reason += f"; it is not a named data set either; those are {', '.join(DATASETS)}"
        raise ReadError(f"{path}: {reason}") from None
    if stat.S_ISDIR(mode):
        return
    suffix, compression = suffixes_of(path)
    if suffix not in FORMATS:
        hint = f"; {HINTS[suffix]}" if suffix in HINTS else ""
        fault = (
            f"the suffix {suffix!r} is not one of" if suffix else "its name must end with one of"
        )
        after = f", then {compression}" if compression else ""
        raise ReadError(f"{path}: {fault} {', '.join(FORMATS)}{after}{hint}")
    if compression and not FORMATS[suffix].can_be_compressed:
        raise ReadError(f"{path}: a compressed {suffix} file cannot be read; decompress it first")


def _read_rows(
    path: Path, layout: Layout, notice: Callable[[str], None], types: FieldTypes | None
) -> Iterator[Row]:
    if path.is_dir():
        yield from read_folder(path, layout, notice)
    else:
        yield from FORMATS[suffixes_of(path)[0]].read(path, layout, notice, types)


class _Documents:
    """Turns the rows of one source into documents."""

    def __init__(
        self,
        source: str,
        stem: str,
        layout: Layout,
        notice: Notice,
        *,
        unique_ids: bool,
    ) -> None:
        """Documents without an id are numbered after the `stem`."""
        self._source, self._layout, self._notice = source, layout, notice
        self._numbering = Numbering(stem, notice)
        # The line of each id; None allows ids to repeat.
        self._line_of: dict[str, int] | None = {} if unique_ids else None
        self._lacks_label = layout.label_field is not None
        self._has_documents = False
        # Text fields and payload fields that no record has had.
        self._absent = {*layout.text_fields, *(layout.payload_fields or ())}

    def read(
        self, rows: Iterator[Row], on_error: str, report: Callable[[BadLine], object] | None
    ) -> Iterator[Document]:
        if self._layout.in_list is not None:
            rows = self._parts(rows)
        for block in in_blocks(rows):
            for document in self._usual_documents(block) or map(self._document, block):
                if isinstance(document, Document):
                    yield document
                elif on_error == "stop":
                    raise ReadError(str(document))
                elif report is not None:
                    report(document)
        if not self._has_documents:
            return
        if self._lacks_label:
            raise ReadError(
                f"{self._source}: no document has the field {self._layout.label_field!r}"
            )
        if self._absent:
            names = ", ".join(map(repr, sorted(self._absent)))
            self._notice(f"no document has the field {names}")

    def _parts(self, rows: Iterator[Row]) -> Iterator[Row]:
        """Yield a row for each object of the list that the layout names."""
        for row in rows:
            if isinstance(row.record, dict):
                for part, record in enumerate(self._layout.parts(row.record), 1):
                    yield row._replace(record=dict(record), part=part)
            else:
                yield row

    def _usual_documents(self, block: list[Row]) -> list[Document] | None:
        """Return the documents of rows of the usual form, or None if there are others."""
        if not self._layout.is_plain:
            return None
        documents = parse_usual_documents([row.record for row in block])
        if documents is None:
            return None
        self._numbering.default_id(True, block[0].line)
        self._has_documents = True
        if self._line_of is not None:
            for row, document in zip(block, documents, strict=True):
                if self._line_of.setdefault(document.id, row.line) != row.line:
                    return None
        return documents

    def _document(self, row: Row) -> Document | BadLine:
        """Return the document of a row, or what is wrong with the row."""
        if row.reason is not None:
            return BadLine(self._source, row.line, row.reason, row.n_lines)
        try:
            document = parse_document(self._record(row))
        except DocumentError as error:
            return BadLine(self._source, row.line, self._explain(error, row.record))
        lines = {} if self._line_of is None else self._line_of
        if (first := lines.setdefault(document.id, row.line)) != row.line:
            reason = f"id: is {document.id!r}, as on line {first}; ids must be unique"
            return BadLine(self._source, row.line, reason)
        self._has_documents = True
        return document

    def _record(self, row: Row) -> object:
        """Return the record of a row in the form of a document; raise DocumentError for a label."""
        record = row.record
        if isinstance(record, dict):
            has_id = self._layout.id_field is not None or record.get("id") is not None
            default = self._numbering.default_id(has_id, row.line)
            self._lacks_label &= value_at(record, self._layout.label_field) is None
            self._absent -= {name for name in self._absent if value_at(record, name) is not None}
            record = self._layout.document_record(record, default)
            id_field = self._layout.id_field or ""
            if row.part is not None and IN_LIST not in id_field and isinstance(record["id"], str):
                record = {**record, "id": f"{record['id']}:{row.part}"}
        return record

    def _explain(self, error: DocumentError, record: object) -> str:
        """Return what is wrong with a record, in the names of its own fields."""
        layout = self._layout
        if not isinstance(record, dict) or not record:
            return str(error)
        names = f"Its fields are {', '.join(map(repr, record))}"
        if error.field == "document":
            for name in layout.text_fields or CONTENT_FIELDS:
                if name in record and record[name] is None:
                    return f"{name}: is null; a document must have a text, a vector or a code"
            is_known = layout.text_fields or self._has_documents
            hint = "" if is_known else "; name the field of the text with --text-field"
            return f"{error}. {names}{hint}"
        id_field = layout.id_field or "id"
        if error.field == "id" and value_at(record, id_field) is None:
            return f"{id_field}: is missing; it must hold the id. {names}"
        text_field = layout.text_fields[0] if len(layout.text_fields) == 1 else None
        own_names = {"id": id_field, "text": text_field, "label": layout.label_field}
        return f"{own_names.get(error.field or '') or error.field}: {error.reason}"
