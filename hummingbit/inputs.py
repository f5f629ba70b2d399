"""Documents and queries as callers of the library give them: lists, numpy arrays, DataFrames."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from corpus.document import Document, DocumentError, parse_document, parse_text, parse_vector
from corpus.layout import Layout
from evaluation.relevance import LabelSet
from foundation.errors import InputError
from index.filter_parser import parse_filter
from index.filters import Filter
from index.records import Query

UNLABELLED = -1
"""What scikit-learn's semi-supervised estimators call the class of an unlabelled row."""


class GivenDocument(NamedTuple):
    """A document, and whether it came with an id of its own."""

    document: Document
    has_id: bool


def documents_of(
    given: Any,
    layout: Layout,
    *,
    ids: Sequence[Any] | None = None,
    labels: Sequence[Any] | None = None,
    payloads: Sequence[Mapping[str, Any]] | None = None,
) -> list[GivenDocument]:
    """Return documents of texts, vectors ``(N, D)``, mappings or the rows of a DataFrame.

    Those without an id have their position as one. -1, None, NaN and "" stand for no label, a list
    or tuple for several.

    Raises:
        DocumentError: if a document is not right; it names the position and the field.
        InputError: if one value is given where there must be several, or there are not as many ids,
            labels or payloads as documents.
    """
    records = list(_records(given))
    for field, column in (("ids", ids), ("labels", labels), ("payloads", payloads)):
        if column is not None and len(several(field, column)) != len(records):
            found = f"there are {len(column):,} of them for {len(records):,} documents"
            raise InputError(field, f"{found}; there must be as many")
    return [
        _document(
            record,
            layout,
            place,
            id_=None if ids is None else _at(ids, place),
            label=None if labels is None else _at(labels, place),
            payload=None if payloads is None else _at(payloads, place),
        )
        for place, record in enumerate(records)
    ]


def numbered(given: Sequence[GivenDocument], first: int) -> tuple[list[Document], list[str]]:
    """Return the documents, those without an id numbered by position from `first`, and the numbers.

    Two calls for the same collection must not be made before the first one's documents are written.
    """
    documents = [
        one if has_id else replace(one, id=str(first + place))
        for place, (one, has_id) in enumerate(given)
    ]
    numbers = [one.id for one, (_, has_id) in zip(documents, given, strict=True) if not has_id]
    return documents, numbers


def whole(field: str, value: Any) -> int:
    """Return a whole number of Python's or numpy's as one of Python's.

    Raises:
        InputError: if it is none; it names the field.
    """
    try:
        return operator.index(value)
    except TypeError:
        raise InputError(field, f"is {value!a}; it must be a whole number") from None


def condition_of(given: Mapping[str, Any] | None) -> Filter | None:
    """Return the condition on payloads that a filter is; None for none.

    Raises:
        InputError: if it is not a filter.
    """
    return None if given is None else parse_filter(given)


def query_of(value: Any) -> Query:
    """Return the query of a text or a vector ``(D,)``.

    Raises:
        DocumentError: if it is neither.
    """
    if isinstance(value, str):
        return Query(text=parse_text(value, "query"))
    return Query(vector=parse_vector(value, "query"))


def frame(rows: list[dict[str, Any]], first: list[str]) -> Any:
    """Return a DataFrame of `rows`, the columns `first` before all others.

    Raises:
        ModuleNotFoundError: if pandas is not installed.
    """
    try:
        import pandas as pd  # noqa: PLC0415 - an option
    except ModuleNotFoundError as error:
        message = "to_pandas needs pandas, which is not installed; run: pip install pandas"
        raise ModuleNotFoundError(message, name="pandas") from error
    others = dict.fromkeys(name for row in rows for name in row if name not in first)
    return pd.DataFrame(rows, columns=[*first, *others])


def several(field: str, given: Any) -> Any:
    """Return what was given, several values; the characters of a string are none.

    Raises:
        InputError: if it is one value; it names the field.
    """
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise InputError(field, f"is one {type(given).__name__}; it must be a sequence of {field}")
    return given


def _records(given: Any) -> Iterable[Any]:
    several("documents", given)
    if hasattr(given, "to_dict") and hasattr(given, "columns"):
        given = given.to_dict("records")
    return given  # type: ignore[no-any-return]


