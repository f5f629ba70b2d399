"""Request bodies: strict JSON (RFC 8259), read, parsed and validated, or streamed to disk."""

from __future__ import annotations

import hashlib
import json
import os
import re
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import Any, NoReturn, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive, Scope

from hummingbit.foundation.quick_json import Unsure, parse_quickly
from hummingbit.service.http.problems import (
    FieldError,
    ProblemError,
    invalid_field,
    invalid_fields,
    pointer,
    unsupported_media_type,
)

# Parsing.
#
# A parser keeps the interpreter lock until it is done, so limits keep what it does short: 16 MiB of
# nothing but short values would hold up everybody for a second.


MAX_VALUES = 2_000_000
MAX_CONTAINERS = 500_000
# Shorter bodies reach neither limit.
SHORT = 512 << 10


def parse_json(raw: bytes) -> Any:
    """Parse UTF-8 JSON; a byte order mark before it is ignored.

    Numbers too large for a float become infinity, and lone surrogates are kept: the code that
    validates the values can name their fields.

    Raises:
        ProblemError: 400 if it is not JSON, has NaN or Infinity, repeats a key within an object,
            holds an integer of thousands of digits, has more than :data:`MAX_VALUES` commas or
            :data:`MAX_CONTAINERS` opening brackets, or is nested too deeply.
    """
    raw = raw.removeprefix(BOM_UTF8)
    if len(raw) > SHORT:
        for count, limit, noun in (
            (raw.count(b"[") + raw.count(b"{"), MAX_CONTAINERS, "opening brackets"),
            (raw.count(b","), MAX_VALUES, "commas"),
        ):
            if count > limit:
                raise _invalid_json(f"it has {count:,} {noun}; the limit is {limit:,}")
    try:
        with suppress(Unsure):
            return parse_quickly(raw)
        return _DECODER.decode(raw.decode())
    except UnicodeDecodeError as error:
        raise _invalid_json(f"byte {error.start} is not UTF-8") from None
    except json.JSONDecodeError as error:
        offset = len(error.doc[: error.pos].encode("utf-8", "surrogatepass"))
        raise _invalid_json(f"{error.msg} ({_position(raw, offset)})") from None
    except RecursionError:
        raise _invalid_json("it is nested too deeply") from None
    except ValueError:
        raise _invalid_json("it has an integer with too many digits") from None


def _position(raw: bytes, offset: int) -> str:
    line = raw.count(b"\n", 0, offset) + 1
    begin = raw.rfind(b"\n", 0, offset) + 1
    return f"line {line}, column {len(raw[begin:offset].decode('utf-8', 'replace')) + 1}"


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    parsed = dict(pairs)
    if len(parsed) != len(pairs):
        ((key, _),) = Counter(key for key, _ in pairs).most_common(1)
        raise _duplicate_key(key)
    return parsed


def _duplicate_key(key: str) -> ProblemError:
    return _invalid_json(f"the key {key[:40]!r} is given twice in one object")


def _refuse_constant(name: str) -> NoReturn:
    raise _invalid_json(f"{name} is not a JSON number; numbers must be finite")


def _invalid_json(reason: str) -> ProblemError:
    return ProblemError(400, "invalid_json", f"the body cannot be read as JSON: {reason}")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_refuse_constant)


def too_many_entries(count: int, limit: int, *location: str | int) -> ProblemError:
    """Return the problem, 422, of a list at `location` with more than `limit` entries."""
    return invalid_field(f"has {count:,} entries; at most {limit:,} are allowed", *location)


# Sentences that say what would be right, in place of pydantic's errors.


MAX_ERRORS = 20
MAX_COMPARED_NAME = 40
"""Longer names are compared with no field, so that a hostile body costs little."""

SENTENCES = {
    "missing": "is missing",
    "extra_forbidden": "is not a field of this request",
    "string_unicode": "contains a lone surrogate, which is not valid text",
    "model_attributes_type": "must be an object",
    "model_type": "must be an object",
    "dict_type": "must be an object",
    "list_type": "must be a list",
    "string_type": "must be a string",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "int_parsing_size": "has too many digits",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
}
"""By pydantic's type of error; errors of other types keep pydantic's message."""


def field_errors(errors: Sequence[Mapping[str, Any]]) -> list[FieldError]:
    """Turn pydantic's errors, whose `loc` begins with ``body``, into those of a problem.

    An error of an unknown field may have `known`, the fields that are possible in its place.
    """
    return [
        {"pointer": pointer(*error["loc"][1:]), "message": _sentence(error)}
        for error in errors[:MAX_ERRORS]
    ]


