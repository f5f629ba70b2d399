"""Checks of a body that need the settings or the collection."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
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
    """Return the item at `place` of the body, a model with the fields of a document, as a document.

    Raises:
        ProblemError: pointing to the field that is invalid.
    """
    check_text(item.text, limits, *place)
    check_id(id, limits, *place)
    check_payload(getattr(item, "payload", None), limits, *place)
    record = {field: getattr(item, field, None) for field in FIELDS}
    with pointing_at(*place):
        return parse_document({**record, "id": id})


def check_fingerprint(collection: CollectionBackend, fingerprint: str | None) -> None:
    """Raise a ProblemError, 409, if codes were made by another encoder than the collection's."""
    own = collection.encoder_fingerprint
    if fingerprint is None or fingerprint == own:
        return
    encoder = "no encoder, its documents come with codes" if own is None else f"the encoder {own}"
    message = f"collection {collection.name!r} has {encoder}; the codes are of {fingerprint[:80]!r}"
    errors = [{"pointer": "/encoder_fingerprint", "message": message}]
    raise ProblemError(409, "encoder_mismatch", message, errors)


def check_text(text: str | None, limits: Settings, *place: str | int) -> None:
    """Raise a ProblemError if the text at `place` of the body is too long."""
    if text is not None:
        check_length(text, limits.max_text_length, *place, "text")


def check_payload(payload: Mapping[str, Any] | None, limits: Settings, *place: str | int) -> None:
    """Raise a ProblemError if the payload of the item at `place` of the body is too large.

    The interpreter can do nothing else while it writes or parses one.
    """
    if payload is not None and _count_values(payload) > limits.max_payload_values:
        message = f"at most {limits.max_payload_values:,} are allowed"
        message = f"has {_count_values(payload):,} keys, entries and values; {message}"
        raise invalid_field(message, *place, "payload")


def _count_values(payload: Mapping[str, Any]) -> int:
    """Return the number of values in a payload, nested ones included, and of keys."""
    count = 0
    nested: list[Mapping[str, Any] | list[Any]] = [payload]
    while nested:
        one = nested.pop()
        members = one.values() if isinstance(one, Mapping) else one
        count += len(one) * (2 if isinstance(one, Mapping) else 1)
        nested += [value for value in members if isinstance(value, Mapping | list)]
    return count


def check_id(id_: str, limits: Settings, *place: str | int) -> None:
    """Raise a ProblemError if the id of the item at `place` of the body is invalid."""
    check_length(id_, limits.max_id_length, *place, "id")
    if not re.fullmatch(limits.id_pattern, id_):
        raise invalid_field(f"is {show(id_)}; it must match {limits.id_pattern}", *place, "id")


def check_length(text: str, limit: int, *place: str | int) -> None:
    """Raise a ProblemError if the text at `place` of the body has more than `limit` characters."""
    if len(text) > limit:
        message = f"has {len(text):,} characters; at most {limit:,} are allowed"
        raise invalid_field(message, *place)


def parse_body_filter(condition: dict[str, Any] | None) -> Filter | None:
    """Parse the filter of a body.

    Raises:
        ProblemError: pointing to the part that is invalid.
    """
    if condition is None:
        return None
    try:
        return parse_filter(condition)
    except InputError as error:
        raise invalid_field(error.reason, error.field) from None


@contextmanager
def pointing_at(*place: str | int) -> Iterator[None]:
    """Turn an InputError about the item at `place` of the body into a problem that points to it."""
    try:
        yield
    except InputError as error:
        raise problem_at(error, *place) from None


@contextmanager
def pointing_among(*place: str | int) -> Iterator[None]:
    """Do as :func:`pointing_at` for the items of the list at `place`.

    The error's position says which item it is about; without one, it is about the body itself.
    """
    try:
        yield
    except InputError as error:
        item = () if error.position is None else (*place, error.position)
        raise problem_at(error, *item) from None


def problem_at(error: InputError, *item: str | int) -> ProblemError:
    """Return an InputError as a problem of the part `item` of the body, or of the body itself."""
    # These fields stand for the item as a whole.
    field = () if error.field in {"query", "document"} else (error.field,)
    return invalid_field(error.reason, *item, *field)
