"""Parses what users of a collection pass in: lists, mappings, numpy arrays and tables."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, Union, get_args

import numpy as np
import numpy.typing as npt

from hummingbit.clients.requests import plain_value
from hummingbit.corpus.columns import arrow_rows, is_arrow
from hummingbit.corpus.document import (
    CONTENT_FIELDS,
    Document,
    DocumentError,
    parse_code,
    parse_document,
    parse_text,
    parse_vector,
    with_expiry,
)
from hummingbit.corpus.labels import id_of, is_missing
from hummingbit.corpus.layout import Layout, label_names
from hummingbit.corpus.lines import ReadError
from hummingbit.foundation.errors import InputError, abbreviate, counted
from hummingbit.index.filters import Filter, parse_filter
from hummingbit.index.payloads import PayloadUpdate
from hummingbit.index.records import Query

if TYPE_CHECKING:
    import pandas as pd

UNLABELLED = -1
"""The class of an unlabelled row in scikit-learn's semi-supervised estimators."""


VectorContent = Sequence[float] | npt.NDArray[Any]
"""A vector ``(D,)``; a matrix ``(n, n)`` for encoders of matrices."""
CodeContent = str | bytes | npt.NDArray[Any] | Mapping[str, Sequence[int]]
"""A packed code in hexadecimal, or as bytes in a named format."""
QueryContent = str | VectorContent | Mapping[str, Any] | Query
"""A text, a vector, or a mapping with a `text` and a `vector`."""
Example = str | int | VectorContent | Mapping[str, Any]
"""An example of a recommendation: an id, a vector, or a mapping of id, text, vector or code."""
Documents = Union[
    Iterable[str | VectorContent | Mapping[str, Any]], npt.NDArray[Any], "pd.DataFrame"
]
"""Texts, vectors ``(N, D)``, mappings, or the rows of a table of pandas, polars or Arrow."""
Ids = Iterable[str | int]
"""Ids of documents; whole numbers are their digits."""


OnRepeatedId = Literal["raise", "last"]
OnMissingId = Literal["raise", "number"]


class Added(int):
    """How many documents a call of `add` wrote, and what else became of those it was given.

    >>> Added(2, replaced=1)
    <Added 2 documents, of which 1 replaced another>
    """

    replaced: int
    """How many of them replaced a document of the collection."""
    repeated: int
    """How many of the documents given were dropped, because a later one has the same id."""
    numbered: int
    """How many of the documents given have no id, and got a number."""

    def __new__(cls, n: int, *, replaced: int = 0, repeated: int = 0, numbered: int = 0) -> Self:
        """Count `n` documents that were written."""
        added = super().__new__(cls, n)
        added.replaced, added.repeated, added.numbered = replaced, repeated, numbered
        return added

    def __repr__(self) -> str:
        parts = [f"<Added {counted(int(self), 'document')}"]
        if self.replaced:
            parts.append(f"of which {self.replaced:,} replaced another")
        if self.repeated:
            parts.append(f"dropped {self.repeated:,} because a later one has the same id")
        if self.numbered:
            parts.append(f"numbered {self.numbered:,} without an id")
        return ", ".join(parts) + ">"


class ParsedDocument(NamedTuple):
    """A document, and whether the caller gave its id."""

    document: Document
    has_id: bool


def documents_of(
    documents: Any,
    layout: Layout,
    *,
    ids: Iterable[Any] | None = None,
    labels: Iterable[Any] | None = None,
    payloads: Iterable[Mapping[str, Any]] | None = None,
) -> list[ParsedDocument]:
    """Parse documents: texts, vectors ``(N, D)``, mappings or the rows of a table.

    A document without an id gets its position as one. Ids and labels become their names
    (:mod:`hummingbit.corpus.labels`); of `labels`, -1 means none, too.

    Raises:
        DocumentError: if a document is invalid; it names the position and the field.
        InputError: if a single value is passed instead of a sequence, if there are not as many ids,
            labels or payloads as documents, or if a table lacks a column that `layout` names.
    """
    records = _records(documents, layout)
    columns = [
        _column(field, values, len(records))
        for field, values in (("ids", ids), ("labels", labels), ("payloads", payloads))
    ]
    return [
        _document(record, layout, position, id_=id_, label=label, payload=payload)
        for position, (record, id_, label, payload) in enumerate(
            zip(records, *columns, strict=True)
        )
    ]


def _column(field: str, values: Any, n: int) -> list[Any]:
    """Return the values of a column for `n` documents; None for each if there is no column.

    Raises:
        InputError: if they are one value, have no order, or are not `n`; it names the field.
    """
    if values is None:
        return [None] * n
    if isinstance(values, set | frozenset):
        raise InputError(field, "is a set, which has no order; pass a list")
    listed = check_several(field, values)
    if len(listed) != n:
        counts = f"there are {len(listed):,} for {counted(n, 'document')}"
        raise InputError(field, f"{counts}; there must be one for each")
    return listed


