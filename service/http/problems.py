"""Errors as clients see them: RFC 9457 problem details with a stable `code`."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from hummingbit.encoder.artifact import ArtifactError
from hummingbit.encoder.endpoint import EndpointError
from hummingbit.evaluation.metrics import MetricError
from hummingbit.evaluation.result import EvaluationError
from hummingbit.foundation.errors import HummingbitError, InputError
from hummingbit.foundation.processes import ForkedError
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.errors import (
    CollectionExists,
    CollectionUnavailable,
    DataFolderError,
    EncoderMismatch,
    GenerationChanged,
    InvalidSnapshot,
    SnapshotError,
    StoreError,
    StoreFull,
    StoreReplaced,
    StoreUnavailable,
    UnknownCollection,
    UnknownDocument,
    UnknownEncoder,
    UnknownSnapshot,
    WritesLost,
)
from hummingbit.service.http.request_ids import request_id

_log = logging.getLogger("hummingbit.service")

MEDIA_TYPE = "application/problem+json"
TYPE_PREFIX = "urn:hummingbit:problem:"

TITLES = {
    "invalid_http": "Invalid HTTP",
    "invalid_path": "Invalid path",
    "invalid_json": "Invalid JSON",
    "invalid_request": "Invalid request",
    "unknown_encoder": "Unknown encoder",
    "cannot_evaluate": "The collection cannot be evaluated",
    "unauthorized": "API key required",
    "unknown_host": "Unknown host",
    "cross_origin": "The request comes from another origin",
    "forbidden": "The key's role is too low",
    "beyond_key": "The key is limited to other collections",
    "beyond_filter": "The key's filter cannot be applied",
    "too_many_requests": "Too many requests are waiting",
    "too_many_bodies": "Too many large requests",
    "timed_out": "The request timed out",
    "body_too_slow": "The body was sent too slowly",
    "request_too_slow": "The headers were sent too slowly",
    "uri_too_long": "The request line is too long",
    "headers_too_large": "The headers are too large",
    "too_many_connections": "Too many connections",
    "too_many_responses": "Too many long responses are being sent",
    "writer_unavailable": "The writer is unavailable",
    "not_found": "Not found",
    "unknown_collection": "Unknown collection",
    "unknown_document": "Unknown document",
    "unknown_evaluation": "Unknown evaluation",
    "evaluation_running": "The evaluation is still running",
    "evaluation_failed": "The evaluation failed",
    "not_finished": "The job is not finished",
    "not_acceptable": "Unknown format",
    "format_unavailable": "The format is not available",
    "document_exists": "The document already exists",
    "generation_changed": "The collection was changed",
    "unknown_job": "Unknown job",
    "too_many_jobs": "Too many jobs",
    "job_finished": "The job is finished",
    "idempotency_key_reused": "The idempotency key was used for another request",
    "training_unavailable": "Training is not available",
    "training_failed": "Training failed",
    "nothing_to_confirm": "There is nothing to confirm",
    "cannot_take_back": "It cannot be taken back",
    "unknown_snapshot": "Unknown snapshot",
    "invalid_snapshot": "Invalid snapshot",
    "snapshot_failed": "The snapshot cannot be written or read",
    "method_not_allowed": "Method not allowed",
    "body_too_large": "The body is too large",
    "line_too_large": "The line is too large",
    "invalid_range": "Invalid range",
    "range_not_satisfiable": "Range not satisfiable",
    "answer_too_large": "The response is too large",
    "unsupported_media_type": "Unsupported media type",
    "collection_exists": "The name is taken",
    "read_only": "The service is read-only",
    "encoder_mismatch": "The collection has another encoder",
    "collection_unavailable": "The collection cannot be opened",
    "encoder_unavailable": "The encoder cannot be loaded",
    "endpoint_unavailable": "The embeddings endpoint does not answer as it must",
    "storage_failed": "Storage failed",
    "not_ready": "The service is not ready",
    "http_error": "The request was refused",
    "internal_error": "Internal error",
}
"""The title of each code."""

OPENAI_PATHS = frozenset({"/v1/embeddings", "/v1/models"})

# What a path may contain unquoted; RFC 3986, section 3.3.
PATH_CHARACTERS = "/:@!$&'()*+,;="

INTERNAL = "internal error; the log of the service says why"
"""What clients get to know of a defect."""

# The longest name in a pointer. A client may send a field with a name of megabytes.
MAX_NAME = 256

# Seconds after which to try again, by status.
RETRY_AFTER = {429: "1", 503: "5"}

FieldError = Mapping[str, str]
"""``pointer``, the JSON pointer (RFC 6901) of a part of the body, and ``message``."""


class ProblemError(HTTPException):
    """The response is a problem with this status, code and detail."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        errors: Sequence[FieldError] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(status, detail, headers)
        self.code = code
        self.errors = errors


