"""Which problem each error is."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Match, Route

from encoder.artifact import ArtifactError
from evaluation.metrics.metric_names import MetricError
from evaluation.result import EvaluationError
from index.data_folder import DataFolder
from index.errors import (
    CollectionExists,
    CollectionUnavailable,
    DataFolderError,
    EncoderMismatch,
    InputError,
    InvalidSnapshot,
    SnapshotError,
    StoreClosed,
    StoreError,
    StoreFull,
    StoreReplaced,
    UnknownCollection,
    UnknownDocument,
    UnknownEncoder,
    UnknownSnapshot,
    WritesLost,
)
from index.slices import Cancelled
from service.http.field_errors import field_errors
from service.http.problems import ProblemError, invalid_field, invalid_fields, problem_response
from service.jobs.job_store import JobStoreError

_log = logging.getLogger("hummingbit.service")

_STORAGE_MESSAGES = {
    StoreFull: "the disk is full; nothing was written",
    StoreReplaced: "files of the data folder were deleted or replaced under the running service, so"
    " nothing is written to them; put them back and restart the service, GET /readyz names them",
    WritesLost: "the collection lost writes that were acknowledged, so nothing more is written to"
    " it; GET /readyz says how many",
}


def add_handlers(app: FastAPI, routes: Iterable[BaseRoute]) -> None:
    """Make every error of `app`, whose routes are `routes`, a problem."""
    translations: dict[type[Exception], Callable[[Request, Exception], ProblemError]] = {
        HTTPException: lambda request, error: _http_problem(request, error, routes),
        RequestValidationError: _validation_problem,
        InputError: _input_problem,
        MetricError: lambda _, error: invalid_field(str(error), "metrics"),
        EvaluationError: lambda _, error: ProblemError(422, "cannot_evaluate", str(error)),
        UnknownCollection: lambda _, error: ProblemError(404, "unknown_collection", str(error)),
        UnknownDocument: lambda _, error: ProblemError(404, "unknown_document", str(error)),
        UnknownEncoder: _unknown_encoder_problem,
        CollectionExists: lambda _, error: ProblemError(409, "collection_exists", str(error)),
        CollectionUnavailable: _unavailable_problem,
        UnknownSnapshot: lambda _, error: ProblemError(404, "unknown_snapshot", str(error)),
        ArtifactError: _encoder_problem,
        InvalidSnapshot: lambda _, error: ProblemError(422, "invalid_snapshot", str(error)),
        SnapshotError: _storage_problem,
        JobStoreError: _storage_problem,
        StoreError: _storage_problem,
        DataFolderError: _storage_problem,
        # The answer has been given, see service.http.admission.Deadline.
        Cancelled: lambda _, __: ProblemError(503, "timed_out", "there was no response in time"),
        Exception: _internal_problem,
    }
    for kind, translate in translations.items():
        app.add_exception_handler(kind, _handler(translate))


def _handler(
    translate: Callable[[Request, Exception], ProblemError],
) -> Callable[[Request, Exception], Response]:
    def handle(request: Request, error: Exception) -> Response:
        return problem_response(request, translate(request, error))

    return handle


def _http_problem(request: Request, error: Exception, routes: Iterable[BaseRoute]) -> ProblemError:
    if isinstance(error, ProblemError):
        return error
    assert isinstance(error, HTTPException)  # noqa: S101 - for the type checker
    path = request.scope["path"]
    if error.status_code == 404:
        return ProblemError(404, "not_found", f"there is nothing at {path[:200]!a}")
    if error.status_code == 405:
        methods = _methods_at(request, routes)
        message = f"{request.method} is not allowed here, only {methods}"
        problem = ProblemError(405, "method_not_allowed", message)
        problem.headers = {"Allow": methods}
        return problem
    return ProblemError(error.status_code, "http_error", str(error.detail))


def _methods_at(request: Request, routes: Iterable[BaseRoute]) -> str:
    """Return all the methods for a path; Starlette knows only those of the first route there."""
    methods: set[str] = set()
    for route in routes:
        if isinstance(route, Route) and route.matches(request.scope)[0] != Match.NONE:
            methods |= route.methods or set()
    return ", ".join(sorted(methods))


def _validation_problem(_: Request, error: Exception) -> ProblemError:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - for the type checker
    return invalid_fields(field_errors(error.errors()))


def _input_problem(_: Request, error: Exception) -> ProblemError:
    assert isinstance(error, InputError)  # noqa: S101 - for the type checker
    if error.field == "name":
        return ProblemError(422, "invalid_request", f"the collection's {error}")
    return invalid_field(str(error).removeprefix(f"{error.field}: "), error.field)


def _unknown_encoder_problem(_: Request, error: Exception) -> ProblemError:
    errors = [{"pointer": "/encoder", "message": str(error)}]
    return ProblemError(422, "unknown_encoder", str(error), errors)


def _unavailable_problem(_: Request, error: Exception) -> ProblemError:
    _log.warning("%s", error)
    message = "the collection exists but cannot be opened; GET /readyz says why"
    if isinstance(error, EncoderMismatch):
        return ProblemError(409, "encoder_mismatch", message)
    return ProblemError(503, "collection_unavailable", message)


def _encoder_problem(_: Request, error: Exception) -> ProblemError:
    _log.warning("%s", error)
    message = "the encoder exists but is damaged; GET /readyz says why"
    return ProblemError(503, "encoder_unavailable", message)


def _storage_problem(request: Request, error: Exception) -> ProblemError:
    name = request.path_params.get("name")
    if isinstance(error, StoreClosed) and name is not None and not _is_there(request, name):
        # It was dropped while this request was under way.
        return ProblemError(404, "unknown_collection", f"there is no collection {name!a}")
    for kind, message in _STORAGE_MESSAGES.items():
        if isinstance(error, kind):
            _log.error("storage failed: %s", error)
            return ProblemError(503, "storage_failed", message)
    _log.error("storage failed", exc_info=error)
    message = "the collection could not be read or written; the service's log says why"
    return ProblemError(503, "storage_failed", message)


def _is_there(request: Request, name: str) -> bool:
    folder: DataFolder = request.app.state.folder
    return name in {*folder.collections(), *folder.unavailable(), *folder.aliases()}


def _internal_problem(_: Request, __: Exception) -> ProblemError:
    # Starlette raises the error again for the server to log.
    problem = ProblemError(500, "internal_error", "internal error; the log of the service says why")
    problem.headers = {"Connection": "close"}  # as the server will then do
    return problem
