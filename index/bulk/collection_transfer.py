"""Exports and imports of collections; the codes stay the same."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext, suppress
from functools import partial
from typing import BinaryIO

import numpy as np

from foundation.errors import InputError, counted
from index.annotations.annotation_records import DocumentLabel, Judgement
from index.backend import CollectionBackend
from index.bulk.export_format import Export, Header, write_export
from index.bulk.ingest import COMMIT_SIZE, IngestReport
from index.collection import Collection
from index.document_pages import pages_of
from index.encoded_inputs import batches
from index.errors import EncoderMismatch, UnknownCollection
from index.folder.protocol import Folder
from index.schema import AUTO


def export_collection(
    collection: CollectionBackend,
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
    with (
        collection.store.read_transaction() if isinstance(collection, Collection) else nullcontext()
    ):
        header = Header(
            name=collection.name,
            n_bits=collection.n_bits,
            encoder=collection.encoder_name,
            encoder_fingerprint=collection.encoder_fingerprint,
            engine=collection.engine_setting,
            documents=len(collection),
            ranking=collection.ranking,
            indexed_fields=collection.indexed_fields,
            keep_vectors=collection.keep_vectors,
            field_types=collection.field_types,
        )
        return write_export(
            header, pages_of(collection), stream, progress, _annotations(collection)
        )


def collection_for(folder: Folder, name: str, header: Header) -> CollectionBackend:
    """Return the collection to import into; a missing one is created like the exported one.

    It gets the same engine, ranking and form of vectors if collections of the folder support these.

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
        engine = _engine_for(folder, header)
        create = partial(
            folder.create_collection, name, encoder=encoder, n_bits=n_bits, engine=engine
        )
        try:
            created = create(keep_vectors=header.keep_vectors)
        except InputError as error:
            if error.field != "keep_vectors":
                raise
            created = create()  # on Milvus
        with suppress(InputError):  # Milvus ranks by one only
            created.set_ranking(header.ranking)
        with suppress(InputError):  # nor does it take indexes of fields
            created.set_indexed_fields(header.indexed_fields)
        created.remember_field_types(header.field_types)
        return created
    check_same_encoder(header, name, collection.n_bits, collection.encoder_fingerprint)
    return collection


def check_same_encoder(header: Header, name: str, n_bits: int, fingerprint: str | None) -> None:
    """Raise EncoderMismatch unless the codes of an export fit the collection `name`."""
    if (n_bits, fingerprint) != (header.n_bits, header.encoder_fingerprint):
        message = (
            f"the export is of {header.n_bits} bits, encoder fingerprint"
            f" {header.encoder_fingerprint}; collection {name!r} of {n_bits} bits, {fingerprint}"
        )
        raise EncoderMismatch(message)


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
    collection: CollectionBackend,
    export: Export,
    progress: Callable[[int], object] | None = None,
) -> IngestReport:
    """Write the documents of an export to `collection`, in batches, with their codes.

    Labels and judgements follow the documents. Unchanged documents are skipped, so to resume an
    import, run it again.

    Raises:
        ReadError: if the export cannot be read. Earlier batches stay.
        StoreError: if the collection cannot be written.
        InputError: if the export has labels and the collection cannot. The documents stay.
    """
    began = time.perf_counter()
    read = written = 0
    for batch in batches(export.documents(), COMMIT_SIZE):
        changed = {one.id for one in collection.new_or_changed([document for document, _ in batch])}
        new_pairs = {
            document.id: (document, code) for document, code in batch if document.id in changed
        }
        if new_pairs:
            documents = [document for document, _ in new_pairs.values()]
            codes = np.stack([code for _, code in new_pairs.values()])
            written += collection.upsert_encoded(documents, codes).upserted
        read += len(batch)
        if progress is not None:
            progress(len(batch))
    import_annotations(collection, export)
    seconds = time.perf_counter() - began
    return IngestReport(read, read - written, seconds, collection.generation)


def import_annotations(collection: CollectionBackend, export: Export) -> None:
    """Write the labels and judgements of an export after all its documents were read.

    Raises:
        StoreError: if the collection cannot be written.
        InputError: if there are any and the collection is on Milvus.
    """
    if not export.labels and not export.judgements:
        return
    if not isinstance(collection, Collection):
        labels = counted(len(export.labels), "label")
        judgements = counted(len(export.judgements), "judgement")
        records = f"{labels} and {judgements}"
        message = f"{collection.name!r} is on Milvus and cannot keep the export's {records}"
        raise InputError("collection", f"{message}; its documents were imported")
    collection.annotations.set_labels(export.labels)
    collection.annotations.set_judgements(export.judgements)


def _annotations(collection: CollectionBackend) -> Iterator[DocumentLabel | Judgement]:
    if isinstance(collection, Collection):
        yield from collection.annotations.labels()
        yield from collection.annotations.judgements()


def _encoder_for(folder: Folder, header: Header) -> str | None:
    names = sorted(folder.encoders.names(), key=lambda name: name != header.encoder)
    return encoder_of_export(
        header, ((name, folder.encoders.load(name).fingerprint) for name in names)
    )


def _engine_for(folder: Folder, header: Header) -> str:
    try:
        folder.check_engine(header.engine, header.n_bits)
    except InputError:
        return AUTO
    return header.engine