def without_path(reason: object, folder: DataFolder) -> str:
    """Return a reason as text without the path of the data folder."""
    return str(reason).replace(f"{folder.path}/", "")


def unsupported_media_type(content_type: str, remedy: str) -> ProblemError:
    """Return the problem, 415, of a body with the wrong Content-Type; `remedy` says what to do."""
    value = repr(content_type[:80]) if content_type else "missing"
    return ProblemError(415, "unsupported_media_type", f"Content-Type is {value}; {remedy}")


def invalid_field(message: str, *location: str | int) -> ProblemError:
    """Return the problem, 422, of the part of the body at `location`: field names and positions."""
    return invalid_fields([{"pointer": pointer(*location), "message": message}])


def invalid_fields(errors: Sequence[FieldError]) -> ProblemError:
    """Return the problem, 422, of one or more invalid parts of the body."""
    first = errors[0]
    where = first["pointer"] or "the body"
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return ProblemError(422, "invalid_request", f"{where}: {first['message']}{more}", errors)


def pointer(*location: str | int) -> str:
    """Return the JSON pointer of a part of the body (RFC 6901), with long names cut."""
    names = (str(part) for part in location)
    cut = (name if len(name) <= MAX_NAME else f"{name[:MAX_NAME]}…" for name in names)
    return "".join("/" + name.replace("~", "~0").replace("/", "~1") for name in cut)


def problem_document(problem: ProblemError, path: str = "/") -> dict[str, Any]:
    """Return the members of a problem of a request to `path`; RFC 9457."""
    return {
        "type": f"{TYPE_PREFIX}{problem.code}",
        "title": TITLES[problem.code],
        "status": problem.status_code,
        "detail": problem.detail,
        "instance": quote(path, safe=PATH_CHARACTERS, errors="replace"),
        "code": problem.code,
    }


def problem_response(
    request: Request, problem: ProblemError, extra: Mapping[str, Any] | None = None
) -> Response:
    """Return `problem` as the response to `request`, with `extra` members."""
    body = problem_document(problem, request.scope["path"])
    if id_ := request_id.get():
        body["request_id"] = id_
    if problem.errors:
        body["errors"] = list(problem.errors)
    if request.scope["path"] in OPENAI_PATHS:
        # OpenAI's clients read what is wrong from here.
        param = problem.errors[0]["pointer"].lstrip("/") if problem.errors else None
        error = {"message": problem.detail, "type": "invalid_request_error"}
        body["error"] = {**error, "param": param, "code": problem.code}
    text = json.dumps({**body, **(extra or {})}, ensure_ascii=False)
    # A message may quote what a client sent, including a lone surrogate.
    raw = text.encode("utf-8", "replace")
    headers = dict(problem.headers or {})
    if problem.status_code in RETRY_AFTER:
        headers.setdefault("Retry-After", RETRY_AFTER[problem.status_code])
    return Response(raw, problem.status_code, headers, MEDIA_TYPE)


def problem_message(status: int, code: str, detail: str) -> bytes:
    """Return a problem as a whole HTTP response, for a connection that no application serves."""
    body = json.dumps(problem_document(ProblemError(status, code, detail)))
    lines = [
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
        f"content-type: {MEDIA_TYPE}",
        "connection: close",
        f"content-length: {len(body)}",
    ]
    if status in RETRY_AFTER:
        lines.append(f"retry-after: {RETRY_AFTER[status]}")
    return ("\r\n".join(lines) + "\r\n\r\n" + body).encode()


