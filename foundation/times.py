"""The time, as everything that this application writes holds it."""

from __future__ import annotations

from datetime import UTC, datetime


def now(timespec: str = "milliseconds") -> str:
    """Return the time in UTC as ISO 8601; `timespec` is the precision."""
    return datetime.now(UTC).isoformat(timespec=timespec)
