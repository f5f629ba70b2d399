"""What the routes of labels and judgements share: the collection, the person, pages of records."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Query, Request, Response

from evaluation.labelling.document_vectors import VectorCache
from foundation.errors import InputError
from index.annotations.annotation_records import ANONYMOUS, DocumentLabel, Judgement, is_storable
from index.annotations.annotations import AnnotationResult
from index.backend import CollectionBackend
from index.collection import Collection
from service.http.admission import request_key
from service.http.problems import invalid_field
from service.jobs.kinds import local_collection
from service.routes.dependencies import CollectionOf, render
from service.schemas.labels.labels import AnnotationsWritten, NewJudgement, NewLabel
from service.schemas.results import JSONAnswer, answer_to_json

Given = TypeVar("Given", NewLabel, NewJudgement)
Record = TypeVar("Record", DocumentLabel, Judgement)
Key = TypeVar("Key", tuple[str, str], tuple[str, str, str])

PageSize = Annotated[int, Query(ge=1, le=1000, description="Records on a page.")]
Cursor = Annotated[str | None, Query(description="The `next_cursor` of the page before.")]
Person = Annotated[str | None, Query(description="Only what this person said.")]


async def _places(request: Request) -> VectorCache:
    places: VectorCache = request.app.state.places
    return places


def keeping_labels(collection: CollectionBackend) -> Collection:
    """Return a collection that keeps labels; 422 if it lies where none are kept."""
    try:
        return local_collection(collection)
    except InputError:
        message = f"collection {collection.name!a} is on Milvus, which keeps no labels"
        raise invalid_field(message) from None


async def _local(collection: CollectionOf) -> Collection:
    return keeping_labels(collection)


async def _who(request: Request) -> str:
    name: str | None = request.app.state.keyring.name_of(
        request_key(request.scope["state"]["headers"])
    )
    return name or ANONYMOUS


PlacesOf = Annotated[VectorCache, Depends(_places)]
LocalCollection = Annotated[Collection, Depends(_local)]
WhoAsks = Annotated[str, Depends(_who)]


@contextmanager
def _pointing_at_places(field: str, places: Sequence[int]) -> Iterator[None]:
    """Turn what is wrong with an item into a problem that points to its place in the body."""
    try:
        yield
    except InputError as error:
        raise invalid_field(error.reason, field, places[error.position or 0], error.field) from None


def set_given(
    field: str,
    given: Sequence[Given],
    read: Callable[[Given], Record | Key],
    write: Callable[[Sequence[Record], Sequence[Key]], AnnotationResult],
) -> Response:
    """Write what the list `field` of a body says, all of it or none.

    Of an entry `read` makes a record, or the key of the one that it takes back.

    Raises:
        ProblemError: pointing to the entry that is wrong.
    """
    records: list[Record] = []
    removed: list[Key] = []
    places: list[int] = []
    for place, one in enumerate(given):
        with _pointing_at_places(field, [place]):
            made = read(one)
        if isinstance(made, tuple):
            removed.append(made)
        else:
            records.append(made)
            places.append(place)
    with _pointing_at_places(field, places):
        written = write(records, removed)
    return render(AnnotationsWritten(**written._asdict()))


def page_answer(
    field: str,
    found: Sequence[Record],
    limit: int,
    to_json: Callable[[Record], dict[str, Any]],
    most: int,
) -> Response:
    """Answer with the records of a page, and the cursor of the next one if there is any.

    Raises:
        ProblemError: 422 if the answer has more than `most` bytes.
    """
    records, next_cursor = page_of(found, limit)
    page = {field: [to_json(one) for one in records], "next_cursor": next_cursor}
    return JSONAnswer(answer_to_json(page, most))


def page_of(found: Sequence[Record], limit: int) -> tuple[Sequence[Record], str | None]:
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