# The status, the code and the text of each class of error.


class Entry(NamedTuple):
    """What clients get for a class of error.

    `text` takes the location of a message that may hold paths of this machine.
    """

    status: int
    code: str
    text: str | None = None


_UNAVAILABLE = "the collection exists but cannot be opened; GET /readyz says why"
_UNREADABLE = "the collection cannot be read or written; the service's log says why"

PROBLEMS: Mapping[type[HummingbitError], Entry] = {
    InputError: Entry(422, "invalid_request"),
    MetricError: Entry(422, "invalid_request"),
    EvaluationError: Entry(422, "cannot_evaluate"),
    UnknownCollection: Entry(404, "unknown_collection"),
    UnknownDocument: Entry(404, "unknown_document"),
    UnknownEncoder: Entry(422, "unknown_encoder"),
    UnknownSnapshot: Entry(404, "unknown_snapshot"),
    GenerationChanged: Entry(412, "generation_changed"),
    CollectionExists: Entry(409, "collection_exists"),
    EncoderMismatch: Entry(409, "encoder_mismatch", _UNAVAILABLE),
    CollectionUnavailable: Entry(503, "collection_unavailable", _UNAVAILABLE),
    EndpointError: Entry(
        503,
        "endpoint_unavailable",
        "the embeddings endpoint of the encoder does not answer as it must; the service's log says"
        " how",
    ),
    ForkedError: Entry(
        503,
        "storage_failed",
        "the service was forked after it had opened its data folder; its log says in which process",
    ),
    ArtifactError: Entry(
        503,
        "encoder_unavailable",
        "the encoder exists but is damaged; GET /readyz says why",
    ),
    InvalidSnapshot: Entry(422, "invalid_snapshot"),
    SnapshotError: Entry(
        503,
        "storage_failed",
        "the snapshot cannot be read or written; the service's log says why",
    ),
    StoreFull: Entry(503, "storage_failed", "the disk is full; nothing was written"),
    StoreReplaced: Entry(
        503,
        "storage_failed",
        "files of the data folder were deleted or replaced while the service ran, so it no longer"
        " writes to them; put them back and restart it; GET /readyz names them",
    ),
    WritesLost: Entry(
        503,
        "storage_failed",
        "the collection lost acknowledged writes, so the service no longer writes to it;"
        " GET /readyz says how many",
    ),
    StoreUnavailable: Entry(
        503,
        "storage_failed",
        "the server that stores the collections cannot be reached, or another service writes there;"
        " GET /readyz says which",
    ),
    StoreError: Entry(503, "storage_failed", _UNREADABLE),
    DataFolderError: Entry(503, "storage_failed", _UNREADABLE),
}
"""By class; a class that is not listed has the entry of its base class."""


def entry_of(error: HummingbitError) -> Entry | None:
    """Return the entry of an error in :data:`PROBLEMS`, or None if it has none."""
    return next((PROBLEMS[kind] for kind in type(error).__mro__ if kind in PROBLEMS), None)


def problem_of(error: HummingbitError) -> ProblemError | None:
    """Return the problem of an error, or None if :data:`PROBLEMS` does not list it.

    A message that clients must not read is logged instead.
    """
    entry = entry_of(error)
    if entry is None:
        return None
    status, code, text = entry
    if isinstance(error, MetricError):
        return invalid_field(str(error), "metrics")
    if isinstance(error, InputError) and error.field != "name":
        return invalid_field(error.reason, error.field)
    if text is not None:
        if text == _UNREADABLE:
            _log.error("storage failed", exc_info=error)
        elif isinstance(error, StoreError):
            _log.error("storage failed: %s", error)
        else:
            _log.warning("%s", error)
        return ProblemError(status, code, text)
    detail = f"the collection's {error}" if isinstance(error, InputError) else str(error)
    is_encoder = isinstance(error, UnknownEncoder)
    return ProblemError(
        status, code, detail, [{"pointer": "/encoder", "message": detail}] if is_encoder else ()
    )