def check_ids(
    parsed: Sequence[ParsedDocument],
    *,
    id_field: str | None,
    are_given: bool,
    on_repeated_id: OnRepeatedId,
    on_missing_id: OnMissingId,
) -> int:
    """Check the ids that a caller gave, and return how many documents repeat one.

    `are_given` says whether every document should have one: by `id_field`, or by a list of ids.

    Raises:
        InputError: if an id repeats and `on_repeated_id` is not "last", if one is missing and
            `on_missing_id` is not "number", or if an option is none of its values.
    """
    _check_choice("on_repeated_id", on_repeated_id, OnRepeatedId)
    _check_choice("on_missing_id", on_missing_id, OnMissingId)
    field = "ids" if id_field is None else "id_field"
    name = "" if id_field is None else f"is {id_field!r}; "
    missing = [position for position, record in enumerate(parsed) if not record.has_id]
    if are_given and missing and on_missing_id == "raise":
        lack = f"{len(missing):,} of {counted(len(parsed), 'document')} lack it"
        lack = lack if id_field is not None else lack.replace("lack it", "have none")
        hint = 'pass on_missing_id="number" to number them'
        raise InputError(field, f"{name}{lack}, the first is documents[{missing[0]}]; {hint}")
    counts = Counter(record.document.id for record in parsed if record.has_id)
    repeated = counts.total() - len(counts)
    if repeated and on_repeated_id == "raise":
        id_, n = next((id_, n) for id_, n in counts.items() if n > 1)
        some = f"{repeated:,} of {counted(len(parsed), 'document')} repeat an id"
        some += f", such as {id_[:80]!r}, which {n:,} have"
        hint = 'pass on_repeated_id="last" to keep the last of each'
        raise InputError(field, f"{name}{some}; {hint}")
    return repeated


def _check_choice(field: str, value: str, choices: Any) -> None:
    if value not in get_args(choices):
        known = " or ".join(map(repr, get_args(choices)))
        raise InputError(field, f"is {abbreviate(value)}; it must be {known}")


def number_documents(
    parsed: Sequence[ParsedDocument], first: int
) -> tuple[list[Document], list[str]]:
    """Give documents without an id their position from `first` on; return all, and these ids.

    The documents must be written before the next call for the same collection.

    Raises:
        InputError: if another of the documents has such a position as its id.
    """
    given = {document.id for document, has_id in parsed if has_id}
    documents = [
        document if has_id else replace(document, id=str(first + position))
        for position, (document, has_id) in enumerate(parsed)
    ]
    pairs = zip(documents, parsed, strict=True)
    numbers = [document.id for document, (_, has_id) in pairs if not has_id]
    if taken := next((number for number in numbers if number in given), None):
        message = f"are missing from some documents, and another has {taken!r}, the number of one"
        raise InputError("ids", f"{message}; pass the documents' ids")
    return documents, numbers


def whole_number(field: str, value: Any) -> int:
    """Return a whole number of Python or numpy as an int.

    Raises:
        InputError: if `value` is not a whole number; it names the field.
    """
    try:
        return operator.index(value)
    except TypeError:
        raise InputError(field, f"is {value!r}; it must be a whole number") from None


def filter_of(value: Mapping[str, Any] | None) -> Filter | None:
    """Parse a filter; None stays None.

    Raises:
        InputError: if it is not a filter.
    """
    return None if value is None else parse_filter(plain("filter", value))


def payload_update(
    *,
    ids: Ids | None,
    filter: Mapping[str, Any] | None,  # noqa: A002
    remove: Iterable[str],
    expires_at: str | float | datetime | None,
    ttl_seconds: float | None,
    **changes: Mapping[str, Any] | None,
) -> PayloadUpdate:
    """Return an update with the arguments of :meth:`hummingbit.Collection.update_payload`.

    Raises:
        InputError: if one is invalid.
    """
    return PayloadUpdate(
        ids=None if ids is None else tuple(check_ids_of(ids)),
        filter=filter_of(filter),
        remove=tuple(check_several("remove", remove)),
        expires_at=plain("expires_at", expires_at),
        ttl_seconds=plain("ttl_seconds", ttl_seconds),
        **{name: plain(name, change) for name, change in changes.items()},
    )


def plain(field: str, value: Any) -> Any:
    """Return a value as JSON has it; raise InputError for `field` if it has none."""
    try:
        return plain_value(value)
    except TypeError as error:
        raise InputError(field, str(error)) from None


