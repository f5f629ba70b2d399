"""What the routes of labels and judgements share: the collection, the person, pages of records."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

from fastapi import Depends, Query, Request

from evaluation.labelling.places import PlacesCache
from foundation.errors import InputError
from index.annotations.records import ANONYMOUS, is_storable
from index.backend import CollectionBackend
from index.collection import Collection
from service.http.admission import given_key
from service.http.problems import invalid_field
from service.jobs.kinds import local
from service.routes.dependencies import CollectionOf

PageSize = Annotated[int, Query(ge=1, le=1000, description="Records on a page.")]
Cursor = Annotated[str | None, Query(description="The `next_cursor` of the page before.")]
Person = Annotated[str | None, Query(description="Only what this person said.")]


async def _places(request: Request) -> PlacesCache:
    places: PlacesCache = request.app.state.places
    return places


def keeping_labels(collection: CollectionBackend) -> Collection:
    """Return a collection that keeps labels; 422 if it lies where none are kept."""
    try:
        return local(collection)
    except InputError:
        message = f"collection {collection.name!a} is on Milvus, which keeps no labels"
        raise invalid_field(message) from None


async def _local(collection: CollectionOf) -> Collection:
    return keeping_labels(collection)


async def _who(request: Request) -> str:
    name: str | None = request.app.state.keyring.name_of(
        given_key(request.scope["state"]["headers"])
    )
    return name or ANONYMOUS


PlacesOf = Annotated[PlacesCache, Depends(_places)]
LocalCollection = Annotated[Collection, Depends(_local)]
WhoAsks = Annotated[str, Depends(_who)]


@contextmanager
def pointing_at_places(field: str, places: Sequence[int]) -> Iterator[None]:
    """Turn what is wrong with an item into a problem that points to its place in the body."""
    try:
        yield
    except InputError as error:
        raise invalid_field(error.reason, field, places[error.position or 0], error.field) from None


def page_of(found: Sequence[Any], limit: int) -> tuple[Sequence[Any], str | None]:
    """Return the records of a page, and the cursor of the next one if there is any."""
    if len(found) <= limit:
        return found, None
    raw = json.dumps(found[limit - 1].key, ensure_ascii=False).encode()
    return found[:limit], base64.urlsafe_b64encode(raw).decode().rstrip("=")


def key_of(cursor: str | None, length: int) -> tuple[str, ...]:
    """Return the key that :func:`page_of` wrote."""
    if cursor is None:
        return ()
    try:
        raw = base64.urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4))
        key = json.loads(raw)
    except (UnicodeEncodeError, binascii.Error, ValueError, RecursionError):
        key = None
    whole = isinstance(key, list) and len(key) == length
    if not whole or not all(isinstance(part, str) and is_storable(part) for part in key):
        message = f"is {cursor[:60]!a}; it must be the next_cursor of a page of this list"
        raise invalid_field(message, "cursor")
    return tuple(key)


def shown(document: dict[str, Any]) -> dict[str, Any]:
    """Leave out the vector, which nobody labels by."""
    return {name: value for name, value in document.items() if name != "vector"}
