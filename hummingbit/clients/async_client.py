"""The asynchronous client of a service.

Made from :mod:`hummingbit.clients.client` by ``make clients``; edit that instead.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self, TypeVar, Unpack, cast

import httpx

from hummingbit.clients import calls, responses, transport
from hummingbit.clients.calls import (
    UNSET,
    SearchOptions,
    ServedRecommendationOptions,
    SnapshotFile,
    Unset,
)
from hummingbit.clients.responses import CodeFormat, JobState, Ranking
from hummingbit.clients.transport import (
    Call,
    as_list,
    collection_path,
    document_path,
    encoder_path,
    evaluation_path,
    job_path,
    json_fields,
    json_value,
    query_string,
    snapshot_path,
    without_none,
)

Answer = TypeVar("Answer")


class AsyncClient:
    """The methods of :class:`hummingbit.Client`, to be awaited."""

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        timeout: float = transport.TIMEOUT_SECONDS,
        retries: int = transport.RETRIES,
    ) -> None:
        self._http = httpx.AsyncClient(**transport.http_settings(url, key), timeout=timeout)
        self._retries = retries

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    async def url(self) -> str:
        """See :meth:`hummingbit.Client.url`."""
        return str(self._http.base_url).rstrip("/")

    async def close(self) -> None:
        """See :meth:`hummingbit.Client.close`."""
        await self._http.aclose()

    async def ready(self) -> responses.Ready:
        """See :meth:`hummingbit.Client.ready`."""
        return await self._call(Call("GET", "/readyz"))

    async def collections(self) -> responses.Collections:
        """See :meth:`hummingbit.Client.collections`."""
        return await self._call(Call("GET", "/v1/collections"))

    async def collection(self, name: str) -> responses.CollectionDetail:
        """See :meth:`hummingbit.Client.collection`."""
        return await self._call(Call("GET", collection_path(name)))

    async def stats(self, name: str) -> responses.CollectionStats:
        """See :meth:`hummingbit.Client.stats`."""
        return await self._call(Call("GET", collection_path(name, "stats")))

    async def create_collection(
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
        """See :meth:`hummingbit.Client.create_collection`."""
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
        return await self._call(Call("PUT", collection_path(name), body))

    async def update_collection(
        self,
        name: str,
        *,
        ranking: Ranking | None = None,
        hybrid_weight: float | Literal["encoder"] | None = None,
        language: str | None = None,
    ) -> responses.CollectionSummary:
        """See :meth:`hummingbit.Client.update_collection`."""
        body: dict[str, Any] = without_none(
            ranking=ranking, hybrid_weight=hybrid_weight, language=language
        )
        if hybrid_weight == "encoder":
            body["hybrid_weight"] = None
        return await self._call(Call("PATCH", collection_path(name), body))

    async def delete_collection(self, name: str) -> None:
        """See :meth:`hummingbit.Client.delete_collection`."""
        await self._call(Call[None]("DELETE", collection_path(name)))

    async def upsert(
        self,
        name: str,
        documents: Sequence[Mapping[str, Any]],
        *,
        create_only: bool = False,
        encoder_fingerprint: str | None = None,
    ) -> responses.Upserted:
        """See :meth:`hummingbit.Client.upsert`."""
        records = [json_fields(document) for document in documents]
        return await self._call(
            Call(
                "PUT",
                collection_path(name, "documents"),
                without_none(documents=records, encoder_fingerprint=encoder_fingerprint),
                # A repeated creation would be refused, because the documents exist already.
                repeatable=not create_only,
                headers=calls.CREATE_ONLY if create_only else {},
            )
        )

    async def bulk(
        self,
        name: str,
        documents: Iterable[Mapping[str, Any]],
        *,
        create_only: bool = False,
        skip_unchanged: bool = False,
        encoder_fingerprint: str | None = None,
    ) -> responses.BulkAnswer:
        """See :meth:`hummingbit.Client.bulk`."""
        answer: responses.BulkAnswer = await self._call(
            calls.bulk(
                name,
                documents,
                {},
                create_only=create_only,
                skip_unchanged=skip_unchanged,
                encoder_fingerprint=encoder_fingerprint,
            )
        )
        return answer

    async def bulk_job(
        self,
        name: str,
        documents: Iterable[Mapping[str, Any]],
        *,
        create_only: bool = False,
        skip_unchanged: bool = False,
        encoder_fingerprint: str | None = None,
        idempotency_key: str | None = None,
    ) -> responses.Job:
        """See :meth:`hummingbit.Client.bulk_job`."""
        # It keeps a retry from starting a second job.
        key = {calls.IDEMPOTENCY_KEY: idempotency_key or secrets.token_hex(16)}
        job: responses.Job = await self._call(
            calls.bulk(
                name,
                documents,
                {**calls.IN_BACKGROUND, **key},
                create_only=create_only,
                skip_unchanged=skip_unchanged,
                encoder_fingerprint=encoder_fingerprint,
            )
        )
        return job

    async def scroll(
        self,
        name: str,
        *,
        limit: int | None = None,
        cursor: str | None = None,
        filter: Mapping[str, Any] | None = None,  # noqa: A002 - as in the interface
        sort: Sequence[str | Mapping[str, Any]] | str | None = None,
        with_payload: bool | Sequence[str] | None = None,
    ) -> responses.DocumentPage:
        """See :meth:`hummingbit.Client.scroll`."""
        body = without_none(
            limit=limit,
            cursor=cursor,
            filter=filter,
            sort=calls.sort_fields(sort),
            with_payload=calls.payload_fields(with_payload),
        )
        return await self._call(Call("POST", collection_path(name, "documents:scroll"), body))

    async def facets(
        self,
        name: str,
        facets: Sequence[str | Mapping[str, Any]] | str,
        *,
        filter: Mapping[str, Any] | None = None,  # noqa: A002 - as in the interface
    ) -> responses.Facets:
        """See :meth:`hummingbit.Client.facets`."""
        body = without_none(facets=calls.facet_list(facets), filter=filter)
        return await self._call(Call("POST", collection_path(name, "facets"), body))

    async def complete(self, name: str, text: str, *, limit: int = 10) -> responses.Completions:
        """See :meth:`hummingbit.Client.complete`."""
        path = collection_path(name, "completions", text=text, limit=limit)
        return await self._call(Call("GET", path))

    async def count(self, name: str, filter: Mapping[str, Any] | None = None) -> int:  # noqa: A002
        """Count all documents, or those that match a filter."""
        response = await self.explained_count(name, filter)
        return response["count"]

    async def explained_count(self, name: str, filter: Mapping[str, Any] | None) -> responses.Count:  # noqa: A002
        """Count as :meth:`count` does; if nothing matches the filter, `warnings` may say why."""
        body = without_none(filter=filter)
        return await self._call(Call("POST", collection_path(name, "documents:count"), body))

    async def get(self, name: str, document_id: str) -> responses.StoredDocument:
        """See :meth:`hummingbit.Client.get`."""
        return await self._call(Call("GET", document_path(name, document_id)))

    async def get_many(
        self, name: str, ids: Sequence[str], *, with_payload: bool | Sequence[str] | None = None
    ) -> responses.FoundDocuments:
        """See :meth:`hummingbit.Client.get_many`."""
        selection = calls.payload_fields(with_payload)
        body = without_none(ids=as_list(ids), with_payload=selection)
        return await self._call(Call("POST", collection_path(name, "documents:get"), body))

    async def delete(self, name: str, document_id: str) -> None:
        """See :meth:`hummingbit.Client.delete`."""
        await self._call(Call[None]("DELETE", document_path(name, document_id)))

    async def delete_many(
        self,
        name: str,
        *,
        ids: Sequence[str] | None = None,
        filter: Mapping[str, Any] | None = None,  # noqa: A002 - as in the interface
    ) -> responses.Deleted:
        """See :meth:`hummingbit.Client.delete_many`."""
        body = without_none(ids=None if ids is None else as_list(ids), filter=filter)
        return await self._call(Call("POST", collection_path(name, "documents:delete"), body))

    async def update_payload(
        self,
        name: str,
        *,
        ids: Sequence[str] | None = None,
        filter: Mapping[str, Any] | None = None,  # noqa: A002 - as in the interface
        set: Mapping[str, Any] | None = None,  # noqa: A002 - as in the interface
        merge: Mapping[str, Any] | None = None,
        remove: Sequence[str] | None = None,
        overwrite: Mapping[str, Any] | None = None,
        expires_at: str | float | None = None,
        ttl_seconds: float | None = None,
        if_generation: int | None = None,
    ) -> responses.PayloadsUpdated:
        """See :meth:`hummingbit.Client.update_payload`."""
        update = without_none(
            ids=None if ids is None else as_list(ids),
            filter=filter,
            set=set,
            merge=merge,
            remove=None if remove is None else as_list(remove),
            overwrite=overwrite,
            expires_at=expires_at,
            ttl_seconds=ttl_seconds,
        )
        return await self.update_payloads(name, [update], if_generation=if_generation)

    async def update_payloads(
        self,
        name: str,
        updates: Sequence[Mapping[str, Any]],
        *,
        if_generation: int | None = None,
    ) -> responses.PayloadsUpdated:
        """See :meth:`hummingbit.Client.update_payloads`."""
        body = without_none(
            updates=[dict(update) for update in updates], if_generation=if_generation
        )
        path = collection_path(name, "documents:payload")
        # With a generation, a repeated request would be refused.
        return await self._call(Call("POST", path, body, repeatable=if_generation is None))

    async def search(
        self,
        name: str,
        text: str | None = None,
        *,
        vector: Sequence[float] | None = None,
        code: calls.Code | None = None,
        id: str | None = None,  # noqa: A002 - as in the interface
        **options: Unpack[SearchOptions],
    ) -> responses.SearchResponse:
        """See :meth:`hummingbit.Client.search`."""
        body = calls.search_body(text=text, vector=vector, code=code, id=id, **options)
        return await self._call(Call("POST", collection_path(name, "search"), body))

    async def recommend(
        self,
        name: str,
        positive: Sequence[str | Mapping[str, Any]],
        negative: Sequence[str | Mapping[str, Any]] = (),
        *,
        strategy: Literal["average_vector", "best_score"] | None = None,
        **options: Unpack[ServedRecommendationOptions],
    ) -> responses.SearchResponse:
        """See :meth:`hummingbit.Client.recommend`."""
        body = without_none(
            positive=[*positive], negative=[*negative], strategy=strategy, **options
        )
        return await self._call(Call("POST", collection_path(name, "recommend"), body))

    async def search_batch(
        self,
        name: str,
        searches: Sequence[Mapping[str, Any]],
        *,
        ranking: Ranking | None = None,
        rescore: Mapping[str, Any] | None = None,
        filter: Mapping[str, Any] | None = None,  # noqa: A002 - as in the interface
        encoder_fingerprint: str | None = None,
    ) -> list[responses.SearchResponse]:
        """See :meth:`hummingbit.Client.search_batch`."""
        body = without_none(
            searches=[without_none(**search) for search in searches],
            ranking=ranking,
            rescore=rescore,
            filter=filter,
            encoder_fingerprint=encoder_fingerprint,
        )
        path = collection_path(name, "search/batch")
        response = await self._call(
            Call[dict[str, list[responses.SearchResponse]]]("POST", path, body)
        )
        return response["results"]

    async def encoders(self) -> responses.Encoders:
        """See :meth:`hummingbit.Client.encoders`."""
        return await self._call(Call("GET", "/v1/encoders"))

    async def encoder(self, name: str) -> responses.EncoderDetail:
        """See :meth:`hummingbit.Client.encoder`."""
        return await self._call(Call("GET", encoder_path(name)))

    async def encode(
        self,
        encoder: str,
        texts: Sequence[str] | None = None,
        *,
        vectors: Sequence[Sequence[float]] | None = None,
        format: CodeFormat = "hex",  # noqa: A002 - as in the interface
    ) -> responses.EncodedInputs:
        """See :meth:`hummingbit.Client.encode`."""
        if (texts is None) == (vectors is None):
            raise ValueError("exactly one of texts and vectors must be given")
        inputs = [{"text": text} for text in texts or ()]
        inputs += [{"vector": json_value(vector)} for vector in vectors or ()]
        body = {"inputs": inputs, "format": format}
        return await self._call(Call("POST", f"{encoder_path(encoder)}/encode", body))

    async def query_weights(self, encoder: str, texts: Sequence[str]) -> list[list[float]]:
        """See :meth:`hummingbit.Client.query_weights`."""
        body = {"input": list(texts), "model": encoder, "input_type": "query"}
        response = await self._call(Call[responses.Embeddings]("POST", "/v1/embeddings", body))
        return [
            [float(number) for number in embedding["embedding"]] for embedding in response["data"]
        ]

    async def evaluate(self, name: str, body: Mapping[str, Any]) -> responses.EvaluationStatus:
        """See :meth:`hummingbit.Client.evaluate`."""
        path = collection_path(name, "evaluate")
        call = Call[responses.EvaluationStatus]
        return await self._call(
            call("POST", path, dict(body), repeatable=False, headers=calls.IN_BACKGROUND)
        )

    async def evaluation(self, evaluation_id: str) -> responses.EvaluationStatus:
        """See :meth:`hummingbit.Client.evaluation`."""
        return await self._call(Call("GET", evaluation_path(evaluation_id)))

    async def trec_run(self, evaluation_id: str) -> str:
        """See :meth:`hummingbit.Client.trec_run`."""
        return await self._call(Call("GET", f"{evaluation_path(evaluation_id)}?format=trec"))

    async def aliases(self) -> dict[str, str]:
        """See :meth:`hummingbit.Client.aliases`."""
        response = await self._call(Call[responses.Aliases]("GET", "/v1/aliases"))
        return {alias["alias"]: alias["collection"] for alias in response["aliases"]}

    async def set_alias(self, alias: str, collection: str) -> None:
        """See :meth:`hummingbit.Client.set_alias`."""
        await self.change_aliases([{"add": {"alias": alias, "collection": collection}}])

    async def remove_alias(self, alias: str) -> None:
        """See :meth:`hummingbit.Client.remove_alias`."""
        await self.change_aliases([{"remove": {"alias": alias}}])

    async def change_aliases(self, actions: Sequence[Mapping[str, Any]]) -> responses.Aliases:
        """See :meth:`hummingbit.Client.change_aliases`."""
        # Removing an alias a second time is an error.
        repeatable = all("remove" not in action for action in actions)
        body = {"actions": [dict(action) for action in actions]}
        return await self._call(Call("POST", "/v1/aliases", body, repeatable=repeatable))

    async def reindex(
        self,
        name: str,
        encoder: str,
        into: str,
        alias: str | None = None,
        *,
        engine: str | None = None,
    ) -> responses.Job:
        """See :meth:`hummingbit.Client.reindex`."""
        body = without_none(encoder=encoder, into=into, alias=alias, engine=engine)
        return await self._call(
            Call("POST", collection_path(name, "reindex"), body, repeatable=False)
        )

    async def verify(self, name: str) -> responses.Verification:
        """See :meth:`hummingbit.Client.verify`."""
        return await self._call(Call("POST", collection_path(name, "verify")))

    async def verify_job(self, name: str) -> responses.Job:
        """See :meth:`hummingbit.Client.verify_job`."""
        return await self._call(calls.in_background(collection_path(name, "verify")))

    async def compact(self, name: str) -> responses.Compaction:
        """See :meth:`hummingbit.Client.compact`."""
        return await self._call(Call("POST", collection_path(name, "compact")))

    async def compact_job(self, name: str) -> responses.Job:
        """See :meth:`hummingbit.Client.compact_job`."""
        return await self._call(calls.in_background(collection_path(name, "compact")))

    async def index_fields(self, name: str, fields: Sequence[str]) -> responses.IndexedFields:
        """See :meth:`hummingbit.Client.index_fields`."""
        body = {"indexed_fields": [*fields]}
        return await self._call(Call("POST", collection_path(name, "index-fields"), body))

    async def index_fields_job(self, name: str, fields: Sequence[str]) -> responses.Job:
        """See :meth:`hummingbit.Client.index_fields_job`."""
        body = {"indexed_fields": [*fields]}
        return await self._call(calls.in_background(collection_path(name, "index-fields"), body))

    async def snapshots(self, collection: str | None = None) -> list[responses.Snapshot]:
        """See :meth:`hummingbit.Client.snapshots`."""
        path = f"/v1/snapshots{query_string(collection=collection)}"
        response = await self._call(Call[responses.Snapshots]("GET", path))
        return response["snapshots"]

    async def snapshot(self, snapshot_id: str) -> responses.Snapshot:
        """See :meth:`hummingbit.Client.snapshot`."""
        return await self._call(Call("GET", snapshot_path(snapshot_id)))

    async def create_snapshot(self, name: str) -> responses.Snapshot:
        """See :meth:`hummingbit.Client.create_snapshot`."""
        return await self._call(Call("POST", collection_path(name, "snapshots"), repeatable=False))

    async def snapshot_job(self, name: str) -> responses.Job:
        """See :meth:`hummingbit.Client.snapshot_job`."""
        return await self._call(calls.in_background(collection_path(name, "snapshots")))

    async def download_snapshot(self, snapshot_id: str, path: Path | str) -> responses.Snapshot:
        """See :meth:`hummingbit.Client.download_snapshot`."""
        snapshot = await self.snapshot(snapshot_id)
        file = SnapshotFile(str(self._http.base_url), snapshot, Path(path))
        try:
            # Two blocks, because the asynchronous client awaits only the first.
            async with self._http.stream("GET", file.address) as response:
                with file.writing(response) as write_chunk:
                    if not response.is_success:
                        await response.aread()
                        raise transport.service_error(file.url, response)
                    async for chunk in response.aiter_bytes():
                        write_chunk(chunk)
        except httpx.HTTPError as error:
            raise transport.service_error(file.url, error) from error
        return snapshot

    async def upload_snapshot(self, path: Path | str) -> responses.Snapshot:
        """See :meth:`hummingbit.Client.upload_snapshot`."""
        call = await asyncio.to_thread(calls.upload_snapshot, Path(path), {})
        snapshot: responses.Snapshot = await self._call(call)
        return snapshot

    async def upload_snapshot_job(self, path: Path | str) -> responses.Job:
        """See :meth:`hummingbit.Client.upload_snapshot_job`."""
        call = await asyncio.to_thread(calls.upload_snapshot, Path(path), calls.IN_BACKGROUND)
        job: responses.Job = await self._call(call)
        return job

    async def delete_snapshot(self, snapshot_id: str) -> None:
        """See :meth:`hummingbit.Client.delete_snapshot`."""
        await self._call(Call[None]("DELETE", snapshot_path(snapshot_id)))

    async def restore_snapshot(self, snapshot_id: str, collection: str) -> responses.Job:
        """See :meth:`hummingbit.Client.restore_snapshot`."""
        path, body = f"{snapshot_path(snapshot_id)}/restore", {"collection": collection}
        return await self._call(Call("POST", path, body, repeatable=False))

    async def jobs(
        self, *, limit: int | None = None, state: JobState | None = None
    ) -> list[responses.Job]:
        """See :meth:`hummingbit.Client.jobs`."""
        path = f"/v1/jobs{query_string(limit=limit, state=state)}"
        response = await self._call(Call[responses.Jobs]("GET", path))
        return response["jobs"]

    async def job(self, job_id: str) -> responses.Job:
        """See :meth:`hummingbit.Client.job`."""
        return await self._call(Call("GET", job_path(job_id)))

    async def cancel_job(self, job_id: str) -> responses.Job:
        """See :meth:`hummingbit.Client.cancel_job`."""
        # Not repeatable, because the job may have finished by then.
        return await self._call(Call("POST", f"{job_path(job_id)}/cancel", repeatable=False))

    async def wait_for(
        self, job: responses.Job | str, *, timeout: float | None = None
    ) -> responses.Job:
        """See :meth:`hummingbit.Client.wait_for`."""
        id_, url = job if isinstance(job, str) else job["id"], str(self._http.base_url)
        end = time.monotonic() + (float("inf") if timeout is None else timeout)
        wait = calls.FIRST_POLL
        while not calls.is_finished(url, latest := await self.job(id_)):
            wait = calls.next_poll(wait, end - time.monotonic(), url, id_)
            await asyncio.sleep(wait)
        return latest

    async def labels(self, name: str, **query: Any) -> responses.LabelPage:
        """See :meth:`hummingbit.Client.labels`."""
        return await self._call(Call("GET", collection_path(name, "labels", **query)))

    async def set_labels(
        self, name: str, labels: Sequence[Mapping[str, Any]]
    ) -> responses.AnnotationsWritten:
        """See :meth:`hummingbit.Client.set_labels`."""
        body = {"labels": [dict(label) for label in labels]}
        return await self._call(Call("PUT", collection_path(name, "labels"), body))

    async def suggest_labels(
        self, name: str, n: int = 10, **query: Any
    ) -> responses.SuggestedLabels:
        """See :meth:`hummingbit.Client.suggest_labels`."""
        return await self._call(Call("GET", collection_path(name, "labels/suggest", n=n, **query)))

    async def label_stats(self, name: str, label_field: str | None = None) -> responses.LabelStats:
        """See :meth:`hummingbit.Client.label_stats`."""
        path = collection_path(name, "labels/stats", label_field=label_field)
        return await self._call(Call("GET", path))

    async def judgements(self, name: str, **query: Any) -> responses.JudgementPage:
        """See :meth:`hummingbit.Client.judgements`."""
        return await self._call(Call("GET", collection_path(name, "judgements", **query)))

    async def set_judgements(
        self, name: str, judgements: Sequence[Mapping[str, Any]]
    ) -> responses.AnnotationsWritten:
        """See :meth:`hummingbit.Client.set_judgements`."""
        body = {"judgements": [dict(judgement) for judgement in judgements]}
        return await self._call(Call("PUT", collection_path(name, "judgements"), body))

    async def judgement_pool(
        self, name: str, query: str, **options: Any
    ) -> responses.JudgementPool:
        """See :meth:`hummingbit.Client.judgement_pool`."""
        path = collection_path(name, "judgements/pool", query=query, **options)
        return await self._call(Call("GET", path))

    async def import_labels(
        self, name: str, content: bytes, form: str = "jsonl", who: str | None = None
    ) -> responses.Imported:
        """See :meth:`hummingbit.Client.import_labels`."""
        path = collection_path(name, "labels/import", format=form, who=who)
        return await self._call(Call("POST", path, content=content, headers=calls.NDJSON))

    async def retrain(self, name: str, **options: Any) -> responses.Job:
        """See :meth:`hummingbit.Client.retrain`."""
        body = without_none(**options)
        return await self._call(
            Call("POST", collection_path(name, "retrain"), body, repeatable=False)
        )

    async def train(
        self,
        name: str,
        method: str | None = None,
        settings: Mapping[str, bool | float | str] | None = None,
        **options: Any,
    ) -> responses.Job:
        """See :meth:`hummingbit.Client.train`."""
        body = without_none(method=method, settings=settings, **options)
        return await self._call(
            Call("POST", collection_path(name, "train"), body, repeatable=False)
        )

    async def confirm(self, job: str) -> responses.Job:
        """See :meth:`hummingbit.Client.confirm`."""
        return await self._call(Call("POST", f"{job_path(job)}/confirm"))

    async def take_back(self, job: str) -> responses.Alias:
        """See :meth:`hummingbit.Client.take_back`."""
        return await self._call(Call("POST", f"{job_path(job)}/take-back", repeatable=False))

    async def _call(self, call: Call[Answer]) -> Answer:
        for attempt in range(self._retries + 1):
            outcome: httpx.Response | httpx.HTTPError
            arguments = transport.request_arguments(call, asynchronous=True)
            try:
                outcome = await self._http.request(call.method, call.path, **arguments)
            except httpx.HTTPError as error:
                outcome = error
            else:
                if transport.is_done(call, outcome, attempt):
                    return cast("Answer", transport.response_body(outcome))
            wait = transport.seconds_to_wait(call, outcome, attempt)
            if wait is None or attempt == self._retries:
                break
            await asyncio.sleep(wait)
        raise transport.service_error(str(self._http.base_url), outcome)
