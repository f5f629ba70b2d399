"""The JSON of searches and their responses."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field
from dataclasses import fields as dataclass_fields
from functools import cache
from typing import Annotated, Any, TypeVar, get_type_hints

import orjson
from pydantic import AfterValidator, BaseModel, create_model
from pydantic import Field as ModelField
from pydantic_core import PydanticCustomError

from hummingbit.foundation.errors import InputError
from hummingbit.index.facets import MAX_FACETS, Facet, parse_facets
from hummingbit.index.filters import Filter, parse_filter
from hummingbit.index.names import AVERAGE_VECTOR, STRATEGIES
from hummingbit.index.options import (
    RECOMMENDATION_OPTIONS,
    REQUEST_OPTIONS,
    Hybrid,
    Rescore,
    SearchOptions,
    request_name,
)
from hummingbit.index.payloads import parse_selection
from hummingbit.index.recommendations import MAX_EXAMPLES
from hummingbit.service.http.problems import ProblemError
from hummingbit.service.schemas.common import (
    FIRST_ERROR,
    Code,
    FacetRequest,
    FilterObject,
    Fingerprint,
    RequestModel,
    StrictModel,
    Text,
    Vector,
)

Model = TypeVar("Model", bound=BaseModel)


def with_options(
    declared: type, options: Iterable[Field[Any]], types: Mapping[Any, Any] | None = None
) -> Callable[[type[Model]], type[Model]]:
    """Return a decorator that gives a model a field for each of the `options` of `declared`.

    `types` are those in JSON of options that have others there.
    """
    # The module of the options does not import these.
    hints = get_type_hints(declared, localns={"Facet": Facet, "Filter": Filter})
    in_json = types or {}
    fields: dict[str, Any] = {
        request_name(option): (
            in_json.get(hints[option.name], hints[option.name]),
            _model_field(option),
        )
        for option in options
    }

    def decorate(model: type[Model]) -> type[Model]:
        return create_model(
            model.__name__,
            __base__=model,
            __doc__=model.__doc__,
            __module__=model.__module__,
            **fields,
        )

    return decorate


def _model_field(declared: Field[Any]) -> Any:
    option = declared.metadata
    names = [*option["choices"], *([None] if option["default"] is None else [])]
    return ModelField(
        ... if option["default"] is MISSING else option["default"],
        description=option["help"] or None,
        examples=option["examples"],
        ge=option["at_least"],
        le=option["at_most"],
        json_schema_extra={"enum": names} if option["choices"] else None,
    )


@with_options(Hybrid, dataclass_fields(Hybrid))
class HybridOptions(RequestModel):
    """How the hybrid ranking combines codes and words."""


@with_options(Rescore, dataclass_fields(Rescore))
class RescoreOptions(RequestModel):
    """Take more candidates from the ranking, and order them by another score."""


def _read_by(read: Callable[[Any], Any]) -> AfterValidator:
    """Return what makes the value of an option of a valid part of a body."""

    def read_or_point(value: Any) -> Any:
        try:
            return None if value is None else read(value)
        except InputError as error:
            raise PydanticCustomError("input", "{reason}", {"reason": error.reason}) from None

    return AfterValidator(read_or_point)


def _options_of(kind: type) -> AfterValidator:
    return _read_by(lambda model: kind(**dict(model)))


PAYLOAD_TYPES: Mapping[Any, Any] = {
    bool | tuple[str, ...]: Annotated[bool | list[str], _read_by(parse_selection)]
}
TYPES: Mapping[Any, Any] = {
    Filter | None: Annotated[FilterObject | None, _read_by(parse_filter)],
    Hybrid | None: Annotated[HybridOptions | None, _options_of(Hybrid)],
    Rescore | None: Annotated[RescoreOptions | None, _options_of(Rescore)],
    tuple[Facet, ...] | None: Annotated[
        Annotated[list[FacetRequest], ModelField(max_length=MAX_FACETS)] | None,
        _read_by(lambda facets: parse_facets([facet.model_dump() for facet in facets])),
    ],
    **PAYLOAD_TYPES,
}
ALL_OPTIONS = tuple(REQUEST_OPTIONS.values())
DEFAULTS = {option.name: option.metadata["default"] for option in ALL_OPTIONS}
OPTIONS_OF_EACH = [option for option in ALL_OPTIONS if option.metadata["batch"] == "each"]
OPTIONS_OF_ALL = [option for option in ALL_OPTIONS if option.metadata["batch"] == "all"]
SHARED_OPTIONS = {"ranking", "group_by", "group_size", *map(request_name, OPTIONS_OF_EACH)}
"""Options with which concurrent searches can be one batch."""


class OptionsModel(StrictModel):
    """A body, or a part of one, with options of a search, whose values are those of the options."""

    @classmethod
    @cache
    def _names(cls) -> tuple[tuple[str, str], ...]:
        """Return the name of each option that this model has, in requests and as an option."""
        return tuple(
            (name, option.name)
            for name, option in REQUEST_OPTIONS.items()
            if name in cls.model_fields
        )

    def options(self) -> SearchOptions:
        """Return the options, with the defaults of requests."""
        own = self.__dict__
        given = {option: own[name] for name, option in self._names()}
        return SearchOptions(**{**DEFAULTS, **given})


class SearchFields(OptionsModel):
    """What to search for."""

    text: Text = None
    vector: Vector = None
    code: Code = None
    id: str | None = ModelField(
        None, description="The id of a stored document, which is among the hits, too."
    )


@with_options(SearchOptions, OPTIONS_OF_EACH, PAYLOAD_TYPES)
class BatchedSearch(SearchFields, RequestModel):
    """A search by the id of a document, or by a text, a vector, a code or several of them."""


@with_options(SearchOptions, ALL_OPTIONS, TYPES)
class SearchRequest(SearchFields):
    """A search by the id of a document, or by a text, a vector, a code or several of them.

    A text beside a vector or a code is searched for by its words, and the ranking is hybrid by
    default. A text that the collection's encoder does not take is found by its words only. In a
    collection without an encoder, a vector has a number for each bit: its signs are the code, and
    the ranking asymmetric weighs the bits by its numbers.
    """

    encoder_fingerprint: Fingerprint = None

    def shares_batch(self) -> bool:
        """Tell whether the search has only fields that searches in a batch can have."""
        has_both = self.text is not None and not (self.vector is None and self.code is None)
        return not has_both and SPECIAL_OPTIONS.isdisjoint(self.model_fields_set)


SPECIAL_OPTIONS = REQUEST_OPTIONS.keys() - SHARED_OPTIONS
"""Options that only a search outside a batch can have."""


@with_options(SearchOptions, OPTIONS_OF_ALL, TYPES)
class SearchBatch(OptionsModel, RequestModel):
    """Searches of one generation, all with the same ranking and filter.

    If one of them has a `radius` and no `ranking` is given, all are ranked by Hamming distance.
    """

    searches: Annotated[list[BatchedSearch], FIRST_ERROR] = ModelField(min_length=1)
    rescore: Annotated[RescoreOptions | None, _options_of(Rescore)] = ModelField(
        None, description="For searches that all have the same limit and radius."
    )
    encoder_fingerprint: Fingerprint = None


Example = str | SearchFields


@with_options(SearchOptions, [REQUEST_OPTIONS[name] for name in RECOMMENDATION_OPTIONS], TYPES)
class RecommendRequest(OptionsModel, RequestModel):
    """What hits should be like, and what unlike: ids of documents, or objects with one of
    `id`, `text`, `vector` and `code`."""

    positive: list[Example] = ModelField(default_factory=list, max_length=MAX_EXAMPLES)
    negative: list[Example] = ModelField(default_factory=list, max_length=MAX_EXAMPLES)
    strategy: str = ModelField(
        AVERAGE_VECTOR,
        description="average_vector ranks by the mean of the examples' codes, best_score by the"
        " nearest examples.",
        json_schema_extra={"enum": [*STRATEGIES]},
    )
    encoder_fingerprint: Fingerprint = None


# Shorter lists are written at once.
LONG_LIST = 128


def answer_to_json(answer: Mapping[str, Any], max_bytes: int) -> bytes:
    """Write an answer as JSON.

    The entries of a long list are written one by one: orjson holds the interpreter lock meanwhile.

    Raises:
        ProblemError: 422 if it has more than `max_bytes` bytes.
    """
    long = {
        name: _in_entries(value, max_bytes)
        for name, value in answer.items()
        if isinstance(value, list) and len(value) > LONG_LIST
    }
    written = to_json({**answer, **long} if long else answer)
    if len(written) > max_bytes:
        raise answer_too_large(max_bytes)
    return written


def _in_entries(values: list[Any], max_bytes: int) -> orjson.Fragment:
    entries, size = [], 0
    for entry in values:
        entries.append(to_json(entry))
        size += len(entries[-1])
        if size > max_bytes:
            raise answer_too_large(max_bytes)
    return orjson.Fragment(b"[" + b",".join(entries) + b"]")


def answer_too_large(max_bytes: int) -> ProblemError:
    """Return the problem, 422, of an answer that has more than `max_bytes` bytes."""
    message = f"the response has more than {max_bytes:,} bytes, the limit; request less at a time"
    return ProblemError(422, "answer_too_large", message)


def to_json(answer: Any) -> bytes:
    """Write an answer, or a part of one, as JSON."""
    try:
        return orjson.dumps(answer)
    except TypeError:
        # A payload may hold whole numbers of more than 64 bits, and a quoted part of a request
        # may hold a lone surrogate. Only these are written by Python, and the rest by orjson.
        if isinstance(answer, Mapping):
            parts = (to_json(name) + b":" + to_json(value) for name, value in answer.items())
            return b"{" + b",".join(parts) + b"}"
        if isinstance(answer, list | tuple):
            return b"[" + b",".join(map(to_json, answer)) + b"]"
        return json.dumps(answer, ensure_ascii=False).encode("utf-8", "replace")
