"""The JSON of searches and their responses."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, Field
from dataclasses import fields as dataclass_fields
from typing import Annotated, Any, TypeVar, get_type_hints

import orjson
from pydantic import BaseModel, create_model
from pydantic import Field as ModelField
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from hummingbit.foundation.slices import checkpoint
from hummingbit.index.facets import MAX_FACETS, Facet
from hummingbit.index.filters import Filter
from hummingbit.index.recommendations import AVERAGE_VECTOR, MAX_EXAMPLES, STRATEGIES
from hummingbit.index.search import (
    RECOMMENDATION_OPTIONS,
    REQUEST_OPTIONS,
    Hybrid,
    Rescore,
    SearchOptions,
    request_name,
)
from hummingbit.service.http.problems import ProblemError
from hummingbit.service.schemas.common import (
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
    hints, in_json = get_type_hints(declared), types or {}
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
    """How the hybrid ranking combines codes and words: by scores, or with `rrf` by ranks."""


@with_options(Rescore, dataclass_fields(Rescore))
class RescoreOptions(RequestModel):
    """Take more candidates from the ranking, and order them by another score."""


PAYLOAD_TYPES: Mapping[Any, Any] = {bool | tuple[str, ...]: bool | list[str]}
TYPES: Mapping[Any, Any] = {
    Filter | None: FilterObject | None,
    Hybrid | None: HybridOptions | None,
    Rescore | None: RescoreOptions | None,
    tuple[Facet, ...] | None: Annotated[list[FacetRequest], ModelField(max_length=MAX_FACETS)]
    | None,
    **PAYLOAD_TYPES,
}
ALL_OPTIONS = tuple(REQUEST_OPTIONS.values())
OPTIONS_OF_EACH = [option for option in ALL_OPTIONS if option.metadata["batch"] == "each"]
OPTIONS_OF_ALL = [option for option in ALL_OPTIONS if option.metadata["batch"] == "all"]
SHARED_OPTIONS = {"ranking", "group_by", "group_size", *map(request_name, OPTIONS_OF_EACH)}
"""Options with which concurrent searches can be one batch."""


def _plain(value: Any) -> Any:
    """Return a part of a request without models."""
    if isinstance(value, list):
        return [*map(_plain, value)]
    return value.model_dump() if isinstance(value, BaseModel) else value


class OptionsModel(StrictModel):
    """A body, or a part of one, with options of a search."""

    def options(self) -> SearchOptions:
        """Return the options, with the defaults of requests.

        Raises:
            InputError: if the filter is invalid.
        """
        given = {
            name: getattr(self, name) for name in self.model_fields_set & REQUEST_OPTIONS.keys()
        }
        return SearchOptions.of_request({name: _plain(value) for name, value in given.items()})


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

    def has_plain_fields(self) -> bool:
        """Tell whether the search has only fields that searches in a batch can have."""
        # Beside others, the text needs the word index, which the event loop must not wait for.
        has_both = self.text is not None and not (self.vector is None and self.code is None)
        return not has_both and SPECIAL_OPTIONS.isdisjoint(self.model_fields_set)


SEARCH_FIELDS = frozenset(SearchRequest.model_fields)
SPECIAL_OPTIONS = REQUEST_OPTIONS.keys() - SHARED_OPTIONS
"""Options that only a search outside a batch can have."""


@with_options(SearchOptions, OPTIONS_OF_ALL, TYPES)
class SearchBatch(OptionsModel, RequestModel):
    """Searches of one generation, all with the same ranking and filter.

    If one of them has a `radius` and no `ranking` is given, all are ranked by Hamming distance.
    """

    searches: list[BatchedSearch] = ModelField(min_length=1)
    rescore: RescoreOptions | None = ModelField(
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


LONG_LISTS = ("hits", "documents", "results", "data", "queries")
# Entries that are written between two checkpoints, fewer if they are large.
ENTRIES_AT_ONCE = 16
# Bytes of a response that are sent at a time.
SENT_AT_ONCE = 64 << 10


class LongAnswer(Response):
    """A response that is sent in chunks, each once the client has read enough before it."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Send the response.

        Raises:
            ProblemError: 503 if it is long, and too many long ones are being sent to the client.
        """
        headers = self.raw_headers
        start = {"type": "http.response.start", "status": self.status_code, "headers": headers}
        await _send(scope, send, start, bytes(self.body))


class JSONAnswer(LongAnswer):
    """A JSON response that may be long."""

    media_type = "application/json"


async def send_json(scope: Scope, send: Send, body: bytes) -> None:
    """Send a JSON response as :class:`JSONAnswer` does, with status 200."""
    length = (b"content-length", b"%d" % len(body))
    headers = [length, (b"content-type", b"application/json")]
    await _send(
        scope, send, {"type": "http.response.start", "status": 200, "headers": headers}, body
    )


async def _send(scope: Scope, send: Send, start: Message, body: bytes) -> None:
    if len(body) <= SENT_AT_ONCE:
        await send(start)
        await send({"type": "http.response.body", "body": body})
        return
    address = scope["client"][0] if scope.get("client") else ""
    with scope["app"].state.unsent_responses.holding(address, len(body)):
        await send(start)
        whole = memoryview(body)
        for begin in range(0, len(body), SENT_AT_ONCE):
            end = begin + SENT_AT_ONCE
            part = bytes(whole[begin:end])
            await send({"type": "http.response.body", "body": part, "more_body": end < len(body)})


def answer_to_json(answer: Mapping[str, Any], max_bytes: int) -> bytes:
    """Write an answer as JSON, some entries of its long lists at a time.

    Raises:
        ProblemError: 422 if it has more than `max_bytes` bytes.
    """
    hits = answer.get("hits")
    if hits is not None and len(hits) <= ENTRIES_AT_ONCE and "documents" not in answer:
        written = to_json(answer)
        if len(written) <= max_bytes:
            return written
    pieces, size = [], 0
    for piece in _pieces(answer):
        size += len(piece)
        if size > max_bytes:
            raise answer_too_large(max_bytes)
        pieces.append(piece)
    return b"".join(pieces)


def answer_too_large(max_bytes: int) -> ProblemError:
    """Return the problem, 422, of an answer that has more than `max_bytes` bytes."""
    message = f"the response has more than {max_bytes:,} bytes, the limit; request less at a time"
    return ProblemError(422, "answer_too_large", message)


def _pieces(answer: Mapping[str, Any]) -> Iterator[bytes]:
    # A field that is a list in one answer may be a number in another.
    lists = [name for name in LONG_LISTS if isinstance(answer.get(name), list)]
    if all(len(answer[name]) <= ENTRIES_AT_ONCE for name in lists) and "results" not in answer:
        yield to_json(answer)
        return
    rest = to_json({name: value for name, value in answer.items() if name not in lists})
    yield rest[:-1]
    for position, name in enumerate(lists):
        yield (b"," if position or len(rest) > 2 else b"") + b'"' + name.encode() + b'":['
        entries = answer[name]
        size = 1 if name == "results" else ENTRIES_AT_ONCE
        for start in range(0, len(entries), size):
            checkpoint()
            if start:
                yield b","
            if name == "results":
                yield from _pieces(entries[start])
            else:
                yield to_json(entries[start : start + size])[1:-1]
        yield b"]"
    yield b"}"


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
