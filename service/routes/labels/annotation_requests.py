"""What routes of labels and judgements share: the collection, the person, pages of records."""

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
from service.http.keys import request_key
from service.http.problems import invalid_field
from service.jobs.kinds import local_collection
from service.routes.dependencies import CollectionOf, render
from service.schemas.labels.labels import AnnotationsWritten, NewJudgement, NewLabel
from service.schemas.results import JSONAnswer, answer_to_json

Entry = TypeVar("Entry", NewLabel, NewJudgement)
Record = TypeVar("Record", DocumentLabel, Judgement)
Key = TypeVar("Key", tuple[str, str], tuple[str, str, str])

PageSize = Annotated[int, Query(ge=1, le=1000, description="Records on a page.")]
Cursor = Annotated[str | None, Query(description="The `next_cursor` of the previous page.")]
Person = Annotated[str | None, Query(description="Only records of this person.")]


async def _places(request: Request) -> VectorCache:
    places: VectorCache = request.app.state.places
    return places


def collection_with_labels(collection: CollectionBackend) -> Collection:
    """Return the collection if it can store labels.

    Raises:
        ProblemError: 422 if it is on Milvus.
    """
    try:
        return local_collection(collection)
    except InputError:
        message = f"collection {collection.name!r} is on Milvus, which cannot store labels"
        raise invalid_field(message) from None


async def _local(collection: CollectionOf) -> Collection:
    return collection_with_labels(collection)


async def _who(request: Request) -> str:
    name: str | None = request.app.state.keyring.name_of(
        request_key(request.scope["state"]["headers"])
    )
    return name or ANONYMOUS


PlacesOf = Annotated[VectorCache, Depends(_places)]
LocalCollection = Annotated[Collection, Depends(_local)]
RequestPerson = Annotated[str, Depends(_who)]


@contextmanager
def _pointing_at_places(field: str, places: Sequence[int]) -> Iterator[None]:
    """Turn an InputError about an item into a problem that points to its place in the body."""
    try:
        yield
    except InputError as error:
        raise invalid_field(error.reason, field, places[error.position or 0], error.field) from None


def write_entries(
    field: str,
    entries: Sequence[Entry],
    read: Callable[[Entry], Record | Key],
    write: Callable[[Sequence[Record], Sequence[Key]], AnnotationResult],
) -> Response:
    """Write the entries of the list `field` of a body, all of them or none.

    `read` turns an entry into a record to set, or into the key of a record to remove.

    Raises:
        ProblemError: pointing to an invalid entry.
    """
    records: list[Record] = []
    removed: list[Key] = []
    places: list[int] = []
    for place, entry in enumerate(entries):
        with _pointing_at_places(field, [place]):
            change = read(entry)
        if isinstance(change, tuple):
            removed.append(change)
        else:
            records.append(change)
            places.append(place)
    with _pointing_at_places(field, places):
        written = write(records, removed)
    return render(AnnotationsWritten(**written._asdict()))


def page_answer(
    field: str,
    records: Sequence[Record],
    limit: int,
    to_json: Callable[[Record], dict[str, Any]],
    max_bytes: int,
) -> Response:
    """Respond with a page of `records`, which are one more than `limit` if there is another page.

    Raises:
        ProblemError: 422 if the response has more than `max_bytes` bytes.
    """
    page, next_cursor = paginate(records, limit)
    answer = {field: [to_json(record) for record in page], "next_cursor": next_cursor}
    return JSONAnswer(answer_to_json(answer, max_bytes))


def paginate(records: Sequence[Record], limit: int) -> tuple[Sequence[Record], str | None]:
    """Return the first `limit` records, and the cursor of the next page if there are more."""
    if len(records) <= limit:
        return records, None
    raw = json.dumps(records[limit - 1].key, ensure_ascii=False).encode()
    return records[:limit], base64.urlsafe_b64encode(raw).decode().rstrip("=")


def parse_cursor(cursor: str | None, length: int) -> tuple[str, ...]:
    """Return the key that :func:`paginate` wrote, of `length` parts; an empty one without a cursor.

    Raises:
        ProblemError: 422 if it is not a cursor of such a list.
    """
    if cursor is None:
        return ()
    try:
        raw = base64.urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4))
        key = json.loads(raw)
    except (UnicodeEncodeError, binascii.Error, ValueError, RecursionError):
        key = None
    is_key = isinstance(key, list) and len(key) == length
    if not is_key or not all(isinstance(part, str) and is_storable(part) for part in key):
        message = f"is {cursor[:60]!r}; it must be the next_cursor of a page of this list"
        raise invalid_field(message, "cursor")
    return tuple(key)


def without_vector(document: dict[str, Any]) -> dict[str, Any]:
    """Leave out the vector, which is of no use to a person who labels."""
    return {name: value for name, value in document.items() if name != "vector"}
