"""The asynchronous client of a service.

Made from :mod:`hummingbit.clients.client` by ``make clients``; edit that instead.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar, Unpack, cast

import httpx

from hummingbit.clients import calls, responses, transport
from hummingbit.clients.calls import SearchOptions, SnapshotFile
from hummingbit.clients.responses import CodeFormat, JobState, Ranking
from hummingbit.clients.transport import Call

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

    async def close(self) -> None:
        """See :meth:`hummingbit.Client.close`."""
        await self._http.aclose()

    async def ready(self) -> responses.Ready:
        """See :meth:`hummingbit.Client.ready`."""
        return await self._call(calls.ready())

    async def collections(self) -> responses.Collections:
        """See :meth:`hummingbit.Client.collections`."""
        return await self._call(calls.collections())

    async def collection(self, name: str) -> responses.CollectionDetail:
        """See :meth:`hummingbit.Client.collection`."""
        return await self._call(calls.collection(name))

    async def stats(self, name: str) -> responses.CollectionStats:
        """See :meth:`hummingbit.Client.stats`."""
        return await self._call(calls.stats(name))

    async def create_collection(
        self,
        name: str,
        *,
        encoder: str | None = None,
        n_bits: int | None = None,
        engine: str | None = None,
        indexed_fields: Sequence[str] | None = None,
        keep_vectors: responses.KeepVectors | None = None,
    ) -> responses.CollectionSummary:
        """See :meth:`hummingbit.Client.create_collection`."""
        settings = (encoder, n_bits, engine, indexed_fields)
        return await self._call(calls.create_collection(name, *settings, keep_vectors=keep_vectors))

    async def update_collection(
        self, name: str, *, ranking: Ranking
    ) -> responses.CollectionSummary:
        """See :meth:`hummingbit.Client.update_collection`."""
        return await self._call(calls.update_collection(name, ranking))

    async def delete_collection(self, name: str) -> None:
        """See :meth:`hummingbit.Client.delete_collection`."""
        await self._call(calls.delete_collection(name))

    async def upsert(
        self,
        name: str,
        documents: Sequence[Mapping[str, Any]],
        *,
        create_only: bool = False,
        encoder_fingerprint: str | None = None,
    ) -> responses.Upserted:
        """See :meth:`hummingbit.Client.upsert`."""
        call = calls.upsert(name, documents, encoder_fingerprint, create_only=create_only)
        return await self._call(call)

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
        call = calls.bulk(
            name,
            documents,
            encoder_fingerprint,
            create_only=create_only,
            skip_unchanged=skip_unchanged,
        )
        return await self._call(call)

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
        call = calls.bulk_job(
            name,
            documents,
            encoder_fingerprint,
            idempotency_key,
            create_only=create_only,
            skip_unchanged=skip_unchanged,
        )
        return await self._call(call)

    async def scroll(
        self,
        name: str,
        *,
        limit: int | None = None,
        cursor: str | None = None,
        filter: Mapping[str, Any] | None = None,  # noqa: A002 - as in the interface
    ) -> responses.DocumentPage:
        """See :meth:`hummingbit.Client.scroll`."""
        return await self._call(calls.scroll(name, limit, cursor, filter))

    async def count(self, name: str, filter: Mapping[str, Any] | None = None) -> int:  # noqa: A002
        """Count all documents, or those that match a filter."""
        response = await self._call(calls.count(name, filter))
        return response["count"]

    async def explained_count(self, name: str, filter: Mapping[str, Any] | None) -> responses.Count:  # noqa: A002
        """Count as :meth:`count` does; if nothing matches the filter, `warnings` may say why."""
        return await self._call(calls.count(name, filter))

    async def get(self, name: str, document_id: str) -> responses.StoredDocument:
        """See :meth:`hummingbit.Client.get`."""
        return await self._call(calls.get(name, document_id))

    async def get_many(self, name: str, ids: Sequence[str]) -> responses.FoundDocuments:
        """See :meth:`hummingbit.Client.get_many`."""
        return await self._call(calls.get_many(name, ids))

    async def delete(self, name: str, document_id: str) -> None:
        """See :meth:`hummingbit.Client.delete`."""
        await self._call(calls.delete(name, document_id))

    async def delete_many(
        self,
        name: str,
        *,
        ids: Sequence[str] | None = None,
        filter: Mapping[str, Any] | None = None,  # noqa: A002 - as in the interface
    ) -> responses.Deleted:
        """See :meth:`hummingbit.Client.delete_many`."""
        return await self._call(calls.delete_many(name, ids, filter))

    async def search(
        self,
        name: str,
        text: str | None = None,
        *,
        vector: Sequence[float] | None = None,
        code: str | None = None,
        id: str | None = None,  # noqa: A002 - as in the interface
        **options: Unpack[SearchOptions],
    ) -> responses.SearchResponse:
        """See :meth:`hummingbit.Client.search`."""
        query = {"text": text, "vector": vector, "code": code, "id": id}
        return await self._call(calls.search(name, {**query, **options}))

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
        searched = (name, searches, ranking, filter, encoder_fingerprint)
        response = await self._call(calls.search_batch(*searched, rescore=rescore))
        return response["results"]

    async def encoders(self) -> responses.Encoders:
        """See :meth:`hummingbit.Client.encoders`."""
        return await self._call(calls.encoders())

    async def encoder(self, name: str) -> responses.EncoderDetail:
        """See :meth:`hummingbit.Client.encoder`."""
        return await self._call(calls.encoder(name))

    async def encode(
        self,
        encoder: str,
        texts: Sequence[str] | None = None,
        *,
        vectors: Sequence[Sequence[float]] | None = None,
        format: CodeFormat = "hex",  # noqa: A002 - as in the interface
    ) -> responses.EncodedInputs:
        """See :meth:`hummingbit.Client.encode`."""
        return await self._call(calls.encode(encoder, texts, vectors, format))

    async def evaluate(self, name: str, body: Mapping[str, Any]) -> responses.EvaluationStatus:
        """See :meth:`hummingbit.Client.evaluate`."""
        return await self._call(calls.evaluate(name, body))

    async def evaluation(self, evaluation_id: str) -> responses.EvaluationStatus:
        """See :meth:`hummingbit.Client.evaluation`."""
        return await self._call(calls.evaluation(evaluation_id))

    async def trec_run(self, evaluation_id: str) -> str:
        """See :meth:`hummingbit.Client.trec_run`."""
        return await self._call(calls.trec_run(evaluation_id))

    async def aliases(self) -> dict[str, str]:
        """See :meth:`hummingbit.Client.aliases`."""
        response = await self._call(calls.aliases())
        return {alias["alias"]: alias["collection"] for alias in response["aliases"]}

    async def set_alias(self, alias: str, collection: str) -> None:
        """See :meth:`hummingbit.Client.set_alias`."""
        await self.change_aliases([{"add": {"alias": alias, "collection": collection}}])

    async def remove_alias(self, alias: str) -> None:
        """See :meth:`hummingbit.Client.remove_alias`."""
        await self.change_aliases([{"remove": {"alias": alias}}])

    async def change_aliases(self, actions: Sequence[Mapping[str, Any]]) -> responses.Aliases:
        """See :meth:`hummingbit.Client.change_aliases`."""
        return await self._call(calls.change_aliases(actions))

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
        return await self._call(calls.reindex(name, encoder, into, alias, engine))

    async def verify(self, name: str) -> responses.Verification:
        """See :meth:`hummingbit.Client.verify`."""
        return await self._call(calls.verify(name))

    async def verify_job(self, name: str) -> responses.Job:
        """See :meth:`hummingbit.Client.verify_job`."""
        return await self._call(calls.verify_job(name))

    async def compact(self, name: str) -> responses.Compaction:
        """See :meth:`hummingbit.Client.compact`."""
        return await self._call(calls.compact(name))

    async def compact_job(self, name: str) -> responses.Job:
        """See :meth:`hummingbit.Client.compact_job`."""
        return await self._call(calls.compact_job(name))

    async def index_fields(self, name: str, fields: Sequence[str]) -> responses.IndexedFields:
        """See :meth:`hummingbit.Client.index_fields`."""
        return await self._call(calls.index_fields(name, fields))

    async def index_fields_job(self, name: str, fields: Sequence[str]) -> responses.Job:
        """See :meth:`hummingbit.Client.index_fields_job`."""
        return await self._call(calls.index_fields_job(name, fields))

    async def snapshots(self, collection: str | None = None) -> list[responses.Snapshot]:
        """See :meth:`hummingbit.Client.snapshots`."""
        response = await self._call(calls.snapshots(collection))
        return response["snapshots"]

    async def snapshot(self, snapshot_id: str) -> responses.Snapshot:
        """See :meth:`hummingbit.Client.snapshot`."""
        return await self._call(calls.snapshot(snapshot_id))

    async def create_snapshot(self, name: str) -> responses.Snapshot:
        """See :meth:`hummingbit.Client.create_snapshot`."""
        return await self._call(calls.create_snapshot(name))

    async def snapshot_job(self, name: str) -> responses.Job:
        """See :meth:`hummingbit.Client.snapshot_job`."""
        return await self._call(calls.snapshot_job(name))

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
        await self._call(calls.delete_snapshot(snapshot_id))

    async def restore_snapshot(self, snapshot_id: str, collection: str) -> responses.Job:
        """See :meth:`hummingbit.Client.restore_snapshot`."""
        return await self._call(calls.restore_snapshot(snapshot_id, collection))

    async def jobs(
        self, *, limit: int | None = None, state: JobState | None = None
    ) -> list[responses.Job]:
        """See :meth:`hummingbit.Client.jobs`."""
        response = await self._call(calls.jobs(limit, state))
        return response["jobs"]

    async def job(self, job_id: str) -> responses.Job:
        """See :meth:`hummingbit.Client.job`."""
        return await self._call(calls.job(job_id))

    async def cancel_job(self, job_id: str) -> responses.Job:
        """See :meth:`hummingbit.Client.cancel_job`."""
        return await self._call(calls.cancel_job(job_id))

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
        return await self._call(calls.labels(name, **query))

    async def set_labels(
        self, name: str, labels: Sequence[Mapping[str, Any]]
    ) -> responses.AnnotationsWritten:
        """See :meth:`hummingbit.Client.set_labels`."""
        return await self._call(calls.set_labels(name, labels))

    async def suggest_labels(
        self, name: str, n: int = 10, **query: Any
    ) -> responses.SuggestedLabels:
        """See :meth:`hummingbit.Client.suggest_labels`."""
        return await self._call(calls.suggest_labels(name, n=n, **query))

    async def label_stats(self, name: str, label_field: str | None = None) -> responses.LabelStats:
        """See :meth:`hummingbit.Client.label_stats`."""
        return await self._call(calls.label_stats(name, label_field))

    async def judgements(self, name: str, **query: Any) -> responses.JudgementPage:
        """See :meth:`hummingbit.Client.judgements`."""
        return await self._call(calls.judgements(name, **query))

    async def set_judgements(
        self, name: str, judgements: Sequence[Mapping[str, Any]]
    ) -> responses.AnnotationsWritten:
        """See :meth:`hummingbit.Client.set_judgements`."""
        return await self._call(calls.set_judgements(name, judgements))

    async def judgement_pool(
        self, name: str, query: str, **options: Any
    ) -> responses.JudgementPool:
        """See :meth:`hummingbit.Client.judgement_pool`."""
        return await self._call(calls.judgement_pool(name, query, **options))

    async def import_labels(
        self, name: str, content: bytes, form: str = "jsonl", who: str | None = None
    ) -> responses.Imported:
        """See :meth:`hummingbit.Client.import_labels`."""
        return await self._call(calls.import_labels(name, content, form, who))

    async def retrain(self, name: str, **options: Any) -> responses.Job:
        """See :meth:`hummingbit.Client.retrain`."""
        return await self._call(calls.retrain(name, options))

    async def confirm(self, job: str) -> responses.Job:
        """See :meth:`hummingbit.Client.confirm`."""
        return await self._call(calls.confirm(job))

    async def take_back(self, job: str) -> responses.Alias:
        """See :meth:`hummingbit.Client.take_back`."""
        return await self._call(calls.take_back(job))

    # ----------------------------------------------------------------------------
    # The client of a service.

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
