"""What routes share: the data folder, the limits, places for writes and long reads, rendering."""

from __future__ import annotations

import time
from asyncio import Semaphore
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Annotated

from fastapi import Depends, Header, Request, Response
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel

from index.backend import CollectionBackend
from index.data_folder import DataFolder
from index.errors import CollectionExists
from service.http.monitoring import Metrics
from service.http.problems import ProblemError
from service.lanes import Lane
from service.schemas.common import EncoderName
from service.settings import Settings
from service.write_gate import WriteGate


async def _folder(request: Request) -> DataFolder:
    folder: DataFolder = request.app.state.folder
    return folder


async def _collection(request: Request, name: str) -> CollectionBackend:
    return (await _folder(request)).collection(name)


async def _settings(request: Request) -> Settings:
    settings: Settings = request.app.state.settings
    return settings


async def _write_gate(request: Request) -> WriteGate:
    gate: WriteGate = request.app.state.write_gate
    return gate


async def _write_slots(request: Request) -> Semaphore:
    slots: Semaphore = request.app.state.write_slots
    return slots


async def _write_slot(request: Request) -> AsyncIterator[None]:
    gate = await _write_gate(request)
    async with await _write_slots(request):
        if not gate.enter(wait=False):
            await run_in_threadpool(gate.enter)
        try:
            yield
        finally:
            gate.leave()


async def _write_slot_only(request: Request) -> AsyncIterator[None]:
    async with await _write_slots(request):
        yield


async def _long_reads(request: Request) -> Lane:
    lane: Lane = request.app.state.long_reads
    return lane


async def _long_read(request: Request) -> AsyncIterator[None]:
    async with (await _long_reads(request)).place(request.scope["state"]):
        yield


Folder = Annotated[DataFolder, Depends(_folder)]
CollectionOf = Annotated[CollectionBackend, Depends(_collection)]
WriteSlots = Annotated[Semaphore, Depends(_write_slots)]
LongReads = Annotated[Lane, Depends(_long_reads)]
GateOf = Annotated[WriteGate, Depends(_write_gate)]
Limits = Annotated[Settings, Depends(_settings)]

# A request that waits for a lock or computes for long holds a thread. These limit how many do, so
# that some threads are always left for single searches.
WRITE = [Depends(_write_slot, scope="function")]
# For a route that reads its body itself: a client that sends slowly must not keep writers waiting.
writing = asynccontextmanager(_write_slot)
# For a route that enters the write gate itself, to look up the collection inside.
WRITE_SLOT = [Depends(_write_slot_only, scope="function")]
LONG_READ = [Depends(_long_read, scope="function")]

IfNoneMatch = Annotated[str | None, Header(description="`*`: create only, replace nothing.")]


def render(
    body: BaseModel, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return `body` as a JSON response. Fields that were never set are left out."""
    # This runs in the thread of the route; FastAPI would do it on the event loop.
    text = body.model_dump_json(exclude_unset=True)
    return Response(text, status, headers, media_type="application/json")


def encoder_name(collection: CollectionBackend) -> EncoderName | None:
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
