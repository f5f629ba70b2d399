"""Bodies held against their models, so that no body keeps the event loop waiting.

pydantic holds the interpreter lock until it is done, and keeps every error that it finds. So the
lists of a body are counted first, their entries validated some at a time, and validation ends with
the first errors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, TypeAdapter, ValidationError

from service.http.field_errors import MAX_ERRORS, field_errors
from service.http.json_parser import too_many
from service.http.problems import FieldError, invalid_fields

# Entries that are validated at a time.
SLICE = 50

Model = TypeVar("Model", bound=BaseModel)


def validate(model: type[Model], given: Any, most: Mapping[str, int]) -> Model:
    """Make an instance of `model` of a parsed body; `most` bounds its lists, by field.

    Raises:
        ProblemError: 422, pointing to at most :data:`MAX_ERRORS` fields that are wrong.
    """
    if isinstance(given, dict):
        for name, limit in most.items():
            entries = given.get(name)
            if isinstance(entries, list) and len(entries) > limit and name in model.model_fields:
                raise too_many(len(entries), limit, name)
        for name, adapter in _lists_of_models(model).items():
            entries = given.get(name)
            if isinstance(entries, list):
                given = {**given, name: _validated(adapter, entries, name)}
    try:
        return model.model_validate(given)
    except ValidationError as error:
        raise invalid_fields(_first_errors(error)) from None


def _validated(adapter: TypeAdapter[list[Any]], entries: Sequence[Any], name: str) -> list[Any]:
    valid: list[Any] = []
    errors: list[FieldError] = []
    for start in range(0, len(entries), SLICE):
        try:
            valid += adapter.validate_python(entries[start : start + SLICE])
        except ValidationError as error:
            errors += _first_errors(error, name, start)
            if len(errors) >= MAX_ERRORS:
                break
    if errors:
        raise invalid_fields(errors[:MAX_ERRORS])
    return valid


def _first_errors(error: ValidationError, *place: str | int) -> list[FieldError]:
    """Return the first errors; `place` is the name of a list and where the slice begins in it."""
    found: list[Mapping[str, Any]] = [
        {**one, "loc": ("body", *_moved(one["loc"], place))}
        for one in error.errors(include_url=False, include_context=False)[:MAX_ERRORS]
    ]
    return field_errors(found)


def _moved(loc: tuple[int | str, ...], place: Sequence[str | int]) -> tuple[int | str, ...]:
    if not place:
        return loc
    name, start = place
    position, *rest = loc
    return (name, int(start) + int(position), *rest)


@cache
def _lists_of_models(model: type[BaseModel]) -> dict[str, TypeAdapter[list[Any]]]:
    """Return what validates the fields of `model` that are lists of models."""
    found = {}
    for name, field in model.model_fields.items():
        kind: Any = field.annotation
        if get_origin(kind) is list and issubclass(get_args(kind)[0], BaseModel):
            found[name] = TypeAdapter(kind)
    return found
