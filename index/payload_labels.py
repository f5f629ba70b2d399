"""The labels in the payload of a stored document."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from foundation.errors import InputError, abbreviate


def labels_of(payload: Mapping[str, Any], field: str = "label") -> tuple[str, ...]:
    """Return the labels in `field` of a payload: a string or a list of strings.

    If the field is ``label`` and absent, ``labels`` is read. Integers and booleans become their
    JSON text. An absent field and null are no label.

    Raises:
        InputError: if the field holds anything else.
    """
    value = payload.get(field)
    if value is None and field == "label":
        value = payload.get("labels")
    if value is None:
        return ()
    if isinstance(value, str):  # as most are
        return (value,)
    values = value if isinstance(value, list) else [value]
    if not all(isinstance(one, str | int) for one in values):
        raise InputError("label_field", f"{field!r} is {abbreviate(value)}; it must hold strings")
    return tuple(one if isinstance(one, str) else json.dumps(one) for one in values)
