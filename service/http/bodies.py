"""Request bodies: strict JSON (RFC 8259), parsed and validated in slices, or streamed to disk."""

from __future__ import annotations

import hashlib
import json
import os
import re
from bisect import bisect_left, bisect_right
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from difflib import get_close_matches
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, NoReturn, TypeVar, get_args, get_origin

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, TypeAdapter, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.types import Receive, Scope

from hummingbit.foundation.quick_json import Unsure, parse_quickly
from hummingbit.foundation.slices import Slices, checkpoint, in_slices
from hummingbit.service.http.problems import (
    FieldError,
    ProblemError,
    invalid_field,
    invalid_fields,
    pointer,
    unsupported_media_type,
)
from hummingbit.service.settings import Settings

# Parsing in slices.
#
# Python's parser holds the interpreter lock until it is done, so 16 MiB would block the event loop
# for a second. A long text is therefore cut at the commas of its containers, which numpy finds
# without the lock, and parsed some tens of KiB at a time.


PARSED_AT_ONCE = 64 << 10
BLOCK = 256 << 10
OPEN, CLOSE, COMMA = 1, 2, 3
WHITESPACE = b" \t\n\r"
# A body of 16 MiB could hold millions of empty lists, and Python's garbage collector would visit
# all of them again and again.
MAX_VALUES = 2_000_000
MAX_CONTAINERS = 250_000

Positions = NDArray[np.int32]


def parse_json(
    raw: bytes,
    max_depth: int,
    max_entries: Mapping[str, int] | None = None,
    size: int = PARSED_AT_ONCE,
) -> Any:
    """Parse UTF-8 JSON, `size` bytes at a time; a byte order mark before it is ignored.

    `max_entries` limits lists that are fields of the outermost object; a longer one is refused
    before its entries are parsed. Numbers too large for a float become infinity, and lone
    surrogates are kept: the code that validates the values can name their fields.

    Raises:
        ProblemError: 400 if it is not JSON, has NaN or Infinity, repeats a key within an object,
            holds an integer of thousands of digits, more than :data:`MAX_VALUES` values or more
            than :data:`MAX_CONTAINERS` containers, or is nested in more than `max_depth` levels;
            422 if a list is longer than its limit.
    """
    raw = raw.removeprefix(BOM_UTF8)
    if len(raw) > size or raw.count(b"[") + raw.count(b"{") > max_depth:
        structure = _Structure(raw, max_depth)
        if len(raw) > size:
            return _Slices(raw, structure, max_entries or {}, size).value(0, len(raw))
    return _parse(raw, 0, len(raw), raw)


def parse_short_json(raw: bytes, max_depth: int) -> Any:
    """Parse as :func:`parse_json` does, in half the time for a short text.

    Raises:
        ProblemError: as :func:`parse_json` does.
    """
    if len(raw) <= PARSED_AT_ONCE and raw.count(b"[") + raw.count(b"{") <= max_depth:
        with suppress(Unsure):
            return parse_quickly(raw)
    return parse_json(raw, max_depth)


