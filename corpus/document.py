"""The document, which every corpus consists of, its rules, and how records become documents."""

from __future__ import annotations

import binascii
import json
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, repeat
from math import isfinite
from types import NoneType
from typing import Any

import numpy as np
import numpy.typing as npt

from hummingbit.corpus.expiry import EXPIRES_AT, EXPIRY_FIELDS, check_expiry, read_expiry
from hummingbit.corpus.matrices import upper_triangle
from hummingbit.foundation.errors import InputError, abbreviate

# The document, which every corpus consists of, and its rules.


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
_ALL_FIELDS = _FIELDS | set(EXPIRY_FIELDS)
PACKED = {"ubinary": 0, "binary": -128}
"""The formats of the bytes of a packed code, and the number that stands for a byte of zeros."""
CODE_FORMATS = frozenset({*PACKED, "base64"})


class DocumentError(InputError):
    """A document is invalid; `field` names the field that is."""


@dataclass(frozen=True, slots=True, eq=False)
class Document:
    """One document: an id, its content, and labels and a payload.

    The content is a text, a vector or a code, or several of them. A code is stored as it is, and
    nothing is encoded; of a text and a vector, an encoder takes the vector. A text beside another
    content is searched by its words, and a vector beside a code is kept for rescoring. `code` is a
    packed code in hexadecimal; the collection that it is added to checks its length. `labels` holds
    the labels of the document; it is empty for an unlabelled document. `is_matrix` says that
    `vector` is the upper triangle of a symmetric positive definite matrix
    (:mod:`hummingbit.corpus.matrices`).
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

    `expires_at`, a time of ISO 8601, or `ttl_seconds` say when it expires
    (:mod:`hummingbit.corpus.expiry`).

    Raises:
        DocumentError: if `record` is not an object or a field of it is invalid.
    """
    if not isinstance(record, Mapping):
        raise DocumentError("document", f"is {abbreviate(record)}; it must be an object")
    if not record.keys() <= _ALL_FIELDS:
        unknown = sorted(set(map(str, record)) - _ALL_FIELDS)
        known = ", ".join((*FIELDS, *EXPIRY_FIELDS))
        raise DocumentError(unknown[0], f"is not a field; the fields are {known}")
    get = record.get
    text, vector, code = get("text"), get("vector"), get("code")
    if text is None and vector is None and code is None:
        raise DocumentError("document", "must have at least one of text, vector, code; it has none")
    is_matrix = vector is not None and _is_matrix(vector)
    parse = _parse_matrix if is_matrix else parse_vector
    return Document(
        _parse_id(get("id")),
        None if text is None else parse_text(text),
        None if vector is None else parse(vector),
        None if code is None else parse_code(code),
        _parse_labels(record),
        with_expiry(parse_payload(get("payload")), get("expires_at"), get("ttl_seconds")),
        is_matrix,
    )


def with_expiry(
    payload: Mapping[str, Any], expires_at: object = None, ttl_seconds: object = None
) -> Mapping[str, Any]:
    """Return a payload with the time at which its document expires, if one is given.

    Raises:
        DocumentError: if it is invalid, or given twice.
    """
    try:
        time = read_expiry(expires_at, ttl_seconds)
    except InputError as error:
        raise DocumentError(error.field, error.reason) from None
    return payload if time is None else {**payload, EXPIRES_AT: time}


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
        position = int(np.flatnonzero(~np.isfinite(vector))[0])
        found = f"is {numbers[position]} at position {position}"
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


def parse_code(value: object) -> str:
    """Return a packed code in hexadecimal, given so or as bytes in a named format.

    ``{"ubinary": [0, 255]}`` has the bytes of a code, and ``{"binary": [-128, 127]}`` the same less
    128. Sentence-transformers, Cohere and Voyage write codes in these two formats.
    ``{"base64": "AP8="}`` has the bytes in base64 (RFC 4648, section 4). In Python, a code may also
    be bytes or an array of them, of uint8, or of int8 as ``binary``.

    Raises:
        DocumentError: if it is none of these.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bytes | bytearray):
        return value.hex()
    if isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype in (np.uint8, np.int8):
        value = {"ubinary" if value.dtype == np.uint8 else "binary": value}
    if not isinstance(value, Mapping) or len(value) != 1 or not value.keys() <= CODE_FORMATS:
        rule = "it must be hexadecimal digits, or an object with bytes as ubinary, binary or base64"
        raise DocumentError("code", f"is {abbreviate(value)}; {rule}")
    ((packing, numbers),) = value.items()
    if packing == "base64":
        return _code_from_base64(numbers)
    if isinstance(numbers, np.ndarray):
        numbers = numbers.tolist()
    low = PACKED[packing]
    if not isinstance(numbers, list | tuple):
        raise DocumentError("code", f"is {packing} of {abbreviate(numbers)}; it must be a list")
    for position, number in enumerate(numbers):
        if type(number) is not int or not low <= number <= low + 255:
            rule = f"{packing} must be whole numbers from {low} to {low + 255}"
            message = f"holds {abbreviate(number)} at position {position}; {rule}"
            raise DocumentError("code", message)
    return bytes(number - low for number in numbers).hex()


def _code_from_base64(value: object) -> str:
    if isinstance(value, str):
        with suppress(ValueError):  # also of characters beyond ASCII
            return binascii.a2b_base64(value.encode("ascii"), strict_mode=True).hex()
    raise DocumentError("code", f"is base64 of {abbreviate(value)}; it must be base64 with padding")


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


def parse_payload(value: object) -> Mapping[str, Any]:
    """Return a value as a payload.

    Raises:
        DocumentError: for the field ``payload``, if it is no object, or cannot be stored as JSON.
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise DocumentError("payload", f"is {abbreviate(value)}; it must be an object")
    if EXPIRES_AT in value:
        try:
            check_expiry(value)
        except InputError as error:
            raise DocumentError(error.field, error.reason) from None
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
    if (names := _names_alike(value)) is not None:
        alike = f"has the keys {names[0]!r} and {names[1]!r}, which JSON writes alike"
        raise DocumentError("payload", f"{alike}; rename one")
    return value


