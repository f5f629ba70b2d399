"""When the documents of each code are of: a payload field of numbers or of dates, as a scale."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from foundation.errors import InputError, abbreviate
from foundation.slices import checkpoint
from index.bulk.code_table import DistinctCodes
from index.filters import json_number, read_field

Numbers = npt.NDArray[np.float64]
Kind = Literal["number", "date"]

NUMBER: Kind = "number"
DATE: Kind = "date"
# A single wrong date must not squeeze all others into one colour.
OUTSIDE = 0.01
ROWS_AT_ONCE = 1 << 14
_YEAR, _MONTH = re.compile(r"\d{4}", re.ASCII), re.compile(r"\d{4}-\d{2}", re.ASCII)


@dataclass(frozen=True, slots=True)
class CodeTimes:
    """The values of a field, and where those of each code's documents lie between two of them.

    Dates are seconds since 1970 in UTC. A hundredth of the documents lies before `start`, another
    after `end`; if the two would be equal, they are the `least` and the `most` of all.
    """

    kind: Kind
    start: float
    end: float
    least: float
    most: float
    documents: int
    """How many documents have a value."""
    place: Numbers
    """``float64[D]``, codes in ascending order of their bytes: the mean over a code's documents, 0
    at `start` or before it, 1 at `end` or after; NaN where no document has a value."""


def code_times(
    distinct: DistinctCodes, payloads: Sequence[Mapping[str, Any]], field: str
) -> CodeTimes:
    """Place the values of `field` in the documents' payloads on a scale, for each distinct code.

    A value is a number, or a date as ISO 8601 writes it, from ``1999`` to
    ``1999-12-31T23:59:59+01:00``; one without a zone is taken as UTC. Dots in `field` reach into
    nested objects. An absent field or null is no value.

    Raises:
        InputError: if no document has a value, one holds anything else, or the field holds numbers
            and dates.
    """
    values = np.full(len(payloads), np.nan)
    kinds: set[Kind] = set()
    for row, payload in enumerate(payloads):
        if not row % ROWS_AT_ONCE:
            checkpoint()
        value = read_field(payload, field)
        if value is not None:
            kind, values[row] = _read(value, field)
            kinds.add(kind)
    if not kinds:
        raise InputError("time_field", f"{field!r} is in no document's payload")
    if len(kinds) > 1:
        raise InputError("time_field", f"{field!r} holds both numbers and dates; one is needed")
    known = np.isfinite(values)
    start, end = np.quantile(values[known], [OUTSIDE, 1 - OUTSIDE], method="nearest")
    least, most = values[known].min(), values[known].max()
    if start == end:
        start, end = least, most
    # Halves, because the whole width can exceed what a float holds.
    width = end / 2 - start / 2
    placed = np.clip((values[known] / 2 - start / 2) / (width or 1.0), 0, 1)
    n_codes, code_of = len(distinct.codes), distinct.code_of[known]
    documents = np.bincount(code_of, minlength=n_codes)
    total = np.bincount(code_of, placed, n_codes)
    place = np.full(n_codes, np.nan)
    np.divide(total, documents, out=place, where=documents > 0)
    bounds = (float(start), float(end), float(least), float(most))
    return CodeTimes(kinds.pop(), *bounds, int(known.sum()), place)


def _read(value: object, field: str) -> tuple[Kind, float]:
    if isinstance(value, int | float) and not isinstance(value, bool):
        number = float(json_number(value) if isinstance(value, int) else value)
        if math.isfinite(number):
            return NUMBER, number
    elif isinstance(value, str):
        try:
            return DATE, _seconds(value)
        except (ValueError, OverflowError):
            pass  # reported below, as every other value that is neither
    rule = "it must hold numbers, or dates such as 1999, 1999-12-31 or 1999-12-31T12:00:00Z"
    raise InputError("time_field", f"{field!r} is {abbreviate(value)} in some document; {rule}")


def _seconds(text: str) -> float:
    """Return the whole seconds since 1970 of a date.

    Raises:
        ValueError: if it is none.
        OverflowError: if its zone takes it out of the years 1 to 9999.
    """
    if _YEAR.fullmatch(text):
        text += "-01-01"
    elif _MONTH.fullmatch(text):
        text += "-01"
    moment = datetime.fromisoformat(text).replace(microsecond=0)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return moment.astimezone(UTC).timestamp()
