"""Turns pydantic's errors into sentences that say what would be right."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from service.http.problems import FieldError, pointer

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