class _Structure:
    """The positions of a text's commas, by level, and of the brackets that open its containers."""

    def __init__(self, raw: bytes, max_depth: int) -> None:
        # Once escaped quotes are gone, an odd number of quotes means inside a string.
        text = raw.replace(b"\\\\", b"  ").replace(b'\\"', b"  ") if b"\\" in raw else raw
        table = np.zeros(256, dtype=np.uint8)
        table[[ord("["), ord("{")]] = OPEN
        table[[ord("]"), ord("}")]] = CLOSE
        table[ord(",")] = COMMA
        steps = np.array([0, 1, -1, 0], dtype=np.int32)
        inside, depth, containers, values = 0, 0, 0, 0
        parts: list[tuple[NDArray[np.uint8], Positions, Positions]] = []
        for start in range(0, len(text), BLOCK):
            checkpoint()
            size = min(BLOCK, len(text) - start)
            block = np.frombuffer(text, dtype=np.uint8, count=size, offset=start)
            quoted = np.bitwise_xor.accumulate((block == ord('"')).view(np.uint8)) ^ inside
            kinds = table[block] * (quoted ^ 1)
            positions = np.flatnonzero(kinds)
            kinds = kinds[positions]
            levels = np.cumsum(steps[kinds], dtype=np.int32) + depth
            if levels.size:
                if levels.max() > max_depth:
                    raise _invalid_json(f"it is nested more than {max_depth} levels deep")
                depth = int(levels[-1])
            inside = int(quoted[-1])
            containers += int((kinds == OPEN).sum())
            values += int((kinds != CLOSE).sum())
            _check_size(containers, values)
            parts.append((kinds, (positions + start).astype(np.int32), levels.astype(np.int32)))
        kinds, positions, levels = (np.concatenate(part) for part in zip(*parts, strict=True))
        self.opens: Positions = positions[kinds == OPEN]
        is_comma = kinds == COMMA
        commas, levels = positions[is_comma], levels[is_comma].clip(0).astype(np.uint16)
        order = np.argsort(levels, kind="stable")
        self._commas: Positions = commas[order]
        self._ends = np.cumsum(np.bincount(levels, minlength=max_depth + 1))

    def commas(self, level: int, start: int, end: int) -> Positions:
        """Return the positions of the commas of a level from `start` to before `end`, in order."""
        first = self._ends[level - 1] if level else 0
        of_level = self._commas[first : self._ends[level]]
        return of_level[bisect_left(of_level, start) : bisect_left(of_level, end)]

    def next_open(self, start: int, end: int) -> int | None:
        """Return the first position from `start` to before `end` where a container opens."""
        position = bisect_left(self.opens, start)
        if position < len(self.opens) and self.opens[position] < end:
            return int(self.opens[position])
        return None


class _Slices:
    """Parses a long text by its structure."""

    def __init__(
        self, raw: bytes, structure: _Structure, max_entries: Mapping[str, int], size: int
    ) -> None:
        self._raw = raw
        self._structure = structure
        self._max_entries = max_entries
        self._size = size

    def value(self, start: int, end: int, level: int = 0) -> Any:
        """Parse the value from `start` to before `end`, in a container of `level`."""
        start, end = self._strip(start, end)
        first, last = self._raw[start : start + 1], self._raw[end - 1 : end]
        if end - start > self._size and (first, last) == (b"[", b"]"):
            return self._list(start + 1, end - 1, level + 1)
        if end - start > self._size and (first, last) == (b"{", b"}"):
            return self._object(start + 1, end - 1, level + 1)
        return _parse(self._raw, start, end, self._raw[start:end])

    def _list(self, start: int, end: int, level: int) -> list[Any]:
        parsed: list[Any] = []
        for low, high in self._runs(start, end, level):
            if high - low > self._size:
                parsed.append(self.value(low, high, level))
            else:
                parsed += _parse(self._raw, low - 1, high, b"[" + self._raw[low:high] + b"]")
        return parsed

    def _object(self, start: int, end: int, level: int) -> dict[str, Any]:
        parsed: dict[str, Any] = {}
        for low, high in self._runs(start, end, level):
            opens = self._structure.next_open(low, high) if high - low > self._size else None
            if opens is None:
                part = _parse(self._raw, low - 1, high, b"{" + self._raw[low:high] + b"}")
            else:
                # The name of a long member, with 0 in place of its value.
                member = b"{" + self._raw[low:opens] + b"0}"
                part = _parse(self._raw, low - 1, opens, member)
                if len(part) != 1 or next(iter(part.values())) != 0:
                    raise _invalid_json("a member of an object has no value of its own")
                (name,) = part
                if level == 1:
                    self._check_count(name, opens, high)
                part = {name: self.value(opens, high, level)}
            if not parsed.keys().isdisjoint(part):
                raise _duplicate_key(next(key for key in part if key in parsed))
            parsed |= part
        return parsed

    def _check_count(self, name: str, start: int, end: int) -> None:
        limit = self._max_entries.get(name)
        if limit is not None and self._raw[start : start + 1] == b"[":
            count = len(self._structure.commas(2, start, end)) + 1
            if count > limit:
                raise too_many_entries(count, limit, name)

    def _runs(self, start: int, end: int, level: int) -> Iterator[tuple[int, int]]:
        """Yield runs of a container's entries, from comma to comma, each at most a slice long.

        A longer entry is a run by itself.
        """
        commas = self._structure.commas(level, start, end)
        if not self._raw[start:end].strip(WHITESPACE):
            return
        while True:
            position = bisect_right(commas, start + self._size)
            if position == len(commas) and end - start <= self._size:
                cut = end
            else:
                position = max(position - 1, bisect_left(commas, start))
                cut = int(commas[position]) if position < len(commas) else end
            if not self._raw[start:cut].strip(WHITESPACE):
                raise _invalid_json(f"a value is missing ({_position(self._raw, cut)})")
            checkpoint()
            yield start, cut
            if cut == end:
                return
            start = cut + 1

    def _strip(self, start: int, end: int) -> tuple[int, int]:
        text = self._raw[start:end]
        shorter = text.lstrip(WHITESPACE)
        start += len(text) - len(shorter)
        return start, start + len(shorter.rstrip(WHITESPACE))


