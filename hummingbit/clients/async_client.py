"""The asynchronous client of a service."""

from __future__ import annotations

import asyncio
import functools
import os
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Concatenate, NoReturn, ParamSpec, Self, TypeVar

import httpx

from hummingbit.clients import calls, transport
from hummingbit.clients.client import Client
from hummingbit.clients.requests import Call
from hummingbit.service.schemas import responses

Answer = TypeVar("Answer")
P = ParamSpec("P")


class _Recorder(Client):
    """Keeps the call of a method of :class:`hummingbit.Client` in place of sending it."""

    call: Call[Any]

    def __init__(self) -> None:  # opens no connection
        pass

    def _call(self, call: Call[Any]) -> Any:
        self.call = call


def _awaited(
    method: Callable[Concatenate[Client, P], Answer], *, reads_file: bool = False
) -> Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, Answer]]:
    """Return the method that awaits the one call of `method`, which may read a file for it."""

    @functools.wraps(method)
    async def send(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> Answer:
        recorder = _Recorder()
        if reads_file:
            await asyncio.to_thread(method, recorder, *args, **kwargs)
        else:
            method(recorder, *args, **kwargs)
        answer: Answer = await self._call(recorder.call)
        return answer

    return send


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
        self._http = transport.open_http(httpx.AsyncClient, url, key, timeout)
        self._process = os.getpid()
        self._retries = retries

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    async def url(self) -> str:
        """The address of the service."""
        return str(self._http.base_url).rstrip("/")

    async def close(self) -> None:
        """Close the connections; a forked process leaves them to its parent."""
        if self._process == os.getpid():
            await self._http.aclose()

    def __reduce__(self) -> NoReturn:
        raise TypeError(transport.UNPICKLED)

    ready = _awaited(Client.ready)
    collections = _awaited(Client.collections)
    collection = _awaited(Client.collection)
    stats = _awaited(Client.stats)
    create_collection = _awaited(Client.create_collection)
    update_collection = _awaited(Client.update_collection)
    delete_collection = _awaited(Client.delete_collection)
    upsert = _awaited(Client.upsert)
    bulk = _awaited(Client.bulk)
    bulk_job = _awaited(Client.bulk_job)
    scroll = _awaited(Client.scroll)
    facets = _awaited(Client.facets)
    complete = _awaited(Client.complete)
    count = _awaited(Client.count)
    explained_count = _awaited(Client.explained_count)
    get = _awaited(Client.get)
    get_many = _awaited(Client.get_many)
    delete = _awaited(Client.delete)
    delete_many = _awaited(Client.delete_many)
    update_payload = _awaited(Client.update_payload)
    update_payloads = _awaited(Client.update_payloads)
    search = _awaited(Client.search)
    recommend = _awaited(Client.recommend)
    search_batch = _awaited(Client.search_batch)
    encoders = _awaited(Client.encoders)
    encoder = _awaited(Client.encoder)
    encode = _awaited(Client.encode)
    query_weights = _awaited(Client.query_weights)
    evaluate = _awaited(Client.evaluate)
    evaluation = _awaited(Client.evaluation)
    trec_run = _awaited(Client.trec_run)
    aliases = _awaited(Client.aliases)
    set_alias = _awaited(Client.set_alias)
    remove_alias = _awaited(Client.remove_alias)
    change_aliases = _awaited(Client.change_aliases)
    reindex = _awaited(Client.reindex)
    verify = _awaited(Client.verify)
    verify_job = _awaited(Client.verify_job)
    compact = _awaited(Client.compact)
    compact_job = _awaited(Client.compact_job)
    index_fields = _awaited(Client.index_fields)
    index_fields_job = _awaited(Client.index_fields_job)
    snapshots = _awaited(Client.snapshots)
    snapshot = _awaited(Client.snapshot)
    create_snapshot = _awaited(Client.create_snapshot)
    snapshot_job = _awaited(Client.snapshot_job)
    upload_snapshot = _awaited(Client.upload_snapshot, reads_file=True)
    upload_snapshot_job = _awaited(Client.upload_snapshot_job, reads_file=True)
    delete_snapshot = _awaited(Client.delete_snapshot)
    restore_snapshot = _awaited(Client.restore_snapshot)
    jobs = _awaited(Client.jobs)
    job = _awaited(Client.job)
    cancel_job = _awaited(Client.cancel_job)
    labels = _awaited(Client.labels)
    set_labels = _awaited(Client.set_labels)
    suggest_labels = _awaited(Client.suggest_labels)
    label_stats = _awaited(Client.label_stats)
    judgements = _awaited(Client.judgements)
    set_judgements = _awaited(Client.set_judgements)
    judgement_pool = _awaited(Client.judgement_pool)
    import_labels = _awaited(Client.import_labels)
    retrain = _awaited(Client.retrain)
    train = _awaited(Client.train)
    confirm = _awaited(Client.confirm)
    take_back = _awaited(Client.take_back)

    async def download_snapshot(self, snapshot_id: str, path: Path | str) -> responses.SnapshotInfo:
        """See :meth:`hummingbit.Client.download_snapshot`."""
        snapshot = await self.snapshot(snapshot_id)
        file = calls.SnapshotFile(str(self._http.base_url), snapshot, Path(path))
        try:
            async with self._http.stream("GET", file.address) as response:
                with file.writing(response) as write_chunk:
                    if not response.is_success:
                        await response.aread()
                        raise transport.service_error(file.url, response)
                    async for chunk in response.aiter_bytes():
                        write_chunk(chunk)
        except transport.FAILURES as error:
            raise transport.service_error(file.url, error) from error
        return snapshot

    async def wait_for(
        self, job: responses.JobInfo | str, *, timeout: float | None = None
    ) -> responses.JobInfo:
        """See :meth:`hummingbit.Client.wait_for`."""
        id_, url = job if isinstance(job, str) else job["id"], str(self._http.base_url)
        end = time.monotonic() + (float("inf") if timeout is None else timeout)
        wait = calls.FIRST_POLL
        while not calls.is_finished(url, latest := await self.job(id_)):
            wait = calls.next_poll(wait, end - time.monotonic(), url, id_)
            await asyncio.sleep(wait)
        return latest

    async def _call(self, call: Call[Answer]) -> Answer:
        transport.check_open(self._http, self._process)
        for attempt in range(self._retries + 1):
            outcome: httpx.Response | Exception
            arguments = transport.request_arguments(call, asynchronous=True)
            try:
                outcome = await self._http.request(call.method, call.path, **arguments)
            except transport.FAILURES as error:
                outcome = error
            else:
                if transport.is_done(call, outcome, attempt):
                    return transport.answer_of(call, outcome)
            wait = transport.seconds_to_wait(call, outcome, attempt)
            if wait is None or attempt == self._retries:
                break
            await asyncio.sleep(wait)
        raise transport.service_error(str(self._http.base_url), outcome)
