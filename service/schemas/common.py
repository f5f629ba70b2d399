"""What all requests and responses share: base models, fields, problems.

The models check shapes and types strictly: a number is not a string, and true is not 1.
:mod:`corpus.document` checks the contents of documents, and each collection what it accepts.
"""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, FailFast, Field, model_validator

from index.filter_parser import MAX_FIELD_LENGTH
from index.rankings.protocol import RANKINGS
from service.http.bodies.field_errors import MAX_ERRORS


class _FirstError(FailFast):
    """Ends the validation of a list at its first error; unlike pydantic's class, it is hashable."""

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
        """Leave out all but the first unknown fields: pydantic would report an error for each."""
        if not isinstance(body, dict) or len(body) <= len(cls.model_fields) + MAX_ERRORS:
            return body
        known = {name: value for name, value in body.items() if name in cls.model_fields}
        unknown = (name for name in body if name not in cls.model_fields)
        return {**known, **{name: body[name] for name in islice(unknown, MAX_ERRORS)}}


class ResponseModel(BaseModel):
    """A part of a response's body."""

    model_config = ConfigDict(frozen=True)


Strings = Annotated[list[str], FIRST_ERROR]
"""A list that reports only its first invalid entry."""

Text = Annotated[str | None, Field(description="For collections whose encoder takes texts.")]
Vector = Annotated[
    Annotated[list[float], FIRST_ERROR] | None,
    Field(description="For collections whose encoder takes vectors."),
]
Code = Annotated[
    str | None,
    Field(description="A packed code in hexadecimal, n_bits / 4 digits.", examples=["0f3a9c77"]),
]
Limit = Annotated[int, Field(ge=1, description="The number of hits to return.")]
Radius = Annotated[int | None, Field(ge=0, description="The largest distance of a hit, inclusive.")]


Fingerprint = Annotated[
    str | None,
    Field(
        description="That of the encoder that made the codes. If the collection has another"
        " encoder, the response is 409."
    ),
]


FieldName = Annotated[str, Field(max_length=MAX_FIELD_LENGTH)]
"""The name of a payload field; a dot in it may also lead into an object or a list of objects."""


Filter = Annotated[
    dict[str, Any] | None,
    Field(
        description="A condition on payloads: a field with eq, in, gt, gte, lt, lte or exists;"
        " or other conditions combined with and, or, not.",
        examples=[
            {"and": [{"field": "label", "in": ["a", "b"]}, {"field": "year", "gte": 1990}]},
        ],
    ),
]
Cursor = Annotated[
    str | None, Field(description="The `next_cursor` of the previous page; omit it for the first.")
]


class EncoderName(ResponseModel):
    """The encoder that made a collection's codes, by name and by content."""

    name: str
    fingerprint: str


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
