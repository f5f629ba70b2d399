"""Validates bodies against their models in slices, so that no body blocks the event loop.

pydantic holds the interpreter lock until it is done, and collects every error that it finds. So the
lists of a body are counted first, their entries are validated some at a time, and validation ends
after the first errors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import islice
from typing import Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, TypeAdapter, ValidationError

from foundation.slices import checkpoint
from service.http.bodies.field_errors import MAX_ERRORS, field_errors
from service.http.bodies.json_parser import too_many_entries
from service.http.problems import FieldError, invalid_fields

# Entries that are validated at a time.
SLICE = 50

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
        return model.model_validate(_limit_unknown_fields(body, model))
    except ValidationError as error:
        raise invalid_fields(_first_errors(error, model)) from None


def _validate_entries(model: type[BaseModel], entries: Sequence[Any], name: str) -> list[Any]:
    adapter = _list_adapter(model)
    valid: list[Any] = []
    errors: list[FieldError] = []
    for start in range(0, len(entries), SLICE):
        checkpoint()
        try:
            part = [_limit_unknown_fields(entry, model) for entry in entries[start : start + SLICE]]
            valid += adapter.validate_python(part)
        except ValidationError as error:
            errors += _first_errors(error, model, name, start)
            if len(errors) >= MAX_ERRORS:
                break
    if errors:
        raise invalid_fields(errors[:MAX_ERRORS])
    return valid


def _limit_unknown_fields(item: Any, model: type[BaseModel]) -> Any:
    """Leave out unknown fields beyond the first ones: pydantic would report an error for each."""
    fields = model.model_fields
    if not isinstance(item, dict) or len(item) <= len(fields) + MAX_ERRORS:
        return item
    unknown = islice((name for name in item if name not in fields), MAX_ERRORS)
    names = {name for name in fields if name in item} | {*unknown}
    return {name: value for name, value in item.items() if name in names}


def _first_errors(
    error: ValidationError, model: type[BaseModel], *place: str | int
) -> list[FieldError]:
    """Return the first errors; `place` is the name of a list and the start of a slice of it."""
    errors: list[Mapping[str, Any]] = [
        {
            **details,
            "loc": ("body", *_shift(details["loc"], place)),
            "known": _fields_at(model, details["loc"][:-1]),
        }
        for details in error.errors(include_url=False, include_context=False)[:MAX_ERRORS]
    ]
    return field_errors(errors)


def _shift(loc: tuple[int | str, ...], place: Sequence[str | int]) -> tuple[int | str, ...]:
    """Turn a location within a slice into one within the body."""
    if not place:
        return loc
    name, start = place
    position, *rest = loc
    return (name, int(start) + int(position), *rest)


def _fields_at(model: type[BaseModel], place: Sequence[str | int]) -> Sequence[str]:
    """Return the fields of the object at `place` in a body, or none if no model describes it."""
    inner: type[BaseModel] | None = model
    for name in place:
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
        if get_origin(annotation) is list and issubclass(get_args(annotation)[0], BaseModel):
            fields[name] = get_args(annotation)[0]
    return fields


@cache
def _list_adapter(model: type[BaseModel]) -> TypeAdapter[list[Any]]:
    return TypeAdapter(list[model])  # type: ignore[valid-type]
