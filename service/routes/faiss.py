"""Codes as a file of FAISS over REST: a download, and an upload that a job stores."""

from __future__ import annotations

import io
import json
import os
import zipfile
import zlib
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from fastapi import Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from hummingbit.corpus.lines import ReadError
from hummingbit.index.backend import CollectionBackend
from hummingbit.index.faiss_files import (
    IDS_SUFFIX,
    MAX_LISTS,
    documents_of_codes,
    read_faiss,
    read_ids,
    write_faiss,
)
from hummingbit.service.http.bodies import check_media_type, save_body
from hummingbit.service.http.keys import Role, requires
from hummingbit.service.http.problems import ProblemError
from hummingbit.service.http.routing import Router
from hummingbit.service.jobs.bulk import INPUT, BulkOptions
from hummingbit.service.routes.dependencies import LONG_READ, CollectionOf, Limits
from hummingbit.service.routes.jobs import ACCEPTED, SubmitOf, accepted_response
from hummingbit.service.schemas.common import pointing_at
from hummingbit.service.settings import Settings

router = Router(prefix="/v1", tags=["documents"])
ZIP, FILE = "application/zip", "application/octet-stream"
CODES = "codes.faiss"
_BINARY = {"schema": {"type": "string", "format": "binary"}}
_BODY = {"required": True, "content": {FILE: _BINARY}}


@router.get(
    "/collections/{name}/faiss",
    **LONG_READ,
    response_class=Response,
    responses={200: {"content": {ZIP: _BINARY}}},
    summary="Download the codes as a file of FAISS",
)
def download_faiss(
    collection: CollectionOf,
    limits: Limits,
    lists: Annotated[
        int | None,
        Query(
            ge=1,
            le=MAX_LISTS,
            description="Write an IndexBinaryIVF of so many lists, not an IndexBinaryFlat.",
        ),
    ] = None,
) -> Response:
    """Download the codes of one moment as a binary index of FAISS, in a ZIP archive.

    ``faiss.read_index_binary`` reads `codes.faiss`, an IndexBinaryIDMap. Its numbers are the lines,
    from 0, of `codes.faiss.ids`, each a JSON string, the id.
    """
    size = len(collection) * (collection.n_bits // 8)
    if size > limits.max_response_bytes:
        message = (
            f"the codes have {size:,} bytes; a response, at most {limits.max_response_bytes:,}"
        )
        raise ProblemError(422, "answer_too_large", f"{message}: use hummingbit index export")
    codes, ids = io.BytesIO(), io.BytesIO()
    with pointing_at():
        write_faiss(collection, codes, ids, lists)
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as files:
        files.writestr(CODES, codes.getvalue())
        files.writestr(CODES + IDS_SUFFIX, ids.getvalue())
    headers = {"Content-Disposition": f'attachment; filename="{collection.name}.zip"'}
    return Response(archive.getvalue(), media_type=ZIP, headers=headers)


@router.post(
    "/collections/{name}/faiss/documents",
    **ACCEPTED,
    **requires(Role.WRITE, body=_BODY),
    summary="Upload a file of FAISS",
)
async def upload_faiss(
    request: Request, collection: CollectionOf, submit: SubmitOf, limits: Limits
) -> Response:
    """Upsert a document for each code of a binary index of FAISS, as a job.

    The body is the file, or a ZIP archive as the download has it, which may be sent as
    `application/zip`, too. Without a file of ids, the id of
    a document is its number in FAISS. An IndexBinaryFlat, an IndexBinaryIVF and an IndexBinaryIDMap
    of either are read; the codes must be as long as the collection's.
    """
    check_media_type(request, [ZIP, FILE])
    async with submit.drafting() as draft:
        upload = draft / CODES
        await save_body(request, upload)
        await run_in_threadpool(_write_lines, collection, upload, draft / INPUT, limits)
        upload.unlink()
        spec = asdict(BulkOptions())
        job = await run_in_threadpool(submit, "bulk", collection.name, spec, draft=draft)
    return accepted_response(job)


def _write_lines(
    collection: CollectionBackend, upload: Path, lines: Path, limits: Settings
) -> None:
    """Write what an upload holds as the lines of a bulk request.

    Raises:
        ProblemError: if it is no such file, is too large, or its codes have another length.
    """
    ids = None
    try:
        if zipfile.is_zipfile(upload):
            with zipfile.ZipFile(upload) as archive:
                data = _member(archive, CODES, limits.max_bulk_body_bytes)
                names = _member(archive, CODES + IDS_SUFFIX, limits.max_bulk_body_bytes)
            ids = read_ids(io.BytesIO(names), CODES + IDS_SUFFIX)
        else:
            data = upload.read_bytes()
        found = read_faiss(data, CODES)
        if found.n_bits != collection.n_bits:
            length = f"has codes of {found.n_bits} bits; the collection's have {collection.n_bits}"
            raise ReadError(f"{CODES}: {length}")
        with lines.open("w", encoding="utf-8") as file:
            for document in documents_of_codes(found, ids, CODES + IDS_SUFFIX):
                line = {"id": document.id, "code": document.code}
                file.write(json.dumps(line) + "\n")
            file.flush()
            os.fsync(file.fileno())
    except (ReadError, *_DAMAGES) as error:
        raise ProblemError(422, "invalid_request", str(error)) from error


_DAMAGES = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)
"""What zipfile raises if an archive is damaged, or packed or encrypted in a way it cannot read."""


def _member(archive: zipfile.ZipFile, name: str, limit: int) -> bytes:
    """Return a file of an archive, which may claim any size."""
    if name not in archive.namelist():
        raise ReadError(f"the archive lacks {name}")
    with archive.open(name) as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        found = f"{name} has more than {limit:,} bytes, the limit"
        raise ProblemError(413, "body_too_large", found)
    return data
