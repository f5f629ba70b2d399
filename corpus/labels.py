"""The names of labels and ids, which are the same wherever a value comes from."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from pathlib import PurePath
from typing import Any
from uuid import UUID

from hummingbit.foundation.errors import abbreviate

SEVERAL = (list, tuple, set, frozenset)
"""The types of several labels; arrays, and columns of data frames, are several, too."""
_ID_RULE = "it must be a text or a whole number"


def is_missing(value: Any) -> bool:
    """Return whether a value stands for none: None, NaN, or pandas' NaT or NA."""
    if value is None or type(value).__name__ in ("NaTType", "NAType"):
        return True
    return _is_fraction(value) and math.isnan(value)


def name_of(value: Any) -> str | None:
    """Return a label or id as text, or None if the value is missing or blank.

    A text is its own name. A whole number has its digits, also if it is a float: pandas reads 1
    beside a gap as 1.0. ``true`` and ``false`` are as in JSON, times as in ISO 8601, and other
    numbers as Python writes them.

    Raises:
        ValueError: if the value has no name, such as an object or an infinite number.
    """
    if is_missing(value) or (isinstance(value, str) and not value.strip()):
        return None
    if isinstance(value, str):
        return str.__str__(value)
    if type(value).__name__.startswith("bool"):
        return "true" if value else "false"
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if _is_whole(value):
        return str(int(value))
    if (_is_fraction(value) and math.isfinite(value)) or isinstance(value, UUID | PurePath):
        return str(value)
    raise ValueError(f"is {abbreviate(value)}; it must be a text, a number, true or false")


def id_of(value: Any) -> str | None:
    """Return an id as text, as :func:`name_of` does, or None if the value is missing.

    Raises:
        ValueError: if the value is true or false, a number with a fraction, or has no name.
    """
    is_boolean = type(value).__name__.startswith("bool")
    if is_boolean or (_is_fraction(value) and not is_missing(value) and not _is_whole(value)):
        raise ValueError(f"is {abbreviate(value)}; {_ID_RULE}")
    try:
        return name_of(value)
    except ValueError:
        raise ValueError(f"is {abbreviate(value)}; {_ID_RULE}") from None


def names_of(value: Any) -> tuple[str, ...]:
    """Return the distinct names of a label or of several; those that are missing are left out.

    The names of a set are sorted.

    Raises:
        ValueError: if the value, or one of several, has no name (:func:`name_of`).
    """
    if hasattr(value, "tolist") and getattr(value, "shape", ()) != ():
        value = value.tolist()
    if not isinstance(value, SEVERAL):
        name = name_of(value)
        return () if name is None else (name,)
    names = [name for item in value if (name := name_of(item)) is not None]
    return tuple(dict.fromkeys(sorted(names) if isinstance(value, set | frozenset) else names))


def _is_whole(value: Any) -> bool:
    """Return whether a value is an integer, or a number without a fraction."""
    if _is_fraction(value):
        return math.isfinite(value) and bool(value == int(value))
    return hasattr(value, "__index__") and not hasattr(value, "__len__")


def _is_fraction(value: Any) -> bool:
    """Return whether a value is a float of Python or numpy, or a decimal."""
    return isinstance(value, float | Decimal) or type(value).__name__.startswith("float")
