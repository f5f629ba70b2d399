"""What all requests and responses share: base models, fields, problems, checks.

The models check shapes and types strictly: a number is not a string, and true is not 1.
:mod:`hummingbit.corpus.document` checks the contents of documents, and each collection what it
accepts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, FailFast, Field, WithJsonSchema, model_validator

from hummingbit.corpus.document import FIELDS, MAX_ID_LENGTH, Document, parse_document
from hummingbit.corpus.expiry import EXPIRY_FIELDS
from hummingbit.foundation.errors import InputError
from hummingbit.index.backend import CollectionBackend
from hummingbit.index.facets import MAX_BUCKETS
from hummingbit.index.filters import MAX_FIELD_LENGTH, Filter, parse_filter
from hummingbit.index.names import DEFAULT_BUCKETS, CalendarInterval
from hummingbit.index.options import REQUEST_OPTIONS
from hummingbit.index.rankings import RANKINGS
from hummingbit.service.http.bodies import limit_unknown_fields, show
from hummingbit.service.http.problems import ProblemError, invalid_field
from hummingbit.service.settings import Settings


class _FirstError(FailFast):
    """Ends the validation of a list at its first invalid entry: pydantic collects all errors.

    Unlike pydantic's class, it is hashable.
    """

    __hash__ = object.__hash__


FIRST_ERROR = _FirstError()


class StrictModel(BaseModel):
    """A part of a request's body: no unknown fields, no conversions, no NaN."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class RequestModel(StrictModel):
    """A strict model that reports only the first of many unknown fields."""

    @model_validator(mode="before")
    @classmethod
    def _limit_unknown_fields(cls, body: Any) -> Any:
        return limit_unknown_fields(body, cls)


class ResponseModel(BaseModel):
    """A response with parts of a report, or a problem; all others are in ``responses``."""

    model_config = ConfigDict(frozen=True)


Strings = Annotated[list[str], FIRST_ERROR]
"""A list that reports only its first invalid entry."""

Text = Annotated[str | None, Field(description="For collections whose encoder takes texts.")]
Vector = Annotated[
    Annotated[list[float], FIRST_ERROR] | None,
    Field(description="For collections whose encoder takes vectors."),
]
Code = Annotated[
    str
    | dict[Literal["ubinary", "binary"], Annotated[list[int], FIRST_ERROR]]
    | dict[Literal["base64"], str]
    | None,
    Field(
        description="A packed code: in hexadecimal, n_bits / 4 digits; or its n_bits / 8 bytes as"
        " `ubinary`, from 0 to 255, as `binary`, from -128 to 127, which are less by 128, or as"
        " `base64` (RFC 4648).",
        examples=["0f3a9c77", {"ubinary": [15, 58, 156, 119]}, {"base64": "Dzqcdw=="}],
    ),
]
Fingerprint = Annotated[
    str | None,
    Field(
        description="That of the encoder that made the codes. If the collection has another"
        " encoder, the response is 409."
    ),
]


FieldName = Annotated[str, Field(max_length=MAX_FIELD_LENGTH)]
"""The name of a payload field; a dot in it may also lead into an object or a list of objects."""


_FILTER, _CURSOR = REQUEST_OPTIONS["filter"].metadata, REQUEST_OPTIONS["cursor"].metadata
FILTER_OBJECT = {"title": "Filter", "type": "object"}
"""Stands for the schema of filters, which the OpenAPI description has once and whole."""
FilterObject = Annotated[dict[str, Any], WithJsonSchema(FILTER_OBJECT)]
"""A filter that :func:`parse_body_filter` parses."""
FilterField = Annotated[
    FilterObject | None, Field(description=_FILTER["help"], examples=_FILTER["examples"])
]
Cursor = Annotated[str | None, Field(description=_CURSOR["help"])]


class FacetRange(RequestModel):
    """A range of numbers, of strings, or of dates and times, with at least one bound."""

    gt: float | str | None = None
    gte: float | str | None = None
    lt: float | str | None = None
    lte: float | str | None = None


class FacetRequest(RequestModel):
    """Which values of a field to count: each, or those in intervals or ranges.

    Without an interval or ranges, the `limit` most frequent values are counted.
    """

    field: FieldName
    limit: int = Field(DEFAULT_BUCKETS, ge=1, le=MAX_BUCKETS)
    interval: float | None = Field(None, gt=0, description="The width of a histogram of numbers.")
    calendar_interval: CalendarInterval | None = Field(
        None, description="The width of a histogram of dates and times, in UTC."
    )
    ranges: list[FacetRange] | None = Field(None, min_length=1, max_length=MAX_BUCKETS)


PayloadFields = Annotated[
    bool | Annotated[list[FieldName], FIRST_ERROR],
    Field(description="Return the payloads, or only these fields of them."),
]


