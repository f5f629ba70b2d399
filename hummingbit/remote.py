"""The collections of a running service, with the methods of those in a data folder.

:class:`RemoteFolder` has the methods of :class:`hummingbit.index.data_folder.DataFolder` that the
command line uses, and :class:`RemoteCollection` is an
:class:`hummingbit.index.backend.AnyCollection`. Every method raises
:class:`hummingbit.ServiceError` if the service cannot be reached, refuses or fails.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from functools import cached_property, partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from hummingbit.clients.calls import UNSET, json_lines
from hummingbit.clients.client import Client
from hummingbit.clients.requests import ServiceError
from hummingbit.corpus.document import Document
from hummingbit.corpus.field_types import FieldType
from hummingbit.encoder.artifact import ArtifactError
from hummingbit.encoder.codes import Codes
from hummingbit.encoder.encoder import WeightedQueries
from hummingbit.evaluation.labelling.exchange import read_lines, write_records
from hummingbit.evaluation.rankings import RelevanceSettings
from hummingbit.evaluation.relevance import query_labels
from hummingbit.evaluation.report import Job, ReportError, parse_report
from hummingbit.foundation.errors import InputError
from hummingbit.foundation.slices import begin_stage
from hummingbit.index.catalog import AddAlias, AliasAction
from hummingbit.index.encoding import batches
from hummingbit.index.errors import UnknownCollection
from hummingbit.index.facets import SortField
from hummingbit.index.filters import Filter, filter_to_json
from hummingbit.index.highlights import Highlight
from hummingbit.index.names import FLOAT32, HAMMING
from hummingbit.index.options import DEFAULT_OVERSAMPLE
from hummingbit.index.passages import Passages, Span
from hummingbit.index.payloads import PayloadsUpdated, PayloadUpdate
from hummingbit.index.records import (
    DeleteResult,
    IngestReport,
    Query,
    ScrollPage,
    StoredDocument,
    Verification,
)
from hummingbit.index.search import Group, Hit
from hummingbit.index.snapshots import Contents, Snapshot
from hummingbit.index.store.annotations import (
    DocumentLabel,
    Judgement,
    parse_judgement,
    parse_label,
)
from hummingbit.index.transfer import Header, check_same_encoder, encoder_of_export
from hummingbit.service.schemas import responses
from hummingbit.service.schemas.responses import DocumentPage, JudgementPage, LabelPage, Ranking

Item = TypeVar("Item")
Page = TypeVar("Page", DocumentPage, LabelPage, JudgementPage)

# A page is a single response, and documents may be large.
PAGE = 200
# So many texts of so many characters are encoded by a request.
INPUTS, CHARACTERS = 500, 1_000_000
# So many documents, of about so many bytes, are written by a request.
DOCUMENTS, DOCUMENT_BYTES = 1000, 4 << 20
# Labels are small.
RECORDS = 1000
# Between two looks at an evaluation, and until it is given up.
POLL_SECONDS, WAIT_SECONDS = 0.2, 3600.0


def wait_for(client: Client, job: responses.JobInfo) -> dict[str, Any]:
    """Wait until a job of the service is done and return its result; the stage names the job.

    Raises:
        ServiceError: if it failed or was cancelled.
    """
    begin_stage(f"waiting for the service: {job['kind']}, job {job['id']}")
    return client.wait_for(job)["result"] or {}


def all_pages(get_page: Callable[..., Page]) -> Iterator[Page]:
    """Yield every page of a list; `get_page` is a client's method that takes a `cursor`."""
    cursor: str | None = None
    while True:
        page = get_page(cursor=cursor)
        yield page
        cursor = page["next_cursor"]
        if cursor is None:
            return


# The collections, aliases and snapshots of a service.


