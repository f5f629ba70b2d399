"""Exports collections of a service, and imports into them.

:mod:`index.bulk.collection_transfer` does the same for collections in this process.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from corpus.document import Document
from encoder.codes import Codes, code_to_hex
from evaluation.labelling.exchange import write_records
from hummingbit.clients import responses
from hummingbit.clients.labels.label_responses import JudgementPage, LabelPage
from hummingbit.clients.responses import DocumentPage, Ranking
from hummingbit.clients.transport import ServiceError
from index.annotations.annotation_records import (
    DocumentLabel,
    Judgement,
    parse_judgement,
    parse_label,
)
from index.bulk.collection_transfer import check_same_encoder, encoder_of_export
from index.bulk.export_format import Export, Header
from index.kept_vectors import FLOAT32
from index.rankings.protocol import HAMMING
from index.records import StoredDocument

if TYPE_CHECKING:
    from hummingbit.clients.client import Client

Page = TypeVar("Page", DocumentPage, LabelPage, JudgementPage)

# A page is a single response, and documents may be large.
PAGE = 200
# Labels are small.
RECORDS = 1000


def header_of(client: Client, name: str) -> Header:
    """Return the header of an export of a service's collection; `name` may be an alias.

    Raises:
        ServiceError: if it does not exist, or the service refuses.
    """
    summary = summary_of(client, name)
    encoder = summary["encoder"]
    return Header(
        name=summary["name"],
        n_bits=summary["n_bits"],
        encoder=None if encoder is None else encoder["name"],
        encoder_fingerprint=None if encoder is None else encoder["fingerprint"],
        engine=summary["engine_setting"],
        documents=summary["documents"],
        ranking=summary["ranking"],
        indexed_fields=tuple(summary["indexed_fields"]),
        keep_vectors=summary.get("keep_vectors", FLOAT32),
    )


def summary_of(client: Client, name: str) -> responses.CollectionSummary:
    """Return a service's summary of a collection, without statistics; `name` may be an alias.

    Raises:
        ServiceError: if it does not exist, or the service refuses.
    """
    collection = client.aliases().get(name, name)
    for summary in client.collections()["collections"]:
        if summary["name"] == collection:
            return summary
    return client.collection(name)  # raises an error that says why there is none


def pages_of(client: Client, header: Header) -> Iterator[list[StoredDocument]]:
    """Yield the documents of a collection in pages, in order.

    Documents that are added meanwhile are left out, and so are those deleted before their page is
    read.
    """
    for page in all_pages(partial(client.scroll, header.name, limit=PAGE)):
        yield [*map(_to_document, page["documents"])]


def all_pages(get_page: Callable[..., Page]) -> Iterator[Page]:
    """Yield every page of a list; `get_page` is a client's method that takes a `cursor`."""
    cursor: str | None = None
    while True:
        page = get_page(cursor=cursor)
        yield page
        cursor = page["next_cursor"]
        if cursor is None:
            return


def annotations_of(client: Client, name: str) -> Iterator[DocumentLabel | Judgement]:
    """Yield the labels and judgements of a collection; a service on Milvus has none."""
    labels = all_pages(partial(client.labels, name, limit=RECORDS))
    try:
        first = next(labels)
    except ServiceError as error:
        if error.code == "invalid_request":
            return
        raise
    for page in itertools.chain([first], labels):
        yield from map(parse_label, page["labels"])
    for judgement_page in all_pages(partial(client.judgements, name, limit=RECORDS)):
        yield from map(parse_judgement, judgement_page["judgements"])


def send_annotations(client: Client, name: str, export: Export) -> None:
    """Send the labels and judgements of an export, after all of its documents have been read.

    Raises:
        ServiceError: if the service refuses.
    """
    lines = [
        *write_records([*export.labels, *export.judgements]),
    ]
    for start in range(0, len(lines), RECORDS):
        content = "\n".join(lines[start : start + RECORDS]).encode()
        client.import_labels(name, content)


def create_collection_for(client: Client, name: str, header: Header) -> bool:
    """Check that a collection or alias takes the codes of an export, or create the collection.

    A new collection is like the exported one. It has the same search engine and indexed fields if
    the service supports them. Return whether it was created.

    Raises:
        EncoderMismatch: if the service does not have the encoder that made the codes, or the
            collection has another.
        ServiceError: if the service refuses.
    """
    try:
        existing = header_of(client, name)
    except ServiceError as error:
        if error.code != "unknown_collection":
            raise
    else:
        check_same_encoder(header, name, existing.n_bits, existing.encoder_fingerprint)
        return False
    encoders = [(one["name"], one["fingerprint"]) for one in client.encoders()["encoders"]]
    encoders.sort(key=lambda encoder: encoder[0] != header.encoder)
    encoder = encoder_of_export(header, encoders)
    n_bits = header.n_bits if encoder is None else None
    settings: dict[str, Any] = {"engine": header.engine, "indexed_fields": header.indexed_fields}
    if header.keep_vectors != FLOAT32:
        settings["keep_vectors"] = header.keep_vectors
    while True:
        try:
            client.create_collection(name, encoder=encoder, n_bits=n_bits, **settings)
            break
        except ServiceError as error:
            refused = {one["pointer"].removeprefix("/") for one in error.errors}
            if not refused or not refused <= settings.keys():
                raise
            settings = {field: settings[field] for field in settings.keys() - refused}
    if header.ranking != HAMMING:
        client.update_collection(name, ranking=cast(Ranking, header.ranking))
    return True


def record_of(document: Document) -> dict[str, Any]:
    """Return a document in the form that the service takes."""
    parts = {"text": document.text, "vector": document.vector, "code": document.code}
    content = {name: value for name, value in parts.items() if value is not None}
    return {"id": document.id, **content, "payload": document.payload_with_labels}


def exported_record(document: Document, code: Codes) -> dict[str, Any]:
    """Return a document of an export, with its code, in the form that a bulk request takes."""
    return {**record_of(document), "code": code_to_hex(code)}


def _to_document(document: responses.StoredDocument) -> StoredDocument:
    vector = document["vector"]
    return StoredDocument(
        id=document["id"],
        row=0,
        code=document["code"],
        text=document["text"],
        vector=None if vector is None else np.array(vector, dtype=np.float32),
        payload=document["payload"],
    )