class ProblemField(ResponseModel):
    """An invalid part of the body; `pointer` is a JSON pointer (RFC 6901)."""

    pointer: str
    message: str


class Problem(ResponseModel):
    """Problem details (RFC 9457); `code` names the kind of problem and is stable."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    code: str
    request_id: str | None = None
    errors: list[ProblemField] = Field(default_factory=list)


RankingUsed = Annotated[str, Field(json_schema_extra={"enum": [*RANKINGS]})]
"""The name of a ranking, in a response."""


# Checks that need the settings or the collection.


def parse_item(item: Any, limits: Settings, *location: str | int, id: str) -> Document:  # noqa: A002
    """Return the item at `location` in the body, which has the fields of a document, as one.

    Raises:
        ProblemError: pointing to the field that is invalid.
    """
    check_text(item.text, limits, *location)
    check_id(id, *location)
    check_payload(getattr(item, "payload", None), limits, *location)
    record = {field: getattr(item, field, None) for field in (*FIELDS, *EXPIRY_FIELDS)}
    with pointing_at(*location):
        return parse_document({**record, "id": id})


def check_fingerprint(collection: CollectionBackend, fingerprint: str | None) -> None:
    """Raise a ProblemError, 409, if codes were made by another encoder than the collection's."""
    own = collection.encoder_fingerprint
    if fingerprint is None or fingerprint == own:
        return
    encoder = "no encoder, its documents come with codes" if own is None else f"the encoder {own}"
    message = f"collection {collection.name!r} has {encoder}; the codes are of {fingerprint[:80]!r}"
    errors = [{"pointer": "/encoder_fingerprint", "message": message}]
    raise ProblemError(409, "encoder_mismatch", message, errors)


def check_text(text: str | None, limits: Settings, *location: str | int) -> None:
    """Raise a ProblemError if the text at `location` of the body is too long."""
    if text is not None:
        check_length(text, limits.max_text_length, *location, "text")


def check_payload(
    payload: Mapping[str, Any] | None,
    limits: Settings,
    *location: str | int,
    name: str = "payload",
) -> None:
    """Raise a ProblemError if the payload of the item at `location` of the body is too large.

    The interpreter can do nothing else while it writes or parses one.
    """
    if payload is not None and _count_values(payload) > limits.max_payload_values:
        message = f"at most {limits.max_payload_values:,} are allowed"
        message = f"has {_count_values(payload):,} keys, entries and values; {message}"
        raise invalid_field(message, *location, name)


def _count_values(payload: Mapping[str, Any]) -> int:
    """Return the number of values in a payload, nested ones included, and of keys."""
    count = 0
    nested: list[Mapping[str, Any] | list[Any]] = [payload]
    while nested:
        value = nested.pop()
        members = value.values() if isinstance(value, Mapping) else value
        count += len(value) * (2 if isinstance(value, Mapping) else 1)
        nested += [member for member in members if isinstance(member, Mapping | list)]
    return count


def check_id(id_: str, *location: str | int) -> None:
    """Raise a ProblemError if the id of the item at `location` of the body is invalid."""
    check_length(id_, MAX_ID_LENGTH, *location, "id")
    if not id_ or "\0" in id_:
        message = f"is {show(id_)}; it must have characters, none of them a null character"
        raise invalid_field(message, *location, "id")


def check_length(text: str, limit: int, *location: str | int) -> None:
    """Raise a ProblemError if the text at `location` has more than `limit` characters."""
    if len(text) > limit:
        message = f"has {len(text):,} characters; at most {limit:,} are allowed"
        raise invalid_field(message, *location)


def parse_body_filter(condition: dict[str, Any] | None) -> Filter | None:
    """Parse the filter of a body.

    Raises:
        ProblemError: pointing to the part that is invalid.
    """
    with pointing_at():
        return None if condition is None else parse_filter(condition)


@contextmanager
def pointing_at(*location: str | int) -> Iterator[None]:
    """Turn an InputError about the item at `location` into a problem that points to it."""
    try:
        yield
    except InputError as error:
        raise problem_at(error, *location) from None


@contextmanager
def pointing_among(*location: str | int) -> Iterator[None]:
    """Do as :func:`pointing_at` for the items of the list at `location`.

    The error's position says which item it is about; without one, it is about the body itself.
    """
    try:
        yield
    except InputError as error:
        item = () if error.position is None else (*location, error.position)
        raise problem_at(error, *item) from None


def problem_at(error: InputError, *item: str | int) -> ProblemError:
    """Return an InputError as a problem of the part `item` of the body, or of the body itself."""
    # These fields stand for the item as a whole.
    field = () if error.field in {"query", "document"} else (error.field,)
    return invalid_field(error.reason, *item, *field)
