"""The names that a collection, an encoder or an alias can have."""

from __future__ import annotations

import re

from foundation.errors import InputError

NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
RULE = "1 to 64 of a-z, 0-9, ., _ and -, beginning with a letter or a digit"


def check_name(name: str, field: str = "name", position: int | None = None) -> None:
    """Raise InputError for `field` unless `name` is a valid name."""
    if not NAME.fullmatch(name):
        raise InputError(field, f"is {name[:80]!r}; it must be {RULE}", position)
