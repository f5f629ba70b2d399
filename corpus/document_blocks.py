"""Documents of many records at once, if all of them have the usual form.

The ids, texts and payloads of many records are checked as columns, which takes a third of the time
of :func:`corpus.document.parse_document` for each record.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Sequence
from itertools import chain, repeat
from types import NoneType
from typing import Any

import numpy as np

from corpus.document import (
    CONTENT_FIELDS,
    FIELDS,
    LARGE_INTEGER,
    MAX_ID_LENGTH,
    MAX_TEXT_LENGTH,
    Document,
    Vector,
    is_unicode,
)

_TYPES: dict[str, set[type]] = {
    "id": {str},
    "text": {str},
    "vector": {list},
    "code": {str},
    "label": {str, NoneType},
    "payload": {dict, NoneType},
}
"""The fields that a usual record may have, and the types of their values."""
_FIELDS = frozenset(FIELDS)
_CONTENTS = (["text"], ["vector"], ["code"], ["text", "vector"])
_NUMBERS: set[type] = {int, float}
_SCALARS: set[type] = {str, int, float, bool, NoneType}
# The initializer of a frozen dataclass takes 1.3 µs, which is four times as long as setting fields
# in columns.
_SETTERS = {name: vars(Document)[name].__set__ for name in Document.__slots__}


def parse_usual_documents(records: Sequence[Any]) -> list[Document] | None:
    """Return what :func:`corpus.document.parse_document` does for each of `records`.

    Return None if it raises an error for one of them, or if their form is not the usual one: the
    same contents in all records, at most one label in each, flat vectors of one length, and
    payloads without lists and objects.
    """
    columns = _columns(records)
    if not _are_usual(columns):
        return None
    nothing = [None] * len(records)
    vectors = _parse_vectors(columns["vector"]) if "vector" in columns else nothing
    if vectors is None:
        return None
    documents = [*map(object.__new__, repeat(Document, len(records)))]
    _set(documents, "id", columns["id"])
    _set(documents, "text", columns.get("text", nothing))
    _set(documents, "vector", vectors)
    _set(documents, "code", columns.get("code", nothing))
    labels, payloads = columns.get("label", nothing), columns.get("payload", nothing)
    _set(documents, "labels", [() if one is None else (one,) for one in labels])
    _set(documents, "payload", [{} if one is None else one for one in payloads])
    _set(documents, "is_matrix", repeat(False))
    return documents


def _columns(records: Sequence[Any]) -> dict[str, list[Any]]:
    """Return the values of each field that some record has; none if there are other records."""
    if set(map(type, records)) != {dict}:
        return {}
    names = {*chain(*records)}
    if not names <= _FIELDS:
        return {}
    columns = {name: [record.get(name) for record in records] for name in names}
    # A field that is null counts as absent.
    return {name: one for name, one in columns.items() if {*map(type, one)} != {NoneType}}


def _are_usual(columns: dict[str, list[Any]]) -> bool:
    """Return whether the columns, vectors aside, are those of valid records of the usual form."""
    if [name for name in CONTENT_FIELDS if name in columns] not in _CONTENTS or "id" not in columns:
        return False
    if any(not _TYPES.get(name, set()).issuperset(map(type, columns[name])) for name in columns):
        return False
    ids, texts = columns["id"], columns.get("text", [])
    labels = [one for one in columns.get("label", []) if one is not None]
    return (
        all(ids)
        and max(map(len, ids)) <= MAX_ID_LENGTH
        and "\0" not in "".join(ids)
        and max(map(len, texts), default=0) <= MAX_TEXT_LENGTH
        and all(one.strip() for one in labels)
        and all(map(_are_unicode, (ids, texts, labels)))
        and _are_flat([one for one in columns.get("payload", []) if one is not None])
    )


def _set(documents: Sequence[Document], name: str, values: Iterable[Any]) -> None:
    deque(map(_SETTERS[name], documents, values), maxlen=0)


def _are_flat(payloads: Sequence[dict[str, Any]]) -> bool:
    """Return whether payloads are certainly valid, because each is an object of one level."""
    names, members = {*chain(*payloads)}, [*chain(*map(dict.values, payloads))]
    types = set(map(type, members))
    if not set(map(type, names)) <= {str} or not types <= _SCALARS or not _are_unicode(names):
        return False
    texts = [one for one in members if type(one) is str] if str in types else []
    numbers = [one for one in members if type(one) in _NUMBERS] if types & _NUMBERS else []
    return _are_unicode(texts) and all(-LARGE_INTEGER < one < LARGE_INTEGER for one in numbers)


def _are_unicode(texts: Collection[str]) -> bool:
    return all(map(str.isascii, texts)) or all(map(is_unicode, texts))


def _parse_vectors(vectors: Sequence[list[Any]]) -> Sequence[Vector] | None:
    """Return flat vectors of one length as the rows of a ``float32[N, D]``; None if others are."""
    if len(set(map(len, vectors))) > 1 or not {*map(type, chain(*vectors))} <= _NUMBERS:
        return None
    try:
        numbers = np.array(vectors, dtype=np.float64)
    except OverflowError:
        return None
    with np.errstate(over="ignore"):
        rows: Vector = numbers.astype(np.float32)
    return [*rows] if rows.size and np.isfinite(rows).all() else None
