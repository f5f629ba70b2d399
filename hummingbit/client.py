"""A service from Python: ``Client``, and ``AsyncClient`` with the same methods to await."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any, Self, TypeVar, cast

import httpx

from hummingbit import answers, calls
from hummingbit.answers import CodeFormat
from hummingbit.calls import Call

Answer = TypeVar("Answer")


class Client:
    """A service at `url`, by default ``HUMMINGBIT_URL`` or this machine's port 8000.

    `key` is by default ``HUMMINGBIT_KEY``. Calls that a service is too busy for, and those without
    an answer that change no more if they are repeated, are tried again up to `retries` times, when
    the service says. It holds connections: close it, or use it in a ``with``. Threads can share it.

    Every method raises :class:`hummingbit.ServiceError` if the service refuses, fails or cannot be
    reached.
    """

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        timeout: float = calls.TIMEOUT_SECONDS,
        retries: int = calls.RETRIES,
    ) -> None:
        self._http = httpx.Client(**calls.settings_of(url, key), timeout=timeout)
        self._retries = retries

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def ready(self) -> answers.Ready:
        """Name what is served; an error says what cannot be opened."""
        return self._call(calls.ready())

    def collections(self) -> answers.Collections:
        """List the collections."""
        return self._call(calls.collections())

    def collection(self, name: str) -> answers.CollectionDetail:
        """Describe a collection and its codes."""
        return self._call(calls.collection(name))

    def create_collection(
        self, name: str, *, encoder: str | None = None, n_bits: int | None = None
    ) -> answers.CollectionSummary:
        """Create a collection with an encoder, or for codes of `n_bits` that documents bring."""
        return self._call(calls.create_collection(name, encoder, n_bits))

    def delete_collection(self, name: str) -> None:
        """Delete a collection and all of its documents."""
        self._call(calls.delete_collection(name))

    def upsert(self, name: str, documents: Sequence[Mapping[str, Any]]) -> answers.Upserted:
        """Insert documents and replace those whose id is there: all of them or none."""
        return self._call(calls.upsert(name, documents))

    def get(self, name: str, document_id: str) -> answers.StoredDocument:
        """Get a document as it is stored."""
        return self._call(calls.get(name, document_id))

    def delete(self, name: str, document_id: str) -> None:
        """Delete a document."""
        self._call(calls.delete(name, document_id))

    def search(
        self,
        name: str,
        text: str | None = None,
        *,
        vector: Sequence[float] | None = None,
        code: str | None = None,
        id: str | None = None,  # noqa: A002 - as in the interface
        limit: int | None = None,
        radius: int | None = None,
        filter: Mapping[str, Any] | None = None,  # noqa: A002 - as in the interface
        offset: int | None = None,
        cursor: str | None = None,
        with_cursor: bool | None = None,
        with_payload: bool | None = None,
        with_code: bool | None = None,
        rerank: bool | None = None,
        explain: bool | None = None,
    ) -> answers.SearchResponse:
        """Find the documents nearest to exactly one of a text, a vector, a code and a document."""
        return self._call(calls.search(name, _wanted(locals())))

    def search_batch(
        self, name: str, searches: Sequence[Mapping[str, Any]]
    ) -> list[answers.SearchResponse]:
        """Answer searches, given as the keyword arguments of each, as of one generation."""
        return self._call(calls.search_batch(name, searches))["results"]

    def encoders(self) -> answers.Encoders:
        """List the encoders."""
        return self._call(calls.encoders())

    def encoder(self, name: str) -> answers.EncoderDetail:
        """Describe an encoder, what it was trained on and how well it did."""
        return self._call(calls.encoder(name))

    def encode(
        self,
        encoder: str,
        texts: Sequence[str] | None = None,
        *,
        vectors: Sequence[Sequence[float]] | None = None,
        format: CodeFormat = "hex",  # noqa: A002 - as in the interface
    ) -> answers.EncodedInputs:
        """Return the codes that an encoder gives texts or vectors."""
        return self._call(calls.encode(encoder, texts, vectors, format))

    def evaluate(self, name: str, body: Mapping[str, Any]) -> answers.EvaluationStatus:
        """Begin an evaluation in the background; `body` is what the interface takes."""
        return self._call(calls.evaluate(name, body))

    def evaluation(self, evaluation_id: str) -> answers.EvaluationStatus:
        """Ask how an evaluation is getting on, and for its report once it is done."""
        return self._call(calls.evaluation(evaluation_id))

    def trec_run(self, evaluation_id: str) -> str:
        """Return an evaluation's run in TREC's format."""
        return self._call(calls.trec_run(evaluation_id))

    def _call(self, call: Call[Answer]) -> Answer:
        for attempt in range(self._retries + 1):
            found: httpx.Response | httpx.HTTPError
            try:
                found = self._http.request(
                    call.method, call.path, json=call.body, headers=call.headers
                )
            except httpx.HTTPError as error:
                found = error
            else:
                if calls.is_done(call, found, attempt):
                    return cast("Answer", _read(found))
            wait = calls.seconds_to_wait(call, found, attempt)
            if wait is None or attempt == self._retries:
                break
            time.sleep(wait)
        raise calls.error_of(str(self._http.base_url), found)


class AsyncClient:
    """The methods of :class:`Client`, to be awaited."""

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        timeout: float = calls.TIMEOUT_SECONDS,
        retries: int = calls.RETRIES,
    ) -> None:
        self._http = httpx.AsyncClient(**calls.settings_of(url, key), timeout=timeout)
        self._retries = retries

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def ready(self) -> answers.Ready:
        """See :meth:`Client.ready`."""
        return await self._call(calls.ready())

    async def collections(self) -> answers.Collections:
        """See :meth:`Client.collections`."""
        return await self._call(calls.collections())

    async def collection(self, name: str) -> answers.CollectionDetail:
        """See :meth:`Client.collection`."""
        return await self._call(calls.collection(name))

    async def create_collection(
        self, name: str, *, encoder: str | None = None, n_bits: int | None = None
    ) -> answers.CollectionSummary:
        """See :meth:`Client.create_collection`."""
        return await self._call(calls.create_collection(name, encoder, n_bits))

    async def delete_collection(self, name: str) -> None:
        """See :meth:`Client.delete_collection`."""
        await self._call(calls.delete_collection(name))

    async def upsert(self, name: str, documents: Sequence[Mapping[str, Any]]) -> answers.Upserted:
        """See :meth:`Client.upsert`."""
        return await self._call(calls.upsert(name, documents))

    async def get(self, name: str, document_id: str) -> answers.StoredDocument:
        """See :meth:`Client.get`."""
        return await self._call(calls.get(name, document_id))

    async def delete(self, name: str, document_id: str) -> None:
        """See :meth:`Client.delete`."""
        await self._call(calls.delete(name, document_id))

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
        filter: Mapping[str, Any] | None = None,  # noqa: A002 - as in the interface
        offset: int | None = None,
        cursor: str | None = None,
        with_cursor: bool | None = None,
        with_payload: bool | None = None,
        with_code: bool | None = None,
        rerank: bool | None = None,
        explain: bool | None = None,
    ) -> answers.SearchResponse:
        """See :meth:`Client.search`."""
        return await self._call(calls.search(name, _wanted(locals())))

    async def search_batch(
        self, name: str, searches: Sequence[Mapping[str, Any]]
    ) -> list[answers.SearchResponse]:
        """See :meth:`Client.search_batch`."""
        return (await self._call(calls.search_batch(name, searches)))["results"]

    async def encoders(self) -> answers.Encoders:
        """See :meth:`Client.encoders`."""
        return await self._call(calls.encoders())

    async def encoder(self, name: str) -> answers.EncoderDetail:
        """See :meth:`Client.encoder`."""
        return await self._call(calls.encoder(name))

    async def encode(
        self,
        encoder: str,
        texts: Sequence[str] | None = None,
        *,
        vectors: Sequence[Sequence[float]] | None = None,
        format: CodeFormat = "hex",  # noqa: A002 - as in the interface
    ) -> answers.EncodedInputs:
        """See :meth:`Client.encode`."""
        return await self._call(calls.encode(encoder, texts, vectors, format))

    async def evaluate(self, name: str, body: Mapping[str, Any]) -> answers.EvaluationStatus:
        """See :meth:`Client.evaluate`."""
        return await self._call(calls.evaluate(name, body))

    async def evaluation(self, evaluation_id: str) -> answers.EvaluationStatus:
        """See :meth:`Client.evaluation`."""
        return await self._call(calls.evaluation(evaluation_id))

    async def trec_run(self, evaluation_id: str) -> str:
        """See :meth:`Client.trec_run`."""
        return await self._call(calls.trec_run(evaluation_id))

    async def _call(self, call: Call[Answer]) -> Answer:
        for attempt in range(self._retries + 1):
            found: httpx.Response | httpx.HTTPError
            try:
                found = await self._http.request(
                    call.method, call.path, json=call.body, headers=call.headers
                )
            except httpx.HTTPError as error:
                found = error
            else:
                if calls.is_done(call, found, attempt):
                    return cast("Answer", _read(found))
            wait = calls.seconds_to_wait(call, found, attempt)
            if wait is None or attempt == self._retries:
                break
            await asyncio.sleep(wait)
        raise calls.error_of(str(self._http.base_url), found)


def _wanted(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in arguments.items() if key not in {"self", "name"}}


def _read(response: httpx.Response) -> Any:
    """Return what an answer holds: JSON, text, or nothing."""
    if not response.is_success or not response.content:
        return None
    if response.headers.get("content-type", "").startswith("application/json"):
        return response.json()
    return response.text
