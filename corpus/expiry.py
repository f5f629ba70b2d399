"""When documents expire: the payload field that says so, and how requests give the time.

The time is in the payload, as :data:`EXPIRES_AT`, so it is wherever the payload is: in the store
under the document's checksum, in exports, snapshots and copies.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from hummingbit.foundation.errors import InputError, abbreviate

EXPIRES_AT = "_expires_at"
"""The field of a payload that holds the time of ISO 8601 at which the document expires."""
EXPIRY_FIELDS = ("expires_at", "ttl_seconds")
"""The fields of a document, or of a payload update, that set it."""
MAX_TTL = 10.0**10
_RULE = "it must be a time of ISO 8601, such as 2027-01-31T12:00:00Z, or seconds since 1970"


@lru_cache(maxsize=1 << 14)
def _seconds_of_text(text: str) -> float | None:
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        return None
    instant = instant if instant.tzinfo is not None else instant.replace(tzinfo=UTC)
    return instant.timestamp()


def seconds_of(value: object) -> float | None:
    """Return a time as seconds since 1970 in UTC; one without a zone is in UTC.

    It is a text of ISO 8601 or a number of such seconds; of anything else, return None.
    """
    if isinstance(value, str):
        return _seconds_of_text(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) <= MAX_TTL else None


def expiry_of(payload: Mapping[str, Any]) -> float | None:
    """Return when a document with the payload expires, in seconds since 1970; None if never."""
    return seconds_of(payload.get(EXPIRES_AT))


def check_expiry(payload: Mapping[str, Any]) -> None:
    """Raise InputError for ``payload`` unless its :data:`EXPIRES_AT` is a time, null or absent."""
    value = payload.get(EXPIRES_AT)
    if value is not None and seconds_of(value) is None:
        raise InputError("payload", f"has {EXPIRES_AT} {abbreviate(value)}; {_RULE}")


def read_expiry(expires_at: object, ttl_seconds: object) -> str | None:
    """Return the time that a request gives, as payloads hold it; None if it gives none.

    Raises:
        InputError: if one of them is invalid, or both are given.
    """
    if ttl_seconds is None and expires_at is None:
        return None
    if ttl_seconds is None:
        seconds = seconds_of(expires_at)
        if seconds is None:
            raise InputError("expires_at", f"is {abbreviate(expires_at)}; {_RULE}")
    else:
        if expires_at is not None:
            raise InputError("ttl_seconds", "is given beside expires_at; give one of them")
        seconds = time.time() + check_ttl(ttl_seconds)
    try:
        instant = datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        raise InputError("expires_at", f"is {abbreviate(expires_at)}; {_RULE}") from None
    return instant.isoformat().replace("+00:00", "Z")


def check_ttl(value: object) -> float:
    """Return a time to live in seconds.

    Raises:
        InputError: unless it is a number above 0.
    """
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or not 0 < value <= MAX_TTL:  # type: ignore[operator, arg-type]
        rule = f"it must be a number of seconds above 0, {MAX_TTL:,.0f} at most"
        raise InputError("ttl_seconds", f"is {abbreviate(value)}; {rule}")
    return float(value)  # type: ignore[arg-type]
