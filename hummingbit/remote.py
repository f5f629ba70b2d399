"""Collections of a running service: evaluations, exports and imports."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from hummingbit.clients import responses
from hummingbit.clients.client import Client
from hummingbit.clients.responses import DocumentPage, JudgementPage, LabelPage, Ranking
from hummingbit.clients.transport import ServiceError
from hummingbit.corpus.document import Document
from hummingbit.encoder.codes import Codes, code_to_hex
from hummingbit.evaluation.evaluate import StoredDocuments, evaluate_by_score
from hummingbit.evaluation.labelling.exchange import write_records
from hummingbit.evaluation.rankings import (
    DEPTH,
    QUERIES_AT_ONCE,
    RelevanceSettings,
    list_length,
    parse_ranking,
)
from hummingbit.evaluation.report import Job, ReportError, parse_report
from hummingbit.evaluation.result import Evaluation, EvaluationError
from hummingbit.foundation.slices import begin_stage
from hummingbit.index.kept_vectors import FLOAT32
from hummingbit.index.rankings import HAMMING
from hummingbit.index.records import StoredDocument, labels_of
from hummingbit.index.search import DEFAULT_OVERSAMPLE
from hummingbit.index.store.annotations import (
    DocumentLabel,
    Judgement,
    parse_judgement,
    parse_label,
)
from hummingbit.index.transfer import Export, Header, check_same_encoder, encoder_of_export

# ----------------------------------------------------------------------------
# Exports collections of a service, and imports into them.
#
# :mod:`hummingbit.index.transfer` does the same for collections in this process.


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


# ----------------------------------------------------------------------------
# Evaluations by a running service.


POLL_SECONDS = 0.2
WAIT_SECONDS = 3600.0


def evaluate_remotely(url: str, collection: str, body: Mapping[str, Any]) -> Job:
    """Have the service at `url` evaluate one of its collections, and wait for the report.

    `body` is that of ``POST /v1/collections/{name}/evaluate``.

    Raises:
        ServiceError: if `url` does not begin with http:// or https://, or the service cannot be
            reached, refuses or fails; the message includes what it says.
    """
    with Client(url) as client:
        id_ = client.evaluate(collection, body)["id"]
        begin_stage(f"waiting for the service: evaluation {id_}")
        deadline = time.monotonic() + WAIT_SECONDS
        while (found := client.evaluation(id_))["status"] == "running":
            if time.monotonic() > deadline:
                raise ServiceError(
                    f"{url}: evaluation {id_} is not finished after {WAIT_SECONDS:g} s"
                )
            time.sleep(POLL_SECONDS)
        if found["status"] != "done":
            raise ServiceError(f"{url}: {found['error']}")
        try:
            report = parse_report(json.dumps(found["report"]))
        except ReportError as error:
            raise ServiceError(f"{url}: {error}") from None
        run = client.trec_run(id_) if report.has_run else None
    return Job(report, None if run is None else lambda: run)


def evaluate_rankings_remotely(
    url: str,
    collection: str,
    queries: Sequence[Document],
    rankings: Iterable[str],
    *,
    metrics: Sequence[str],
    settings: RelevanceSettings,
    oversample: float = DEFAULT_OVERSAMPLE,
) -> dict[str, Evaluation]:
    """Measure rankings at a service, as :func:`evaluate_rankings` does here.

    This reads the first :data:`DEPTH` hits of every ranking. If a group of ties continues beyond
    them, only the part within them is averaged.

    Raises:
        ServiceError: as for :func:`evaluate_remotely`.
        MetricError, EvaluationError: as for
        :func:`hummingbit.evaluation.rankings.evaluate_rankings`.
    """
    with Client(url) as client:
        begin_stage(f"reading the documents of {collection}")
        pages = all_pages(partial(client.scroll, collection, limit=DEPTH))
        documents = [one for page in pages for one in page["documents"]]
        labels = [labels_of(one["payload"], settings.label_field) for one in documents]
        stored = StoredDocuments(
            np.empty((len(documents), 0), np.uint8), labels, [d["id"] for d in documents]
        )
        relevance, _ = settings.apply(stored, queries)
        place = {id_: row for row, id_ in enumerate(stored.ids)}
        own = np.array([place.get(one.id, -1) for one in queries], dtype=np.int64)
        return {
            ranking: evaluate_by_score(
                _scores(
                    client,
                    collection,
                    queries,
                    ranking,
                    place,
                    oversample=oversample,
                    length=list_length(metrics) + settings.exclude_self,
                ),
                relevance,
                metrics,
                self_rows=own if settings.exclude_self else None,
                query_ids=[one.id for one in queries],
            )
            for ranking in dict.fromkeys(rankings)
        }


def _scores(
    client: Client,
    collection: str,
    queries: Sequence[Document],
    name: str,
    place: Mapping[str, int],
    *,
    oversample: float,
    length: int,
) -> Iterator[npt.NDArray[np.float64]]:
    """Yield the scores of all documents, ``float64[q, N]``; −∞ for those that are not hits."""
    begin_stage(f"searching {collection} by {name}")
    ranking, rescore = parse_ranking(name, oversample)
    limit = DEPTH if rescore is None else length
    for start in range(0, len(queries), QUERIES_AT_ONCE):
        block = queries[start : start + QUERIES_AT_ONCE]
        searches = [{**_input(one), "limit": limit} for one in block]
        answers = client.search_batch(
            collection,
            searches,
            ranking=cast("Ranking", ranking),
            rescore=None if rescore is None else asdict(rescore),
        )
        table = np.full((len(block), len(place)), -np.inf)
        for line, answer in zip(table, answers, strict=True):
            for hit in answer["hits"]:
                if hit["id"] not in place:
                    message = f"collection {collection!r} was written to while it was evaluated"
                    raise EvaluationError(f"{message}; run the evaluation again")
                line[place[hit["id"]]] = hit["score"]
        yield table


def _input(query: Document) -> dict[str, Any]:
    vector = None if query.vector is None else query.vector.tolist()
    content = {"text": query.text, "vector": vector, "code": query.code}
    return {name: value for name, value in content.items() if value is not None}
