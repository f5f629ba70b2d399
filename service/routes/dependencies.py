"""What routes share: the data folder, the limits, turns for writes and long reads, problems."""

from __future__ import annotations

import time
from asyncio import Semaphore
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Annotated, Any

from anyio import CapacityLimiter
from fastapi import Depends, FastAPI, Header, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Match, Route

from hummingbit.foundation.cancellation import Cancelled
from hummingbit.foundation.errors import HummingbitError
from hummingbit.index.backend import AnyCollection
from hummingbit.index.collection import Collection
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.errors import CollectionExists, StoreClosed, UnknownCollection
from hummingbit.index.filtered import visible
from hummingbit.service.concurrency import WriteGate
from hummingbit.service.http.bodies import field_errors
from hummingbit.service.http.keys import ADMIN, FILTERED_READ, FILTERED_WRITE, READ, WRITE
from hummingbit.service.http.monitoring import Metrics
from hummingbit.service.http.problems import (
    ProblemError,
    invalid_fields,
    problem_of,
    problem_response,
)
from hummingbit.service.http.routing import expensive
from hummingbit.service.schemas.responses import EncoderName
from hummingbit.service.schemas.search import answer_to_json, to_json
from hummingbit.service.settings import Settings


def state_of(name: str) -> Any:
    """Return the dependency on what the application's state holds under `name`."""

    async def get(request: Request) -> Any:
        return getattr(request.app.state, name)

    return Depends(get)


Folder = Annotated[DataFolder, state_of("folder")]
Limits = Annotated[Settings, state_of("settings")]
GateOf = Annotated[WriteGate, state_of("write_gate")]
WriteSlots = Annotated[Semaphore, state_of("write_slots")]
LongReads = Annotated[CapacityLimiter, state_of("long")]


async def _collection(request: Request, folder: Folder, name: str) -> Collection:
    return visible_collection(request.scope["state"], folder, name)


def visible_collection(state: Mapping[str, Any], folder: DataFolder, name: str) -> Collection:
    """Return a collection as the key of a request, whose `state` this is, sees it.

    For a key of an alias, it has the name of the alias.
    """
    collection = folder.collection(name)
    if state["collections"] is not None and collection.name != name:
        collection = collection.called(name)
    seen: Collection = visible(collection, state["filter"])
    return seen


CollectionOf = Annotated[Collection, Depends(_collection)]


async def _write_slot(request: Request) -> AsyncIterator[None]:
    state = request.app.state
    gate: WriteGate = state.write_gate
    async with state.write_slots:
        if not gate.enter(wait=False):
            await run_in_threadpool(gate.enter)
        try:
            yield
        finally:
            gate.leave()


async def _write_slot_only(slots: WriteSlots) -> AsyncIterator[None]:
    async with slots:
        yield


# A request that waits for a lock or computes for long holds a thread. These limit how many do, so
# that some threads are always left for others. A route declares them with its role.
_LONG = {"dependencies": [Depends(expensive)]}
LONG_READ, FILTERED_LONG_READ, LONG_ADMIN = READ | _LONG, FILTERED_READ | _LONG, ADMIN | _LONG
_WRITING = {"dependencies": [Depends(_write_slot, scope="function")]}
WRITING, FILTERED_WRITING = WRITE | _WRITING, FILTERED_WRITE | _WRITING
WRITING_ADMIN = ADMIN | _WRITING
# For a route that reads its body itself: a client that sends slowly must not keep writers waiting.
writing = asynccontextmanager(_write_slot)
# For a route that enters the write gate itself, to look up the collection inside.
WRITE_SLOT = [Depends(_write_slot_only, scope="function")]

IfNoneMatch = Annotated[str | None, Header(description="`*`: create only, replace nothing.")]


