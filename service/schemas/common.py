"""What requests and responses of every kind share: base models, fields, problems.

Requests are checked for shape and type here, strictly: a number is not a string and true is not 1.
What a document may hold is decided in :mod:`corpus.document`, and what a collection takes by it.
"""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, FailFast, Field, model_validator

from index.rankings.protocol import RANKINGS
from service.http.bodies.field_errors import MAX_ERRORS


class _FirstError(FailFast):
    """Ends the validation of a list with the first error; unlike pydantic's own, it has a hash."""

    __hash__ = object.__hash__


FIRST_ERROR = _FirstError()


class StrictModel(BaseModel):
    """What a request's body is made of: no unknown fields, no conversions, no NaN."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class RequestModel(StrictModel):
    """A strict model of which many unknown fields may be given."""

    @model_validator(mode="before")
    @classmethod
    def _few_unknown(cls, given: Any) -> Any:
        """Leave out all but the first unknown fields: each would be an error of its own."""
        if not isinstance(given, dict) or len(given) <= len(cls.model_fields) + MAX_ERRORS:
            return given
        known = {name: value for name, value in given.items() if name in cls.model_fields}
        unknown = (name for name in given if name not in cls.model_fields)
        return {**known, **{name: given[name] for name in islice(unknown, MAX_ERRORS)}}


class ResponseModel(BaseModel):
    """What an answer is made of."""

    model_config = ConfigDict(frozen=True)


Strings = Annotated[list[str], FIRST_ERROR]
"""A list of which only the first wrong entry is told."""

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
        description="Of the encoder that made the codes: if the collection is of another, the"
        " answer is 409."
    ),
]


Filter = Annotated[
    dict[str, Any] | None,
    Field(
        description="A condition on payloads: a field with eq, in, gt, gte, lt, lte or exists, or"
        " and, or, not of conditions.",
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
    """What is wrong with one part of the body; `pointer` is a JSON pointer (RFC 6901)."""

    pointer: str
    message: str


class Problem(ResponseModel):
    """Problem details (RFC 9457); `code` says which kind of problem and does not change."""

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
