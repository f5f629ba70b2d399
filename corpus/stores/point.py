"""A point of another store, before it is known what of it becomes a document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from corpus.document import CONTENT_FIELDS

# A list of fewer numbers is taken for a list of numbers.
SHORTEST_VECTOR = 8
_PARTS = (*(name for name in CONTENT_FIELDS if name != "text"), "id", "payload")


class Point(NamedTuple):
    """A point: where it was read, its fields by name, and its vectors by name."""

    line: int
    fields: dict[str, Any]
    """As :class:`corpus.layout.Layout` takes a record, without vectors."""
    vectors: dict[str, Any]


def point_of(line: int, id_: Any, payload: Mapping[str, Any], vectors: Mapping[str, Any]) -> Point:
    """Return a point whose id is not among its payload.

    Fields of the payload that have the name of a part of a document stay in the payload.
    """
    fields = {name: value for name, value in payload.items() if name not in _PARTS}
    clashing = {name: value for name, value in payload.items() if name in _PARTS}
    fields["id"] = id_
    if clashing:
        fields["payload"] = clashing
    return Point(line, fields, dict(vectors))


def is_vector(value: object) -> bool:
    """Tell whether a field of a store that does not say so is a vector, a list of numbers."""
    if isinstance(value, np.ndarray):
        return value.ndim == 1 and value.dtype.kind in "fiu" and len(value) >= SHORTEST_VECTOR
    return (
        isinstance(value, list)
        and len(value) >= SHORTEST_VECTOR
        and all(isinstance(one, int | float) and not isinstance(one, bool) for one in value)
    )
