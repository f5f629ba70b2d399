"""The asynchronous methods for aliases, snapshots and jobs.

Made from :mod:`hummingbit.clients.operations.operations` by ``make clients``; edit that instead.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import httpx

from hummingbit.clients import transport
from hummingbit.clients.download import SnapshotFile
from hummingbit.clients.operations import operation_calls, operation_responses
from hummingbit.clients.operations.operation_responses import JobState
from hummingbit.clients.transport import Call

Answer = TypeVar("Answer")


class AsyncOperations(ABC):
    """The methods of :class:`hummingbit.AsyncClient` for aliases, snapshots and jobs."""

    _http: httpx.AsyncClient

    @abstractmethod
    async def _call(self, call: Call[Answer]) -> Answer: ...

    async def aliases(self) -> dict[str, str]:
        """See :meth:`hummingbit.Client.aliases`."""
        response = await self._call(operation_calls.aliases())
        return {alias["alias"]: alias["collection"] for alias in response["aliases"]}

    async def set_alias(self, alias: str, collection: str) -> None:
        """See :meth:`hummingbit.Client.set_alias`."""
        await self.change_aliases([{"add": {"alias": alias, "collection": collection}}])

    async def remove_alias(self, alias: str) -> None:
        """See :meth:`hummingbit.Client.remove_alias`."""
        await self.change_aliases([{"remove": {"alias": alias}}])

    async def change_aliases(
        self, actions: Sequence[Mapping[str, Any]]
    ) -> operation_responses.Aliases:
        """See :meth:`hummingbit.Client.change_aliases`."""
        return await self._call(operation_calls.change_aliases(actions))

    async def reindex(
        self,
        name: str,
        encoder: str,
        into: str,
        alias: str | None = None,
        *,
        engine: str | None = None,
    ) -> operation_responses.Job:
        """See :meth:`hummingbit.Client.reindex`."""
        return await self._call(operation_calls.reindex(name, encoder, into, alias, engine))

    async def verify(self, name: str) -> operation_responses.Verification:
        """See :meth:`hummingbit.Client.verify`."""
        return await self._call(operation_calls.verify(name))

    async def verify_job(self, name: str) -> operation_responses.Job:
        """See :meth:`hummingbit.Client.verify_job`."""
        return await self._call(operation_calls.verify_job(name))

    async def compact(self, name: str) -> operation_responses.Compaction:
        """See :meth:`hummingbit.Client.compact`."""
        return await self._call(operation_calls.compact(name))

    async def compact_job(self, name: str) -> operation_responses.Job:
        """See :meth:`hummingbit.Client.compact_job`."""
        return await self._call(operation_calls.compact_job(name))

    async def index_fields(
        self, name: str, fields: Sequence[str]
    ) -> operation_responses.IndexedFields:
        """See :meth:`hummingbit.Client.index_fields`."""
        return await self._call(operation_calls.index_fields(name, fields))

    async def index_fields_job(self, name: str, fields: Sequence[str]) -> operation_responses.Job:
        """See :meth:`hummingbit.Client.index_fields_job`."""
        return await self._call(operation_calls.index_fields_job(name, fields))

    async def snapshots(self, collection: str | None = None) -> list[operation_responses.Snapshot]:
        """See :meth:`hummingbit.Client.snapshots`."""
        response = await self._call(operation_calls.snapshots(collection))
        return response["snapshots"]

    async def snapshot(self, snapshot_id: str) -> operation_responses.Snapshot:
        """See :meth:`hummingbit.Client.snapshot`."""
        return await self._call(operation_calls.snapshot(snapshot_id))

    async def create_snapshot(self, name: str) -> operation_responses.Snapshot:
        """See :meth:`hummingbit.Client.create_snapshot`."""
        return await self._call(operation_calls.create_snapshot(name))

    async def snapshot_job(self, name: str) -> operation_responses.Job:
        """See :meth:`hummingbit.Client.snapshot_job`."""
        return await self._call(operation_calls.snapshot_job(name))

    async def download_snapshot(
        self, snapshot_id: str, path: Path | str
    ) -> operation_responses.Snapshot:
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

    async def upload_snapshot(self, path: Path | str) -> operation_responses.Snapshot:
        """See :meth:`hummingbit.Client.upload_snapshot`."""
        call = await asyncio.to_thread(operation_calls.upload_snapshot, Path(path), {})
        snapshot: operation_responses.Snapshot = await self._call(call)
        return snapshot

    async def upload_snapshot_job(self, path: Path | str) -> operation_responses.Job:
        """See :meth:`hummingbit.Client.upload_snapshot_job`."""
        call = await asyncio.to_thread(
            operation_calls.upload_snapshot, Path(path), operation_calls.IN_BACKGROUND
        )
        job: operation_responses.Job = await self._call(call)
        return job

    async def delete_snapshot(self, snapshot_id: str) -> None:
        """See :meth:`hummingbit.Client.delete_snapshot`."""
        await self._call(operation_calls.delete_snapshot(snapshot_id))

    async def restore_snapshot(self, snapshot_id: str, collection: str) -> operation_responses.Job:
        """See :meth:`hummingbit.Client.restore_snapshot`."""
        return await self._call(operation_calls.restore_snapshot(snapshot_id, collection))

    async def jobs(
        self, *, limit: int | None = None, state: JobState | None = None
    ) -> list[operation_responses.Job]:
        """See :meth:`hummingbit.Client.jobs`."""
        response = await self._call(operation_calls.jobs(limit, state))
        return response["jobs"]

    async def job(self, job_id: str) -> operation_responses.Job:
        """See :meth:`hummingbit.Client.job`."""
        return await self._call(operation_calls.job(job_id))

    async def cancel_job(self, job_id: str) -> operation_responses.Job:
        """See :meth:`hummingbit.Client.cancel_job`."""
        return await self._call(operation_calls.cancel_job(job_id))

    async def wait_for(
        self, job: operation_responses.Job | str, *, timeout: float | None = None
    ) -> operation_responses.Job:
        """See :meth:`hummingbit.Client.wait_for`."""
        id_, url = job if isinstance(job, str) else job["id"], str(self._http.base_url)
        end = time.monotonic() + (float("inf") if timeout is None else timeout)
        wait = operation_calls.FIRST_POLL
        while not operation_calls.is_finished(url, latest := await self.job(id_)):
            wait = operation_calls.next_poll(wait, end - time.monotonic(), url, id_)
            await asyncio.sleep(wait)
        return latest