def _check_size(containers: int, values: int) -> None:
    for count, limit, noun in (
        (containers, MAX_CONTAINERS, "lists and objects"),
        (values, MAX_VALUES, "values"),
    ):
        if count > limit:
            raise _invalid_json(f"it has more than {limit:,} {noun}, the limit")


def too_many_entries(count: int, limit: int, *location: str | int) -> ProblemError:
    """Return the problem, 422, of a list at `location` with more than `limit` entries."""
    return invalid_field(f"has {count:,} entries; at most {limit:,} are allowed", *location)


def _parse(raw: bytes, start: int, end: int, text: bytes) -> Any:
    """Parse `text` at once; it is what `raw` holds from `start` to before `end`."""
    try:
        return _DECODER.decode(text.decode())
    except UnicodeDecodeError as error:
        raise _invalid_json(f"byte {start + error.start} is not UTF-8") from None
    except json.JSONDecodeError as error:
        offset = min(start + len(error.doc[: error.pos].encode()), end)
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
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "int_parsing_size": "has too many digits",
    "float_type": "must be a number",
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
    if error["type"] in {"missing", "string_unicode", "too_short", "too_long"}:
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


# Validation in slices.
#
# pydantic holds the interpreter lock until it is done, and collects every error that it finds. So
# the lists of a body are counted first, their entries are validated some at a time, and validation
# ends after the first errors.


# Entries that are validated at a time.
VALIDATED_AT_ONCE = 50

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
        for name, entry_model in _lists_of_models(model).items():
            entries = body.get(name)
            if isinstance(entries, list):
                body = {**body, name: _validate_entries(entry_model, entries, name)}
    try:
        return model.model_validate(limit_unknown_fields(body, model))
    except ValidationError as error:
        raise invalid_fields(_first_errors(error, model)) from None


def _validate_entries(model: type[BaseModel], entries: Sequence[Any], name: str) -> list[Any]:
    adapter = _list_adapter(model)
    valid: list[Any] = []
    errors: list[FieldError] = []
    for start in range(0, len(entries), VALIDATED_AT_ONCE):
        checkpoint()
        try:
            part = [
                limit_unknown_fields(entry, model)
                for entry in entries[start : start + VALIDATED_AT_ONCE]
            ]
            valid += adapter.validate_python(part)
        except ValidationError as error:
            errors += _first_errors(error, model, name, start)
            if len(errors) >= MAX_ERRORS:
                break
    if errors:
        raise invalid_fields(errors[:MAX_ERRORS])
    return valid


def limit_unknown_fields(item: Any, model: type[BaseModel]) -> Any:
    """Leave out unknown fields beyond the first ones: pydantic would report an error for each."""
    fields = model.model_fields
    if not isinstance(item, dict) or len(item) <= len(fields) + MAX_ERRORS:
        return item
    unknown = islice((name for name in item if name not in fields), MAX_ERRORS)
    names = {name for name in fields if name in item} | {*unknown}
    return {name: value for name, value in item.items() if name in names}


