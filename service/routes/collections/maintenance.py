"""Maintenance of collections over REST: verification, compaction, indexes of fields."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from index.filter_parser import check_indexed_fields
from service.http.roles import ADMIN, READ, Role
from service.http.routing import JSONRoute, check_role
from service.jobs.kinds import compact, index_fields, verify
from service.routes.dependencies import LONG_READ, CollectionOf, Folder, render, wants_async
from service.routes.jobs.jobs import SubmitOf, accepted_response
from service.schemas.checks import pointing_at
from service.schemas.collections.collections import IndexedFieldsInfo, IndexFields
from service.schemas.jobs.jobs import CompactionInfo, JobInfo, VerificationInfo

router = APIRouter(prefix="/v1/collections/{name}", route_class=JSONRoute)


@router.post(
    "/verify",
    response_model=VerificationInfo,
    openapi_extra=READ,
    dependencies=LONG_READ,
    responses={202: {"model": JobInfo, "description": "A job checks it in the background."}},
    summary="Verify a collection",
)
def post_verify(
    request: Request, collection: CollectionOf, folder: Folder, submit: SubmitOf
) -> Response:
    """Check every document against its checksum, and codes and index against the documents.

    The check sees one generation, while searches and writes continue. The response lists the
    problems, with status 200. With the header ``Prefer: respond-async`` it runs as a job, which
    requires a write key.
    """
    if wants_async(request):
        # The job's record stays, and a read key must not write.
        check_role(request, Role.WRITE)
        return accepted_response(submit("verify", collection.name))
    return render(VerificationInfo(**verify(collection, folder)))


@router.post(
    "/compact",
    response_model=CompactionInfo,
    openapi_extra=ADMIN,
    dependencies=LONG_READ,
    responses={202: {"model": JobInfo, "description": "It is done in the background."}},
    summary="Compact a collection",
)
def post_compact(request: Request, collection: CollectionOf, submit: SubmitOf) -> Response:
    """Free the space of deleted documents; searches continue, writes wait.

    While it runs, it needs as much free space as the collection takes. With the header ``Prefer:
    respond-async`` it runs as a job.
    """
    if wants_async(request):
        return accepted_response(submit("compact", collection.name))
    return render(CompactionInfo(**compact(collection)))


@router.post(
    "/index-fields",
    response_model=IndexedFieldsInfo,
    openapi_extra=ADMIN,
    dependencies=LONG_READ,
    responses={202: {"model": JobInfo, "description": "It is done in the background."}},
    summary="Choose the indexed fields",
)
def post_index_fields(
    request: Request, collection: CollectionOf, body: IndexFields, submit: SubmitOf
) -> Response:
    """Index exactly these payload fields; searches and writes continue.

    Filters on indexed fields find the same documents, only faster. With the header ``Prefer:
    respond-async`` it runs as a job.
    """
    with pointing_at():
        fields = list(check_indexed_fields(body.indexed_fields))
        if wants_async(request):
            return accepted_response(submit("index_fields", collection.name, {"fields": fields}))
        return render(IndexedFieldsInfo(**index_fields(collection, fields)))
