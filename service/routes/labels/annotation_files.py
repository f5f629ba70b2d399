"""Labels and judgements over REST as text: JSON lines and TREC's qrels."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from fastapi.concurrency import run_in_threadpool

from evaluation.labelling.exchange import (
    FORMATS,
    JSONL,
    QRELS,
    QUERIES,
    import_records,
    read_lines,
    write_qrels,
    write_queries,
    write_records,
)
from foundation.errors import InputError
from index.collection import Collection
from service.http.bodies.body import JSON_LINES, JSONRequest, check_media_type
from service.http.problems import invalid_field
from service.http.roles import READ
from service.http.roles import WRITE as WRITE_ROLE
from service.http.routing import JSONRoute
from service.routes.dependencies import LONG_READ, Folder, Limits, render, writing
from service.routes.labels.annotation_requests import LocalCollection, WhoAsks, keeping_labels
from service.schemas.labels.labels import Imported
from service.schemas.results import answer_too_large

router = APIRouter(prefix="/v1/collections/{name}", route_class=JSONRoute)

_TEXT: dict[str, Any] = {"schema": {"type": "string"}}
_TEXT_BODY = {
    "required": True,
    "content": {
        JSON_LINES[0]: {"schema": {"type": "string"}, "example": '{"id": "a", "label": "one"}\n'},
        "text/plain": {"schema": {"type": "string"}, "example": "eigenvalues 0 a 1\n"},
    },
}


@router.get(
    "/labels/export",
    response_class=Response,
    responses={200: {"content": {JSON_LINES[0]: _TEXT}}},
    openapi_extra=READ,
    dependencies=LONG_READ,
    summary="Export labels",
)
def get_exported_labels(collection: LocalCollection, limits: Limits) -> Response:
    """Return every label as JSON lines, one record a line."""
    lines = write_records(collection.annotations.labels())
    return _lines(lines, JSON_LINES[0], limits.max_response_bytes)


@router.get(
    "/judgements/export",
    response_class=Response,
    responses={200: {"content": {JSON_LINES[0]: _TEXT, "text/plain": _TEXT}}},
    openapi_extra=READ,
    dependencies=LONG_READ,
    summary="Export judgements",
)
def get_exported_judgements(
    collection: LocalCollection,
    limits: Limits,
    format: Annotated[str, Query(description="`jsonl`, `qrels` or `queries`.")] = JSONL,  # noqa: A002
) -> Response:
    """Return every judgement: `jsonl`, one record a line; `qrels`, TREC's format.

    In qrels a query is named by its text, percent-encoded where it has white space, and people are
    left out: the grade is the one that most gave. `queries` are the texts of these ids, as
    `hummingbit evaluate` takes them.
    """
    judgements, most = collection.annotations.judgements(), limits.max_response_bytes
    if format == JSONL:
        return _lines(write_records(judgements), JSON_LINES[0], most)
    if format == QRELS:
        return _lines(write_qrels(judgements), "text/plain", most)
    if format == QUERIES:
        return _lines(write_queries(judgements), JSON_LINES[0], most)
    raise invalid_field(f"is {format[:40]!a}; it must be one of {', '.join(FORMATS)}", "format")


@router.post(
    "/labels/import",
    response_model=Imported,
    openapi_extra={**WRITE_ROLE, "requestBody": _TEXT_BODY},
    summary="Import labels and judgements",
)
async def post_import(
    *,
    request: JSONRequest,
    name: str,
    folder: Folder,
    asking: WhoAsks,
    format: Annotated[str, Query(description="`jsonl` or `qrels`.")] = JSONL,  # noqa: A002
    who: Annotated[
        str | None,
        Query(min_length=1, max_length=64, description="Who said what no record says of."),
    ] = None,
) -> Response:
    """Read labels and judgements as they are exported, each in place of what the person said.

    Records of documents that are not in the collection are passed over and counted. All the others
    are written, or none on an error.
    """
    check_media_type(request, (*JSON_LINES, "text/plain"))
    folder.collection(name)
    raw = await request.received()
    async with writing(request):
        # An alias may have moved while the body came.
        collection = keeping_labels(folder.collection(name))
        return await run_in_threadpool(_import, collection, raw, who or asking, format)


def _import(collection: Collection, raw: bytes, asking: str, form: str) -> Response:
    try:
        lines = raw.decode("utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise invalid_field(f"is not UTF-8 text ({error.reason})") from None
    if form not in (JSONL, QRELS):
        raise invalid_field(f"is {form[:40]!a}; it must be {JSONL} or {QRELS}", "format")
    try:
        labels, judgements = read_lines(lines, form, "body", asking)
    except InputError as error:
        raise invalid_field(str(error).removeprefix("line: ")) from None
    return render(Imported(**asdict(import_records(collection, labels, judgements))))


def _lines(lines: Iterable[str], media_type: str, most: int) -> Response:
    written, size = [], 0
    for line in lines:
        written.append(f"{line}\n".encode())
        size += len(written[-1])
        if size > most:
            raise answer_too_large(most)
    return Response(b"".join(written), media_type=media_type)