def _sentence(error: Mapping[str, Any]) -> str:
    message = re.sub("^(Input|String) should", "it should", str(error["msg"]))
    sentence = SENTENCES.get(error["type"], message)
    if error["type"] == "extra_forbidden":
        return sentence + _name_known(str(error["loc"][-1]), error.get("known", ()))
    if error["type"] == "value_error":  # a sentence of a schema's own
        return message.removeprefix("Value error, ")
    if error["type"] in {"too_short", "too_long"}:
        bound = re.search(r"at (?:least|most) \d+", message)
        return f"has {len(error['input']):,} entries; it must have {bound[0] if bound else message}"
    if error["type"] in {"missing", "string_unicode", "input"}:
        return sentence
    return (
        f"is {show(error.get('input'))}; {sentence if ' should' in sentence else 'it ' + sentence}"
    )


def _name_known(name: str, known: Sequence[str]) -> str:
    """Return "; did you mean …?" with the field that is most like `name`, or else all fields."""
    if not known:
        return ""
    similar = get_close_matches(name.lower(), known, n=1) if len(name) <= MAX_COMPARED_NAME else []
    return (
        f"; did you mean {similar[0]}?" if similar else f"; the fields here are {', '.join(known)}"
    )


def show(value: object) -> str:
    """Describe a value that a client sent, in at most some 40 characters."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, str):
        return repr(value if len(value) <= 40 else value[:40] + "…")
    text = json.dumps(value)
    return text if len(text) <= 40 else text[:37] + "..."


_VALUE = re.compile(r"(is .*); it (?:must|should) be (.*)")

# Validation. pydantic collects every error that it finds, so what could have millions is cut first.


Model = TypeVar("Model", bound=BaseModel)


def validate(model: type[Model], body: Any, max_entries: Mapping[str, int]) -> Model:
    """Return a parsed body as an instance of `model`.

    `max_entries` limits the lists of the body, by field.

    Raises:
        ProblemError: 422, pointing to at most :data:`MAX_ERRORS` invalid fields.
    """
    if isinstance(body, dict):
        for name, limit in max_entries.items():
            entries = body.get(name)
            if isinstance(entries, list) and len(entries) > limit and name in model.model_fields:
                raise too_many_entries(len(entries), limit, name)
    try:
        return model.model_validate(limit_unknown_fields(body, model))
    except ValidationError as error:
        raise invalid_fields(_first_errors(error, model, body)) from None


def limit_unknown_fields(item: Any, model: type[BaseModel]) -> Any:
    """Leave out unknown fields beyond the first ones: pydantic would report an error for each."""
    fields = model.model_fields
    if not isinstance(item, dict) or len(item) <= len(fields) + MAX_ERRORS:
        return item
    unknown = islice((name for name in item if name not in fields), MAX_ERRORS)
    names = {name for name in fields if name in item} | {*unknown}
    return {name: value for name, value in item.items() if name in names}


def _first_errors(error: ValidationError, model: type[BaseModel], body: Any) -> list[FieldError]:
    errors: list[Mapping[str, Any]] = []
    in_unions = []
    for details in error.errors(include_url=False, include_context=False)[:MAX_ERRORS]:
        location = _location_in(body, details["loc"], is_missing=details["type"] == "missing")
        known = _fields_at(model, location[:-1])
        errors.append({**details, "loc": ("body", *location), "known": known})
        in_unions.append(len(location) < len(details["loc"]))
    return _merged(field_errors(errors), in_unions)


def _location_in(
    body: Any, location: Sequence[str | int], *, is_missing: bool
) -> tuple[str | int, ...]:
    """Return a location of pydantic's without the names of types, which it has inside unions."""
    found: list[str | int] = []
    for at, name in enumerate(location):
        if isinstance(name, int) if isinstance(body, list) else name in _keys(body):
            body = body[name]
        elif not (is_missing and at == len(location) - 1):
            continue
        found.append(name)
    return tuple(found)


def _keys(value: Any) -> Collection[Any]:
    return value if isinstance(value, dict) else ()


def _merged(errors: Sequence[FieldError], in_unions: Sequence[bool]) -> list[FieldError]:
    """Make one error of those of a value that none of the types of a union accepts.

    If the value is of one of the types but for something inside, only that is wrong.
    """
    merged: list[dict[str, str]] = []
    of_unions: dict[str, dict[str, str]] = {}
    for error, in_union in zip(errors, in_unions, strict=True):
        at, message = error["pointer"], error["message"]
        if in_union and any(other["pointer"].startswith(f"{at}/") for other in errors):
            continue
        before = of_unions.get(at) if in_union else None
        if before is None:
            merged.append({"pointer": at, "message": message})
            if in_union:
                of_unions[at] = merged[-1]
            continue
        first, more = _VALUE.fullmatch(before["message"]), _VALUE.fullmatch(message)
        if first and more and first[1] == more[1] and more[2] not in first[2]:
            before["message"] += f" or {more[2]}"
    return [*merged]


