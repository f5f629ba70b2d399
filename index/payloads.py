"""Changes of payloads, and parts of payloads."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from hummingbit.corpus.document import parse_payload
from hummingbit.corpus.expiry import EXPIRES_AT, read_expiry
from hummingbit.foundation.errors import InputError, abbreviate
from hummingbit.index.filters import MAX_FIELD_LENGTH, Filter, filter_to_json, parse_filter

MAX_REMOVED = 1000


def check_one_given(ids: object, condition: object) -> None:
    """Raise InputError unless documents are named by ids or by a filter, and not by both."""
    if ids is None and condition is None:
        raise InputError("ids", "is missing; give ids or a filter")
    if ids is not None and condition is not None:
        raise InputError("ids", "cannot be combined with filter; give one of the two")


@dataclass(frozen=True, slots=True)
class PayloadUpdate:
    """A change of the payloads of the documents with some `ids`, or that match a `filter`.

    `overwrite` replaces the whole payload; the default is to keep it. Then `remove` removes fields,
    `set` gives keys new values, and `merge` is applied as a JSON merge patch (RFC 7396): objects
    are merged into objects, and null removes a key. `set`, `overwrite` and `remove` do what
    Qdrant's ``set_payload``, ``overwrite_payload`` and ``delete_payload`` do. `expires_at` or
    `ttl_seconds` set when the documents expire (:mod:`hummingbit.corpus.expiry`).
    """

    ids: tuple[str, ...] | None = None
    filter: Filter | None = None
    set: Mapping[str, Any] | None = None
    merge: Mapping[str, Any] | None = None
    remove: tuple[str, ...] = ()
    overwrite: Mapping[str, Any] | None = None
    expires_at: str | float | None = None
    ttl_seconds: float | None = None

    def __post_init__(self) -> None:
        check_one_given(self.ids, self.filter)
        time = read_expiry(self.expires_at, self.ttl_seconds)
        changes = (self.set, self.merge, self.overwrite, self.remove or None, time)
        if all(change is None for change in changes):
            raise InputError("set", "is missing; give set, merge, remove, overwrite or expires_at")
        for name in ("set", "merge", "overwrite"):
            value = getattr(self, name)
            if value is not None:
                _check(name, value)
        if len(self.remove) > MAX_REMOVED:
            message = f"has {len(self.remove):,} fields; it must have at most {MAX_REMOVED:,}"
            raise InputError("remove", message)
        for field in self.remove:
            if not isinstance(field, str) or not 0 < len(field) <= MAX_FIELD_LENGTH:
                rule = f"a field must be 1 to {MAX_FIELD_LENGTH} characters long"
                raise InputError("remove", f"has {abbreviate(field)}; {rule}")

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> PayloadUpdate:
        """Return the update that a mapping describes, whose `filter` may be one as in requests.

        Raises:
            InputError: if it is none; the error names the field.
        """
        values = {name: value for name, value in fields.items() if value is not None}
        unknown = values.keys() - cls.__dataclass_fields__.keys()
        if unknown:
            known = ", ".join(cls.__dataclass_fields__)
            raise InputError("updates", f"has no field {min(unknown)!r}; the fields are {known}")
        if isinstance(values.get("filter"), Mapping):
            values["filter"] = parse_filter(values["filter"])
        for name in ("ids", "remove"):
            if name in values:
                if isinstance(values[name], str):
                    values[name] = [values[name]]
                values[name] = tuple(values[name])
        return cls(**values)

    def to_json(self) -> dict[str, Any]:
        """Return the update as a request has it."""
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        if self.filter is not None:
            fields["filter"] = json.loads(filter_to_json(self.filter))
        return {
            name: [*value] if isinstance(value, tuple) else value
            for name, value in fields.items()
            if value is not None and value != ()
        } | ({"ids": []} if self.ids == () else {})

    def apply(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        """Return the payload after the change."""
        changed = dict(payload if self.overwrite is None else self.overwrite)
        for field in self.remove:
            changed = _without(changed, field)
        changed.update(self.set or {})
        if self.merge is not None:
            changed = _merged(changed, self.merge)
        time = read_expiry(self.expires_at, self.ttl_seconds)
        return changed if time is None else {**changed, EXPIRES_AT: time}


class PayloadsUpdated(NamedTuple):
    """How many documents were selected and how many changed, and the generation with them."""

    matched: int
    updated: int
    generation: int


def _check(name: str, value: object) -> None:
    """Raise InputError unless a value can be stored as a payload."""
    try:
        parse_payload(value)
    except InputError as error:
        raise InputError(name, error.reason) from None


def _merged(target: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``MergePatch(target, patch)`` of RFC 7396."""
    merged = dict(target)
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, Mapping):
            before = merged.get(key)
            merged[key] = _merged(before if isinstance(before, Mapping) else {}, value)
        else:
            merged[key] = value
    return merged


def _without(payload: Mapping[str, Any], field: str) -> dict[str, Any]:
    """Return a payload without a field, in all places that :mod:`.filters` finds it."""
    left = {key: value for key, value in payload.items() if key != field}
    start = field.find(".")
    while start >= 0:
        key, rest = field[:start], field[start + 1 :]
        value = left.get(key)
        if isinstance(value, Mapping):
            left[key] = _without(value, rest)
        elif isinstance(value, list):
            left[key] = [
                _without(element, rest) if isinstance(element, Mapping) else element
                for element in value
            ]
        start = field.find(".", start + 1)
    return left


PayloadSelection = bool | tuple[str, ...]
"""Whole payloads, none, or these fields of them."""


def select_fields(payload: Mapping[str, Any], fields: Sequence[str]) -> dict[str, Any]:
    """Return the `fields` of a payload, with the objects and lists of objects that hold them."""
    selected: dict[str, Any] = {}
    for field in fields:
        _select(payload, field, selected)
    return selected


def _select(payload: Mapping[str, Any], field: str, into: dict[str, Any]) -> None:
    if field in payload:
        into[field] = payload[field]
    start = field.find(".")
    while start >= 0:
        key, rest = field[:start], field[start + 1 :]
        value = payload.get(key)
        if isinstance(value, Mapping):
            inner: dict[str, Any] = {}
            _select(value, rest, inner)
            if inner:
                before = into.get(key)
                into[key] = {**before, **inner} if isinstance(before, dict) else inner
        elif isinstance(value, list):
            parts: list[dict[str, Any]] = []
            for element in value:
                inner = {}
                if isinstance(element, Mapping):
                    _select(element, rest, inner)
                parts.append(inner)
            if any(parts):
                before = into.get(key)
                if isinstance(before, list):
                    parts = [{**old, **new} for old, new in zip(before, parts, strict=True)]
                into[key] = parts
        start = field.find(".", start + 1)


def parse_selection(value: object) -> PayloadSelection:
    """Return the payloads that `value` asks for: true, false, or a list of fields.

    Raises:
        InputError: if it is anything else.
    """
    if isinstance(value, bool):
        return value
    are_fields = isinstance(value, list | tuple) and all(isinstance(field, str) for field in value)
    if not are_fields:
        message = "it must be true, false, or a list of fields"
        raise InputError("with_payload", f"is {abbreviate(value)}; {message}")
    assert isinstance(value, list | tuple)  # noqa: S101 - for the type checker
    return tuple(value)