def expiring(
    parsed: list[ParsedDocument],
    expires_at: str | float | datetime | None,
    ttl_seconds: float | None,
) -> list[ParsedDocument]:
    """Return documents that expire at a time; without one, as they are.

    Raises:
        DocumentError: if the time is invalid, or given twice.
    """
    time = with_expiry({}, plain("expires_at", expires_at), plain("ttl_seconds", ttl_seconds))
    if not time:
        return parsed
    return [
        record._replace(
            document=replace(record.document, payload={**record.document.payload, **time})
        )
        for record in parsed
    ]


def query_of(value: Any) -> Query:
    """Return the query for a text, a vector ``(D,)``, or a mapping of `text`, `vector`, `code`.

    Raises:
        DocumentError: if `value` is none of these.
    """
    if isinstance(value, Query):
        return value
    if isinstance(value, Mapping):
        if not value or not set(value) <= {*CONTENT_FIELDS}:
            raise DocumentError("query", f"is {value!r:.80}; it may have text, vector and code")
        text, vector, code = map(value.get, CONTENT_FIELDS)
        return Query(
            None if text is None else parse_text(text),
            None if vector is None else parse_vector(vector),
            None if code is None else parse_code(code),
        )
    if isinstance(value, str):
        return Query(text=parse_text(value, "query"))
    is_list = isinstance(value, list | tuple) and not any(
        isinstance(element, str) for element in value
    )
    if not is_list and not isinstance(value, np.ndarray):
        reason = f"is {abbreviate(value)}; it must be a text, a vector, or a mapping with both"
        raise DocumentError("query", reason)
    return Query(vector=parse_vector(value, "query"))


def parse_query(
    query: QueryContent | None,
    *,
    vector: VectorContent | None = None,
    code: CodeContent | None = None,
    id_: Any = None,
) -> Query:
    """Return the query of a search, of `query` and what is given beside it.

    Raises:
        InputError: if a part is given twice, or an id beside anything else.
        DocumentError: if `query` or `vector` is of another form.
    """
    parsed = Query() if query is None else query_of(query)
    beside: dict[str, Any] = {
        "vector": None if vector is None else parse_vector(vector, "vector"),
        "code": None if code is None else parse_code(code),
        "id": None if id_ is None else check_id("id", id_),
    }
    given = {name: value for name, value in beside.items() if value is not None}
    if id_ is not None and (query is not None or len(given) > 1):
        raise InputError("id", "cannot be combined with another query; pass one of them")
    for name in given:
        if getattr(parsed, name) is not None:
            raise InputError(name, "is given twice, in the query and beside it")
    return parsed._replace(**given)


def examples_of(field: str, examples: Any) -> list[Query]:
    """Return the examples of a recommendation: ids, vectors, or mappings of one of `id`, `text`,
    `vector` and `code`.

    Raises:
        InputError: if they are no sequence, or one has another form; it names the example.
    """
    parsed = []
    for position, example in enumerate(check_several(field, examples)):
        try:
            if isinstance(example, str | int | np.integer):
                parsed.append(Query(id=check_id("id", example)))
            elif isinstance(example, Mapping) and [*example] == ["id"]:
                parsed.append(Query(id=check_id("id", example["id"])))
            else:
                parsed.append(query_of(example))
        except InputError as error:
            raise InputError(field, f"{error.field} {error.reason}", position) from None
    return parsed


def data_frame(rows: list[dict[str, Any]], first: list[str]) -> Any:
    """Return a DataFrame of `rows` with the columns `first` before all others.

    Raises:
        ModuleNotFoundError: if pandas is not installed.
    """
    try:
        import pandas as pd  # noqa: PLC0415 - it is optional
    except ModuleNotFoundError as error:
        message = "to_pandas needs pandas, which is not installed; run: pip install pandas"
        raise ModuleNotFoundError(message, name="pandas") from error
    others = dict.fromkeys(name for row in rows for name in row if name not in first)
    return pd.DataFrame(rows, columns=[*first, *others])


def check_several(field: str, values: Any) -> list[Any]:
    """Return `values` as a list if they are several; a string is a single value.

    They may be a generator, an array, or a column of a table of pandas, polars or Arrow.

    Raises:
        InputError: if `values` is a single value; it names the field.
    """
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise InputError(field, f"is one {type(values).__name__}; it must be a sequence of {field}")
    return values.to_pylist() if hasattr(values, "to_pylist") else [*values]


def check_id(field: str, value: Any) -> str:
    """Return an id as text; see :func:`hummingbit.corpus.labels.id_of`.

    Raises:
        InputError: if it is missing, or no id; it names the field.
    """
    text = id_name(field, value)
    if text is None:
        raise InputError(field, f"is {value!r}; it must be a text or a whole number")
    return text


def check_ids_of(values: Any) -> list[str]:
    """Return `ids` as texts.

    Raises:
        InputError: if they are a single value, or one is missing or no id.
    """
    return [check_id(f"ids[{at}]", value) for at, value in enumerate(check_several("ids", values))]


