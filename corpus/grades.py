"""How well a document answers a query, or a label fits it, as a whole number."""

from __future__ import annotations

from hummingbit.foundation.errors import InputError, abbreviate

MAX_GRADE = 1000
"""The greatest grade; the least is minus it."""


def check_grade(grade: object, least: int = -MAX_GRADE) -> int:
    """Return a grade; a whole number of numpy becomes an int.

    Raises:
        InputError: unless it is a whole number from `least` to :data:`MAX_GRADE`.
    """
    # numpy's integers have __index__, and so does its bool, which is no grade.
    is_whole = hasattr(grade, "__index__") and not type(grade).__name__.startswith("bool")
    number = grade.__index__() if is_whole else None  # type: ignore[attr-defined]
    if number is None or not least <= number <= MAX_GRADE:
        rule = f"it must be a whole number from {least:,} to {MAX_GRADE:,}"
        raise InputError("grade", f"is {abbreviate(grade)}; {rule}")
    return int(number)
