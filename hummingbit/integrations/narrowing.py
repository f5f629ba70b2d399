"""Filters of a framework, which hold for the documents that the framework itself would find.

Each framework compares values in its own way: whether 1 equals true, which dates are the same, what
a list contains. So its own comparison decides about each document. A condition on payloads only
narrows what is read. It holds at least wherever the framework's filter does; None stands for one
that holds everywhere.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from hummingbit.foundation.errors import InputError, counted
from hummingbit.index.collection import PAGE
from hummingbit.index.filters import MAX_PARTS, And, Filter, Or, filter_to_json, parse_filter
from hummingbit.index.records import StoredDocument
from hummingbit.index.search import Hit
from hummingbit.inputs import Added, QueryContent
from hummingbit.served import AnyOpenCollection

EXACT_INTEGERS = 2**53
"""A float64 holds every integer up to this one."""


def present(field: str) -> Filter | None:
    """Return a condition that holds wherever `field` is not null."""
    return _parsed({"field": field, "exists": True})


def has_id(ids: Sequence[Any]) -> Filter | None:
    """Return a condition that holds for the documents with one of `ids`."""
    texts = [id_ for id_ in ids if isinstance(id_, str)]
    return _parsed({"has_id": texts}) if texts else None


def equal_to_any(field: str, values: Sequence[Any]) -> Filter | None:
    """Return a condition that holds wherever `field` equals one of `values`, as Python compares."""
    if any(value is None for value in values):
        return None
    if not values or not all(_is_comparable(value) for value in values):
        return present(field)
    # To Python, true is 1 and false is 0.
    twins: list[int] = [bool(value) for value in values if value in (0, 1)]
    twins += [int(value) for value in values if isinstance(value, bool)]
    return _parsed({"field": field, "in": [*values, *twins]}) or present(field)


def in_order(field: str, bound: str, value: Any) -> Filter | None:
    """Return a condition that holds wherever `field` is beyond `value`, as Python compares.

    `bound` is one of :data:`hummingbit.index.filters.BOUNDS`.
    """
    if isinstance(value, bool) or not _is_comparable(value):
        return present(field)
    condition: dict[str, Any] = {"field": field, bound: value}
    if not isinstance(value, str):
        condition = {"or": [condition, {"field": field, "in": [False, True]}]}
    return _parsed(condition) or present(field)


def all_of(parts: Iterable[Filter | None]) -> Filter | None:
    """Return a condition that holds wherever all `parts` do."""
    known = [part for part in parts if part is not None][:MAX_PARTS]
    return And(tuple(known)) if known else None


def any_of(parts: Iterable[Filter | None]) -> Filter | None:
    """Return a condition that holds wherever one of `parts` does."""
    every = list(parts)
    known = tuple(part for part in every if part is not None)
    return Or(known) if 0 < len(known) == len(every) <= MAX_PARTS else None


def as_json(condition: Filter | None) -> dict[str, Any] | None:
    """Return a filter as searches take it, or None if it is too large for them."""
    if condition is None:
        return None
    written: dict[str, Any] = json.loads(filter_to_json(condition))
    return None if _parsed(written) is None else written


def documents_that_may_match(
    collection: AnyOpenCollection, narrowed: Filter | None
) -> Iterator[StoredDocument]:
    """Yield the documents of a collection for which `narrowed` holds."""
    return collection.documents(as_json(narrowed))


def matching_hits(
    collection: AnyOpenCollection,
    query: QueryContent,
    limit: int,
    narrowed: Filter | None,
    holds: Callable[[Hit], bool],
    *,
    ranking: str | None = None,
    hybrid: Mapping[str, float] | None = None,
) -> list[Hit]:
    """Return the `limit` best hits of a text or vector for which `holds`.

    Raises:
        InputError: as :meth:`hummingbit.Collection.search`.
    """
    matching: list[Hit] = []
    cursor, size = None, limit
    while True:
        hits = collection.search(
            query,
            limit=size,
            ranking=ranking,
            filter=as_json(narrowed),
            cursor=cursor,
            with_cursor=True,
            hybrid=hybrid,
        )
        matching += filter(holds, hits)
        cursor = hits.next_cursor
        if cursor is None or len(matching) >= limit:
            return matching[:limit]
        size = max(size, min(2 * size, PAGE))


def told(added: int) -> str:
    """Return what a call of `add` reports besides the number, as the end of a sentence."""
    parts = []
    if isinstance(added, Added):
        if added.replaced:
            parts.append(f"; replaced {counted(added.replaced, 'document')}")
        if added.repeated:
            dropped = counted(added.repeated, "document")
            parts.append(f"; dropped {dropped}, because a later one has the same id")
    return "".join(parts)


def log_added(logger: logging.Logger, added: int, where: str) -> None:
    """Log how many documents were added, and what else became of them.

    It is a warning if documents were dropped; to replace others is what a second run is for.
    """
    level = logging.WARNING if getattr(added, "repeated", 0) else logging.INFO
    logger.log(level, "wrote %s into %s%s", counted(int(added), "document"), where, told(added))


def refuse_unknown(method: str, unknown: Mapping[str, Any]) -> None:
    """Raise TypeError if a method was called with arguments that it does not know.

    The frameworks' interfaces let a method take any keyword; one that is ignored may be a
    condition.
    """
    if unknown:
        names = ", ".join(map(repr, unknown))
        raise TypeError(f"{method}() does not know the argument {names}")


def _is_comparable(value: Any) -> bool:
    """Tell whether a collection compares `value` exactly."""
    if isinstance(value, int | float):
        return -EXACT_INTEGERS <= value <= EXACT_INTEGERS
    return isinstance(value, str)


def _parsed(condition: dict[str, Any]) -> Filter | None:
    """Return the filter of a condition, or None if collections do not take it."""
    try:
        return parse_filter(condition)
    except InputError:
        return None
