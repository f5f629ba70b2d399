"""The asynchronous client of a service.

Made from :mod:`hummingbit.clients.client` by ``make clients``; edit that instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self, TypeVar, cast

import httpx

from hummingbit.clients import calls, document_calls, responses, transport
from hummingbit.clients.labels.async_label_operations import AsyncLabelOperations
from hummingbit.clients.operations import operation_responses
from hummingbit.clients.operations.async_operations import AsyncOperations
from hummingbit.clients.responses import CodeFormat, Ranking
from hummingbit.clients.transport import Call

Answer = TypeVar("Answer")


class AsyncClient(AsyncOperations, AsyncLabelOperations):
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
        call = document_calls.bulk(
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
    ) -> operation_responses.Job:
        """See :meth:`hummingbit.Client.bulk_job`."""
        call = document_calls.bulk_job(
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
        return await self._call(document_calls.scroll(name, limit, cursor, filter))

    async def count(self, name: str, filter: Mapping[str, Any] | None = None) -> int:  # noqa: A002
        """Count all documents, or those that match a filter."""
        response = await self._call(document_calls.count(name, filter))
        return response["count"]

    async def explained_count(self, name: str, filter: Mapping[str, Any] | None) -> responses.Count:  # noqa: A002
        """Count as :meth:`count` does; if nothing matches the filter, `warnings` may say why."""
        return await self._call(document_calls.count(name, filter))

    async def get(self, name: str, document_id: str) -> responses.StoredDocument:
        """See :meth:`hummingbit.Client.get`."""
        return await self._call(calls.get(name, document_id))

    async def get_many(self, name: str, ids: Sequence[str]) -> responses.FoundDocuments:
        """See :meth:`hummingbit.Client.get_many`."""
        return await self._call(document_calls.get_many(name, ids))

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
        return await self._call(document_calls.delete_many(name, ids, filter))

    async def search(
        self,
        name: str,
        text: str | None = None,
        *,
        vector: Sequence[float] | None = None,
        code: str | None = None,
        id: str | None = None,  # noqa: A002 - as in the interface
        limit: int | None = None,
        radius: int | None = None,
        ranking: Ranking | None = None,
        filter: Mapping[str, Any] | None = None,  # noqa: A002 - as in the interface
        offset: int | None = None,
        cursor: str | None = None,
        with_cursor: bool | None = None,
        with_payload: bool | None = None,
        with_text: bool | None = None,
        with_code: bool | None = None,
        rerank: bool | None = None,
        hybrid: Mapping[str, float] | None = None,
        rescore: Mapping[str, Any] | None = None,
        highlight: bool | None = None,
        explain: bool | None = None,
        encoder_fingerprint: str | None = None,
    ) -> responses.SearchResponse:
        """See :meth:`hummingbit.Client.search`."""
        return await self._call(calls.search(name, calls.search_fields(locals())))

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