def _fields_at(model: type[BaseModel], location: Sequence[str | int]) -> Sequence[str]:
    """Return the fields of the object at `location` in a body, or none if no model describes it."""
    inner: type[BaseModel] | None = model
    for name in location:
        if isinstance(name, int):
            continue
        field = inner.model_fields.get(name) if inner else None
        inner = _model_in(field.annotation) if field else None
    return tuple(inner.model_fields) if inner else ()


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """Return the model in an annotation such as ``Model | None`` or ``list[Model]``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_model_in, get_args(annotation))), None)


# Requests with a body.


JSON_LINES = ("application/x-ndjson", "application/jsonl")
SMALL_BODY = 64 << 10
LARGE_BODY = 256 << 10
"""A body of more bytes is parsed in a thread."""


class JSONRequest(Request):
    """A request that accepts a JSON body only, and parses a large one in a thread.

    The body is validated against `model`; FastAPI passes the instance on as it is.
    """

    def __init__(self, scope: Scope, receive: Receive, model: type[BaseModel] | None) -> None:
        super().__init__(scope, receive)
        self._model = model
        self.held_bytes = 0
        """The bytes of the body that count in HeldBytes until they are removed there."""

    async def body(self) -> bytes:
        """Return the body.

        Raises:
            ProblemError: 415 if its media type is not JSON, 503 if too many large bodies are
                being received.
            ClientDisconnect: if the client has disconnected.
        """
        raw = await self.read_body()
        media_type = self.headers.get("content-type", "")
        if raw and not is_json(media_type):
            remedy = "send the header Content-Type: application/json"
            raise unsupported_media_type(media_type, remedy)
        return raw

    async def read_body(self) -> bytes:
        """Return the body, whatever its media type.

        Raises:
            ProblemError: 503 if too many large bodies are being received.
            ClientDisconnect: if the client has disconnected.
        """
        if not hasattr(self, "_body"):
            held_bytes: HeldBytes = self.app.state.held_bytes
            chunks: list[bytes] = []
            more = True
            while more:
                message = await self.receive()
                if message["type"] == "http.disconnect":
                    raise ClientDisconnect
                chunk, more = message.get("body", b""), message.get("more_body", False)
                held_bytes.add(len(chunk), self.held_bytes)
                self.held_bytes += len(chunk)
                chunks.append(chunk)
            self._body = b"".join(chunks)
        return self._body

    async def json(self) -> Any:
        """Return the parsed body, as an instance of the model if there is one.

        Raises:
            ProblemError: as :meth:`body`; also 400 or 422 if the body is invalid.
        """
        raw = await self.body()
        if len(raw) <= LARGE_BODY:
            return self._parse(raw)
        return await run_in_threadpool(self._parse, raw)

    @property
    def received_body(self) -> bytes:
        """The body, once :meth:`body` or :meth:`json` has returned."""
        return self._body

    def _parse(self, raw: bytes) -> Any:
        parsed = parse_json(raw)
        max_entries = self.app.state.settings.max_entries
        return parsed if self._model is None else validate(self._model, parsed, max_entries)


class HeldBytes:
    """Counts and limits the bytes of bodies that are being received or worked on.

    Without a limit, clients that send all but the end of large bodies would fill the memory. A
    small body is never refused.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._total = 0

    def add(self, count: int, received: int) -> None:
        """Count `count` more bytes of a body of which `received` are counted already.

        Raises:
            ProblemError: 503 if the limit is exceeded and the body is not small.
        """
        self._total += count
        if self._total > self._limit and received + count > SMALL_BODY:
            self._total -= count
            message = "too many large bodies are being received; try again later"
            raise ProblemError(503, "too_many_bodies", message)

    def remove(self, count: int) -> None:
        """Stop counting `count` bytes."""
        self._total -= count


def is_json(content_type: str) -> bool:
    """Tell whether the header Content-Type names JSON, such as ``application/problem+json``."""
    media_type = content_type.partition(";")[0].strip().lower()
    main, _, sub = media_type.partition("/")
    return main == "application" and (sub == "json" or sub.endswith("+json"))


def check_media_type(request: Request, media_types: Sequence[str]) -> None:
    """Raise a ProblemError, 415, unless the body's media type is one of `media_types`."""
    content_type = request.headers.get("content-type", "")
    if content_type.partition(";")[0].strip().lower() not in media_types:
        remedy = f"send the header Content-Type: {media_types[0]}"
        raise unsupported_media_type(content_type, remedy)


async def save_body(request: Request, path: Path, prefix: bytes = b"") -> str:
    """Write a body to a file and return the SHA-256 of `prefix` and the body, in hexadecimal.

    Raises:
        ProblemError: 503 if it cannot be written.
    """
    digest = hashlib.sha256(prefix)
    try:
        with path.open("wb") as file:
            async for chunk in request.stream():
                digest.update(chunk)
                await run_in_threadpool(file.write, chunk)
            file.flush()
            await run_in_threadpool(os.fsync, file.fileno())
    except OSError as error:
        message = f"the body cannot be saved: {error.strerror}"
        raise ProblemError(503, "storage_failed", message) from error
    return digest.hexdigest()
