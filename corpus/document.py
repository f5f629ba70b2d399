"""The document, which every corpus consists of, and its rules."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

import numpy as np
import numpy.typing as npt

from corpus.matrices import upper_triangle
from foundation.errors import InputError, abbreviate

Vector = npt.NDArray[np.float32]

MAX_ID_LENGTH = 512
MAX_TEXT_LENGTH = 1_000_000
MAX_PAYLOAD_DEPTH = 64
# A payload with a larger integer is checked by writing it: Python refuses to write integers of
# thousands of digits.
LARGE_INTEGER = 1 << 64
FIELDS = ("id", "text", "vector", "code", "label", "labels", "payload")
CONTENT_FIELDS = ("text", "vector", "code")
_FIELDS = frozenset(FIELDS)


class DocumentError(InputError):
    """A document is invalid; `field` names the field that is."""


@dataclass(frozen=True, slots=True, eq=False)
class Document:
    """One document: an id, its content, and labels and a payload.

    The content is a text, a vector or a code, or a text and a vector. Then the vector is what an
    encoder takes, and the text is searched by its words. `code` is a packed code in hexadecimal;
    the collection that it is added to checks its length. `labels` holds the labels of the document;
    it is empty for an unlabelled document. `is_matrix` says that `vector` is the upper triangle of
    a symmetric positive definite matrix (:mod:`corpus.matrices`).
    """

    id: str
    text: str | None = None
    vector: Vector | None = None
    code: str | None = None
    labels: tuple[str, ...] = ()
    payload: Mapping[str, Any] = field(default_factory=dict)
    is_matrix: bool = False

    @property
    def payload_with_labels(self) -> dict[str, Any]:
        """The payload as it is stored: with `label` or `labels`, unless it has that field."""
        payload = dict(self.payload)
        if len(self.labels) == 1:
            payload.setdefault("label", self.labels[0])
        elif self.labels:
            payload.setdefault("labels", list(self.labels))
        return payload


def parse_document(record: object) -> Document:
    """Return the :class:`Document` of a decoded JSON object with the fields of :data:`FIELDS`.

    Raises:
        DocumentError: if `record` is not an object or a field of it is invalid.
    """
    if not isinstance(record, Mapping):
        raise DocumentError("document", f"is {abbreviate(record)}; it must be an object")
    if not record.keys() <= _FIELDS:
        unknown = sorted(set(map(str, record)) - _FIELDS)
        raise DocumentError(unknown[0], f"is not a field; the fields are {', '.join(FIELDS)}")
    get = record.get
    text, vector, code = get("text"), get("vector"), get("code")
    contents = (text is not None) + (vector is not None)
    if contents + (code is not None) == 0 or (code is not None and contents):
        found = " and ".join(name for name in CONTENT_FIELDS if get(name) is not None)
        hint = "; only a text and a vector go together" if found else ""
        reason = f"must have exactly one of text, vector, code; it has {found or 'none'}"
        raise DocumentError("document", reason + hint)
    is_matrix = vector is not None and _is_matrix(vector)
    parse = _parse_matrix if is_matrix else parse_vector
    return Document(
        _parse_id(get("id")),
        None if text is None else parse_text(text),
        None if vector is None else parse(vector),
        None if code is None else _parse_code(code),
        _parse_labels(record),
        _parse_payload(get("payload")),
        is_matrix,
    )


def parse_text(value: object, field: str = "text") -> str:
    """Return `value` if it is a text that can be stored and encoded; it may be empty.

    Raises:
        DocumentError: if it is not a string, is too long or holds a lone surrogate.
    """
    if not isinstance(value, str):
        raise DocumentError(field, f"is {abbreviate(value)}; it must be a string")
    if len(value) > MAX_TEXT_LENGTH:
        limit = f"at most {MAX_TEXT_LENGTH:,} are allowed"
        raise DocumentError(field, f"has {len(value):,} characters; {limit}")
    if not is_unicode(value):
        raise DocumentError(field, f"is {abbreviate(value)}, which holds a lone surrogate")
    return value


def parse_vector(value: object, field: str = "vector") -> Vector:
    """Return `value` as ``float32[D]``.

    Raises:
        DocumentError: unless it is a non-empty flat list of numbers that are finite in float32.
    """
    if isinstance(value, np.ndarray):
        numbers = value
    elif isinstance(value, list | tuple) and _are_numbers(value):
        try:
            numbers = np.asarray(value, dtype=np.float64)
        except OverflowError:
            raise DocumentError(field, "holds a number beyond the range of float32") from None
    else:
        raise DocumentError(field, f"is {abbreviate(value)}; it must be a list of numbers")
    if numbers.ndim != 1 or numbers.size == 0:
        raise DocumentError(field, f"has shape {numbers.shape}; it must be a flat, non-empty list")
    if not np.issubdtype(numbers.dtype, np.number) or np.iscomplexobj(numbers):
        raise DocumentError(field, f"holds {numbers.dtype} values; it must hold numbers")
    with np.errstate(over="ignore"):
        vector = np.asarray(numbers, dtype=np.float32)
    if not np.isfinite(vector).all():
        place = int(np.flatnonzero(~np.isfinite(vector))[0])
        found = f"is {numbers[place]} at position {place}"
        raise DocumentError(field, f"{found}; every number must be finite in float32")
    return vector


def _are_numbers(values: Sequence[object]) -> bool:
    if set(map(type, values)) <= {int, float}:
        return True
    return all(isinstance(x, int | float) and not isinstance(x, bool) for x in values)


def _is_matrix(value: object) -> bool:
    """Return whether a vector is a matrix: a list of rows instead of a flat list."""
    if isinstance(value, np.ndarray):
        return value.ndim == 2
    if not isinstance(value, list | tuple):
        return False
    return any(issubclass(kind, list | tuple) for kind in set(map(type, value)))


def _parse_matrix(value: Any) -> Vector:
    """Return the upper triangle of a symmetric positive definite matrix."""
    if not isinstance(value, np.ndarray):
        rows = [parse_vector(row, "vector") for row in value]
        if len({len(row) for row in rows}) > 1:
            raise DocumentError("vector", "is a matrix whose rows differ in length")
        value = np.array(value, dtype=np.float64)
    try:
        return upper_triangle(value)
    except ValueError as error:
        raise DocumentError("vector", str(error)) from None


def _parse_id(value: object) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= MAX_ID_LENGTH:
        limit = f"it must be a string of 1 to {MAX_ID_LENGTH} characters"
        raise DocumentError("id", f"is {abbreviate(value)}; {limit}")
    if not is_unicode(value) or "\0" in value:
        raise DocumentError("id", f"is {abbreviate(value)}, which holds a lone surrogate or a NUL")
    return value


def _parse_code(value: object) -> str:
    if not isinstance(value, str):
        raise DocumentError("code", f"is {abbreviate(value)}; it must be hexadecimal digits")
    return value


def _parse_labels(record: Mapping[str, Any]) -> tuple[str, ...]:
    label, labels = record.get("label"), record.get("labels")
    if label is not None and labels is not None:
        raise DocumentError("labels", "cannot be combined with label; give one of the two")
    if label is not None:
        return (_parse_label(label, "label"),)
    if labels is None:
        return ()
    if not isinstance(labels, list | tuple):
        raise DocumentError("labels", f"is {abbreviate(labels)}; it must be a list of strings")
    return tuple(dict.fromkeys(_parse_label(item, "labels") for item in labels))


def _parse_label(value: object, field: str) -> str:
    if not isinstance(value, str) or not value or not is_unicode(value):
        raise DocumentError(field, f"is {abbreviate(value)}; it must be a non-empty string")
    return value


def _parse_payload(value: object) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise DocumentError("payload", f"is {abbreviate(value)}; it must be an object")
    if _is_flat(value):
        return value
    if _is_deeper(value, MAX_PAYLOAD_DEPTH):
        limit = f"at most {MAX_PAYLOAD_DEPTH} levels are allowed"
        raise DocumentError("payload", f"is nested too deeply; {limit}")
    try:
        encoded = json.dumps(value, allow_nan=False, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise DocumentError("payload", f"cannot be written as JSON: {error}") from None
    if not is_unicode(encoded):
        raise DocumentError("payload", "holds a lone surrogate")
    return value


def _is_flat(value: Mapping[Any, Any]) -> bool:
    """Return whether a payload is certainly valid JSON of one level, without writing it.

    A payload for which this is false can still be valid; it is then checked by writing it.
    """
    for key, member in value.items():
        kind = type(member)
        if type(key) is not str or not (key.isascii() or is_unicode(key)):
            return False
        if kind is str:
            if not (member.isascii() or is_unicode(member)):
                return False
        elif kind is int:
            if not -LARGE_INTEGER < member < LARGE_INTEGER:
                return False
        elif kind is float:
            if not isfinite(member):
                return False
        elif member is not None and kind is not bool:
            return False
    return True


def _is_deeper(value: object, levels: int) -> bool:
    """Return whether objects and lists are nested more than `levels` deep."""
    level: list[Any] = [value]
    for _ in range(levels):
        inner = [node.values() if isinstance(node, Mapping) else node for node in level]
        nested = (
            node for part in inner for node in part if isinstance(node, Mapping | list | tuple)
        )
        level = list({id(node): node for node in nested}.values())
        if not level:
            return False
    return True


def is_unicode(text: str) -> bool:
    """Return whether a text can be written in UTF-8: it holds no lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