class RemoteFolder:
    """The data folder of a service, as far as `client` may use it."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.encoders = RemoteEncoders(client)
        self.snapshots = RemoteSnapshots(client)

    def __enter__(self) -> RemoteFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self.client.close()

    def collections(self) -> dict[str, RemoteCollection]:
        """Return the collections by name."""
        summaries = self.client.collections()["collections"]
        return {
            summary["name"]: RemoteCollection(self.client, summary["name"], summary)
            for summary in summaries
        }

    def unavailable(self) -> dict[str, str]:
        """Return why collections cannot be opened, by name."""
        unavailable = self.client.collections()["unavailable"]
        return {collection["name"]: collection["reason"] for collection in unavailable}

    def collection(self, name: str) -> RemoteCollection:
        """Refer to a collection by its name or alias; see :class:`RemoteCollection`."""
        return RemoteCollection(self.client, name)

    def create_collection(
        self,
        name: str,
        *,
        encoder: str | None = None,
        n_bits: int | None = None,
        engine: str | None = None,
        indexed_fields: Sequence[str] | None = None,
        keep_vectors: str = FLOAT32,
        passages: Passages | None = None,
        language: str | None = None,
    ) -> RemoteCollection:
        """Create an empty collection."""
        kept = None if keep_vectors == FLOAT32 else cast(responses.KeepVectors, keep_vectors)
        summary = self.client.create_collection(
            name,
            encoder=UNSET if encoder is None else encoder,
            n_bits=n_bits,
            engine=engine,
            indexed_fields=indexed_fields,
            keep_vectors=kept,
            passages=None if passages is None else passages.json,
            language=language,
        )
        return RemoteCollection(self.client, name, summary)

    def collection_for(self, name: str, header: Header) -> RemoteCollection:
        """Return the collection to import into; a missing one is created like the exported one.

        It has the same search engine and indexed fields if the service supports them.

        Raises:
            EncoderMismatch: if the service does not have the encoder that made the codes, or the
                collection has another.
        """
        collection = self.collection(name)
        try:
            n_bits, fingerprint = collection.n_bits, collection.encoder_fingerprint
        except UnknownCollection:
            return self._create_for(name, header)
        check_same_encoder(header, name, n_bits, fingerprint)
        return collection

    def drop_collection(self, name: str) -> None:
        """Delete a collection and all of its documents."""
        self.client.delete_collection(name)

    def reindex(
        self, name: str, encoder: str, into: str, alias: str | None, engine: str | None
    ) -> int:
        """Re-encode a collection into another and then move `alias`; return how many documents."""
        job = self.client.reindex(name, encoder, into, alias, engine=engine)
        return int(wait_for(self.client, job)["documents"])

    def aliases(self) -> dict[str, str]:
        """Return the collection of each alias."""
        return self.client.aliases()

    def change_aliases(self, actions: Sequence[AliasAction]) -> None:
        """Apply `actions` in one step."""
        self.client.change_aliases(
            [
                {"add" if isinstance(action, AddAlias) else "remove": asdict(action)}
                for action in actions
            ]
        )

    def accept_loss(self, name: str) -> None:
        """Refuse: only the process that holds the data folder can accept a loss.

        Raises:
            InputError: always.
        """
        raise InputError(
            "--accept-loss", f"{name} is at a service; stop the service and name its folder"
        )

    def evaluate(
        self,
        name: str,
        queries: Sequence[Document],
        metrics: Iterable[str] | None,
        settings: RelevanceSettings,
        *,
        rankings: Sequence[str] | None = None,
        oversample: float = DEFAULT_OVERSAMPLE,
        codes_weights: Sequence[float] = (),
        teacher: str | None = None,
    ) -> Job:
        """Have the service evaluate a collection, and wait for the report.

        Raises:
            InputError: if there is a `teacher`, which a service does not ask.
            ServiceError: also if the evaluation takes more than :data:`WAIT_SECONDS`.
        """
        if teacher is not None:
            reason = "cannot be combined with --url; a service has the documents'"
            raise InputError("--teacher", reason)
        body = {
            **{key: value for key, value in asdict(settings).items() if value is not None},
            "queries": [_evaluated_query(query, settings.label_field) for query in queries],
            "metrics": None if metrics is None else [*metrics],
            "rankings": rankings,
            "oversample": oversample,
        }
        if codes_weights:
            body["codes_weights"] = [*codes_weights]
        id_, url = self.client.evaluate(name, body)["id"], self.client.url
        begin_stage(f"waiting for the service: evaluation {id_}")
        deadline = time.monotonic() + WAIT_SECONDS
        while (evaluation := self.client.evaluation(id_))["status"] == "running":
            if time.monotonic() > deadline:
                raise ServiceError(
                    f"{url}: evaluation {id_} is not finished after {WAIT_SECONDS:g} s"
                )
            time.sleep(POLL_SECONDS)
        if evaluation["status"] != "done":
            raise ServiceError(f"{url}: {evaluation['error']}")
        try:
            report = parse_report(json.dumps(evaluation["report"]))
        except ReportError as error:
            raise ServiceError(f"{url}: {error}") from None
        run = self.client.trec_run(id_) if report.has_run else None
        return Job(report, None if run is None else lambda: run)

    def labels(self, name: str) -> RemoteAnnotations:
        """Return the labels and judgements of a collection."""
        return RemoteAnnotations(self.client, name)

    def create_snapshot(self, name: str) -> Snapshot:
        """Create a snapshot of a collection."""
        return self.snapshots.get(wait_for(self.client, self.client.snapshot_job(name))["id"])

    def restore_snapshot(self, snapshot: Path | str, name: str) -> RemoteCollection:
        """Create the collection `name` from a snapshot: a file, or the id of one of the service.

        The service does not keep a file that it did not have.
        """
        if isinstance(snapshot, str):
            wait_for(self.client, self.client.restore_snapshot(snapshot, name))
            return self.collection(name)
        known = [stored.id for stored in self.snapshots.all()]
        uploaded = self.snapshots.add(snapshot).id
        try:
            return self.restore_snapshot(uploaded, name)
        finally:
            if uploaded not in known:
                self.snapshots.delete(uploaded)

    def _create_for(self, name: str, header: Header) -> RemoteCollection:
        encoders = [
            (encoder["name"], encoder["fingerprint"])
            for encoder in self.client.encoders()["encoders"]
        ]
        encoders.sort(key=lambda encoder: encoder[0] != header.encoder)
        encoder = encoder_of_export(header, encoders)
        n_bits = header.n_bits if encoder is None else None
        settings: dict[str, Any] = {
            "engine": header.engine,
            "indexed_fields": header.indexed_fields,
            "keep_vectors": header.keep_vectors,
            "passages": header.passages,
            "language": header.language,
        }
        while True:
            try:
                created = self.create_collection(name, encoder=encoder, n_bits=n_bits, **settings)
                break
            except ServiceError as error:
                refused = {entry["pointer"].removeprefix("/") for entry in error.errors}
                if not refused or not refused <= settings.keys():
                    raise
                settings = {field: settings[field] for field in settings.keys() - refused}
        if header.ranking is not None and header.ranking != HAMMING:
            created.set_ranking(header.ranking)
        if header.hybrid_weight is not None:
            created.set_hybrid_weight(header.hybrid_weight)
        return created


class RemoteSnapshots:
    """The snapshots of a service, as :class:`hummingbit.index.snapshots.Snapshots` has them."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def all(self, collection: str | None = None) -> list[Snapshot]:
        """Return the snapshots, of one collection or of all, oldest first."""
        return [*map(_to_snapshot, self._client.snapshots(collection))]

    def unavailable(self) -> dict[str, str]:
        """Return nothing: the client leaves out snapshots that cannot be read."""
        return {}

    def get(self, id_: str) -> Snapshot:
        """Return a snapshot."""
        return _to_snapshot(self._client.snapshot(id_))

    def copy(self, id_: str, out: Path) -> None:
        """Write the file of a snapshot to `out`, which appears once it is complete.

        Raises:
            OSError: if it cannot be written.
        """
        self._client.download_snapshot(id_, out)

    def add(self, tar: Path) -> Snapshot:
        """Upload a snapshot file.

        Raises:
            OSError: if the file cannot be read.
        """
        result = wait_for(self._client, self._client.upload_snapshot_job(tar))
        return _to_snapshot(cast(responses.SnapshotInfo, result))

    def delete(self, id_: str) -> None:
        """Delete a snapshot."""
        self._client.delete_snapshot(id_)


