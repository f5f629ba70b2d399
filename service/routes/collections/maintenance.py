"""The upkeep of collections over REST: verification, compaction, indexes of fields."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from index.filter_parser import check_indexed_fields
from service.http.roles import ADMIN, READ, Role
from service.http.routing import JSONRoute, check_role
from service.jobs.kinds import compact, index_fields, verify
from service.routes.dependencies import LONG_READ, CollectionOf, render, wants_async
from service.routes.jobs.jobs import SubmitOf, accepted
from service.schemas.checks import pointing_at
from service.schemas.collections.collections import IndexedFieldsInfo, IndexFields
from service.schemas.jobs.jobs import CompactionInfo, JobInfo, VerificationInfo

router = APIRouter(prefix="/v1/collections/{name}", route_class=JSONRoute)


@router.post(
    "/verify",
    response_model=VerificationInfo,
    openapi_extra=READ,
    dependencies=LONG_READ,
    responses={202: {"model": JobInfo, "description": "It is checked in the background."}},
    summary="Verify a collection",
)
def post_verify(request: Request, collection: CollectionOf, submit: SubmitOf) -> Response:
    """Check every document against its checksum, and codes and index against the documents.

    The check sees one moment, while searches and writes continue. The response lists the problems
    and has the status 200 all the same. With the header ``Prefer: respond-async`` it runs as a job,
    which requires a write key.
    """
    if wants_async(request):
        # Its record stays, which is more than a key that may only read is for.
        check_role(request, Role.WRITE)
        return accepted(submit("verify", collection.name))
    return render(VerificationInfo(**verify(collection)))


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

    It needs as much space again as the collection while it runs. With the header ``Prefer:
    respond-async`` it runs as a job.
    """
    if wants_async(request):
        return accepted(submit("compact", collection.name))
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
    """Index just these fields of the payloads; searches and writes continue.

    Filters hold for the same documents with and without, and find them sooner with. With the header
    ``Prefer: respond-async`` it runs as a job.
    """
    with pointing_at():
        fields = list(check_indexed_fields(body.indexed_fields))
        if wants_async(request):
            return accepted(submit("index_fields", collection.name, {"fields": fields}))
        return render(IndexedFieldsInfo(**index_fields(collection, fields)))
