"""Bodies held against their models, so that no body keeps the event loop waiting.

pydantic holds the interpreter lock until it is done, and keeps every error that it finds. So the
lists of a body are counted first, their entries validated some at a time, and validation ends with
the first errors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import islice
from typing import Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, TypeAdapter, ValidationError

from foundation.slices import checkpoint
from service.http.bodies.field_errors import MAX_ERRORS, field_errors
from service.http.bodies.json_parser import too_many
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
        for name, kind in _lists_of_models(model).items():
            entries = given.get(name)
            if isinstance(entries, list):
                given = {**given, name: _validated(kind, entries, name)}
    try:
        return model.model_validate(_with_few_unknown(given, model))
    except ValidationError as error:
        raise invalid_fields(_first_errors(error)) from None


def _validated(kind: type[BaseModel], entries: Sequence[Any], name: str) -> list[Any]:
    adapter = _adapter_of_lists(kind)
    valid: list[Any] = []
    errors: list[FieldError] = []
    for start in range(0, len(entries), SLICE):
        checkpoint()
        try:
            some = [_with_few_unknown(one, kind) for one in entries[start : start + SLICE]]
            valid += adapter.validate_python(some)
        except ValidationError as error:
            errors += _first_errors(error, name, start)
            if len(errors) >= MAX_ERRORS:
                break
    if errors:
        raise invalid_fields(errors[:MAX_ERRORS])
    return valid


def _with_few_unknown(given: Any, model: type[BaseModel]) -> Any:
    """Leave out unknown fields beyond the first ones: pydantic would make an error of each."""
    fields = model.model_fields
    if not isinstance(given, dict) or len(given) <= len(fields) + MAX_ERRORS:
        return given
    unknown = islice((name for name in given if name not in fields), MAX_ERRORS)
    names = {name for name in fields if name in given} | {*unknown}
    return {name: value for name, value in given.items() if name in names}


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
def _lists_of_models(model: type[BaseModel]) -> dict[str, type[BaseModel]]:
    """Return the fields of `model` that are lists of models, and of which."""
    found = {}
    for name, field in model.model_fields.items():
        kind: Any = field.annotation
        if get_origin(kind) is list and issubclass(get_args(kind)[0], BaseModel):
            found[name] = get_args(kind)[0]
    return found


@cache
def _adapter_of_lists(kind: type[BaseModel]) -> TypeAdapter[list[Any]]:
    return TypeAdapter(list[kind])  # type: ignore[valid-type]