def _first_errors(
    error: ValidationError, model: type[BaseModel], *location: str | int
) -> list[FieldError]:
    """Return the first errors; `location` is the name of a list and the start of a slice of it."""
    errors: list[Mapping[str, Any]] = [
        {
            **details,
            "loc": ("body", *_shift(details["loc"], location)),
            "known": _fields_at(model, details["loc"][:-1]),
        }
        for details in error.errors(include_url=False, include_context=False)[:MAX_ERRORS]
    ]
    return field_errors(errors)


def _shift(loc: tuple[int | str, ...], location: Sequence[str | int]) -> tuple[int | str, ...]:
    """Turn a location within a slice into one within the body."""
    if not location:
        return loc
    name, start = location
    position, *rest = loc
    return (name, int(start) + int(position), *rest)


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


@cache
def _lists_of_models(model: type[BaseModel]) -> dict[str, type[BaseModel]]:
    """Return the fields of `model` that are lists of models, with the model of each."""
    fields = {}
    for name, field in model.model_fields.items():
        annotation: Any = field.annotation
        if get_origin(annotation) is list:
            (entry,) = get_args(annotation)
            if isinstance(entry, type) and issubclass(entry, BaseModel):
                fields[name] = entry
    return fields


@cache
def _list_adapter(model: type[BaseModel]) -> TypeAdapter[list[Any]]:
    return TypeAdapter(list[model])  # type: ignore[valid-type]


# Requests with a body.


JSON_LINES = ("application/x-ndjson", "application/jsonl")
# Shorter bodies are parsed faster than they are handed to a thread.
SMALL_BODY = 64 << 10


class JSONRequest(Request):
    """A request that accepts a JSON body only, and parses it without blocking the event loop.

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
        await self.read_body()
        media_type = self.headers.get("content-type", "")
        if self._body and not is_json(media_type):
            remedy = "send the header Content-Type: application/json"
            raise unsupported_media_type(media_type, remedy)
        return self._body

    async def read_body(self) -> bytes:
        """Return the body, whatever its media type.

        Raises:
            ProblemError: 503 if too many large bodies are being received.
            ClientDisconnect: if the client has disconnected.
        """
        if not hasattr(self, "_body"):
            held_bytes: HeldBytes = self.app.state.held_bytes
            chunks: list[bytes] = []
            async for chunk in self.stream():
                held_bytes.add(len(chunk), self.held_bytes)
                self.held_bytes += len(chunk)
                chunks.append(chunk)
            self._body = b"".join(chunks)
        return self._body

    @property
    def received_body(self) -> bytes:
        """The body, once :meth:`body` or :meth:`json` has returned."""
        return self._body

    async def json(self) -> Any:
        """Return the parsed body, as an instance of the model if there is one."""
        raw = await self.body()
        if len(raw) <= SMALL_BODY:
            return self._parse(raw)
        return await run_in_threadpool(self._parse_in_turn, raw)

    def _parse_in_turn(self, raw: bytes) -> Any:
        with in_turn(self):
            return self._parse(raw)

    def _parse(self, raw: bytes) -> Any:
        settings: Settings = self.app.state.settings
        max_entries = settings.max_entries
        parsed = parse_json(raw, settings.max_json_depth, max_entries)
        return parsed if self._model is None else validate(self._model, parsed, max_entries)


def in_turn(request: Request) -> AbstractContextManager[None]:
    """Do the work within in slices, in turn with expensive requests; end it if this one timed out.

    The work must not take a lock that another thread may hold while it waits for a turn.
    """
    state = request.scope["state"]
    turns = Slices(request.app.state.compute_turns, lambda: bool(state.get("expired")))
    return in_slices(turns)


class HeldBytes:
    """Counts and limits the bytes of bodies that are being received or wait for a turn.

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
