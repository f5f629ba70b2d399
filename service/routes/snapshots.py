"""Snapshots over REST: create, upload, list, download, restore, delete."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Annotated

from anyio import to_thread
from fastapi import Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import FileResponse
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import Message, Receive, Scope, Send

from hummingbit.index.catalog import check_name
from hummingbit.index.data_folder import DataFolder
from hummingbit.service.http.bodies import check_media_type, save_body
from hummingbit.service.http.keys import ADMIN, Role, requires
from hummingbit.service.http.problems import ProblemError, problem_response, without_path
from hummingbit.service.http.routing import Router
from hummingbit.service.jobs.kinds import UPLOAD, snapshot_record
from hummingbit.service.routes.dependencies import (
    LONG_ADMIN,
    CollectionOf,
    Folder,
    LongReads,
    check_free,
    render,
    wants_async,
)
from hummingbit.service.routes.jobs import ACCEPTED, SubmitOf, accepted_response
from hummingbit.service.schemas.collections import RestoreSnapshot
from hummingbit.service.schemas.common import pointing_at
from hummingbit.service.schemas.responses import (
    JobInfo,
    SnapshotInfo,
    SnapshotList,
    UnavailableSnapshot,
)

router = Router(prefix="/v1", tags=["snapshots"])
TAR = "application/x-tar"
_FILE = {
    "required": True,
    "content": {TAR: {"schema": {"type": "string", "format": "binary"}}},
}


@router.post(
    "/collections/{name}/snapshots",
    response_model=SnapshotInfo,
    status_code=201,
    **LONG_ADMIN,
    responses={202: {"model": JobInfo, "description": "A job creates it in the background."}},
    summary="Create a snapshot",
)
def create_snapshot(
    request: Request, collection: CollectionOf, folder: Folder, submit: SubmitOf
) -> Response:
    """Copy one generation of the collection, and its encoder; searches and writes continue.

    With the header ``Prefer: respond-async`` it runs as a job.
    """
    name = collection.name
    if wants_async(request):
        return accepted_response(submit("snapshot", name))
    record = snapshot_record(folder.create_snapshot(name))
    return render(record, 201, {"Location": f"/v1/snapshots/{record['id']}"})


@router.post(
    "/snapshots:upload",
    response_model=SnapshotInfo,
    status_code=201,
    **requires(Role.ADMIN, body=_FILE),
    responses={
        200: {"model": SnapshotInfo, "description": "A snapshot with this very file exists."},
        202: {"model": JobInfo, "description": "A job checks it in the background."},
    },
    summary="Upload a snapshot",
)
async def upload_snapshot(
    request: Request,
    folder: Folder,
    submit: SubmitOf,
    long_reads: LongReads,
    sha256: Annotated[
        str | None,
        Query(
            pattern="^[0-9a-f]{64}$",
            description="The SHA-256 of the file, in hexadecimal; a different body is refused.",
        ),
    ] = None,
) -> Response:
    """Upload the file of a snapshot that was downloaded from this or another service.

    The whole file is checked before it is accepted, as strictly as before a restore. With the
    header ``Prefer: respond-async`` the check runs as a job.
    """
    check_media_type(request, [TAR])
    async with submit.drafting() as draft:
        digest = await save_body(request, draft / UPLOAD)
        if sha256 is not None and sha256 != digest:
            message = f"the body has the SHA-256 {digest}, but the parameter sha256 is {sha256}"
            raise ProblemError(422, "invalid_snapshot", message)
        if wants_async(request):
            return accepted_response(await run_in_threadpool(submit, "upload", "", draft=draft))
        work = partial(_add_snapshot, folder, draft / UPLOAD, digest)
        return await to_thread.run_sync(work, limiter=long_reads)


@router.get("/snapshots", response_model=SnapshotList, **ADMIN, summary="List the snapshots")
def list_snapshots(folder: Folder, collection: str | None = None) -> Response:
    """List the snapshots of all collections or of one, even if it no longer exists."""
    unavailable = [
        UnavailableSnapshot(id=id_, reason=without_path(reason, folder))
        for id_, reason in folder.snapshots.unavailable().items()
    ]
    snapshots = [*map(snapshot_record, folder.snapshots.all(collection))]
    return render({"snapshots": snapshots, "unavailable": unavailable})


@router.get("/snapshots/{id}", response_model=SnapshotInfo, **ADMIN, summary="Describe a snapshot")
def get_snapshot(id: str, folder: Folder) -> Response:
    """Describe a snapshot, with the size and sha256 of its file."""
    return render(snapshot_record(folder.snapshots.get(id)))


@router.get(
    "/snapshots/{id}/file",
    response_class=FileResponse,
    **ADMIN,
    responses={
        200: {"content": {TAR: {"schema": {"type": "string", "format": "binary"}}}},
        206: {"description": "The part that the header Range requests."},
        416: {"description": "The header Range starts beyond the end of the file."},
    },
    summary="Download a snapshot",
)
def download_snapshot(id: str, folder: Folder) -> Response:
    """Download the snapshot's file, which is all that another machine needs to restore it."""
    snapshot = folder.snapshots.get(id)
    name = f"{snapshot.contents.collection}-{id}.tar"
    headers = {"ETag": f'"{snapshot.sha256}"'}
    return _SnapshotFile(folder.snapshots.file(id), 200, headers, TAR, filename=name)


