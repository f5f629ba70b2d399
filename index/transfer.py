"""Exports and imports of collections, and of the points of other stores; codes stay the same."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, Protocol

import numpy as np

from hummingbit.corpus.document import Document, DocumentError, parse_document
from hummingbit.corpus.field_types import FieldType
from hummingbit.corpus.json_rows import EXPORT, read_json_lines
from hummingbit.corpus.layout import Layout
from hummingbit.corpus.lines import BadLine, ReadError, Row
from hummingbit.corpus.stores import MIN_VECTOR_LENGTH, Point, read_milvus, read_qdrant, read_txtai
from hummingbit.encoder.codes import code_from_hex, code_to_hex, codes_of_vectors
from hummingbit.encoder.limits import MAX_HYBRID_WEIGHT, MIN_HYBRID_WEIGHT, CodeError, Packing
from hummingbit.foundation.errors import InputError, counted
from hummingbit.index.backend import AnyCollection
from hummingbit.index.collection import Collection, pages_of
from hummingbit.index.errors import EncoderMismatch, UnknownCollection
from hummingbit.index.filters import check_indexed_fields
from hummingbit.index.languages import stemmers
from hummingbit.index.names import AUTO, FLOAT32, FORMS, HAMMING, INDEX_TYPES, VectorType
from hummingbit.index.names import NONE as NO_STEMS
from hummingbit.index.passages import Passages
from hummingbit.index.rankings import RANKINGS
from hummingbit.index.records import IngestReport, StoredDocument
from hummingbit.index.schema import engine_of, parse_field_types
from hummingbit.index.store.annotations import (
    DocumentLabel,
    Judgement,
    judgement_to_json,
    label_to_json,
    parse_judgement,
    parse_label,
)

if TYPE_CHECKING:
    from hummingbit.index.data_folder import DataFolder

# A collection as JSON lines, codes included, to back it up or to move it.
#
# ::
#
#     {"format": "hummingbit export", "version": 1, "name": ..., "n_bits": ..., "encoder": ...,
#      "encoder_fingerprint": ..., "engine": ..., "documents": ..., "ranking": ...,
#      "hybrid_weight": ..., "indexed_fields": [...], "keep_vectors": ..., "passages": ...,
#      "field_types": {...}}
#     {"id": ..., "text": ..., "payload": {...}, "code": "00ff..."}
#     ...
#     {"labelled": {"id": ..., "labels": [...], "grade": 1, "who": ..., "when": ...}}
#     {"judged": {"query": ..., "id": ..., "grade": 1, "who": ..., "when": ...}}
#     ...
#     {"end": true, "documents": ...}
#
# A document has a code, and a text, a vector, both or neither; documents are in the order of rows.
# Labels and judgements follow them. An import encodes nothing again, so the codes stay the same.
# The last line distinguishes a complete export from one that was cut short.


FORMAT = EXPORT
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
    ranking: str | None = HAMMING
    """What ordered the hits of searches that named no ranking; None is that of a new collection."""
    hybrid_weight: float | None = None
    """The weight of codes beside words; None is the encoder's."""
    indexed_fields: tuple[str, ...] = ()
    """The indexed fields of payloads."""
    keep_vectors: str = FLOAT32
    """The form in which vectors were kept; see :mod:`hummingbit.index.kept_vectors`."""
    passages: Passages | None = None
    """How texts were split into passages."""
    field_types: Mapping[str, FieldType] = field(default_factory=dict)
    """The types of payload fields that tables decided."""
    language: str | None = None
    """The language of the texts for searches by words; None if it is to be found."""


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
    passages = {"passages": None if header.passages is None else header.passages.json}
    _write_line(stream, {"format": FORMAT, "version": VERSION, **asdict(header), **passages})
    written = 0
    for page in pages:
        for document in page:
            _write_line(stream, _record(document))
        written += len(page)
        if progress is not None:
            progress(len(page))
    for annotation in annotations:
        if isinstance(annotation, DocumentLabel):
            _write_line(stream, {LABELLED: label_to_json(annotation)})
        else:
            _write_line(stream, {JUDGED: judgement_to_json(annotation)})
    _write_line(stream, {"end": True, "documents": written})
    return written


