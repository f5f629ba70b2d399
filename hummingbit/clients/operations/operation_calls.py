"""Calls for aliases, snapshots and jobs; see :mod:`hummingbit.clients.calls`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hummingbit.clients.file_chunks import sha256_of
from hummingbit.clients.operations import operation_responses
from hummingbit.clients.transport import (
    Call,
    ServiceError,
    collection_path,
    path_segment,
    query_string,
    without_none,
)

IN_BACKGROUND = {"Prefer": "respond-async"}
FIRST_POLL = 0.05
LONGEST_POLL = 2.0


def aliases() -> Call[operation_responses.Aliases]:
    """List the aliases."""
    return Call("GET", "/v1/aliases")


def change_aliases(actions: Sequence[Mapping[str, Any]]) -> Call[operation_responses.Aliases]:
    """Apply all actions or none. Removing an alias a second time is an error."""
    repeatable = all("remove" not in action for action in actions)
    body = {"actions": [dict(action) for action in actions]}
    return Call("POST", "/v1/aliases", body, repeatable=repeatable)


def reindex(
    name: str, encoder: str, into: str, alias: str | None, engine: str | None
) -> Call[operation_responses.Job]:
    """Re-encode a collection into another one."""
    body = without_none(encoder=encoder, into=into, alias=alias, engine=engine)
    return Call("POST", f"{collection_path(name)}/reindex", body, repeatable=False)


def verify(name: str) -> Call[operation_responses.Verification]:
    """Check a collection, and wait for the result."""
    return Call("POST", f"{collection_path(name)}/verify")


def verify_job(name: str) -> Call[operation_responses.Job]:
    """Check a collection in the background."""
    return Call("POST", f"{collection_path(name)}/verify", headers=IN_BACKGROUND, repeatable=False)


def compact(name: str) -> Call[operation_responses.Compaction]:
    """Compact a collection, and wait for the result."""
    return Call("POST", f"{collection_path(name)}/compact")


def compact_job(name: str) -> Call[operation_responses.Job]:
    """Compact a collection in the background."""
    return Call("POST", f"{collection_path(name)}/compact", headers=IN_BACKGROUND, repeatable=False)


def index_fields(name: str, fields: Sequence[str]) -> Call[operation_responses.IndexedFields]:
    """Index fields of a collection's payloads, and wait for the result."""
    return Call("POST", f"{collection_path(name)}/index-fields", {"indexed_fields": [*fields]})


def index_fields_job(name: str, fields: Sequence[str]) -> Call[operation_responses.Job]:
    """Index fields of a collection's payloads in the background."""
    path, body = f"{collection_path(name)}/index-fields", {"indexed_fields": [*fields]}
    return Call("POST", path, body, headers=IN_BACKGROUND, repeatable=False)


def snapshots(collection: str | None) -> Call[operation_responses.Snapshots]:
    """List snapshots."""
    return Call("GET", f"/v1/snapshots{query_string(collection=collection)}")


def snapshot(snapshot_id: str) -> Call[operation_responses.Snapshot]:
    """Describe a snapshot."""
    return Call("GET", snapshot_path(snapshot_id))


def create_snapshot(name: str) -> Call[operation_responses.Snapshot]:
    """Create a snapshot, and wait for it."""
    return Call("POST", f"{collection_path(name)}/snapshots", repeatable=False)


def snapshot_job(name: str) -> Call[operation_responses.Job]:
    """Create a snapshot in the background."""
    path = f"{collection_path(name)}/snapshots"
    return Call("POST", path, headers=IN_BACKGROUND, repeatable=False)


def upload_snapshot(path: Path, headers: Mapping[str, str]) -> Call[Any]:
    """Upload the file of a snapshot; repeating this has no further effect.

    Raises:
        OSError: if the file cannot be read.
    """
    size = path.stat().st_size
    all_headers = {"Content-Type": "application/x-tar", "Content-Length": str(size), **headers}
    address = f"/v1/snapshots:upload{query_string(sha256=sha256_of(path))}"
    return Call("POST", address, file=path, headers=all_headers)


def delete_snapshot(snapshot_id: str) -> Call[None]:
    """Delete a snapshot."""
    return Call("DELETE", snapshot_path(snapshot_id))


def restore_snapshot(snapshot_id: str, collection: str) -> Call[operation_responses.Job]:
    """Restore a snapshot to a collection."""
    path = f"{snapshot_path(snapshot_id)}/restore"
    return Call("POST", path, {"collection": collection}, repeatable=False)


def jobs(
    limit: int | None, state: operation_responses.JobState | None
) -> Call[operation_responses.Jobs]:
    """List jobs."""
    return Call("GET", f"/v1/jobs{query_string(limit=limit, state=state)}")


def job(job_id: str) -> Call[operation_responses.Job]:
    """Describe a job."""
    return Call("GET", job_path(job_id))


def cancel_job(job_id: str) -> Call[operation_responses.Job]:
    """Cancel a job. Not repeatable, because the job may have finished by then."""
    return Call("POST", f"{job_path(job_id)}/cancel", repeatable=False)


def is_finished(url: str, job: operation_responses.Job) -> bool:
    """Return whether a job is done.

    Raises:
        ServiceError: if it failed or was cancelled.
    """
    error = job["error"]
    if error is not None:
        message = f"{url}: job {job['id']} failed: {error['detail']}"
        raise ServiceError(message, None, error["code"], error["errors"])
    if job["state"] == "cancelled":
        raise ServiceError(f"{url}: job {job['id']} was cancelled", None, "cancelled")
    return job["state"] == "done"


def next_poll(seconds: float, left: float, url: str, job_id: str) -> float:
    """Return how many seconds to wait before the next look at a job.

    Raises:
        ServiceError: if no time is left.
    """
    if left <= 0:
        raise ServiceError(f"{url}: job {job_id} is not finished yet", None, "job_unfinished")
    return min(seconds * 1.5, LONGEST_POLL, left)


def snapshot_path(snapshot_id: str) -> str:
    """Return the path of a snapshot."""
    return f"/v1/snapshots/{path_segment(snapshot_id)}"


def job_path(job_id: str) -> str:
    """Return the path of a job."""
    return f"/v1/jobs/{path_segment(job_id)}"
