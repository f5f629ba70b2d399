"""What every route needs: the data folder, the limits, a place in the queue, and rendering."""

from __future__ import annotations

import re
import time
from asyncio import Semaphore
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

from fastapi import Depends, Header, Request, Response
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel

from corpus.document import DocumentError
from index.backend import CollectionBackend
from index.data_folder import DataFolder
from index.errors import InputError
from index.filters import Filter, parse_filter
from service.errors import ProblemError, invalid_field
from service.metrics import Metrics
from service.schemas import EncoderName
from service.settings import Settings
from service.validation import show
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


async def _long_read_slots(request: Request) -> Semaphore:
    slots: Semaphore = request.app.state.long_read_slots
    return slots


async def _long_read_slot(request: Request) -> AsyncIterator[None]:
    async with await _long_read_slots(request):
        yield


Folder = Annotated[DataFolder, Depends(_folder)]
CollectionOf = Annotated[CollectionBackend, Depends(_collection)]
WriteSlots = Annotated[Semaphore, Depends(_write_slots)]
LongReadSlots = Annotated[Semaphore, Depends(_long_read_slots)]
GateOf = Annotated[WriteGate, Depends(_write_gate)]
Limits = Annotated[Settings, Depends(_settings)]

# A request that waits for a lock or computes for long holds a thread meanwhile. There are so many
# threads; these see to it that some are always left for single searches.
WRITE = [Depends(_write_slot)]
# Who passes through the gate himself, looks the name up inside.
WRITE_SLOT = [Depends(_write_slot_only)]
LONG_READ = [Depends(_long_read_slot)]

IfNoneMatch = Annotated[str | None, Header(description="`*`: only create; what is there stays.")]


def render(
    body: BaseModel, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Write an answer. Fields that were never set are left out."""
    # Done here, in the thread of the route; FastAPI would do it on the event loop.
    text = body.model_dump_json(exclude_unset=True)
    return Response(text, status, headers, media_type="application/json")


def encoder_name(collection: CollectionBackend) -> EncoderName | None:
    """Return what answers say of the encoder of `collection`."""
    name, fingerprint = collection.encoder_name, collection.encoder_fingerprint
    if name is None or fingerprint is None:
        return None
    return EncoderName(name=name, fingerprint=fingerprint)


def without_path(reason: object, folder: DataFolder) -> str:
    """Say why without telling where on the machine the data folder is."""
    return str(reason).replace(f"{folder.path}/", "")


def wants_async(request: Request) -> bool:
    """Tell whether the header ``Prefer`` asks for an answer before the work is done; RFC 7240."""
    preferences = ",".join(request.headers.getlist("prefer")).lower()
    return "respond-async" in {one.partition(";")[0].strip() for one in preferences.split(",")}


def check_fingerprint(collection: CollectionBackend, given: str | None) -> None:
    """Raise a ProblemError, 409, if codes were made with another encoder than the collection's."""
    if given is None or given == collection.encoder_fingerprint:
        return
    made = collection.encoder_fingerprint
    own = "has no encoder, its documents bring codes" if made is None else f"is of encoder {made}"
    message = f"collection {collection.name!a} {own}; the codes are of encoder {given[:80]!a}"
    errors = [{"pointer": "/encoder_fingerprint", "message": message}]
    raise ProblemError(409, "encoder_mismatch", message, errors)


def creates_only(if_none_match: str | None) -> bool:
    """Tell whether the header ``If-None-Match`` asks to change nothing that is there.

    Raises:
        ProblemError: if it asks for anything else.
    """
    if if_none_match not in {None, "*"}:
        message = f"If-None-Match is {(if_none_match or '')[:40]!a}; only * is taken"
        raise ProblemError(422, "invalid_request", message)
    return if_none_match is not None


@contextmanager
def stage(request: Request, name: str) -> Iterator[None]:
    """Tell the metrics how long a stage of the answer to `request` takes."""
    metrics: Metrics = request.app.state.metrics
    began = time.perf_counter()
    try:
        yield
    finally:
        metrics.observe_stage(name, time.perf_counter() - began)


def check_count(items: Sequence[Any], most: int, field: str) -> None:
    """Raise a ProblemError if the list `field` of the body has more than `most` entries."""
    if len(items) > most:
        raise invalid_field(f"has {len(items):,} entries; at most {most:,} are taken", field)


def check_text(text: str | None, limits: Settings, *place: str | int) -> None:
    """Raise a ProblemError if the text at `place` of the body is too long."""
    if text is not None and len(text) > limits.max_text_length:
        limit = f"at most {limits.max_text_length:,} are taken"
        raise invalid_field(f"has {len(text):,} characters; {limit}", *place, "text")


def check_id(id_: str, limits: Settings, *place: str | int) -> None:
    """Raise a ProblemError if the id of the item at `place` of the body is not one that may be."""
    if len(id_) > limits.max_id_length:
        limit = f"at most {limits.max_id_length:,} are taken"
        raise invalid_field(f"has {len(id_):,} characters; {limit}", *place, "id")
    if not re.fullmatch(limits.id_pattern, id_):
        raise invalid_field(f"is {show(id_)}; it must match {limits.id_pattern}", *place, "id")


def checked_filter(given: dict[str, Any] | None) -> Filter | None:
    """Parse the filter of a body.

    Raises:
        ProblemError: pointing to it.
    """
    if given is None:
        return None
    try:
        return parse_filter(given)
    except InputError as error:
        raise invalid_field(str(error).removeprefix("filter: "), "filter") from None


@contextmanager
def located(*place: str | int) -> Iterator[None]:
    """Turn what is wrong with the item at `place` of the body into a problem that points to it.

    Where `place` is a list of items, the error's position says which of them it is, and an
    InputError without one is about a field of the body itself.
    """
    try:
        yield
    except DocumentError as error:
        raise _located_problem(error, *place) from None
    except InputError as error:
        item = [*place, error.position] if place and error.position is not None else []
        raise _located_problem(error, *item) from None


def _located_problem(error: DocumentError | InputError, *item: str | int) -> ProblemError:
    message = str(error).removeprefix(f"{error.field}: ")
    # An error may be about the item as a whole.
    field = () if error.field in {"query", "document"} else (error.field,)
    return invalid_field(message, *item, *field)
