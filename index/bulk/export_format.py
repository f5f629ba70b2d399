"""A collection as JSON lines, codes included, to back it up or to move it.

::

    {"format": "hummingbit export", "version": 1, "name": ..., "n_bits": ..., "encoder": ...,
     "encoder_fingerprint": ..., "engine": ..., "documents": ..., "ranking": ...,
     "indexed_fields": [...], "keep_vectors": ..., "field_types": {...}}
    {"id": ..., "text": ..., "payload": {...}, "code": "00ff..."}
    ...
    {"labelled": {"id": ..., "labels": [...], "grade": 1, "who": ..., "when": ...}}
    {"judged": {"query": ..., "id": ..., "grade": 1, "who": ..., "when": ...}}
    ...
    {"end": true, "documents": ...}

A document has a code, and a text, a vector, both or neither; documents are in the order of rows.
Labels and judgements follow them. An import encodes nothing again, so the codes stay the same. The
last line distinguishes a complete export from one that was cut short.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, BinaryIO

from corpus.document import Document, DocumentError, parse_document
from corpus.json_rows import read_json_lines
from corpus.rows import BadLine, ReadError, Row
from corpus.tables import FieldType
from encoder.codes import Codes, code_from_hex
from foundation.errors import InputError, counted
from index.annotations.annotation_records import (
    DocumentLabel,
    Judgement,
    judgement_to_json,
    label_to_json,
    parse_judgement,
    parse_label,
)
from index.engines.choice import ENGINES
from index.filter_parser import check_indexed_fields
from index.kept_vectors import FLOAT32, FORMS
from index.rankings.protocol import HAMMING, RANKINGS
from index.records import StoredDocument
from index.schema import AUTO, parse_field_types

FORMAT = "hummingbit export"
VERSION = 1
LABELLED, JUDGED = "labelled", "judged"


@dataclass(frozen=True, slots=True)
class Header:
    """The description of the exported collection."""

    name: str
    n_bits: int
    encoder: str | None
    encoder_fingerprint: str | None
    engine: str
    """What it was to be searched by; exports had none before collections could ask for one."""
    documents: int
    ranking: str = HAMMING
    """What ordered the hits of searches that named no ranking."""
    indexed_fields: tuple[str, ...] = ()
    """The indexed fields of payloads."""
    keep_vectors: str = FLOAT32
    """The form in which vectors were kept; see :mod:`index.kept_vectors`."""
    field_types: Mapping[str, FieldType] = field(default_factory=dict)
    """The types of payload fields that tables decided."""


def write_export(
    header: Header,
    pages: Iterable[Sequence[StoredDocument]],
    stream: BinaryIO,
    progress: Callable[[int], object] | None = None,
    annotations: Iterable[DocumentLabel | Judgement] = (),
) -> int:
    """Write the documents of `pages` to `stream` and return their number.

    `annotations` are read after the pages.

    Raises:
        OSError: if the stream cannot be written.
        Exception: whatever `pages` raises.
    """
    _write_line(stream, {"format": FORMAT, "version": VERSION, **asdict(header)})
    written = 0
    for page in pages:
        for document in page:
            _write_line(stream, _record(document))
        written += len(page)
        if progress is not None:
            progress(len(page))
    for one in annotations:
        if isinstance(one, DocumentLabel):
            _write_line(stream, {LABELLED: label_to_json(one)})
        else:
            _write_line(stream, {JUDGED: judgement_to_json(one)})
    _write_line(stream, {"end": True, "documents": written})
    return written


class Export:
    """Reads an export: first its header, then its documents one by one.

    `labels` and `judgements` are complete once all documents were read.
    """

    def __init__(self, stream: BinaryIO, source: str) -> None:
        """Read the header of `stream`; `source` is its name in errors.

        Raises:
            ReadError: if it is not an export, or has another version.
        """
        self._rows = read_json_lines(stream, source)
        self._source = source
        self.header = self._read_header()
        self.labels: list[DocumentLabel] = []
        self.judgements: list[Judgement] = []

    def documents(self) -> Iterator[tuple[Document, Codes]]:
        """Yield each document and its code, ``uint8[n_bits / 8]``.

        Raises:
            ReadError: if a line is not a valid document, or the export was cut short.
        """
        count = 0
        for row in self._rows:
            record = self._record_of(row)
            if "end" in record:
                if record.get("documents") != count:
                    reason = f"says that {record.get('documents')} documents precede; {count} do"
                    raise self._error(row, reason)
                return
            if self._is_annotation(row, record):
                continue
            count += 1
            yield self._document(row, record)
        raise ReadError(f"{self._source}: is cut short after {counted(count, 'document')}")

    def _read_header(self) -> Header:
        for row in self._rows:
            record = self._record_of(row)
            if record.get("format") != FORMAT:
                reason = f"is not the head of an export; its format is not {FORMAT!r}"
                hint = "to store documents, use index build or add; for other stores, --from"
                raise self._error(row, f"{reason}: {hint}")
            if record.get("version") != VERSION:
                message = (
                    f"is of version {record.get('version')!r}; this hummingbit reads {VERSION}"
                )
                raise self._error(row, message)
            try:
                return _parse_header(record)
            except (KeyError, TypeError) as error:
                raise self._error(row, f"is not a whole head of an export: {error}") from None
        raise ReadError(f"{self._source}: is empty")

    def _record_of(self, row: Row) -> dict[str, Any]:
        if row.reason is not None:
            raise self._error(row, row.reason)
        if not isinstance(row.record, dict):
            raise self._error(row, "must be an object")
        return row.record

    def _document(self, row: Row, record: dict[str, Any]) -> tuple[Document, Codes]:
        code = record.get("code")
        try:
            if not isinstance(code, str):
                raise DocumentError("code", "is missing; every line of an export has one")
            packed = code_from_hex(code, self.header.n_bits)
            if record.get("text") is not None or record.get("vector") is not None:
                record = {name: value for name, value in record.items() if name != "code"}
            return parse_document(record), packed
        except ValueError as error:
            raise self._error(row, str(error)) from None

    def _is_annotation(self, row: Row, record: dict[str, Any]) -> bool:
        """Read a line of what a person said, if it is one."""
        try:
            if LABELLED in record:
                self.labels.append(parse_label(record[LABELLED]))
            elif JUDGED in record:
                self.judgements.append(parse_judgement(record[JUDGED]))
            else:
                return False
        except InputError as error:
            raise self._error(row, str(error)) from None
        return True

    def _error(self, row: Row, reason: str) -> ReadError:
        return ReadError(str(BadLine(self._source, row.line, reason)))


def _parse_header(record: dict[str, Any]) -> Header:
    header = Header(
        name=record["name"],
        n_bits=record["n_bits"],
        encoder=record["encoder"],
        encoder_fingerprint=record["encoder_fingerprint"],
        engine=record.get("engine", AUTO),
        documents=record["documents"],
        ranking=record.get("ranking", HAMMING),
        indexed_fields=_parse_fields(record.get("indexed_fields", [])),
        keep_vectors=record.get("keep_vectors", FLOAT32),
        field_types=parse_field_types(record.get("field_types", {})),
    )
    strings = (header.name, header.encoder or "", header.encoder_fingerprint or "")
    numbers = (header.n_bits, header.documents)
    if not all(isinstance(one, str) for one in strings):
        raise TypeError("name, encoder and encoder_fingerprint must be strings")
    if not all(isinstance(one, int) for one in numbers):
        raise TypeError("n_bits and documents must be whole numbers")
    if header.engine not in ENGINES:
        raise TypeError(f"engine must be one of {', '.join(ENGINES)}")
    if header.ranking not in RANKINGS:
        raise TypeError(f"ranking must be one of {', '.join(RANKINGS)}")
    if header.keep_vectors not in FORMS:
        raise TypeError(f"keep_vectors must be one of {', '.join(FORMS)}")
    return header


def _parse_fields(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise TypeError("indexed_fields must be a list")
    try:
        return check_indexed_fields(value)
    except InputError as error:
        raise TypeError(str(error)) from None


def _record(document: StoredDocument) -> dict[str, Any]:
    record: dict[str, Any] = {"id": document.id}
    if document.text is not None:
        record["text"] = document.text
    if document.vector is not None:
        record["vector"] = document.vector.tolist()
    return {**record, "payload": document.payload, "code": document.code}


def _write_line(stream: BinaryIO, record: dict[str, Any]) -> None:
    stream.write(json.dumps(record, ensure_ascii=False, allow_nan=False).encode() + b"\n")
