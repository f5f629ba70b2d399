"""A collection as JSON lines, codes included, to back it up or to move it.

::

    {"format": "hummingbit export", "version": 1, "name": ..., "n_bits": ..., "encoder": ...,
     "encoder_fingerprint": ..., "engine": ..., "documents": ...}
    {"id": ..., "text": ..., "payload": {...}, "code": "00ff..."}
    ...
    {"end": true, "documents": ...}

A document has a text, a vector or neither beside its code, and keeps its place in the order of
rows. Nothing is encoded again on the way back, so the codes are the same to the bit. The last line
tells a whole export from one that was cut short.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass
from typing import Any, BinaryIO

import numpy as np

from corpus.document import Document, DocumentError, parse_document
from corpus.lines import read_json_lines
from corpus.rows import BadLine, ReadError, Row
from encoder.codes import Codes, code_from_hex
from index.backend import CollectionBackend, Folder
from index.bulk.ingest import COMMIT_SIZE, IngestReport
from index.collection import Collection
from index.engines.choice import ENGINES
from index.errors import EncoderMismatch, InputError, UnknownCollection
from index.inputs import batches
from index.rankings.protocol import HAMMING, RANKINGS
from index.records import StoredDocument
from index.schema import AUTO

FORMAT = "hummingbit export"
VERSION = 1
PAGE = 1000


@dataclass(frozen=True, slots=True)
class Header:
    """What an export says of the collection that it is of."""

    name: str
    n_bits: int
    encoder: str | None
    encoder_fingerprint: str | None
    engine: str
    """What it was to be searched by; exports had none before collections could ask for one."""
    documents: int
    ranking: str = HAMMING
    """What ordered the hits of searches that named no ranking."""


def export_collection(
    collection: CollectionBackend,
    stream: BinaryIO,
    progress: Callable[[int], object] | None = None,
) -> int:
    """Write every document to `stream`, page by page, and return how many there were.

    It is as of one moment where the collection lies in this folder.

    Raises:
        StoreError: if a document cannot be read, or is not what was written.
        OSError: if the stream cannot be written.
    """
    with collection.one_moment() if isinstance(collection, Collection) else nullcontext():
        header = Header(
            name=collection.name,
            n_bits=collection.n_bits,
            encoder=collection.encoder_name,
            encoder_fingerprint=collection.encoder_fingerprint,
            engine=collection.engine_setting,
            documents=len(collection),
            ranking=collection.ranking,
        )
        return write_export(header, _pages(collection), stream, progress)


def write_export(
    header: Header,
    pages: Iterable[Sequence[StoredDocument]],
    stream: BinaryIO,
    progress: Callable[[int], object] | None = None,
) -> int:
    """Write the documents of `pages` to `stream` and return how many there were.

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
    _write_line(stream, {"end": True, "documents": written})
    return written


class Export:
    """An export that is read: its header at once, its documents one by one."""

    def __init__(self, stream: BinaryIO, source: str) -> None:
        """Read the header of `stream`; `source` is its name in errors.

        Raises:
            ReadError: if it is no export, or of a later version.
        """
        self._rows = read_json_lines(stream, source)
        self._source = source
        self.header = self._read_header()

    def documents(self) -> Iterator[tuple[Document, Codes]]:
        """Yield each document and its code, ``uint8[n_bits / 8]``.

        Raises:
            ReadError: at a line that is no document, or if the export was cut short.
        """
        count = 0
        for row in self._rows:
            record = self._record_of(row)
            if "end" in record:
                if record.get("documents") != count:
                    reason = f"says that {record.get('documents')} documents precede; {count} do"
                    raise self._bad(row, reason)
                return
            count += 1
            yield self._document(row, record)
        raise ReadError(f"{self._source}: is cut short after {count:,} documents")

    def _read_header(self) -> Header:
        for row in self._rows:
            record = self._record_of(row)
            if record.get("format") != FORMAT:
                raise self._bad(row, f"is not the head of an export; its format is not {FORMAT!r}")
            if record.get("version") != VERSION:
                message = (
                    f"is of version {record.get('version')!a}; this hummingbit reads {VERSION}"
                )
                raise self._bad(row, message)
            try:
                return _parse_header(record)
            except (KeyError, TypeError) as error:
                raise self._bad(row, f"is not a whole head of an export: {error}") from None
        raise ReadError(f"{self._source}: is empty")

    def _record_of(self, row: Row) -> dict[str, Any]:
        if row.reason is not None:
            raise self._bad(row, row.reason)
        if not isinstance(row.record, dict):
            raise self._bad(row, "must be an object")
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
            raise self._bad(row, str(error)) from None

    def _bad(self, row: Row, reason: str) -> ReadError:
        return ReadError(str(BadLine(self._source, row.line, reason)))