def _to_snapshot(snapshot: responses.SnapshotInfo) -> Snapshot:
    contents = Contents(
        collection=snapshot["collection"],
        n_bits=snapshot["n_bits"],
        encoder=snapshot["encoder"],
        encoder_fingerprint=snapshot["encoder_fingerprint"],
        generation=snapshot["generation"],
        documents=snapshot["documents"],
        created=snapshot["created"],
        store_sha256="",  # the service gives the SHA-256 of the whole file only
    )
    return Snapshot(snapshot["id"], contents, snapshot["bytes"], snapshot["sha256"])


# One collection of a service.


class RemoteCollection:
    """A collection of a service, by its name or an alias; see :class:`AnyCollection`.

    What never changes is asked once, when it is first needed. The first use raises
    UnknownCollection or ServiceError if the service has no such collection, or cannot open it.
    """

    def __init__(
        self, client: Client, name: str, summary: responses.CollectionSummary | None = None
    ) -> None:
        """Refer to the collection; `summary` is what the service says of it, if that is known."""
        self.client = client
        self._given_name = name
        if summary is not None:
            vars(self)["_summary"] = summary  # the value of the cached property

    @cached_property
    def _summary(self) -> responses.CollectionSummary:
        return self._read_summary()

    def _read_summary(self) -> responses.CollectionSummary:
        try:
            collection = self.client.aliases().get(self._given_name, self._given_name)
            for summary in self.client.collections()["collections"]:
                if summary["name"] == collection:
                    return summary
        except ServiceError as error:
            # A key for some collections may ask for each of them, but not list all.
            if error.status != HTTPStatus.FORBIDDEN:
                raise
        try:
            return self.client.collection(self._given_name)
        except ServiceError as error:
            if error.code != "unknown_collection":
                raise
            raise UnknownCollection(str(error), self._given_name, None) from None

    @property
    def name(self) -> str:
        """The collection's name, which an alias stands for."""
        return self._summary["name"]

    @property
    def n_bits(self) -> int:
        """The length of every code."""
        return self._summary["n_bits"]

    @property
    def encoder_name(self) -> str | None:
        """The encoder's name at the service, if the collection has one."""
        encoder = self._summary["encoder"]
        return None if encoder is None else encoder["name"]

    @property
    def encoder_fingerprint(self) -> str | None:
        """The encoder's fingerprint, if the collection has one."""
        encoder = self._summary["encoder"]
        return None if encoder is None else encoder["fingerprint"]

    @property
    def encoder_kind(self) -> str | None:
        """What the encoder reads: text or vector; None without an encoder."""
        if self.encoder is None:
            return None
        # Services of earlier versions do not say it here; only keys for everything may ask further.
        kind = self._summary.get("encoder_kind")
        return self.encoder.kind if kind is None else kind

    @property
    def encoder(self) -> RemoteEncoder | None:
        """The encoder at the service; None if documents come with codes."""
        return None if self.encoder_name is None else RemoteEncoder(self.client, self.encoder_name)

    @property
    def engine_setting(self) -> str:
        """The engine that was chosen at creation."""
        return self._summary["engine_setting"]

    @property
    def keep_vectors(self) -> str:
        """The form in which vectors are kept."""
        return self._summary.get("keep_vectors", FLOAT32)

    @property
    def passages(self) -> Passages | None:
        """How texts are split into passages; None if they are not."""
        return Passages.of(self._summary.get("passages"))

    @property
    def ranking(self) -> str:
        """The ranking of searches that name none."""
        return self._read_summary()["ranking"]

    @property
    def generation(self) -> int:
        """The number of writes so far that changed something."""
        return self._read_summary()["generation"]

    @property
    def indexed_fields(self) -> tuple[str, ...]:
        """The payload fields that are indexed."""
        return tuple(self._read_summary()["indexed_fields"])

    @property
    def field_types(self) -> Mapping[str, FieldType]:
        """Nothing: a service does not tell the types of fields."""
        return {}

    @property
    def annotations(self) -> RemoteAnnotations:
        """The labels and judgements."""
        return RemoteAnnotations(self.client, self._given_name)

    def reading(self) -> AbstractContextManager[object]:
        """Change nothing: requests share no generation."""
        return nullcontext()

    def __len__(self) -> int:
        """The number of documents."""
        return self.count()

    def count(self, filter: Filter | None = None) -> int:  # noqa: A002
        """Return the number of documents, or of those that match the filter."""
        return self.client.count(self._given_name, _as_json(filter))

    def explain_no_hits(self, filter: Filter | None) -> list[str]:  # noqa: A002
        """Return what the service says why no document passes the filter."""
        if filter is None:
            return []
        counted = self.client.explained_count(self._given_name, _as_json(filter))
        return counted.get("warnings", [])

    def get(self, id_: str) -> StoredDocument | None:
        """Return the document with the id, or None."""
        return next(self.get_many([id_]))

    def get_many(self, ids: Sequence[str]) -> Iterator[StoredDocument | None]:
        """Yield the document of each id, or None; up to :data:`PAGE` are one request."""
        for part in batches(ids, PAGE):
            answer = self.client.get_many(self._given_name, part)
            documents = {document["id"]: _to_document(document) for document in answer["documents"]}
            yield from map(documents.get, part)

    def scroll(
        self,
        limit: int,
        cursor: str | None = None,
        filter: Filter | None = None,  # noqa: A002
        sort: Sequence[SortField] = (),
    ) -> ScrollPage:
        """Return up to `limit` documents in the order of `sort` or of insertion.

        They are at most :data:`PAGE`.
        """
        page = self.client.scroll(
            self._given_name,
            limit=min(limit, PAGE),
            cursor=cursor,
            filter=_as_json(filter),
            sort=[asdict(field) for field in sort] or None,
        )
        return ScrollPage([*map(_to_document, page["documents"])], page["next_cursor"])

    def ask(
        self,
        operation: str,
        body: Mapping[str, Any],
        filter: Filter | None = None,  # noqa: A002
    ) -> dict[str, Any]:
        """Call the client's method of the operation's name."""
        method = getattr(self.client, operation)
        answer: dict[str, Any] = method(self._given_name, **body, filter=_as_json(filter))
        return answer

    def ingest(
        self,
        documents: Iterable[Document],
        *,
        jobs: int = 1,  # noqa: ARG002 - the service encodes
        progress: Callable[[int], object] | None = None,
        refused: Callable[[str, str], object] | None = None,
    ) -> IngestReport:
        """Write documents, many in a request; see :meth:`AnyCollection.ingest`."""
        began = time.perf_counter()
        written = unchanged = n_refused = repeated = 0
        for part in _parts_of_requests(map(record_of, documents)):
            has_codes = any("code" in record for record in part)
            answer = self.client.bulk(
                self._given_name,
                part,
                skip_unchanged=True,
                encoder_fingerprint=self.encoder_fingerprint if has_codes else None,
            )
            written += len(part) - answer["failed"]
            n_refused += answer["failed"]
            unchanged += answer["unchanged"]
            repeated += len(part) - len({record["id"] for record in part})
            if refused is not None:
                for error in answer["errors"]:
                    refused(str(error["id"]), error["detail"])
            if progress is not None:
                progress(len(part))
        seconds = time.perf_counter() - began
        return IngestReport(written, unchanged, seconds, self.generation, repeated, n_refused)

    def delete(self, ids: Sequence[str]) -> DeleteResult:
        """Delete the documents with these ids, many in a request; unknown ids are ignored."""
        parts = [*batches(ids, DOCUMENTS)] or [[]]
        answers = [self.client.delete_many(self._given_name, ids=part) for part in parts]
        return DeleteResult(sum(answer["deleted"] for answer in answers), answers[-1]["generation"])

    def delete_where(self, filter: Filter) -> DeleteResult:  # noqa: A002
        """Delete the documents whose payload matches the filter."""
        deleted = self.client.delete_many(self._given_name, filter=_as_json(filter))
        return DeleteResult(deleted["deleted"], deleted["generation"])

    def update_payloads(
        self, updates: Sequence[PayloadUpdate], if_generation: int | None = None
    ) -> PayloadsUpdated:
        """Change the payloads of documents, all updates or none."""
        records = [update.to_json() for update in updates]
        answer = self.client.update_payloads(self._given_name, records, if_generation=if_generation)
        return PayloadsUpdated(answer["matched"], answer["updated"], answer["generation"])

    def answer(self, query: Query, options: Mapping[str, Any]) -> dict[str, Any]:
        """Search; see :meth:`hummingbit.index.backend.AnyCollection.answer`."""
        return {**self.client.search(self._given_name, **example_of(query), **cast("Any", options))}

    def recommendation(
        self,
        positive: Sequence[Query],
        negative: Sequence[Query],
        options: Mapping[str, Any],
        strategy: str,
    ) -> dict[str, Any]:
        """See :meth:`hummingbit.index.backend.AnyCollection.recommendation`."""
        answer = self.client.recommend(
            self._given_name,
            [*map(example_of, positive)],
            [*map(example_of, negative)],
            strategy=cast("Any", strategy),
            **cast("Any", options),
        )
        return {**answer}

    def complete(self, text: str, limit: int) -> list[str]:
        """See :meth:`hummingbit.index.backend.AnyCollection.complete`."""
        return self.client.complete(self._given_name, text, limit=limit)["completions"]

    @property
    def language(self) -> str | None:
        """The language of the texts for searches by words."""
        return self._read_summary().get("language")

    def set_language(self, language: str) -> None:
        """Set the language of the texts for searches by words; ``auto`` finds it."""
        self.client.update_collection(self._given_name, language=language)

    def set_ranking(self, ranking: str) -> None:
        """Make `ranking` the default of searches that name none."""
        self.client.update_collection(self._given_name, ranking=cast(Ranking, ranking))

    @property
    def hybrid_weight(self) -> float:
        """The weight of codes beside words in hybrid rankings where a search names none."""
        return self._read_summary()["hybrid_weight"]

    @property
    def own_hybrid_weight(self) -> float | None:
        """The weight that was set for this collection; earlier services do not tell it."""
        return self._read_summary().get("own_hybrid_weight")

    def set_hybrid_weight(self, weight: float | None) -> None:
        """Make `weight` that of codes beside words; None takes the encoder's."""
        self.client.update_collection(
            self._given_name, hybrid_weight="encoder" if weight is None else weight
        )

    def set_indexed_fields(
        self, fields: Sequence[str], progress: Callable[[], object] | None = None
    ) -> list[str]:
        """Index these payload fields, and no others; `progress` is called once, at the end."""
        result = wait_for(self.client, self.client.index_fields_job(self._given_name, fields))
        if progress is not None:
            progress()
        return [*result.get("warnings", [])]

    def remember_field_types(self, types: Mapping[str, FieldType]) -> None:
        """Do nothing: the service decides from the documents."""

    def verify(self) -> Verification:
        """Check documents and index."""
        result = wait_for(self.client, self.client.verify_job(self._given_name))
        return Verification(result["documents"], result["problems"])

    def compact(self) -> None:
        """Free the space of deleted documents."""
        wait_for(self.client, self.client.compact_job(self._given_name))

    def bytes_on_disk(self) -> int:
        """Return the size of the collection on disk; 0 if it cannot be known."""
        return self.client.collection(self._given_name)["bytes_on_disk"]

    def stats(self) -> dict[str, Any]:
        """Return statistics of the collection, with the fields of one in a data folder."""
        statistics: dict[str, Any] = {**self.client.stats(self._given_name)}
        encoder = statistics["encoder"] or {"name": None, "fingerprint": None}
        statistics |= {"encoder": encoder["name"], "encoder_fingerprint": encoder["fingerprint"]}
        first = ("name", "documents", "n_bits", "encoder", "encoder_fingerprint", "generation")
        return {name: statistics[name] for name in dict.fromkeys([*first, *statistics])}


