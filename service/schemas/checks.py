"""Checks of what a body holds that need the settings or the collection."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from corpus.document import FIELDS, Document, parse_document
from foundation.errors import InputError
from index.backend import CollectionBackend
from index.filter_parser import parse_filter
from index.filters import Filter
from service.http.bodies.field_errors import show
from service.http.problems import ProblemError, invalid_field
from service.settings import Settings


def parse_item(item: Any, limits: Settings, *place: str | int, id: str) -> Document:  # noqa: A002
    """Make a document of what stands at `place` of the body, a model with the fields of one.

    Raises:
        ProblemError: pointing to what is wrong with it.
    """
    check_text(item.text, limits, *place)
    check_id(id, limits, *place)
    record = {field: getattr(item, field, None) for field in FIELDS}
    with pointing_at(*place):
        return parse_document({**record, "id": id})


def check_fingerprint(collection: CollectionBackend, given: str | None) -> None:
    """Raise a ProblemError, 409, if codes were made with another encoder than the collection's."""
    if given is None or given == collection.encoder_fingerprint:
        return
    made = collection.encoder_fingerprint
    own = "has no encoder, its documents bring codes" if made is None else f"is of encoder {made}"
    message = f"collection {collection.name!a} {own}; the codes are of encoder {given[:80]!a}"
    errors = [{"pointer": "/encoder_fingerprint", "message": message}]
    raise ProblemError(409, "encoder_mismatch", message, errors)


def check_text(text: str | None, limits: Settings, *place: str | int) -> None:
    """Raise a ProblemError if the text at `place` of the body is too long."""
    if text is not None:
        check_length(text, limits.max_text_length, *place, "text")


def check_id(id_: str, limits: Settings, *place: str | int) -> None:
    """Raise a ProblemError if the id of the item at `place` of the body is not one that may be."""
    check_length(id_, limits.max_id_length, *place, "id")
    if not re.fullmatch(limits.id_pattern, id_):
        raise invalid_field(f"is {show(id_)}; it must match {limits.id_pattern}", *place, "id")


def check_length(given: str, most: int, *place: str | int) -> None:
    """Raise a ProblemError if the string at `place` of the body has more than `most` characters."""
    if len(given) > most:
        message = f"has {len(given):,} characters; at most {most:,} are allowed"
        raise invalid_field(message, *place)


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
        raise invalid_field(error.reason, error.field) from None


@contextmanager
def pointing_at(*place: str | int) -> Iterator[None]:
    """Turn what is wrong with the item at `place` of the body into a problem that points to it."""
    try:
        yield
    except InputError as error:
        raise problem_at(error, *place) from None


@contextmanager
def pointing_among(*place: str | int) -> Iterator[None]:
    """Do as :func:`pointing_at` for the items of a list; the error's position says which it is.

    An error without one is about a field of the body itself.
    """
    try:
        yield
    except InputError as error:
        item = () if error.position is None else (*place, error.position)
        raise problem_at(error, *item) from None


def problem_at(error: InputError, *item: str | int) -> ProblemError:
    """Return the problem of the item at `item` of the body, or of the body itself."""
    # An error may be about the item as a whole.
    field = () if error.field in {"query", "document"} else (error.field,)
    return invalid_field(error.reason, *item, *field)
