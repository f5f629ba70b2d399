"""Turns every error of a request into a problem."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Match, Route

from foundation.errors import HummingbitError
from foundation.slices import Cancelled
from index.errors import StoreClosed
from service.http.bodies.field_errors import field_errors
from service.http.error_table import problem_of
from service.http.problems import ProblemError, invalid_fields, problem_response
from service.routes.dependencies import names_in_use

_log = logging.getLogger("hummingbit.service")


def add_handlers(app: FastAPI, routes: Iterable[BaseRoute]) -> None:
    """Make `app`, whose routes are `routes`, respond to every error with a problem."""
    translations: dict[type[Exception], Callable[[Request, Exception], ProblemError]] = {
        HTTPException: lambda request, error: _http_problem(request, error, routes),
        RequestValidationError: _validation_problem,
        HummingbitError: _hummingbit_problem,
        # The gateway has responded already, see service.http.gateway.Exchange.
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
        return ProblemError(404, "not_found", f"there is nothing at {path[:200]!r}")
    if error.status_code == 405:
        methods = _methods_at(request, routes)
        method = "HEAD" if request.scope["state"].get("is_head") else request.method
        message = f"{method} is not allowed here, only {methods}"
        return ProblemError(405, "method_not_allowed", message, headers={"Allow": methods})
    return ProblemError(error.status_code, "http_error", str(error.detail))


def _methods_at(request: Request, routes: Iterable[BaseRoute]) -> str:
    """Return all methods allowed at a path; Starlette knows only those of the first route there."""
    methods: set[str] = set()
    for route in routes:
        if isinstance(route, Route) and route.matches(request.scope)[0] != Match.NONE:
            methods |= route.methods or set()
    if "GET" in methods:
        methods.add("HEAD")  # see service.http.routing.HeadAsGet
    return ", ".join(sorted(methods))


def _validation_problem(_: Request, error: Exception) -> ProblemError:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - for the type checker
    return invalid_fields(field_errors(error.errors()))


def _hummingbit_problem(request: Request, error: Exception) -> ProblemError:
    assert isinstance(error, HummingbitError)  # noqa: S101 - for the type checker
    name = request.path_params.get("name")
    folder = request.app.state.folder
    if isinstance(error, StoreClosed) and name is not None and name not in names_in_use(folder):
        # The collection was dropped while this request was under way.
        return ProblemError(404, "unknown_collection", f"there is no collection {name!r}")
    problem = problem_of(error)
    if problem is None:
        _log.error("a request failed", exc_info=error)
        problem = _internal_problem(request, error)
    return problem


def _internal_problem(_: Request, __: Exception) -> ProblemError:
    # Starlette raises the error again, and the server logs it and closes the connection.
    message = "internal error; the log of the service says why"
    return ProblemError(500, "internal_error", message, headers={"Connection": "close"})