def render(
    body: BaseModel | Mapping[str, object],
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return `body` as a JSON response. Fields that were never set are left out."""
    # This runs in the thread of the route; FastAPI would do it on the event loop.
    if isinstance(body, BaseModel):
        body = body.model_dump(mode="json", exclude_unset=True)
    return Response(to_json(body), status, headers, media_type="application/json")


def render_long(answer: Mapping[str, Any], limits: Settings) -> Response:
    """Return `answer`, whose lists may be long, as a JSON response.

    Raises:
        ProblemError: 422 if it is larger than the limit.
    """
    content = answer_to_json(answer, limits.max_response_bytes)
    return Response(content, media_type="application/json")


def encoder_name(collection: AnyCollection) -> EncoderName | None:
    """Return the encoder of `collection` as responses have it, or None if it has none."""
    name, fingerprint = collection.encoder_name, collection.encoder_fingerprint
    if name is None or fingerprint is None:
        return None
    return EncoderName(name=name, fingerprint=fingerprint)


def names_in_use(folder: DataFolder) -> set[str]:
    """Return the names of all collections and aliases, whether or not they can be opened."""
    return {*folder.collections(), *folder.unavailable(), *folder.aliases()}


def check_free(folder: DataFolder, name: str) -> None:
    """Raise CollectionExists if there is a collection or an alias of that name."""
    if name in names_in_use(folder):
        raise CollectionExists(f"the name {name!r} is taken; choose another")


def wants_async(request: Request) -> bool:
    """Tell whether the header ``Prefer`` has ``respond-async``; RFC 7240."""
    preferences = ",".join(request.headers.getlist("prefer")).lower().split(",")
    return "respond-async" in {value.partition(";")[0].strip() for value in preferences}


def creates_only(if_none_match: str | None) -> bool:
    """Tell whether the header ``If-None-Match`` is ``*``, so that nothing is replaced.

    Raises:
        ProblemError: 422 if it has another value.
    """
    if if_none_match not in {None, "*"}:
        message = f"If-None-Match is {(if_none_match or '')[:40]!r}; it must be *"
        raise ProblemError(422, "invalid_request", message)
    return if_none_match is not None


@contextmanager
def stage(request: Request, name: str) -> Iterator[None]:
    """Measure the work within as a stage of `request`, one of the metrics' stages."""
    metrics: Metrics = request.app.state.metrics
    start = time.perf_counter()
    try:
        yield
    finally:
        metrics.stages[name].observe(time.perf_counter() - start)


# Every error of a request becomes a problem; a defect does in hummingbit.service.http.monitoring.


def add_handlers(app: FastAPI, routes: Iterable[BaseRoute]) -> None:
    """Make `app`, whose routes are `routes`, respond to every error with a problem."""
    translations: dict[type[Exception], Callable[[Request, Exception], ProblemError]] = {
        HTTPException: lambda request, error: _http_problem(request, error, routes),
        RequestValidationError: _validation_problem,
        HummingbitError: _hummingbit_problem,
        # hummingbit.service.http.limits has responded already.
        Cancelled: lambda _, __: ProblemError(503, "timed_out", "there was no response in time"),
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
        methods.add("HEAD")  # see hummingbit.service.http.routing.HeadAsGet
    return ", ".join(sorted(methods))


def _validation_problem(_: Request, error: Exception) -> ProblemError:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - for the type checker
    return invalid_fields(field_errors(error.errors()))


_WRITTEN = ("/documents", "/documents:bulk")
"""The ends of the paths of documents that are written, which the first request may be for."""


def _hummingbit_problem(request: Request, error: Exception) -> ProblemError:
    assert isinstance(error, HummingbitError)  # noqa: S101 - for the type checker
    name = request.path_params.get("name")
    folder = request.app.state.folder
    if isinstance(error, StoreClosed) and name is not None and name not in names_in_use(folder):
        # The collection was dropped while this request was under way.
        return ProblemError(404, "unknown_collection", f"there is no collection {name!r}")
    problem = problem_of(error)
    if problem is None:
        raise error  # a defect
    if isinstance(error, UnknownCollection) and request.url.path.endswith(_WRITTEN):
        hint = "PUT /v1/collections/NAME creates a collection"
        problem = ProblemError(problem.status_code, problem.code, f"{problem.detail}; {hint}")
    return problem