class Exported(Protocol):
    """A collection to import."""

    @property
    def header(self) -> Header:
        """The description of the collection."""

    @property
    def labels(self) -> Sequence[DocumentLabel]:
        """The labels, complete once all documents were read."""

    @property
    def judgements(self) -> Sequence[Judgement]:
        """The judgements, complete once all documents were read."""

    def documents(self) -> Iterator[Document]:
        """Yield each document with its code."""


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

    def documents(self) -> Iterator[Document]:
        """Yield each document with its code.

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
            except (KeyError, TypeError, InputError) as error:
                raise self._error(row, f"is not a whole head of an export: {error}") from None
        raise ReadError(f"{self._source}: is empty")

    def _record_of(self, row: Row) -> dict[str, Any]:
        if row.reason is not None:
            raise self._error(row, row.reason)
        if not isinstance(row.record, dict):
            raise self._error(row, "must be an object")
        return row.record

    def _document(self, row: Row, record: dict[str, Any]) -> Document:
        code = record.get("code")
        try:
            if not isinstance(code, str):
                raise DocumentError("code", "is missing; every line of an export has one")
            code_from_hex(code, self.header.n_bits)
            return parse_document({**record, "code": code or None})
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
        return _error(self._source, row.line, reason)


def _error(source: str, line: int, reason: str) -> ReadError:
    return ReadError(str(BadLine(source, line, reason)))


def _parse_header(record: dict[str, Any]) -> Header:
    indexed = record.get("indexed_fields", [])
    if not isinstance(indexed, list):
        raise TypeError("indexed_fields must be a list")
    header = Header(
        name=record["name"],
        n_bits=record["n_bits"],
        encoder=record["encoder"],
        encoder_fingerprint=record["encoder_fingerprint"],
        engine=engine_of(str(record.get("engine", AUTO))),
        documents=record["documents"],
        ranking=record.get("ranking", HAMMING),
        hybrid_weight=record.get("hybrid_weight"),
        indexed_fields=check_indexed_fields(indexed),
        keep_vectors=record.get("keep_vectors", FLOAT32),
        passages=Passages.of(record.get("passages")),
        field_types=parse_field_types(record.get("field_types", {})),
        language=record.get("language"),
    )
    strings = (header.name, header.encoder or "", header.encoder_fingerprint or "")
    weight = header.hybrid_weight
    is_weight = isinstance(weight, int | float) and not isinstance(weight, bool)
    bounds = f"{MIN_HYBRID_WEIGHT:g} to {MAX_HYBRID_WEIGHT:g}"
    rules = {
        "name, encoder and encoder_fingerprint must be strings": all(
            isinstance(value, str) for value in strings
        ),
        "n_bits and documents must be whole numbers": isinstance(header.n_bits, int)
        and isinstance(header.documents, int),
        f"engine must be one of {', '.join(INDEX_TYPES)}": header.engine in INDEX_TYPES,
        f"hybrid_weight must be null or from {bounds}": weight is None
        or (is_weight and MIN_HYBRID_WEIGHT <= weight <= MAX_HYBRID_WEIGHT),
        f"ranking must be one of {', '.join(RANKINGS)}": header.ranking in {None, *RANKINGS},
        "language must be one that this hummingbit has stems for, none or null": header.language
        in {None, NO_STEMS, *stemmers()},
        f"keep_vectors must be one of {', '.join(FORMS)}": header.keep_vectors in FORMS,
    }
    for rule, is_met in rules.items():
        if not is_met:
            raise TypeError(rule)
    return header


def _record(document: StoredDocument) -> dict[str, Any]:
    record: dict[str, Any] = {"id": document.id}
    if document.text is not None:
        record["text"] = document.text
    if document.vector is not None:
        record["vector"] = document.vector.tolist()
    return {**record, "payload": document.payload, "code": document.code}


def _write_line(stream: BinaryIO, record: dict[str, Any]) -> None:
    stream.write(json.dumps(record, ensure_ascii=False, allow_nan=False).encode() + b"\n")


# Exports and imports of collections; the codes stay the same.


def export_collection(
    collection: AnyCollection,
    stream: BinaryIO,
    progress: Callable[[int], object] | None = None,
) -> int:
    """Write every document to `stream`, page by page, and return their number.

    Labels and judgements follow. The export of a collection in the data folder holds exactly one
    generation.

    Raises:
        StoreError: if a document cannot be read or is damaged.
        OSError: if the stream cannot be written.
    """
    with collection.reading():
        header = Header(
            name=collection.name,
            n_bits=collection.n_bits,
            encoder=collection.encoder_name,
            encoder_fingerprint=collection.encoder_fingerprint,
            engine=collection.engine_setting,
            documents=len(collection),
            ranking=collection.ranking,
            hybrid_weight=collection.own_hybrid_weight,
            indexed_fields=collection.indexed_fields,
            keep_vectors=collection.keep_vectors,
            passages=collection.passages,
            field_types=collection.field_types,
            language=collection.language,
        )
        return write_export(
            header, pages_of(collection), stream, progress, _annotations(collection)
        )


def collection_for(folder: DataFolder, name: str, header: Header) -> Collection:
    """Return the collection to import into; a missing one is created like the exported one.

    It gets the same settings.

    Raises:
        EncoderMismatch: if no encoder of the folder has the fingerprint of the one that made the
            codes, or the collection has another encoder or length of codes.
        InputError: if the name is invalid.
        StoreError: if the collection cannot be created.
    """
    try:
        collection = folder.collection(name)
    except UnknownCollection:
        encoder = _encoder_for(folder, header)
        n_bits = header.n_bits if encoder is None else None
        created = folder.create_collection(
            name,
            encoder=encoder,
            n_bits=n_bits,
            engine=header.engine,
            passages=header.passages,
            keep_vectors=header.keep_vectors,
        )
        if header.ranking is not None:
            created.set_ranking(header.ranking)
        if header.hybrid_weight is not None:
            created.set_hybrid_weight(header.hybrid_weight)
        created.set_indexed_fields(header.indexed_fields)
        if header.language is not None:
            created.set_language(header.language)
        created.remember_field_types(header.field_types)
        return created
    check_same_encoder(header, name, collection.n_bits, collection.encoder_fingerprint)
    return collection


def check_same_encoder(header: Header, name: str, n_bits: int, fingerprint: str | None) -> None:
    """Raise EncoderMismatch unless the codes of an export fit the collection `name`."""
    if (n_bits, fingerprint) != (header.n_bits, header.encoder_fingerprint):
        raise EncoderMismatch(
            f"the export is of {header.n_bits} bits, encoder fingerprint"
            f" {header.encoder_fingerprint}; collection {name!r} of {n_bits} bits, {fingerprint}"
        )


def encoder_of_export(header: Header, known: Iterable[tuple[str, str]]) -> str | None:
    """Return the name of the encoder that made the codes; None if there was no encoder.

    `known` are names and fingerprints of encoders.

    Raises:
        EncoderMismatch: if none of them has the right fingerprint.
    """
    if header.encoder_fingerprint is None:
        return None
    for name, fingerprint in known:
        if fingerprint == header.encoder_fingerprint:
            return name
    encoder = f"{header.encoder!r} of fingerprint {header.encoder_fingerprint}"
    raise EncoderMismatch(f"the codes were made by encoder {encoder}; there is no such encoder")


def import_documents(
    collection: AnyCollection,
    export: Exported,
    progress: Callable[[int], object] | None = None,
    refused: Callable[[str, str], object] | None = None,
) -> IngestReport:
    """Write the documents of an export to `collection`, with their codes, labels and judgements.

    See :meth:`hummingbit.index.backend.AnyCollection.ingest`. If the collection has passages, its
    encoder makes their codes anew. To resume an import, run it again.

    Raises:
        ReadError: if the export cannot be read. Earlier batches stay.
        StoreError: if the collection cannot be written.
    """
    report = collection.ingest(export.documents(), progress=progress, refused=refused)
    import_annotations(collection, export)
    return replace(report, generation=collection.generation)


def import_annotations(collection: AnyCollection, export: Exported) -> None:
    """Write the labels and judgements of an export after all its documents were read.

    Raises:
        StoreError: if the collection cannot be written.
    """
    if not export.labels and not export.judgements:
        return
    collection.annotations.set_labels(export.labels)
    collection.annotations.set_judgements(export.judgements)


def _annotations(collection: AnyCollection) -> Iterator[DocumentLabel | Judgement]:
    yield from collection.annotations.labels()
    yield from collection.annotations.judgements()


def _encoder_for(folder: DataFolder, header: Header) -> str | None:
    names = sorted(folder.encoders.names(), key=lambda name: name != header.encoder)
    return encoder_of_export(
        header, ((name, folder.encoders.load(name).fingerprint) for name in names)
    )


# Reads the points of other vector stores as documents.


_READERS: dict[str, Callable[[Path], Iterator[Point]]] = {
    "milvus": read_milvus,
    "qdrant": read_qdrant,
    "txtai": read_txtai,
}
# The field names of texts in frameworks that write to these stores.
TEXT_FIELDS = ("text", "page_content", "document", "content")


@dataclass(frozen=True, slots=True)
class PointSelection:
    """The part of a point that becomes the content of a document: its text, vector, or a code.

    `vector_field` names the vector if there are several. `vector_type` says which numbers of two
    bytes each its bytes hold. `packing` turns the vector into a code. If `n_bits` is given, only
    the first bits are used, for vectors that were trained for this. If `code_bits` is given, codes
    of another length are refused.
    """

    content: Literal["text", "vector", "code"]
    vector_field: str | None = None
    packing: Packing | None = None
    n_bits: int | None = None
    vector_type: VectorType | None = None
    code_bits: int | None = None


def read_points(
    store: str,
    path: Path,
    layout: Layout,
    selection: PointSelection,
    notice: Callable[[str], object],
    *,
    incomplete: Callable[[str], object] = lambda _: None,
) -> Iterator[Document]:
    """Yield the points of a file or folder that `store`, one of :data:`.STORES`, wrote.

    A point that becomes a vector or a code keeps its text, if it has one, for searches by words.
    Other fields become the payload, except for vectors. If the file says that more points follow,
    `incomplete` is called with a sentence about it.

    Raises:
        ReadError: if a point cannot be read, or has no such content.
    """
    source = str(path)
    points = _points(store, path, incomplete)
    first = next(points, None)
    if first is None:
        raise ReadError(f"{source}: holds no points")
    is_text = selection.content == "text"
    layout = _with_text_field(layout, first, source, notice, required=is_text)
    if not is_text:
        selection = _with_vector_field(selection, first, source)
    row_of = partial(_row, source=source, selection=selection, layout=layout)
    rows = map(row_of, chain([first], points))
    if not is_text:
        layout = replace(layout, text_fields=())  # each row has its text already
    from hummingbit.corpus.readers import documents_of  # noqa: PLC0415 - takes as long as a search

    return documents_of(rows, source, layout, notice, unique_ids=False)


def code_length(store: str, path: Path, selection: PointSelection) -> int:
    """Return the number of bits of the codes that :func:`read_points` reads, by the first point.

    Raises:
        ReadError: as :func:`read_points` does.
    """
    for point in _points(store, path, lambda _: None):
        code = _code(point, _with_vector_field(selection, point, str(path)), str(path))
        return 4 * len(code)
    raise ReadError(f"{path}: holds no points")


def _points(store: str, path: Path, incomplete: Callable[[str], object]) -> Iterator[Point]:
    try:
        yield from read_qdrant(path, incomplete) if store == "qdrant" else _READERS[store](path)
    except OSError as error:
        raise ReadError(f"{path}: {error.strerror or error}") from None


def _with_text_field(
    layout: Layout,
    first: Point,
    source: str,
    notice: Callable[[str], object],
    *,
    required: bool,
) -> Layout:
    if layout.text_fields:
        return layout
    field = next((name for name in TEXT_FIELDS if isinstance(first.fields.get(name), str)), None)
    if field is None:
        if not required:
            return layout
        names = ", ".join(map(repr, first.fields))
        cure = "--text-field names the one that holds the text"
        raise ReadError(f"{source}: its points have the fields {names}; {cure}")
    if field != TEXT_FIELDS[0]:
        notice(f"{source}: the texts are the field {field!r}")
    return replace(layout, text_fields=(field,))


def _with_vector_field(selection: PointSelection, first: Point, source: str) -> PointSelection:
    if selection.vector_field is not None:
        return selection
    if len(first.vectors) != 1:
        names = ", ".join(map(repr, first.vectors)) or "no vector"
        hint = "--vector-field names the one to take"
        if not first.vectors:
            short = f"a list of fewer than {MIN_VECTOR_LENGTH} numbers"
            hint = f"{short} is one if --vector-field names it"
        raise ReadError(f"{source}: its points have {names}; {hint}")
    (field,) = first.vectors
    return replace(selection, vector_field=field)


def _row(point: Point, source: str, selection: PointSelection, layout: Layout) -> Row:
    if selection.content == "text":
        return Row(point.line, point.fields)
    record = {name: value for name, value in point.fields.items() if name != selection.vector_field}
    parts: dict[str, Any] = {}
    layout.move_text(record, parts)
    if "text" in record:  # another field has the text
        record["payload"] = {**(record.get("payload") or {}), "text": record.pop("text")}
    record |= parts
    if selection.content == "vector":
        record["vector"] = _vector(point, selection, source)
    else:
        record["code"] = _code(point, selection, source)
    return Row(point.line, record)


def _vector(point: Point, selection: PointSelection, source: str) -> Any:
    # A short vector may have been read as a list of numbers.
    vector = {**point.fields, **point.vectors}.get(selection.vector_field or "")
    if vector is None:
        names = ", ".join(map(repr, point.vectors)) or "none"
        reason = f"has no vector {selection.vector_field!r}; its vectors: {names}"
        raise _error(source, point.line, reason)
    try:
        return _numbers(vector, point, selection)
    except (TypeError, ValueError, OverflowError) as error:
        raise _error(source, point.line, f"{selection.vector_field}: {error}") from None


def _numbers(vector: Any, point: Point, selection: PointSelection) -> Any:
    """Return the numbers of a vector, whose bytes Milvus writes to Parquet without their type."""
    if selection.vector_type is None:
        if selection.vector_field in point.byte_vectors and selection.packing != "ubinary":
            raise ValueError(
                "holds bytes; a BINARY_VECTOR is read with --codes ubinary, a FLOAT16_VECTOR with"
                " --vector-type float16, and a BFLOAT16_VECTOR with --vector-type bfloat16"
            )
        return vector
    if selection.packing in ("ubinary", "binary"):
        raise ValueError(
            f"--vector-type {selection.vector_type} reads numbers; --codes must be sign for them"
        )
    if len(vector) % 2 or not all(isinstance(value, int | np.integer) for value in vector):
        raise ValueError(
            f"--vector-type {selection.vector_type} needs two bytes for each number; it has"
            f" {counted(len(vector), 'value')}, such as {vector[:1]}"
        )
    raw = bytes(list(vector))
    if selection.vector_type == "float16":
        return np.frombuffer(raw, "<f2").astype(np.float32)
    # A bfloat16 is the upper half of a float32.
    return (np.frombuffer(raw, "<u2").astype("<u4") << 16).view("<f4")


def _code(point: Point, selection: PointSelection, source: str) -> str:
    packing = selection.packing or "sign"
    vector = np.asarray(_vector(point, selection, source))
    try:
        if selection.n_bits is not None:
            length = selection.n_bits if packing == "sign" else selection.n_bits // 8
            if len(vector) < length:
                raise CodeError(
                    "vector", f"has {counted(len(vector), 'number')}; it must have {length}"
                )
            vector = vector[:length]
        code = code_to_hex(codes_of_vectors(vector[None], packing)[0])
        if selection.code_bits not in (None, 4 * len(code)):
            raise CodeError(
                "vector",
                f"has {counted(len(vector), 'number')}, which make a code of {4 * len(code)} bits;"
                f" the codes of the collection have {selection.code_bits}",
            )
    except (CodeError, ValueError) as error:
        raise _error(source, point.line, str(error)) from None
    return code