class RemoteAnnotations:
    """The labels and judgements of a service's collection."""

    def __init__(self, client: Client, name: str) -> None:
        self._client, self._name = client, name

    def labels(self) -> Iterator[DocumentLabel]:
        """Yield all labels."""
        pages = partial(self._client.labels, self._name, limit=RECORDS)
        for page in all_pages(pages):
            yield from map(parse_label, page["labels"])

    def judgements(self) -> Iterator[Judgement]:
        """Yield all judgements."""
        pages = partial(self._client.judgements, self._name, limit=RECORDS)
        for page in all_pages(pages):
            yield from map(parse_judgement, page["judgements"])

    def set_labels(self, records: Sequence[DocumentLabel | Judgement]) -> None:
        """Add labels or judgements, many in a request."""
        for part in batches(write_records(records), RECORDS):
            self._client.import_labels(self._name, "\n".join(part).encode())

    set_judgements = set_labels

    def suggest(
        self, n: int, method: str, *, label_field: str | None, who: str | None
    ) -> dict[str, Any]:
        """Return documents to label next."""
        options = {"method": method, "label_field": label_field, "who": who}
        return dict(self._client.suggest_labels(self._name, n, **options))

    def set(
        self, id_: str, labels: Sequence[str] | None, *, grade: int = 1, who: str | None = None
    ) -> bool:
        """Label a document, or with None remove its labels; return whether that changed any.

        Without `who`, the labels are those of the key's owner.
        """
        record: dict[str, Any] = {"id": id_, "labels": labels, "grade": grade}
        if who is not None:
            record["who"] = who
        return bool(self._client.set_labels(self._name, [record])["changed"])

    def stats(self, label_field: str | None = None) -> dict[str, Any]:
        """Return statistics."""
        return dict(self._client.label_stats(self._name, label_field))

    def read(
        self,
        content: bytes,
        form: str,
        source: str,
        who: str | None = None,
    ) -> dict[str, Any]:
        """Import records of `source`; return how many changed, and how many are of unknown ids."""
        read_lines(
            content.decode("utf-8-sig").split("\n"), form, source, who
        )  # it names a bad line
        return dict(self._client.import_labels(self._name, content, form, who))

    def pool(self, question: str, n: int, depth: int) -> list[tuple[str, str]]:
        """Return ids and texts of `n` answers to judge, from `depth` hits of each ranking."""
        pool = self._client.judgement_pool(self._name, question, n=n, depth=depth)
        return [(document["id"], document["text"] or "") for document in pool["documents"]]


