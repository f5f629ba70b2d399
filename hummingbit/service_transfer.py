"""Exports of a service's collections, and imports into them, as in a data folder.

:mod:`index.bulk.collection_transfer` does the same for collections in this process.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from corpus.document import Document
from encoder.codes import Codes, code_to_hex
from hummingbit.clients import responses
from hummingbit.clients.labels.label_responses import JudgementPage, LabelPage
from hummingbit.clients.responses import DocumentPage, Ranking
from hummingbit.clients.transport import ServiceError
from index.annotations.annotation_records import (
    DocumentLabel,
    Judgement,
    judgement_to_json,
    label_to_json,
    parse_judgement,
    parse_label,
)
from index.bulk.collection_transfer import check_same_encoder, encoder_of_export
from index.bulk.export_format import Export, Header
from index.rankings.protocol import HAMMING
from index.records import StoredDocument

if TYPE_CHECKING:
    from hummingbit.clients.client import Client

Page = TypeVar("Page", DocumentPage, LabelPage, JudgementPage)

# Documents may be large, and a page of them is one answer.
PAGE = 200
# Labels are small.
RECORDS = 1000


def header_of(client: Client, name: str) -> Header:
    """Return the head of an export of a service's collection, or of what an alias means.

    Raises:
        ServiceError: if there is none of that name, or the service refuses.
    """
    found = summary_of(client, name)
    encoder = found["encoder"]
    return Header(
        name=found["name"],
        n_bits=found["n_bits"],
        encoder=None if encoder is None else encoder["name"],
        encoder_fingerprint=None if encoder is None else encoder["fingerprint"],
        engine=found["engine_setting"],
        documents=found["documents"],
        ranking=found["ranking"],
        indexed_fields=tuple(found["indexed_fields"]),
    )


def summary_of(client: Client, name: str) -> responses.CollectionSummary:
    """Return what a service says of a collection, or of what an alias means, without statistics.

    Raises:
        ServiceError: if there is none of that name, or the service refuses.
    """
    meant = client.aliases().get(name, name)
    for one in client.collections()["collections"]:
        if one["name"] == meant:
            return one
    return client.collection(name)  # which says why there is none


def pages_of(client: Client, header: Header) -> Iterator[list[StoredDocument]]:
    """Yield the documents of a collection in their order.

    What is added meanwhile is left out, and so is what is deleted before its page is read.
    """
    for page in all_pages(partial(client.scroll, header.name, limit=PAGE)):
        yield [*map(_stored, page["documents"])]


def all_pages(ask: Callable[..., Page]) -> Iterator[Page]:
    """Yield every page of a list that `ask`, a method of a client, gives from a `cursor` on."""
    cursor: str | None = None
    while True:
        page = ask(cursor=cursor)
        yield page
        cursor = page["next_cursor"]
        if cursor is None:
            return


def annotations_of(client: Client, name: str) -> Iterator[DocumentLabel | Judgement]:
    """Yield what people said of the documents of a collection; a service on Milvus has none."""
    labels = all_pages(partial(client.labels, name, limit=RECORDS))
    try:
        first = next(labels)
    except ServiceError as error:
        if error.code == "invalid_request":
            return
        raise
    for page in itertools.chain([first], labels):
        yield from map(parse_label, page["labels"])
    for judged in all_pages(partial(client.judgements, name, limit=RECORDS)):
        yield from map(parse_judgement, judged["judgements"])


def send_annotations(client: Client, name: str, export: Export) -> None:
    """Write the labels and judgements of an export whose documents were all read.

    Raises:
        ServiceError: if the service refuses.
    """
    lines = [
        *(json.dumps(label_to_json(one)) for one in export.labels),
        *(json.dumps(judgement_to_json(one)) for one in export.judgements),
    ]
    for start in range(0, len(lines), RECORDS):
        content = "\n".join(lines[start : start + RECORDS]).encode()
        client.import_labels(name, content)


def create_collection_for(client: Client, name: str, header: Header) -> bool:
    """See to it that there is a collection, or an alias of one, that takes the codes of an export.

    If there is none, it is made like the one exported, and searched by the same engine and with the
    same indexed fields where collections of the service can be. Return whether it was made.

    Raises:
        EncoderMismatch: if the service has not the encoder that made the codes, or the collection
            is of another.
        ServiceError: if the service refuses.
    """
    try:
        there = header_of(client, name)
    except ServiceError as error:
        if error.code != "unknown_collection":
            raise
    else:
        check_same_encoder(header, name, there.n_bits, there.encoder_fingerprint)
        return False
    known = [(one["name"], one["fingerprint"]) for one in client.encoders()["encoders"]]
    known.sort(key=lambda one: one[0] != header.encoder)
    encoder = encoder_of_export(header, known)
    n_bits = header.n_bits if encoder is None else None
    likeness: dict[str, Any] = {"engine": header.engine, "indexed_fields": header.indexed_fields}
    while True:
        try:
            client.create_collection(name, encoder=encoder, n_bits=n_bits, **likeness)
            break
        except ServiceError as error:
            refused = {one["pointer"].removeprefix("/") for one in error.errors}
            if not refused or not refused <= likeness.keys():
                raise
            likeness = {field: likeness[field] for field in likeness.keys() - refused}
    if header.ranking != HAMMING:
        client.update_collection(name, ranking=cast(Ranking, header.ranking))
    return True


def record_of(document: Document) -> dict[str, Any]:
    """Return a document as the service takes it."""
    content = {"text": document.text, "vector": document.vector, "code": document.code}
    given = {name: value for name, value in content.items() if value is not None}
    return {"id": document.id, **given, "payload": document.payload_with_labels}


def exported_record(document: Document, code: Codes) -> dict[str, Any]:
    """Return a document of an export as a bulk request takes it, beside its code."""
    return {**record_of(document), "code": code_to_hex(code)}


def _stored(document: responses.StoredDocument) -> StoredDocument:
    vector = document["vector"]
    return StoredDocument(
        id=document["id"],
        row=0,
        code=document["code"],
        text=document["text"],
        vector=None if vector is None else np.array(vector, dtype=np.float32),
        payload=document["payload"],
    )
