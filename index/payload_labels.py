"""The labels of a stored document, as its payload has them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from foundation.errors import InputError


def labels_of(payload: Mapping[str, Any], field: str = "label") -> tuple[str, ...]:
    """Return the labels in `field` of a payload: a string or a list of strings.

    Where the field is ``label`` and absent, ``labels`` is read. Whole numbers and truth values
    count as the text JSON has for them; an absent field or null is no label.

    Raises:
        InputError: if the field holds anything else.
    """
    value = payload.get(field)
    if value is None and field == "label":
        value = payload.get("labels")
    if value is None:
        return ()
    values = value if isinstance(value, list) else [value]
    if not all(isinstance(one, str | int) for one in values):
        shown = ascii(value)
        shown = shown if len(shown) <= 60 else shown[:57] + "..."
        raise InputError("label_field", f"{field!a} is {shown}; it must hold strings")
    return tuple(one if isinstance(one, str) else json.dumps(one) for one in values)