def _as_json(filter_: Filter | None) -> dict[str, Any] | None:
    """Return a filter as a service takes it."""
    return None if filter_ is None else json.loads(filter_to_json(filter_))


def _evaluated_query(document: Document, label_field: str) -> dict[str, Any]:
    """Return a query of an evaluation in the form that the service takes."""
    (labels,) = query_labels([document], label_field)
    fields = {
        "text": document.text,
        "vector": None if document.vector is None else document.vector.tolist(),
        "code": document.code,
        "labels": list(labels) or None,
    }
    return {"id": document.id} | {key: value for key, value in fields.items() if value is not None}


def example_of(query: Query) -> dict[str, Any]:
    """Return a query in the form that the service takes."""
    fields = {**query._asdict()}
    if query.vector is not None:
        fields["vector"] = query.vector.tolist()
    return {name: value for name, value in fields.items() if value is not None}


def hit_of(answer: Mapping[str, Any]) -> Hit:
    """Return the hit of a service's response, which does not tell the row.

    Without the whole text, the text is that of the passage that ranked it.
    """
    fields = {name: answer[name] for name in Hit._fields if answer.get(name) is not None}
    if passage := fields.pop("passage", None):
        if "text" in fields:
            fields["passage"] = Span(passage["start"], passage["start"] + len(passage["text"]))
        else:
            fields["text"] = passage["text"]
    if highlighted := fields.pop("highlight", None):
        marks = [(start, end) for start, end in highlighted["marks"]]
        fields["highlight"] = Highlight(**{**highlighted, "marks": marks})
    return Hit(**{"distance": None, "row": -1, **fields})