def _document(
    record: Any,
    layout: Layout,
    place: int,
    *,
    id_: Any,
    label: Any,
    payload: Any,
) -> GivenDocument:
    raw: dict[str, Any]
    if isinstance(record, Mapping):
        raw = dict(layout.document_record(_without_gaps(record), None))
    elif isinstance(record, str):
        raw = {"text": record}
    else:
        raw = {"vector": record}
    if id_ is not None:
        raw["id"] = str(id_)
    has_id = raw.get("id") is not None
    raw["id"] = raw["id"] if has_id else str(place)
    label = _as_list(label)
    if not _is_missing(label) and label not in ("", UNLABELLED):
        is_list = isinstance(label, list | tuple | set | frozenset)
        raw.update({"labels": list(map(str, label))} if is_list else {"label": _name(label)})
    if payload is not None and not isinstance(payload, Mapping):
        raise DocumentError(f"documents[{place}].payload", f"is {payload!a}; it must be a mapping")
    if payload is not None:
        raw["payload"] = {**(raw.get("payload") or {}), **payload}
    try:
        return GivenDocument(parse_document(raw), has_id)
    except DocumentError as error:
        raise DocumentError(f"documents[{place}].{error.field}", error.reason) from None


def _without_gaps(row: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the fields of a row that hold something, as Python's own values.

    A vector stays an array: it is read as it is.
    """
    held = {str(name): value for name, value in row.items() if not _is_missing(value)}
    return {name: value if name == "vector" else _plain(value) for name, value in held.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if (
        isinstance(value, np.ndarray) and value.ndim
    ):  # what pandas reads of a list in a Parquet file
        return [_plain(one) for one in value.tolist()]
    return value.isoformat() if hasattr(value, "isoformat") else value


def _is_missing(value: Any) -> bool:
    """Tell whether a cell holds nothing: None, NaN, or pandas' NaT and NA."""
    if value is None or (isinstance(value, float | np.floating) and math.isnan(value)):
        return True
    return type(value).__name__ in ("NaTType", "NAType")


def _as_list(labels: Any) -> Any:
    """Return several labels in an array as a list; anything else as it is."""
    return labels.tolist() if isinstance(labels, np.ndarray) else labels


def _at(column: Any, place: int) -> Any:
    """Return a value of a list, an array, or a Series whatever its index."""
    return column.iloc[place] if hasattr(column, "iloc") else column[place]


def layout_of(
    id_field: str | None,
    text_field: str | Sequence[str] | None,
    label_field: str | None,
    payload_fields: Sequence[str] | None,
) -> Layout:
    """Return the layout of mappings and DataFrames, by the names that the command line has."""
    texts = (text_field,) if isinstance(text_field, str) else tuple(text_field or ())
    payload = None if payload_fields is None else tuple(payload_fields)
    return Layout(id_field, texts, label_field, payload)


def texts_of(given: Any) -> list[str] | None:
    """Return a sequence of texts as a checked list, None if it holds no texts.

    Raises:
        ValueError: if it is one text, or some of it is text that cannot be encoded.
    """
    if isinstance(given, str):
        raise ValueError("X is one text; it must be a sequence of texts")  # noqa: TRY004
    is_sequence = isinstance(given, Sequence | np.ndarray) or hasattr(given, "to_numpy")
    if not is_sequence or getattr(given, "ndim", 1) != 1:
        return None
    values = list(given)
    if not any(isinstance(one, str) for one in values):
        return None
    try:
        return [parse_text(one, f"X[{row}]") for row, one in enumerate(values)]
    except DocumentError as error:
        raise ValueError(str(error)) from None


def label_sets(given: Any, rows: int) -> list[LabelSet]:
    """Return the labels of each row of a target as scikit-learn has it, ``()`` where it has none.

    `given` is None, a label a row, a collection of labels a row, or an indicator matrix ``(N, C)``.

    Raises:
        ValueError: if there are not as many as `rows`, or they are numbers that are no classes.
    """
    if given is None:
        return [()] * rows
    array = np.asarray(given) if hasattr(given, "__array__") else None
    if array is not None and array.ndim == 2 and array.shape[1] > 1:
        found = [tuple(map(str, np.flatnonzero(row))) for row in array]
    else:
        values = list(given) if array is None else list(array.ravel())
        found = [_label_set(one, row) for row, one in enumerate(values)]
    if len(found) != rows:
        raise ValueError(f"y has {len(found):,} rows and X {rows:,}; they must have as many")
    return found


def _label_set(value: Any, row: int) -> LabelSet:
    value = _as_list(value)
    if isinstance(value, list | tuple | set | frozenset):
        return tuple(dict.fromkeys(map(str, value)))
    if _is_missing(value) or value in ("", UNLABELLED):
        return ()
    if isinstance(value, float | np.floating) and not float(value).is_integer():
        raise ValueError(f"y[{row}] is {value}; a label must be a string or an integer")
    return (_name(value),)


def _name(label: Any) -> str:
    """Return a label as text; pandas makes 1 and a gap 1.0 and NaN, and 1.0 is 1 here."""
    is_whole = isinstance(label, float | np.floating) and float(label).is_integer()
    return str(int(label)) if is_whole else str(label)
