"""The client of a service."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal, NoReturn, Self, TypeVar, Unpack

import httpx

from hummingbit.clients import calls, transport
from hummingbit.clients.calls import (
    UNSET,
    SearchOptions,
    ServedRecommendationOptions,
    SnapshotFile,
    Unset,
)
from hummingbit.clients.requests import (
    Call,
    as_list,
    collection_path,
    document_path,
    encoder_path,
    evaluation_path,
    ids_list,
    job_path,
    json_fields,
    json_value,
    query_string,
    snapshot_path,
    without_none,
)
from hummingbit.service.schemas import responses
from hummingbit.service.schemas.responses import CodeFormat, JobState, Ranking

Answer = TypeVar("Answer")


class Client:
    """A client of the service at `url`, by default ``HUMMINGBIT_URL`` or this machine's port 8000.

    `key` is by default ``HUMMINGBIT_KEY``. A call is retried up to `retries` times if the service
    is too busy, or if there is no response and repeating the call does no harm. `timeout` is in
    seconds. The client holds connections: close it, or use it in a ``with`` statement. Threads can
    share it.

    Every method raises :class:`hummingbit.ServiceError` if the service refuses the request, fails
    or cannot be reached. For a service at the default address with the encoder `words`::

        with Client() as client:
            client.create_collection("notes", encoder="words")
            client.upsert("notes", [{"id": "a", "text": "the moon raises the tides"}])
            hits = client.search("notes", "moon and tides", limit=5)["hits"]
    """

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        timeout: float = transport.TIMEOUT_SECONDS,
        retries: int = transport.RETRIES,
    ) -> None:
        self._http = transport.open_http(httpx.Client, url, key, timeout)
        self._process = os.getpid()
        self._retries = retries

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def url(self) -> str:
        """The address of the service."""
        return str(self._http.base_url).rstrip("/")

    def close(self) -> None:
        """Close the connections; a forked process leaves them to its parent."""
        if self._process == os.getpid():
            self._http.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError(transport.UNPICKLED)

    def ready(self) -> responses.Ready:
        """Check that every collection and encoder is open, and return their names."""
        return self._call(Call("GET", "/readyz"))

    def collections(self) -> responses.Collections:
        """List the collections."""
        return self._call(Call("GET", "/v1/collections"))

    def collection(self, name: str) -> responses.CollectionDetail:
        """Describe a collection and its codes."""
        return self._call(Call("GET", collection_path(name)))

    def stats(self, name: str) -> responses.CollectionStats:
        """Return a collection's search engine, the reason for it, and statistics of its codes."""
        return self._call(Call("GET", collection_path(name, "stats")))

    def create_collection(
        self,
        name: str,
        *,
        encoder: str | Unset | None = UNSET,
        n_bits: int | None = None,
        dimensions: int | None = None,
        engine: str | None = None,
        indexed_fields: Sequence[str] | None = None,
        keep_vectors: responses.KeepVectors | None = None,
        passages: Mapping[str, int] | Literal["auto"] | bool | None = None,
        language: str | None = None,
    ) -> responses.CreatedCollection:
        """Create a collection with an encoder, or for documents that bring codes of `n_bits`.

        If neither is given, it has the encoder that ships, if the service has
        ``hummingbit-models``. With the encoder None, and without ``hummingbit-models``, documents
        are searched by words alone. The encoder ``"sign"`` takes the signs of vectors of
        `dimensions` numbers.
        Filters on `indexed_fields`, which are fields of payloads, do not read the payloads. Vectors
        are kept as `keep_vectors` says, by default whole, as float32. With `passages`, texts are
        split: True, ``"auto"``, or words, sentences, overlap and longer_than. The `language` of the
        texts, such as ``"german"``, is for searches by words; it is found without one.
        """
        body = without_none(
            encoder=None if isinstance(encoder, Unset) else encoder,
            n_bits=0 if encoder is None and n_bits is None else n_bits,
            dimensions=dimensions,
            engine=engine,
            indexed_fields=None if indexed_fields is None else [*indexed_fields],
            keep_vectors=keep_vectors,
            passages=passages,
            language=language,
        )
        return self._call(Call("PUT", collection_path(name), body))

    def update_collection(
        self,
        name: str,
        *,
        ranking: Ranking | None = None,
        hybrid_weight: float | Literal["encoder"] | None = None,
        language: str | None = None,
    ) -> responses.CollectionSummary:
        """Set the ranking of a collection, its weight of codes beside words, or its language.

        The weight ``encoder`` is that of the encoder.
        """
        body: dict[str, Any] = without_none(
            ranking=ranking, hybrid_weight=hybrid_weight, language=language
        )
        if hybrid_weight == "encoder":
            body["hybrid_weight"] = None
        return self._call(Call("PATCH", collection_path(name), body))

    def delete_collection(self, name: str) -> None:
        """Delete a collection and all of its documents."""
        self._call(Call[None]("DELETE", collection_path(name)))

    def upsert(
        self,
        name: str,
        documents: Sequence[Mapping[str, Any]],
        *,
        create_only: bool = False,
        encoder_fingerprint: str | None = None,
    ) -> responses.Upserted:
        """Insert documents, and replace those with the same ids: all of them or none.

        With `create_only` nothing is replaced: an existing id is an error with the status 412. If
        documents bring codes, `encoder_fingerprint` says which encoder made them; a collection with
        another encoder refuses them.
        """
        records = [json_fields(document) for document in documents]
        return self._call(
            Call(
                "PUT",
                collection_path(name, "documents"),
                without_none(documents=records, encoder_fingerprint=encoder_fingerprint),
                # A repeated creation would be refused, because the documents exist already.
                repeatable=not create_only,
                headers=calls.CREATE_ONLY if create_only else {},
            )
        )

    def bulk(
        self,
        name: str,
        documents: Iterable[Mapping[str, Any]],
        *,
        create_only: bool = False,
        skip_unchanged: bool = False,
        encoder_fingerprint: str | None = None,
    ) -> responses.BulkAnswer:
        """Upsert documents, each accepted or refused on its own; the response lists the refused.

        With `create_only`, documents with existing ids are refused. With `skip_unchanged`,
        documents that are already stored with the same content are skipped. With
        `encoder_fingerprint`, the fingerprint of the encoder that made their codes, documents may
        have a code as well as a text or vector.
        """
        call: Call[responses.BulkAnswer] = calls.bulk(
            name,
            documents,
            {},
            create_only=create_only,
            skip_unchanged=skip_unchanged,
            encoder_fingerprint=encoder_fingerprint,
        )
        return self._call(call)

    def bulk_job(
        self,
        name: str,
        documents: Iterable[Mapping[str, Any]],
        *,
        create_only: bool = False,
        skip_unchanged: bool = False,
        encoder_fingerprint: str | None = None,
        idempotency_key: str | None = None,
    ) -> responses.JobInfo:
        """Start :meth:`bulk` in the background; the job's result is what :meth:`bulk` returns.

        Repeating a call with the same `idempotency_key` returns the first call's job.
        """
        # It keeps a retry from starting a second job.
        key = {calls.IDEMPOTENCY_KEY: idempotency_key or secrets.token_hex(16)}
        call: Call[responses.JobInfo] = calls.bulk(
            name,
            documents,
            {**calls.IN_BACKGROUND, **key},
            create_only=create_only,
            skip_unchanged=skip_unchanged,
            encoder_fingerprint=encoder_fingerprint,
        )
        return self._call(call)

    def scroll(
        self,
        name: str,
        *,
        limit: int | None = None,
        cursor: str | None = None,
        filter: Mapping[str, Any] | None = None,  # noqa: A002 - as in the interface
        sort: Sequence[str | Mapping[str, Any]] | str | None = None,
        with_payload: bool | Sequence[str] | None = None,
    ) -> responses.DocumentPage:
        """Get a page of documents in the order of insertion; `next_cursor` gets the next page.

        With `sort`, they are in the order of fields, such as ``["year:desc", "title"]``.
        `with_payload` may be the fields of payloads to return.
        """
        body = without_none(
            limit=limit,
            cursor=cursor,
            filter=filter,
            sort=calls.sort_fields(sort),
            with_payload=calls.payload_fields(with_payload),
        )
        return self._call(Call("POST", collection_path(name, "documents:scroll"), body))

    def facets(
        self,
        name: str,
        facets: Sequence[str | Mapping[str, Any]] | str,
        *,
        filter: Mapping[str, Any] | None = None,  # noqa: A002 - as in the interface
    ) -> responses.FacetsAnswer:
        """Count values of payload fields over all documents, or those that match a filter.

        A facet is the name of a field, or a mapping with `field` and perhaps `limit`, `interval`,
        `calendar_interval` or `ranges`.
        """
        body = without_none(facets=calls.facet_list(facets), filter=filter)
        return self._call(Call("POST", collection_path(name, "facets"), body))

    def complete(self, name: str, text: str, *, limit: int = 10) -> responses.Completions:
        """Complete the last word of a text with words of a collection's documents."""
        path = collection_path(name, "completions", text=text, limit=limit)
        return self._call(Call("GET", path))

    def count(self, name: str, filter: Mapping[str, Any] | None = None) -> int:  # noqa: A002
        """Count all documents, or those that match a filter."""
        path, body = collection_path(name, "documents:count"), without_none(filter=filter)
        return self._call(Call[int]("POST", path, body, read=itemgetter("count")))

    def explained_count(self, name: str, filter: Mapping[str, Any] | None) -> responses.Count:  # noqa: A002
        """Count as :meth:`count` does; if nothing matches the filter, `warnings` may say why."""
        body = without_none(filter=filter)
        return self._call(Call("POST", collection_path(name, "documents:count"), body))

    def get(self, name: str, document_id: str | int) -> responses.StoredDocument:
        """Get a document as it is stored."""
        return self._call(Call("GET", document_path(name, document_id)))

    def get_many(
        self,
        name: str,
        ids: Iterable[str | int],
        *,
        with_payload: bool | Sequence[str] | None = None,
    ) -> responses.FoundDocuments:
        """Get up to a thousand documents, and the ids of those that do not exist."""
        selection = calls.payload_fields(with_payload)
        body = without_none(ids=ids_list(ids), with_payload=selection)
        return self._call(Call("POST", collection_path(name, "documents:get"), body))

    def delete(self, name: str, document_id: str | int) -> None:
        """Delete a document."""
        self._call(Call[None]("DELETE", document_path(name, document_id)))

    def delete_many(
        self,
        name: str,
        *,
        ids: Iterable[str | int] | None = None,
        filter: Mapping[str, Any] | None = None,  # noqa: A002 - as in the interface
    ) -> responses.Deleted:
        """Delete documents by ids or by a filter, not both; missing ids are ignored.

        If the call was retried, the count can be too low: the last attempt has fewer to delete.
        """
        body = without_none(ids=ids_list(ids), filter=filter)
        return self._call(Call("POST", collection_path(name, "documents:delete"), body))

    def update_payload(
        self,
        name: str,
        *,
        ids: Iterable[str | int] | None = None,
        filter: Mapping[str, Any] | None = None,  # noqa: A002 - as in the interface
        set: Mapping[str, Any] | None = None,  # noqa: A002 - as in the interface
        merge: Mapping[str, Any] | None = None,
        remove: Sequence[str] | None = None,
        overwrite: Mapping[str, Any] | None = None,
        expires_at: str | float | None = None,
        ttl_seconds: float | None = None,
        if_generation: int | None = None,
    ) -> responses.PayloadsUpdated:
        """Change payloads of the documents with these ids, or that match a filter.

        `set` gives keys new values, `merge` merges objects into objects and removes keys that are
        None, `remove` removes fields, and `overwrite` replaces the whole payload. `expires_at`,
        a time of ISO 8601, or `ttl_seconds` set when the documents expire. Texts and codes stay.
        With `if_generation`, a collection of another generation is an error with status 412.
        """
        update = without_none(
            ids=ids_list(ids),
            filter=filter,
            set=set,
            merge=merge,
            remove=None if remove is None else as_list(remove),
            overwrite=overwrite,
            expires_at=expires_at,
            ttl_seconds=ttl_seconds,
        )
        return self.update_payloads(name, [update], if_generation=if_generation)

    def update_payloads(
        self,
        name: str,
        updates: Sequence[Mapping[str, Any]],
        *,
        if_generation: int | None = None,
    ) -> responses.PayloadsUpdated:
        """Change payloads, each update a mapping of :meth:`update_payload`'s arguments.

        All apply in order, or none does.
        """
        body = without_none(
            updates=[dict(update) for update in updates], if_generation=if_generation
        )
        path = collection_path(name, "documents:payload")
        # With a generation, a repeated request would be refused.
        return self._call(Call("POST", path, body, repeatable=if_generation is None))

    def search(
        self,
        name: str,
        text: str | None = None,
        *,
        vector: Sequence[float] | None = None,
        code: calls.Code | None = None,
        id: str | int | None = None,  # noqa: A002 - as in the interface
        **options: Unpack[SearchOptions],
    ) -> responses.SearchResponse:
        """Find the nearest documents to a text, a vector, both, a code or a document's `id`.

        The `options` are the fields of :class:`hummingbit.clients.calls.SearchOptions`.
        """
        body = calls.search_body(text=text, vector=vector, code=code, id=id, **options)
        return self._call(Call("POST", collection_path(name, "search"), body))

    def recommend(
        self,
        name: str,
        positive: Sequence[str | Mapping[str, Any]],
        negative: Sequence[str | Mapping[str, Any]] = (),
        *,
        strategy: Literal["average_vector", "best_score"] | None = None,
        **options: Unpack[ServedRecommendationOptions],
    ) -> responses.SearchResponse:
        """Find documents like the `positive` examples and unlike the `negative` ones.

        An example is the id of a document, or a mapping of `id`, `text`, `vector` or `code`.
        """
        body = without_none(
            positive=[*positive], negative=[*negative], strategy=strategy, **options
        )
        return self._call(Call("POST", collection_path(name, "recommend"), body))

    def search_batch(
        self,
        name: str,
        searches: Sequence[Mapping[str, Any]],
        *,
        ranking: Ranking | None = None,
        rescore: Mapping[str, Any] | None = None,
        filter: Mapping[str, Any] | None = None,  # noqa: A002 - as in the interface
        encoder_fingerprint: str | None = None,
    ) -> list[responses.SearchResponse]:
        """Run searches, each a mapping of :meth:`search`'s arguments, in one generation."""
        body = without_none(
            searches=[without_none(**search) for search in searches],
            ranking=ranking,
            rescore=rescore,
            filter=filter,
            encoder_fingerprint=encoder_fingerprint,
        )
        path = collection_path(name, "search/batch")
        call = Call[list[responses.SearchResponse]]
        return self._call(call("POST", path, body, read=itemgetter("results")))

    def encoders(self) -> responses.Encoders:
        """List the encoders."""
        return self._call(Call("GET", "/v1/encoders"))

    def encoder(self, name: str) -> responses.EncoderDetail:
        """Describe an encoder: what it was trained on, and what training measured."""
        return self._call(Call("GET", encoder_path(name)))

    def encode(
        self,
        encoder: str,
        texts: Sequence[str] | None = None,
        *,
        vectors: Sequence[Sequence[float]] | None = None,
        format: CodeFormat = "hex",  # noqa: A002 - as in the interface
    ) -> responses.EncodedInputs:
        """Return the codes of texts or vectors, encoded as documents.

        Raises:
            ValueError: unless exactly one of the two is given.
        """
        if (texts is None) == (vectors is None):
            raise ValueError("exactly one of texts and vectors must be given")
        inputs = [{"text": text} for text in texts or ()]
        inputs += [{"vector": json_value(vector)} for vector in vectors or ()]
        body = {"inputs": inputs, "format": format}
        return self._call(Call("POST", f"{encoder_path(encoder)}/encode", body))

    def query_weights(self, encoder: str, texts: Sequence[str]) -> list[list[float]]:
        """Return the weight of each bit of a document for texts, encoded as queries.

        A code is what the signs of these numbers are: bit b is 1 if number b is positive.
        """
        body = {"input": list(texts), "model": encoder, "input_type": "query"}
        read = calls.numbers_of_embeddings
        return self._call(Call[list[list[float]]]("POST", "/v1/embeddings", body, read=read))

    def evaluate(self, name: str, body: Mapping[str, Any]) -> responses.EvaluationStatus:
        """Start an evaluation in the background; `body` is that of ``POST …/evaluate``."""
        path = collection_path(name, "evaluate")
        call = Call[responses.EvaluationStatus]
        return self._call(
            call("POST", path, dict(body), repeatable=False, headers=calls.IN_BACKGROUND)
        )

    def evaluation(self, evaluation_id: str) -> responses.EvaluationStatus:
        """Get the status of an evaluation, and its report once it is done."""
        return self._call(Call("GET", evaluation_path(evaluation_id)))

    def trec_run(self, evaluation_id: str) -> str:
        """Return an evaluation's run in TREC's format."""
        return self._call(Call("GET", f"{evaluation_path(evaluation_id)}?format=trec"))

    def aliases(self) -> dict[str, str]:
        """Return the collection of each alias."""
        call = Call[dict[str, str]]("GET", "/v1/aliases", read=calls.collections_of_aliases)
        return self._call(call)

    def set_alias(self, alias: str, collection: str) -> None:
        """Point an alias at a collection, whether or not the alias exists."""
        self._call(calls.change_aliases([{"add": {"alias": alias, "collection": collection}}]))

    def remove_alias(self, alias: str) -> None:
        """Remove an alias; its collection stays."""
        self._call(calls.change_aliases([{"remove": {"alias": alias}}]))

    def change_aliases(self, actions: Sequence[Mapping[str, Any]]) -> responses.Aliases:
        """Apply actions, ``{"add": {…}}`` or ``{"remove": {…}}``, in one step: all or none."""
        return self._call(calls.change_aliases(actions))

    def reindex(
        self,
        name: str,
        encoder: str,
        into: str,
        alias: str | None = None,
        *,
        engine: str | None = None,
    ) -> responses.JobInfo:
        """Start re-encoding a collection into another; the alias then moves to that.

        The search engine of the other collection is `engine`, or else that of the first.
        """
        body = without_none(encoder=encoder, into=into, alias=alias, engine=engine)
        return self._call(Call("POST", collection_path(name, "reindex"), body, repeatable=False))

    def verify(self, name: str) -> responses.VerificationInfo:
        """Check every document, code and checksum; see :meth:`verify_job` for large ones."""
        return self._call(Call("POST", collection_path(name, "verify")))

    def verify_job(self, name: str) -> responses.JobInfo:
        """Start checking a collection; the job's result is what :meth:`verify` returns."""
        return self._call(calls.in_background(collection_path(name, "verify")))

    def compact(self, name: str) -> responses.CompactionInfo:
        """Free the space of deleted documents; see :meth:`compact_job` for large ones."""
        return self._call(Call("POST", collection_path(name, "compact")))

    def compact_job(self, name: str) -> responses.JobInfo:
        """Start compacting a collection; the job's result is what :meth:`compact` returns."""
        return self._call(calls.in_background(collection_path(name, "compact")))

    def index_fields(self, name: str, fields: Sequence[str]) -> responses.IndexedFieldsInfo:
        """Index these fields of payloads and no others; see :meth:`index_fields_job`."""
        body = {"indexed_fields": [*fields]}
        return self._call(Call("POST", collection_path(name, "index-fields"), body))

    def index_fields_job(self, name: str, fields: Sequence[str]) -> responses.JobInfo:
        """Start indexing fields; the job's result is what :meth:`index_fields` returns."""
        body = {"indexed_fields": [*fields]}
        return self._call(calls.in_background(collection_path(name, "index-fields"), body))

    def snapshots(self, collection: str | None = None) -> list[responses.SnapshotInfo]:
        """List the snapshots of one collection or of all, the oldest first."""
        path = f"/v1/snapshots{query_string(collection=collection)}"
        return self._call(Call("GET", path, read=itemgetter("snapshots")))

    def snapshot(self, snapshot_id: str) -> responses.SnapshotInfo:
        """Describe a snapshot."""
        return self._call(Call("GET", snapshot_path(snapshot_id)))

    def create_snapshot(self, name: str) -> responses.SnapshotInfo:
        """Create a snapshot of a collection; see :meth:`snapshot_job` for large ones."""
        return self._call(Call("POST", collection_path(name, "snapshots"), repeatable=False))

    def snapshot_job(self, name: str) -> responses.JobInfo:
        """Start creating a snapshot; the job's result is what :meth:`create_snapshot` returns."""
        return self._call(calls.in_background(collection_path(name, "snapshots")))

    def download_snapshot(self, snapshot_id: str, path: Path | str) -> responses.SnapshotInfo:
        """Write a snapshot to a file, which appears once it is complete and its SHA-256 is right.

        Raises:
            OSError: if the file cannot be written.
        """
        snapshot = self.snapshot(snapshot_id)
        file = SnapshotFile(str(self._http.base_url), snapshot, Path(path))
        try:
            with (
                self._http.stream("GET", file.address) as response,
                file.writing(response) as write_chunk,
            ):
                if not response.is_success:
                    response.read()
                    raise transport.service_error(file.url, response)
                for chunk in response.iter_bytes():
                    write_chunk(chunk)
        except transport.FAILURES as error:
            raise transport.service_error(file.url, error) from error
        return snapshot

    def upload_snapshot(self, path: Path | str) -> responses.SnapshotInfo:
        """Upload the file of a snapshot; see :meth:`upload_snapshot_job` for large ones.

        Raises:
            OSError: if the file cannot be read.
        """
        call: Call[responses.SnapshotInfo] = calls.upload_snapshot(Path(path), {})
        return self._call(call)

    def upload_snapshot_job(self, path: Path | str) -> responses.JobInfo:
        """Upload the file of a snapshot and start checking it; the job's result is the snapshot.

        Raises:
            OSError: if the file cannot be read.
        """
        call: Call[responses.JobInfo] = calls.upload_snapshot(Path(path), calls.IN_BACKGROUND)
        return self._call(call)

    def delete_snapshot(self, snapshot_id: str) -> None:
        """Delete a snapshot."""
        self._call(Call[None]("DELETE", snapshot_path(snapshot_id)))

    def restore_snapshot(self, snapshot_id: str, collection: str) -> responses.JobInfo:
        """Start restoring a snapshot to a collection."""
        path, body = f"{snapshot_path(snapshot_id)}/restore", {"collection": collection}
        return self._call(Call("POST", path, body, repeatable=False))

    def jobs(
        self, *, limit: int | None = None, state: JobState | None = None
    ) -> list[responses.JobInfo]:
        """List the latest jobs, the newest first."""
        path = f"/v1/jobs{query_string(limit=limit, state=state)}"
        return self._call(Call("GET", path, read=itemgetter("jobs")))

    def job(self, job_id: str) -> responses.JobInfo:
        """Get the state and progress of a job."""
        return self._call(Call("GET", job_path(job_id)))

    def cancel_job(self, job_id: str) -> responses.JobInfo:
        """Cancel a queued or running job."""
        # Not repeatable, because the job may have finished by then.
        return self._call(Call("POST", f"{job_path(job_id)}/cancel", repeatable=False))

    def wait_for(
        self, job: responses.JobInfo | str, *, timeout: float | None = None
    ) -> responses.JobInfo:
        """Wait until a job is done and return it.

        Raises:
            ServiceError: if it failed, was cancelled, or is not done after `timeout` seconds.
        """
        id_, url = job if isinstance(job, str) else job["id"], str(self._http.base_url)
        end = time.monotonic() + (float("inf") if timeout is None else timeout)
        wait = calls.FIRST_POLL
        while not calls.is_finished(url, latest := self.job(id_)):
            wait = calls.next_poll(wait, end - time.monotonic(), url, id_)
            time.sleep(wait)
        return latest

    def labels(self, /, name: str, **query: Any) -> responses.LabelPage:
        """List a page of labels: `limit`, `cursor`, `document`, `who`."""
        return self._call(Call("GET", collection_path(name, "labels", **query)))

    def set_labels(
        self, name: str, labels: Sequence[Mapping[str, Any]]
    ) -> responses.AnnotationsWritten:
        """Set labels, such as ``{"id": "a", "label": "one"}``; a label of None removes it."""
        body = {"labels": [dict(label) for label in labels]}
        return self._call(Call("PUT", collection_path(name, "labels"), body))

    def suggest_labels(self, /, name: str, n: int = 10, **query: Any) -> responses.SuggestedLabels:
        """Suggest `n` documents to label: `method`, `label_field`, `who`, `skip`."""
        return self._call(Call("GET", collection_path(name, "labels/suggest", n=n, **query)))

    def label_stats(self, name: str, label_field: str | None = None) -> responses.LabelStats:
        """Return counts of labels, people's agreement, and the expected gain of a further label."""
        path = collection_path(name, "labels/stats", label_field=label_field)
        return self._call(Call("GET", path))

    def judgements(self, /, name: str, **query: Any) -> responses.JudgementPage:
        """List a page of judgements: `limit`, `cursor`, `query`, `who`."""
        return self._call(Call("GET", collection_path(name, "judgements", **query)))

    def set_judgements(
        self, name: str, judgements: Sequence[Mapping[str, Any]]
    ) -> responses.AnnotationsWritten:
        """Set judgements, such as ``{"query": "q", "id": "a", "grade": 1}``; None removes one."""
        body = {"judgements": [dict(judgement) for judgement in judgements]}
        return self._call(Call("PUT", collection_path(name, "judgements"), body))

    def judgement_pool(self, /, name: str, query: str, **options: Any) -> responses.JudgementPool:
        """Get answers to judge, the most informative first: `n`, `depth`, `method`, `who`."""
        path = collection_path(name, "judgements/pool", query=query, **options)
        return self._call(Call("GET", path))

    def import_labels(
        self, name: str, content: bytes, form: str = "jsonl", who: str | None = None
    ) -> responses.Imported:
        """Import labels and judgements from JSON lines, or judgements from qrels."""
        path = collection_path(name, "labels/import", format=form, who=who)
        return self._call(Call("POST", path, content=content, headers=calls.NDJSON))

    def retrain(self, /, name: str, **options: Any) -> responses.JobInfo:
        """Start training a new encoder on the labels; see `POST …/retrain` for the options."""
        body = without_none(**options)
        return self._call(Call("POST", collection_path(name, "retrain"), body, repeatable=False))

    def train(
        self,
        /,
        name: str,
        method: str | None = None,
        settings: Mapping[str, bool | float | str] | None = None,
        **options: Any,
    ) -> responses.JobInfo:
        """Start training an encoder on the documents; see `POST …/train` for the options."""
        body = without_none(method=method, settings=settings, **options)
        return self._call(Call("POST", collection_path(name, "train"), body, repeatable=False))

    def confirm(self, job: str) -> responses.JobInfo:
        """Go live with the encoder of a retraining, as a job."""
        return self._call(Call("POST", f"{job_path(job)}/confirm"))

    def take_back(self, job: str) -> responses.TakenBack:
        """Move the alias of a retraining back to the old collection."""
        return self._call(Call("POST", f"{job_path(job)}/take-back", repeatable=False))

    def _call(self, call: Call[Answer]) -> Answer:
        transport.check_open(self._http, self._process)
        for attempt in range(self._retries + 1):
            outcome: httpx.Response | Exception
            arguments = transport.request_arguments(call)
            try:
                outcome = self._http.request(call.method, call.path, **arguments)
            except transport.FAILURES as error:
                outcome = error
            else:
                if transport.is_done(call, outcome, attempt):
                    return transport.answer_of(call, outcome)
            wait = transport.seconds_to_wait(call, outcome, attempt)
            if wait is None or attempt == self._retries:
                break
            time.sleep(wait)
        raise transport.service_error(str(self._http.base_url), outcome)
