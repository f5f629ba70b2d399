"""Why a filter finds nothing: a field that no document has, or values of another kind."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from foundation.slices import checkpoint
from index.backend import CollectionBackend
from index.filters import (
    And,
    AnyOf,
    Filter,
    InRange,
    Or,
    Scalar,
    kind_of,
    read_field,
    scalars_of,
)

KINDS: dict[type, str] = {str: "strings", float: "numbers", bool: "booleans"}
SAMPLE = 100
"""So many documents are looked at, in the order of insertion, however large a collection is.

They take about a millisecond. More would let clients keep a service busy with such searches.
"""
MAX_CHARACTERS = 4 << 20
"""No further page of documents is read once their texts have so many characters."""
PAGE = 50


def reasons_for_none(collection: CollectionBackend, filter_: Filter | None) -> list[str]:
    """Return why no document of a collection passes a filter, as :func:`explain_empty` does."""
    if filter_ is None:
        return []
    payloads, are_all = _first_payloads(collection)
    return explain_empty(filter_, payloads, are_all=are_all)


def absent_fields(collection: CollectionBackend, fields: Sequence[str]) -> list[str]:
    """Return a sentence for each of the `fields` that no document of a collection has."""
    if not fields:
        return []
    payloads, are_all = _first_payloads(collection)
    absent = [field for field in fields if payloads and _kinds_in(payloads, field) is None]
    number = "" if are_all else f"{len(payloads):,}"
    return [_absent(field, number) for field in absent]


def with_warnings(answer: Mapping[str, Any], warnings: Sequence[str]) -> dict[str, Any]:
    """Return an answer with the field `warnings`, which it lacks if there are none."""
    return {**answer, "warnings": [*warnings]} if warnings else {**answer}


def _first_payloads(collection: CollectionBackend) -> tuple[list[Mapping[str, Any]], bool]:
    """Return the payloads of the first documents, and whether these are all."""
    payloads: list[Mapping[str, Any]] = []
    characters, cursor = 0, None
    while len(payloads) < SAMPLE and characters < MAX_CHARACTERS:
        checkpoint()
        page = collection.scroll(PAGE, cursor)
        payloads += [document.payload for document in page.documents]
        characters += sum(len(document.text or "") for document in page.documents)
        cursor = page.next_cursor
        if cursor is None:
            return payloads, True
    return payloads, False


def explain_empty(
    filter_: Filter, payloads: Sequence[Mapping[str, Any]], *, are_all: bool
) -> list[str]:
    """Return a sentence for each condition of a filter that no document with `payloads` can meet.

    `are_all` tells whether these are all documents; otherwise the sentences say how many they are.
    Conditions inside ``not`` are left out, and so are those that only ask whether a field exists.
    """
    if not payloads:
        return []
    conditions = dict.fromkeys(_conditions(filter_))
    held = {field: _kinds_in(payloads, field) for field in {one.field for one in conditions}}
    number = "" if are_all else f"{len(payloads):,}"
    sentences = [_sentence(condition, held[condition.field], number) for condition in conditions]
    return [sentence for sentence in sentences if sentence]


def _sentence(condition: AnyOf | InRange, held: set[type] | None, number: str) -> str:
    """Return why a condition cannot be met if its field holds values of the kinds `held`.

    `held` is None if no document has the field. `number` is how many documents were looked at, or
    nothing if these are all. The sentence is empty if the condition can be met.
    """
    field = condition.field
    if held is None:
        return f"filter: {_absent(field, number)}"
    values = _values(condition)
    kinds = {kind_of(value) for value in values}
    if not kinds.isdisjoint(held):
        return ""
    holds = _names(held) or "objects"
    where = f" in the first {number} documents" if number else ""
    value = json.dumps(values[0], ensure_ascii=False)
    return f"filter: {field!r} holds {holds}{where}; {value} finds {_names(kinds)} only"


def _absent(field: str, number: str) -> str:
    none = f"none of the first {number} documents" if number else "no document"
    return f"{none} has the field {field!r}"


def _names(kinds: Iterable[type]) -> str:
    return " and ".join(name for kind, name in KINDS.items() if kind in kinds)


def _kinds_in(payloads: Sequence[Mapping[str, Any]], field: str) -> set[type] | None:
    """Return the kinds of the values that a field holds, or None if no payload has it."""
    values = [value for one in payloads if (value := read_field(one, field)) is not None]
    return {kind_of(one) for value in values for one in scalars_of(value)} if values else None


def _conditions(filter_: Filter) -> Iterator[AnyOf | InRange]:
    if isinstance(filter_, And | Or):
        for part in filter_.parts:
            yield from _conditions(part)
    elif isinstance(filter_, AnyOf | InRange):
        yield filter_


def _values(condition: AnyOf | InRange) -> tuple[Scalar, ...]:
    return condition.values if isinstance(condition, AnyOf) else tuple(condition.bounds.values())
