"""Why no document passes a filter: a field that none has, or values of another kind."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator

from index.filters import And, AnyOf, Exists, Filter, InRange, Not, Or, Scalar, kind_of

KINDS: dict[type, str] = {str: "strings", float: "numbers", bool: "booleans"}


def print_reasons(filter_: Filter, count: Callable[[Filter], int]) -> None:
    """Print the sentences of :func:`explain_empty` on standard error."""
    for sentence in explain_empty(filter_, count):
        print(sentence, file=sys.stderr)


def explain_empty(filter_: Filter, count: Callable[[Filter], int]) -> Iterator[str]:
    """Yield a sentence for each condition of a filter that no document can meet.

    `count` returns how many documents pass a filter. Conditions inside ``not`` are left out.
    """
    for condition in dict.fromkeys(_conditions(filter_)):
        field = condition.field
        if not count(Exists(field)):
            yield f"filter: no document has the field {field!r}"
            continue
        values = _values(condition)
        kinds = {kind_of(value) for value in values}
        held = [kind for kind in KINDS if count(_of_kind(field, kind))]
        if kinds.isdisjoint(held):
            holds = " and ".join(KINDS[kind] for kind in held) or "objects"
            wanted = " and ".join(name for kind, name in KINDS.items() if kind in kinds)
            value = json.dumps(values[0], ensure_ascii=False)
            yield f"filter: {field!r} holds {holds}; {value} finds {wanted} only"


def _conditions(filter_: Filter) -> Iterator[AnyOf | InRange]:
    if isinstance(filter_, And | Or):
        for part in filter_.parts:
            yield from _conditions(part)
    elif not isinstance(filter_, Not | Exists):
        yield filter_


def _values(condition: AnyOf | InRange) -> tuple[Scalar, ...]:
    return condition.values if isinstance(condition, AnyOf) else tuple(condition.bounds.values())


def _of_kind(field: str, kind: type) -> Filter:
    """Return the filter of the documents whose field holds a value of a kind."""
    if kind is bool:
        return AnyOf(field, (False, True))
    return InRange(field, gte="" if kind is str else -sys.float_info.max)
