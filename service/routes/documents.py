"""Many documents at a time: get, scroll, count, delete and bulk."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import asdict
from itertools import chain
from typing import Annotated, Any

from fastapi import Header, Request, Response
from fastapi import Query as QueryParameter
from fastapi.concurrency import run_in_threadpool

from hummingbit.index.answers import document_to_json
from hummingbit.index.facets import parse_sort
from hummingbit.index.payloads import PayloadUpdate, check_one_given, parse_selection
from hummingbit.index.records import payloads_as_stored
from hummingbit.index.search import explain_no_order, with_warnings
from hummingbit.service.http.bodies import JSON_LINES, check_media_type, save_body
from hummingbit.service.http.keys import Role, requires
from hummingbit.service.http.problems import ProblemError
from hummingbit.service.http.routing import Router, beyond_filter
from hummingbit.service.jobs.bulk import BATCH_LINES, INPUT, BulkOptions, BulkWriter
from hummingbit.service.routes.dependencies import (
    FILTERED_LONG_READ,
    FILTERED_WRITING,
    CollectionOf,
    Folder,
    GateOf,
    IfNoneMatch,
    Limits,
    WriteSlots,
    creates_only,
    render,
    render_long,
    visible_collection,
    wants_async,
)
from hummingbit.service.routes.jobs import SubmitOf, accepted_response
from hummingbit.service.schemas.collections import (
    CountRequest,
    DeleteRequest,
    FacetsRequest,
    GetRequest,
    ScrollRequest,
    UpdatePayloads,
)
from hummingbit.service.schemas.common import (
    check_fingerprint,
    check_payload,
    parse_body_filter,
    pointing_at,
)
from hummingbit.service.schemas.responses import (
    BulkAnswer,
    Count,
    Deleted,
    DocumentPage,
    FacetsAnswer,
    FoundDocuments,
    JobInfo,
    PayloadsUpdated,
)
from hummingbit.service.schemas.search import to_json

router = Router(prefix="/v1/collections/{name}", tags=["documents"])

MAX_KEY_LENGTH = 255
# A document may have a text of a million characters.
SCROLLED_AT_ONCE = 50
_BULK_BODY = {
    "required": True,
    "content": {
        JSON_LINES[0]: {
            "schema": {"type": "string", "format": "binary"},
            "example": '{"id": "a", "text": "one"}\n{"id": "b", "text": "two"}\n',
        }
    },
}


@router.post(
    "/documents:get", response_model=FoundDocuments, **FILTERED_LONG_READ, summary="Get documents"
)
def get_documents(collection: CollectionOf, body: GetRequest, limits: Limits) -> Response:
    """Get documents by their ids, as they are stored; a repeated id is returned once."""
    with pointing_at():
        selection = parse_selection(body.with_payload)
    documents, missing, size = [], [], 0
    for id_ in dict.fromkeys(body.ids):
        with payloads_as_stored():
            stored = collection.get(id_)
        if stored is None:
            missing.append(id_)
            continue
        documents.append(document_to_json(stored, selection))
        size += len(to_json(documents[-1]))
        if size > limits.max_response_bytes:
            break  # render_long refuses it below
    answer = {"documents": documents, "missing": missing}
    return render_long(answer, limits)


@router.post(
    "/documents:scroll",
    response_model=DocumentPage,
    **FILTERED_LONG_READ,
    summary="Scroll through documents",
)
def scroll_documents(collection: CollectionOf, body: ScrollRequest, limits: Limits) -> Response:
    """Get a page of documents in the order of insertion, or sorted by fields of their payloads.

    Documents added after the first page do not appear, deleted ones disappear, and none is
    repeated. A page ends early if its documents are large.
    """
    filter_ = parse_body_filter(body.filter)
    with pointing_at():
        selection = parse_selection(body.with_payload)
        sort = parse_sort([field.model_dump() for field in body.sort or ()])
    documents: list[dict[str, Any]] = []
    warnings: list[str] = []
    cursor, size = body.cursor, 0
    while len(documents) < body.limit and size < limits.max_response_bytes // 4:
        count = min(body.limit - len(documents), SCROLLED_AT_ONCE)
        with pointing_at(), payloads_as_stored():
            page = collection.scroll(count, cursor, filter_, sort)
        if sort and cursor is None and page.documents:
            warnings = explain_no_order(collection, sort, page.documents[0].payload)
        written = [document_to_json(document, selection) for document in page.documents]
        documents += written
        size += sum(len(to_json(document)) for document in written)
        cursor = page.next_cursor
        if cursor is None:
            break
    answer = with_warnings({"documents": documents, "next_cursor": cursor}, warnings)
    return render_long(answer, limits)


@router.post(
    "/documents:count", response_model=Count, **FILTERED_LONG_READ, summary="Count documents"
)
def count_documents(collection: CollectionOf, body: CountRequest) -> Response:
    """Count all documents, or those that match a filter."""
    filter_ = parse_body_filter(body.filter)
    documents = collection.count(filter_)
    warnings = [] if documents else collection.explain_no_hits(filter_)
    return render(with_warnings({"count": documents}, warnings))


@router.post(
    "/facets",
    response_model=FacetsAnswer,
    **FILTERED_LONG_READ,
    summary="Count the values of fields",
)
def count_facets(collection: CollectionOf, body: FacetsRequest) -> Response:
    """Count values of payload fields over all documents, or those that match a filter, exactly."""
    filter_ = parse_body_filter(body.filter)
    with pointing_at():
        return render(collection.ask("facets", body.model_dump(exclude={"filter"}), filter_))


@router.post(
    "/documents:delete", response_model=Deleted, **FILTERED_WRITING, summary="Delete documents"
)
def delete_documents(collection: CollectionOf, body: DeleteRequest) -> Response:
    """Delete documents by ids, of which unknown ones are ignored, or by a filter."""
    with pointing_at():
        check_one_given(body.ids, body.filter)
    filter_ = parse_body_filter(body.filter)
    if filter_ is None:
        result = collection.delete(body.ids or [])
    else:
        result = collection.delete_where(filter_)
    warnings = [] if result.deleted else collection.explain_no_hits(filter_)
    answer = {"deleted": result.deleted, "generation": result.generation}
    return render(with_warnings(answer, warnings))


@router.post(
    "/documents:payload",
    response_model=PayloadsUpdated,
    **FILTERED_WRITING,
    summary="Update payloads",
)
def update_payload(collection: CollectionOf, body: UpdatePayloads, limits: Limits) -> Response:
    """Change payloads of documents by ids, of which unknown ones are ignored, or by a filter.

    Texts, vectors, codes and the order of documents stay. All updates apply, or none does.
    """
    updates: list[PayloadUpdate] = []
    for position, change in enumerate(body.updates):
        location = ("updates", position)
        for name in ("set", "merge", "overwrite"):
            check_payload(getattr(change, name), limits, *location, name=name)
        with pointing_at(*location):
            updates.append(PayloadUpdate.of(change.model_dump()))
    result = collection.update_payloads(updates, body.if_generation)
    filters = [update.filter for update in updates if update.filter is not None]
    warnings = [] if result.matched else [*chain(*map(collection.explain_no_hits, filters))]
    return render(with_warnings(result._asdict(), warnings))


@router.post(
    "/documents:bulk",
    response_model=BulkAnswer,
    **requires(Role.WRITE, filtered=True, body=_BULK_BODY),
    responses={202: {"model": JobInfo, "description": "A job writes them in the background."}},
    summary="Upsert documents as JSON lines",
)
async def upsert_documents_in_bulk(
    *,
    name: str,
    request: Request,
    folder: Folder,
    gate: GateOf,
    slots: WriteSlots,
    limits: Limits,
    submit: SubmitOf,
    if_none_match: IfNoneMatch = None,
    idempotency_key: Annotated[str | None, Header(max_length=MAX_KEY_LENGTH)] = None,
    encoder_fingerprint: Annotated[
        str | None,
        QueryParameter(
            description="That of the encoder that made the lines' codes. If the collection has"
            " another encoder, nothing is written."
        ),
    ] = None,
    skip_unchanged: Annotated[
        bool,
        QueryParameter(description="Skip documents that are already stored exactly as given."),
    ] = False,
) -> Response:
    """Upsert one document for each line. Lines are written as they arrive, a thousand at a time,
    each batch completely or not at all. An invalid line is refused and reported; the others are
    written.

    With ``If-None-Match: *`` a document that exists is refused. With ``Prefer: respond-async`` a
    job writes the lines in the background; repeating the request with the same ``Idempotency-Key``
    and the same API key returns the same job, unless that failed.
    """
    check_media_type(request, JSON_LINES)
    options = BulkOptions(creates_only(if_none_match), skip_unchanged, encoder_fingerprint)
    filter_ = request.scope["state"]["filter"]
    collection = visible_collection(request.scope["state"], folder, name)
    check_fingerprint(collection, encoder_fingerprint)
    if wants_async(request):
        if filter_ is not None:
            raise beyond_filter("Prefer: respond-async")
        spec = asdict(options)
        async with submit.drafting() as draft:
            prefix = f"{name} {json.dumps(spec)}\n".encode()
            digest = await save_body(request, draft / INPUT, prefix)
            key = submit.idempotency(idempotency_key, digest)
            job = await run_in_threadpool(submit, "bulk", name, spec, draft=draft, idempotency=key)
        return accepted_response(job)
    if idempotency_key is not None:
        message = "Idempotency-Key works only for jobs; send Prefer: respond-async too"
        raise ProblemError(422, "invalid_request", message)
    writer = BulkWriter(folder, gate, name, limits, options, filter=filter_)
    async for lines in _lines(request, BATCH_LINES):
        async with slots:
            await run_in_threadpool(writer.write, lines)
    return render(writer.result.to_dict())


async def _lines(request: Request, size: int) -> AsyncIterator[list[bytes]]:
    """Yield the lines of a body, `size` at a time, as they arrive."""
    lines: list[bytes] = []
    partial: list[bytes] = []  # the pieces of an unfinished line
    async for chunk in request.stream():
        end, *following = chunk.split(b"\n")
        partial.append(end)
        if following:
            lines += [b"".join(partial), *following[:-1]]
            partial = [following[-1]]
        while len(lines) >= size:
            yield lines[:size]
            lines = lines[size:]
    if rest := b"".join(partial):
        lines.append(rest)
    if lines:
        yield lines
