"""The methods of a client for aliases, snapshots and jobs."""

from __future__ import annotations

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


class Operations(ABC):
    """The methods of :class:`hummingbit.Client` for aliases, snapshots and jobs."""

    _http: httpx.Client

    @abstractmethod
    def _call(self, call: Call[Answer]) -> Answer: ...

    def aliases(self) -> dict[str, str]:
        """Return the collection of each alias."""
        response = self._call(operation_calls.aliases())
        return {alias["alias"]: alias["collection"] for alias in response["aliases"]}

    def set_alias(self, alias: str, collection: str) -> None:
        """Point an alias at a collection, whether or not the alias exists."""
        self.change_aliases([{"add": {"alias": alias, "collection": collection}}])

    def remove_alias(self, alias: str) -> None:
        """Remove an alias; its collection stays."""
        self.change_aliases([{"remove": {"alias": alias}}])

    def change_aliases(self, actions: Sequence[Mapping[str, Any]]) -> operation_responses.Aliases:
        """Apply actions, ``{"add": {…}}`` or ``{"remove": {…}}``, in one step: all or none."""
        return self._call(operation_calls.change_aliases(actions))

    def reindex(
        self,
        name: str,
        encoder: str,
        into: str,
        alias: str | None = None,
        *,
        engine: str | None = None,
    ) -> operation_responses.Job:
        """Start re-encoding a collection into another; the alias then moves to that.

        The search engine of the other collection is `engine`, or else that of the first.
        """
        return self._call(operation_calls.reindex(name, encoder, into, alias, engine))

    def verify(self, name: str) -> operation_responses.Verification:
        """Check every document, code and checksum; see :meth:`verify_job` for large ones."""
        return self._call(operation_calls.verify(name))

    def verify_job(self, name: str) -> operation_responses.Job:
        """Start checking a collection; the job's result is what :meth:`verify` returns."""
        return self._call(operation_calls.verify_job(name))

    def compact(self, name: str) -> operation_responses.Compaction:
        """Free the space of deleted documents; see :meth:`compact_job` for large ones."""
        return self._call(operation_calls.compact(name))

    def compact_job(self, name: str) -> operation_responses.Job:
        """Start compacting a collection; the job's result is what :meth:`compact` returns."""
        return self._call(operation_calls.compact_job(name))

    def index_fields(self, name: str, fields: Sequence[str]) -> operation_responses.IndexedFields:
        """Index these fields of payloads and no others; see :meth:`index_fields_job`."""
        return self._call(operation_calls.index_fields(name, fields))

    def index_fields_job(self, name: str, fields: Sequence[str]) -> operation_responses.Job:
        """Start indexing fields; the job's result is what :meth:`index_fields` returns."""
        return self._call(operation_calls.index_fields_job(name, fields))

    def snapshots(self, collection: str | None = None) -> list[operation_responses.Snapshot]:
        """List the snapshots of one collection or of all, the oldest first."""
        response = self._call(operation_calls.snapshots(collection))
        return response["snapshots"]

    def snapshot(self, snapshot_id: str) -> operation_responses.Snapshot:
        """Describe a snapshot."""
        return self._call(operation_calls.snapshot(snapshot_id))

    def create_snapshot(self, name: str) -> operation_responses.Snapshot:
        """Create a snapshot of a collection; see :meth:`snapshot_job` for large ones."""
        return self._call(operation_calls.create_snapshot(name))

    def snapshot_job(self, name: str) -> operation_responses.Job:
        """Start creating a snapshot; the job's result is what :meth:`create_snapshot` returns."""
        return self._call(operation_calls.snapshot_job(name))

    def download_snapshot(self, snapshot_id: str, path: Path | str) -> operation_responses.Snapshot:
        """Write a snapshot to a file, which appears once it is complete and its SHA-256 is right.

        Raises:
            OSError: if the file cannot be written.
        """
        snapshot = self.snapshot(snapshot_id)
        file = SnapshotFile(str(self._http.base_url), snapshot, Path(path))
        try:
            # Two blocks, because the asynchronous client awaits only the first.
            with self._http.stream("GET", file.address) as response:  # noqa: SIM117
                with file.writing(response) as write_chunk:
                    if not response.is_success:
                        response.read()
                        raise transport.service_error(file.url, response)
                    for chunk in response.iter_bytes():
                        write_chunk(chunk)
        except httpx.HTTPError as error:
            raise transport.service_error(file.url, error) from error
        return snapshot

    def upload_snapshot(self, path: Path | str) -> operation_responses.Snapshot:
        """Upload the file of a snapshot; see :meth:`upload_snapshot_job` for large ones.

        Raises:
            OSError: if the file cannot be read.
        """
        call = operation_calls.upload_snapshot(Path(path), {})
        snapshot: operation_responses.Snapshot = self._call(call)
        return snapshot

    def upload_snapshot_job(self, path: Path | str) -> operation_responses.Job:
        """Upload the file of a snapshot and start checking it; the job's result is the snapshot.

        Raises:
            OSError: if the file cannot be read.
        """
        call = operation_calls.upload_snapshot(Path(path), operation_calls.IN_BACKGROUND)
        job: operation_responses.Job = self._call(call)
        return job

    def delete_snapshot(self, snapshot_id: str) -> None:
        """Delete a snapshot."""
        self._call(operation_calls.delete_snapshot(snapshot_id))

    def restore_snapshot(self, snapshot_id: str, collection: str) -> operation_responses.Job:
        """Start restoring a snapshot to a collection."""
        return self._call(operation_calls.restore_snapshot(snapshot_id, collection))

    def jobs(
        self, *, limit: int | None = None, state: JobState | None = None
    ) -> list[operation_responses.Job]:
        """List the latest jobs, the newest first."""
        response = self._call(operation_calls.jobs(limit, state))
        return response["jobs"]

    def job(self, job_id: str) -> operation_responses.Job:
        """Get the state and progress of a job."""
        return self._call(operation_calls.job(job_id))

    def cancel_job(self, job_id: str) -> operation_responses.Job:
        """Cancel a queued or running job."""
        return self._call(operation_calls.cancel_job(job_id))

    def wait_for(
        self, job: operation_responses.Job | str, *, timeout: float | None = None
    ) -> operation_responses.Job:
        """Wait until a job is done and return it.

        Raises:
            ServiceError: if it failed, was cancelled, or is not done after `timeout` seconds.
        """
        id_, url = job if isinstance(job, str) else job["id"], str(self._http.base_url)
        end = time.monotonic() + (float("inf") if timeout is None else timeout)
        wait = operation_calls.FIRST_POLL
        while not operation_calls.is_finished(url, latest := self.job(id_)):
            wait = operation_calls.next_poll(wait, end - time.monotonic(), url, id_)
            time.sleep(wait)
        return latest