def group_of(answer: Mapping[str, Any]) -> Group:
    """Return the group of hits of a service's response."""
    return Group(answer["id"], [*map(hit_of, answer["hits"])])


def record_of(document: Document) -> dict[str, Any]:
    """Return a document in the form that the service takes."""
    parts = {"text": document.text, "vector": document.vector, "code": document.code}
    content = {name: value for name, value in parts.items() if value is not None}
    return {"id": document.id, **content, "payload": document.payload_with_labels}


class RemoteEncoders:
    """The encoders of a service, as :class:`hummingbit.index.catalog.EncoderFolder` has them."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._summaries: dict[str, responses.EncoderSummary] = {}
        self._reasons: dict[str, str] = {}

    def names(self) -> list[str]:
        """Return the names of the encoders, sorted."""
        listed = self._client.encoders()
        self._summaries = {encoder["name"]: encoder for encoder in listed["encoders"]}
        self._reasons = {encoder["name"]: encoder["reason"] for encoder in listed["unavailable"]}
        return sorted([*self._summaries, *self._reasons])

    def load(self, name: str) -> RemoteEncoder:
        """Return an encoder; what the service says of it is asked when it is first needed.

        Raises:
            ArtifactError: if :meth:`names` found that the service cannot load it.
        """
        if name in self._reasons:
            raise ArtifactError(self._reasons[name])
        return RemoteEncoder(self._client, name, self._summaries.get(name))

    def figures(self, name: str) -> dict[str, Any]:
        """Return the figures of an encoder that training recorded; empty if there are none."""
        return self._client.encoder(name)["figures"]


class RemoteEncoder:
    """An encoder at a service; a :class:`hummingbit.encoder.encoder.TextEncoder` if it reads texts.

    `summary` is what the service says of it, if that is known.
    """

    def __init__(
        self, client: Client, name: str, summary: responses.EncoderSummary | None = None
    ) -> None:
        self._client = client
        self._name = name
        if summary is not None:
            vars(self)["_summary"] = summary  # the value of the cached property

    @cached_property
    def _detail(self) -> responses.EncoderDetail:
        return self._client.encoder(self._name)

    @cached_property
    def _summary(self) -> responses.EncoderSummary:
        return self._detail

    @property
    def fingerprint(self) -> str:
        """The fingerprint of its artifact."""
        return self._summary["fingerprint"]

    @property
    def n_bits(self) -> int:
        """The number of bits in a code."""
        return self._summary["n_bits"]

    @property
    def kind(self) -> str:
        """What it reads: text or vector."""
        return self._summary["kind"]

    @property
    def dimension(self) -> int | None:
        """The length of the vectors that it takes; None for text."""
        return self._summary["dimension"]

    @property
    def metadata(self) -> dict[str, Any]:
        """What it was trained on, and how."""
        return self._detail["metadata"]

    @property
    def is_slow(self) -> bool:
        """Whether a language model reads the texts; every other encoder of texts has terms."""
        return self._detail["terms"] is None

    @property
    def learned(self) -> RemoteLearned:
        """The texts that it learned from."""
        return RemoteLearned(self._client, self._name)

    def encode(self, inputs: Sequence[str]) -> Codes:
        """Return the codes of texts as documents, ``uint8[N, C]``."""
        return np.array(
            [
                list(bytes.fromhex(code))
                for some in _texts_of_requests(inputs)
                for code in self._client.encode(self._name, some)["codes"]
            ],
            dtype=np.uint8,
        )

    def read_queries(self, inputs: Sequence[str]) -> WeightedQueries:
        """Return the weights of texts as queries, without their terms."""
        weights = [
            row
            for some in _texts_of_requests(inputs)
            for row in self._client.query_weights(self._name, some)
        ]
        return WeightedQueries(np.array(weights, dtype=np.float32), [None] * len(inputs))


class RemoteLearned:
    """The texts that an encoder at a service learned from."""

    def __init__(self, client: Client, encoder: str) -> None:
        self._client = client
        self._encoder = encoder

    def contain(self, contents: Sequence[str]) -> npt.NDArray[np.bool_]:
        """Tell of each text whether the encoder learned from it, bool[N]."""
        learned = [
            is_learned
            for some in _texts_of_requests(contents)
            for is_learned in self._client.encode(self._encoder, some)["learned"]
        ]
        return np.array(learned, dtype=np.bool_)


def _texts_of_requests(texts: Sequence[str]) -> Iterator[list[str]]:
    """Yield parts of `texts`, each small enough for a request."""
    return _parts(texts, len, INPUTS, CHARACTERS)


def _parts_of_requests(records: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Yield parts of `records`, each small enough for a request."""
    return _parts(records, lambda record: len(json_lines([record])), DOCUMENTS, DOCUMENT_BYTES)


def _parts(
    items: Iterable[Item], size_of: Callable[[Item], int], at_most: int, room: int
) -> Iterator[list[Item]]:
    """Yield parts of at most `at_most` items and, unless it is one item, of at most `room`."""
    part: list[Item] = []
    size = 0
    for item in items:
        length = size_of(item)
        if part and (len(part) == at_most or size + length > room):
            yield part
            part, size = [], 0
        part.append(item)
        size += length
    if part:
        yield part


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
