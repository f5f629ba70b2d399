"""Import and export of labels and judgements over REST: JSON lines and TREC's qrels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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
from index.annotations.annotation_records import DocumentLabel, Judgement
from service.http.bodies.body import JSON_LINES, JSONRequest, check_media_type, in_turn
from service.http.problems import invalid_field
from service.http.roles import READ
from service.http.roles import WRITE as WRITE_ROLE
from service.http.routing import JSONRoute
from service.routes.dependencies import LONG_READ, Folder, Limits, render, writing
from service.routes.labels.annotation_requests import (
    LocalCollection,
    RequestPerson,
    collection_with_labels,
)
from service.schemas.labels.labels import Imported
from service.schemas.results import LongAnswer, answer_too_large

router = APIRouter(prefix="/v1/collections/{name}", route_class=JSONRoute)

WRITTEN_AT_ONCE = 2000

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
    """Return all labels as JSON lines, one record per line."""
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
    """Return all judgements: `jsonl`, one record per line; `qrels`, TREC's format.

    In qrels the id of a query is its text, with white space percent-encoded. People are left out:
    the grade is the one that most of them gave. `queries` are the queries of these ids, as
    `hummingbit evaluate` reads them.
    """
    judgements, max_bytes = collection.annotations.judgements(), limits.max_response_bytes
    if format == JSONL:
        return _lines(write_records(judgements), JSON_LINES[0], max_bytes)
    if format == QRELS:
        return _lines(write_qrels(judgements), "text/plain", max_bytes)
    if format == QUERIES:
        return _lines(write_queries(judgements), JSON_LINES[0], max_bytes)
    raise invalid_field(f"is {format[:40]!r}; it must be one of {', '.join(FORMATS)}", "format")


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
    person: RequestPerson,
    format: Annotated[str, Query(description="`jsonl` or `qrels`.")] = JSONL,  # noqa: A002
    who: Annotated[
        str | None,
        Query(min_length=1, max_length=64, description="The person of records that name none."),
    ] = None,
) -> Response:
    """Import labels and judgements in the format of an export; each replaces the person's own.

    Records of documents that are not in the collection are skipped and counted. If a line is
    invalid, nothing is written. Two thousand records are written at a time, and other writers have
    their turn in between; if the disk fails meanwhile, the request can be repeated.
    """
    check_media_type(request, (*JSON_LINES, "text/plain"))
    folder.collection(name)
    raw = await request.read_body()
    labels, judgements = await run_in_threadpool(_read, request, raw, who or person, format)
    report = None
    for batch in _batches(labels, judgements):
        async with writing(request):
            # An alias may have moved since the last batch.
            collection = collection_with_labels(folder.collection(name))
            written = await run_in_threadpool(import_records, collection, *batch)
        report = written if report is None else report.and_then(written)
    assert report is not None  # noqa: S101 - there is at least one batch
    return render(Imported(**asdict(report)))


def _batches(
    labels: Sequence[DocumentLabel], judgements: Sequence[Judgement]
) -> Iterator[tuple[Sequence[DocumentLabel], Sequence[Judgement]]]:
    """Yield the records in batches, at least one, which may be empty."""
    for start in range(0, max(len(labels), len(judgements), 1), WRITTEN_AT_ONCE):
        end = start + WRITTEN_AT_ONCE
        yield labels[start:end], judgements[start:end]


def _read(
    request: JSONRequest, raw: bytes, person: str, form: str
) -> tuple[list[DocumentLabel], list[Judgement]]:
    try:
        lines = raw.decode("utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise invalid_field(f"is not UTF-8 text ({error.reason})") from None
    if form not in (JSONL, QRELS):
        raise invalid_field(f"is {form[:40]!r}; it must be {JSONL} or {QRELS}", "format")
    try:
        with in_turn(request):
            return read_lines(lines, form, "body", person)
    except InputError as error:
        raise invalid_field(str(error).removeprefix("line: ")) from None


def _lines(lines: Iterable[str], media_type: str, max_bytes: int) -> Response:
    written, size = [], 0
    for line in lines:
        written.append(f"{line}\n".encode())
        size += len(written[-1])
        if size > max_bytes:
            raise answer_too_large(max_bytes)
    return LongAnswer(
        b"".join(written), media_type=media_type, headers={"X-Content-Type-Options": "nosniff"}
    )