def _check_columns(names: Sequence[str], layout: Layout) -> None:
    """Raise InputError if `layout` names a field that is none of `names`, or none holds content.

    So it does if two columns have one name.
    """
    columns = ", ".join(map(repr, names))
    if repeated := next((name for name, count in Counter(names).items() if count > 1), None):
        raise InputError("documents", f"has two columns {repeated!r}; rename one")
    if names and not layout.text_fields and not {*names} & {*CONTENT_FIELDS}:
        raise InputError("text_field", f"is missing; the table has {columns}")
    fields = {
        "id_field": (layout.id_field,),
        "text_field": layout.text_fields,
        "label_field": (layout.label_field,),
        "payload_fields": layout.payload_fields or (),
    }
    for option, given in fields.items():
        for field in given:
            if field is not None and not {field, field.partition(".")[0]} & {*names}:
                raise InputError(option, f"is {field!r}; the table has {columns}")


def _records(documents: Any, layout: Layout) -> list[Any]:
    """Return the records of documents; those of a table lack the cells without a value."""
    if hasattr(documents, "iloc") and hasattr(documents, "columns"):
        _check_columns([str(name) for name in documents.columns], layout)
        rows = documents.to_dict("records")
        # A cell of a DataFrame without a value is None as well as NaN.
        return [{name: value for name, value in row.items() if value is not None} for row in rows]
    # A single column has no schema.
    if not is_arrow(documents) or not hasattr(documents, "schema"):
        return check_several("documents", documents)
    try:
        names, columns = arrow_rows(documents)
        _check_columns(names, layout)
        rows = [*columns]
    except ReadError as error:
        raise InputError("documents", str(error).removeprefix("documents: ")) from None
    if bad := next((row for row in rows if row.reason is not None), None):
        raise InputError("documents", bad.reason, bad.line)
    return [row.record for row in rows]


def _document(
    record: Any,
    layout: Layout,
    position: int,
    *,
    id_: Any,
    label: Any,
    payload: Any,
) -> ParsedDocument:
    raw: dict[str, Any]
    try:
        if isinstance(record, Mapping):
            raw = dict(layout.document_record(_present_fields(record), None))
        elif isinstance(record, str):
            raw = {"text": record}
        else:
            raw = {"vector": record}
        if names := () if is_unlabelled(label) else label_names(label, "label"):
            raw.pop("label", None)
            raw["labels"] = names
    except DocumentError as error:
        raise DocumentError(f"documents[{position}].{error.field}", error.reason) from None
    if id_ is not None:
        raw["id"] = id_name(f"ids[{position}]", id_)
    has_id = raw.get("id") is not None
    raw["id"] = raw["id"] if has_id else str(position)
    if payload is not None and not isinstance(payload, Mapping):
        raise DocumentError(
            f"documents[{position}].payload", f"is {payload!r}; it must be a mapping"
        )
    if payload is not None:
        raw["payload"] = {**(raw.get("payload") or {}), **plain(f"payloads[{position}]", payload)}
    try:
        return ParsedDocument(parse_document(raw), has_id)
    except DocumentError as error:
        raise DocumentError(f"documents[{position}].{error.field}", error.reason) from None


def _present_fields(row: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the fields of a row that are not missing, as Python values; None is a value.

    A vector and a code stay arrays.
    """
    present: dict[str, Any] = {}
    for name, value in row.items():
        if value is None or not is_missing(value):
            if (text := str(name)) in present:
                message = f"has two fields {text!r}, such as 1 and '1'; rename one"
                raise DocumentError("document", message)
            present[text] = value
    return {
        name: value if name in {"vector", "code"} else plain(name, value)
        for name, value in present.items()
    }


def is_unlabelled(label: Any) -> bool:
    """Return whether a label is :data:`UNLABELLED`."""
    is_number = isinstance(label, int | float | np.integer | np.floating)
    return is_number and bool(label == UNLABELLED)


def id_name(field: str, value: Any) -> str | None:
    """Return an id as text (:func:`hummingbit.corpus.labels.id_of`), or None if it is missing.

    Raises:
        InputError: if it has no name; it names the field.
    """
    try:
        return id_of(value)
    except ValueError as error:
        raise InputError(field, str(error)) from None


def layout_of(
    id_field: str | None,
    text_field: str | Sequence[str] | None,
    label_field: str | None,
    payload_fields: Sequence[str] | None,
) -> Layout:
    """Return the layout of mappings and DataFrames; the options are those of the command line."""
    texts = (text_field,) if isinstance(text_field, str) else tuple(text_field or ())
    payload = None if payload_fields is None else tuple(payload_fields)
    return Layout(id_field, texts, label_field, payload)