def _names_alike(value: object) -> tuple[object, object] | None:
    """Return two keys of an object in a value that JSON writes alike, such as 1 and "1"."""
    parts: Iterable[object] = value if isinstance(value, list | tuple) else ()
    if isinstance(value, Mapping):
        parts = value.values()
        if {*map(type, value)} - {str}:
            written: dict[str, object] = {}
            for name in value:
                text = name if isinstance(name, str) else json.dumps(name)
                if text in written:
                    return written[text], name
                written[text] = name
    found = (_names_alike(part) for part in parts if type(part) not in _SCALARS)
    return next((names for names in found if names is not None), None)


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


# Documents of many records at once, if all of them have the usual form.
#
# The ids, texts and payloads of many records are checked as columns, which takes a third of the
# time of :func:`hummingbit.corpus.document.parse_document` for each record.


_TYPES: dict[str, set[type]] = {
    "id": {str},
    "text": {str},
    "vector": {list},
    "code": {str},
    "label": {str, NoneType},
    "payload": {dict, NoneType},
}
"""The fields that a usual record may have, and the types of their values."""
_NUMBERS: set[type] = {int, float}
_SCALARS: set[type] = {str, int, float, bool, NoneType}
# The initializer of a frozen dataclass takes 1.3 µs, which is four times as long as setting fields
# in columns.
_SETTERS = {name: vars(Document)[name].__set__ for name in Document.__slots__}


def parse_usual_documents(records: Sequence[Any]) -> list[Document] | None:
    """Return what :func:`hummingbit.corpus.document.parse_document` does for each of `records`.

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
    _set(documents, "labels", [() if label is None else (label,) for label in labels])
    _set(documents, "payload", [{} if payload is None else payload for payload in payloads])
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
    return {name: column for name, column in columns.items() if {*map(type, column)} != {NoneType}}


def _are_usual(columns: dict[str, list[Any]]) -> bool:
    """Return whether the columns, vectors aside, are those of valid records of the usual form."""
    if "id" not in columns or columns.keys().isdisjoint(CONTENT_FIELDS):
        return False
    if any(not _TYPES.get(name, set()).issuperset(map(type, columns[name])) for name in columns):
        return False
    ids, texts = columns["id"], columns.get("text", [])
    labels = [label for label in columns.get("label", []) if label is not None]
    return (
        all(ids)
        and max(map(len, ids)) <= MAX_ID_LENGTH
        and "\0" not in "".join(ids)
        and max(map(len, texts), default=0) <= MAX_TEXT_LENGTH
        and all(label.strip() for label in labels)
        and all(map(_are_unicode, (ids, texts, labels)))
        and _are_flat([payload for payload in columns.get("payload", []) if payload is not None])
    )


def _set(documents: Sequence[Document], name: str, values: Iterable[Any]) -> None:
    deque(map(_SETTERS[name], documents, values), maxlen=0)


def _are_flat(payloads: Sequence[dict[str, Any]]) -> bool:
    """Return whether payloads are certainly valid, because each is an object of one level."""
    names, members = {*chain(*payloads)}, [*chain(*map(dict.values, payloads))]
    types = set(map(type, members))
    if not set(map(type, names)) <= {str} or not types <= _SCALARS or not _are_unicode(names):
        return False
    if EXPIRES_AT in names:
        return False
    texts = [member for member in members if type(member) is str] if str in types else []
    numbers = [member for member in members if type(member) in _NUMBERS] if types & _NUMBERS else []
    return _are_unicode(texts) and all(
        -LARGE_INTEGER < number < LARGE_INTEGER for number in numbers
    )


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