class _SnapshotFile(FileResponse):
    """A file with support for ``Range``; an invalid range is answered with a problem.

    A range in an unknown unit is ignored, as HTTP requires.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["state"].get("is_head"):
            scope = {**scope, "method": "HEAD"}  # the file is not read
        unit, equals, _ = Headers(scope=scope).get("range", "").partition("=")
        if equals and unit.strip().lower() != "bytes":
            scope = {
                **scope,
                "headers": [header for header in scope["headers"] if header[0] != b"range"],
            }

        async def send_file(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] in _RANGE_PROBLEMS:
                raise _WrongRangeError(message["status"], MutableHeaders(raw=message["headers"]))
            await send(message)

        async def receive_any() -> Message:
            """Receive what says whether the client is there; a body, even a bad one, is ignored."""
            while True:
                with suppress(ProblemError):
                    return await receive()

        try:
            await super().__call__(scope, receive_any, send_file)
        except _WrongRangeError as wrong:
            await problem_response(Request(scope), wrong.problem)(scope, receive, send)


class _WrongRangeError(Exception):
    """Starlette was about to answer an invalid ``Range`` with its own kind of response."""

    def __init__(self, status: int, headers: MutableHeaders) -> None:
        super().__init__(status)
        code, message = _RANGE_PROBLEMS[status]
        self.problem = ProblemError(status, code, message)
        if "content-range" in headers:
            self.problem.headers = {"Content-Range": headers["content-range"]}


_RANGE_PROBLEMS = {
    400: ("invalid_range", "the header Range must be like bytes=0-1023"),
    416: ("range_not_satisfiable", "the header Range starts beyond the end of the file"),
}


@router.post("/snapshots/{id}/restore", **ACCEPTED, **ADMIN, summary="Restore a snapshot")
def restore_snapshot(id: str, body: RestoreSnapshot, folder: Folder, submit: SubmitOf) -> Response:
    """Create a collection from a snapshot, as a job; an alias can then be moved to it."""
    folder.snapshots.get(id)
    with pointing_at():
        check_name(body.collection, "collection")
    check_free(folder, body.collection)
    return accepted_response(submit("restore", body.collection, {"snapshot": id}))


@router.delete("/snapshots/{id}", status_code=204, **ADMIN, summary="Delete a snapshot")
def delete_snapshot(id: str, folder: Folder) -> Response:
    """Delete a snapshot and its file."""
    folder.snapshots.delete(id)
    return Response(status_code=204)


def _add_snapshot(folder: DataFolder, tar: Path, digest: str) -> Response:
    existing = folder.snapshots.with_sha256(digest)
    snapshot = folder.snapshots.add(tar, link=True) if existing is None else existing
    status = 201 if existing is None else 200
    location = {"Location": f"/v1/snapshots/{snapshot.id}"}
    return render(snapshot_record(snapshot), status, location)
