"""The header ``Min-Generation``: a client asks for an answer of that generation, or a later one."""

from __future__ import annotations

from service.http.problems import ProblemError
from service.http.refusals import Headers

MIN_GENERATION = b"min-generation"
MAX_DIGITS = 18


def least_generation(headers: Headers) -> int | None:
    """Return the generation that is asked for, 0 without the header; None if it names none."""
    given = headers.get(MIN_GENERATION, b"0")
    return int(given) if given.isdigit() and len(given) <= MAX_DIGITS else None


def no_generation(headers: Headers) -> ProblemError:
    """Return the problem of a request whose header names no generation."""
    given = headers[MIN_GENERATION][:40].decode("latin-1")
    taken = f"the number of a generation is taken, of at most {MAX_DIGITS} digits"
    return ProblemError(422, "invalid_request", f"Min-Generation is {given!a}; only {taken}")
