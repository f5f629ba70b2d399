"""The header ``Min-Generation``: the response must reflect that generation or a later one."""

from __future__ import annotations

from service.http.problems import ProblemError
from service.http.refusals import Headers

MIN_GENERATION = b"min-generation"
MAX_DIGITS = 18


def min_generation(headers: Headers) -> int | None:
    """Return the value of the header, 0 without it, or None if it is not a generation."""
    value = headers.get(MIN_GENERATION, b"0")
    return int(value) if value.isdigit() and len(value) <= MAX_DIGITS else None


def invalid_generation(headers: Headers) -> ProblemError:
    """Return the problem, 422, of a request whose header is not a generation."""
    value = headers[MIN_GENERATION][:40].decode("latin-1")
    rule = f"it must be a whole number of at most {MAX_DIGITS} digits"
    return ProblemError(422, "invalid_request", f"Min-Generation is {value!r}; {rule}")
