"""A point of another store, before it becomes a document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from corpus.document import CONTENT_FIELDS

# A list of fewer numbers is an ordinary field and not a vector.
MIN_VECTOR_LENGTH = 8
_PARTS = (*(name for name in CONTENT_FIELDS if name != "text"), "id", "payload")


class Point(NamedTuple):
    """A point of another store: its line, its fields by name, and its vectors by name."""

    line: int
    fields: dict[str, Any]
    """A record for :class:`corpus.layout.Layout`, without vectors."""
    vectors: dict[str, Any]
    byte_vectors: frozenset[str] = frozenset()
    """The vectors that are known to be bytes: packed bits, or numbers of two bytes each."""


def point_of(line: int, id_: Any, payload: Mapping[str, Any], vectors: Mapping[str, Any]) -> Point:
    """Return a point of a store that keeps the id and the payload apart.

    Fields of the payload that are named like a part of a document stay in the payload.
    """
    fields = {name: value for name, value in payload.items() if name not in _PARTS}
    clashing = {name: value for name, value in payload.items() if name in _PARTS}
    fields["id"] = id_
    if clashing:
        fields["payload"] = clashing
    return Point(line, fields, dict(vectors))


def is_vector(value: object) -> bool:
    """Return whether a value looks like a vector, in a store that does not mark vectors."""
    if isinstance(value, np.ndarray):
        return value.ndim == 1 and value.dtype.kind in "fiu" and len(value) >= MIN_VECTOR_LENGTH
    return (
        isinstance(value, list)
        and len(value) >= MIN_VECTOR_LENGTH
        and all(isinstance(item, int | float) and not isinstance(item, bool) for item in value)
    )