def collection_for(folder: Folder, name: str, header: Header) -> CollectionBackend:
    """Return the collection to import into; it is made like the one exported if there is none.

    It is then searched by the same engine and ranked by the same ranking, where collections of the
    folder can be.

    Raises:
        EncoderMismatch: if no encoder of the folder has the fingerprint of the one that made the
            codes, or the collection has another encoder or length of codes.
        InputError: if the name cannot be.
        StoreError: if it cannot be made.
    """
    try:
        collection = folder.collection(name)
    except UnknownCollection:
        encoder = _encoder_for(folder, header)
        n_bits = header.n_bits if encoder is None else None
        engine = _engine_for(folder, header)
        created = folder.create_collection(name, encoder=encoder, n_bits=n_bits, engine=engine)
        with suppress(InputError):  # Milvus ranks by one only
            created.set_ranking(header.ranking)
        return created
    check_same_encoder(header, name, collection.n_bits, collection.encoder_fingerprint)
    return collection


def check_same_encoder(header: Header, name: str, n_bits: int, fingerprint: str | None) -> None:
    """Raise EncoderMismatch unless collection `name` takes the codes of an export."""
    if (n_bits, fingerprint) != (header.n_bits, header.encoder_fingerprint):
        message = (
            f"the export is of {header.n_bits} bits, encoder fingerprint"
            f" {header.encoder_fingerprint}; collection {name!a} of {n_bits} bits, {fingerprint}"
        )
        raise EncoderMismatch(message)


def encoder_of_export(header: Header, known: Iterable[tuple[str, str]]) -> str | None:
    """Return the name of the encoder that made the codes; None where the documents brought them.

    `known` are names and fingerprints of encoders.

    Raises:
        EncoderMismatch: if it is none of them.
    """
    if header.encoder_fingerprint is None:
        return None
    for name, fingerprint in known:
        if fingerprint == header.encoder_fingerprint:
            return name
    wanted = f"{header.encoder!a} of fingerprint {header.encoder_fingerprint}"
    raise EncoderMismatch(f"the codes were made by encoder {wanted}; there is none of that")


def import_documents(
    collection: CollectionBackend,
    export: Export,
    progress: Callable[[int], object] | None = None,
) -> IngestReport:
    """Write the documents of an export to `collection`, in batches, with the codes they have.

    Documents that are there just as they are given are passed over, so that an import that was
    interrupted goes on where it was.

    Raises:
        ReadError: if the export cannot be read. The batches before stay.
        StoreError: if the collection cannot be written.
    """
    began = time.perf_counter()
    read = written = 0
    for batch in batches(export.documents(), COMMIT_SIZE):
        changed = {one.id for one in collection.changed([document for document, _ in batch])}
        kept = {document.id: (document, code) for document, code in batch if document.id in changed}
        if kept:
            documents = [document for document, _ in kept.values()]
            codes = np.stack([code for _, code in kept.values()])
            written += collection.upsert_encoded(documents, codes).upserted
        read += len(batch)
        if progress is not None:
            progress(len(batch))
    seconds = time.perf_counter() - began
    return IngestReport(read, read - written, seconds, collection.generation)


def _encoder_for(folder: Folder, header: Header) -> str | None:
    names = sorted(folder.encoders.names(), key=lambda name: name != header.encoder)
    return encoder_of_export(
        header, ((name, folder.encoders.load(name).fingerprint) for name in names)
    )


def _pages(collection: CollectionBackend) -> Iterator[list[StoredDocument]]:
    page = collection.scroll(PAGE)
    yield page.documents
    while page.next_cursor is not None:
        page = collection.scroll(PAGE, page.next_cursor)
        yield page.documents


def _engine_for(folder: Folder, header: Header) -> str:
    try:
        folder.check_engine(header.engine, header.n_bits)
    except InputError:
        return AUTO
    return header.engine


def _parse_header(record: dict[str, Any]) -> Header:
    header = Header(
        name=record["name"],
        n_bits=record["n_bits"],
        encoder=record["encoder"],
        encoder_fingerprint=record["encoder_fingerprint"],
        engine=record.get("engine", AUTO),
        documents=record["documents"],
        ranking=record.get("ranking", HAMMING),
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
