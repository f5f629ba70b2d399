"""The distinct codes of a collection, with what a map shows of the documents of each."""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from hummingbit.encoder.codes import Codes, distinct_codes
from hummingbit.foundation.cancellation import check_cancelled
from hummingbit.foundation.errors import InputError, abbreviate
from hummingbit.index.backend import CollectionBackend
from hummingbit.index.filters import json_number, read_field

# The distinct codes of a collection, with statistics of the documents of each.


Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

UNLABELLED = -1
ROWS_AT_ONCE = 1 << 16


class DistinctCodes(NamedTuple):
    """The D distinct codes of N documents, in ascending order of their bytes."""

    codes: Codes
    """``uint8[D, C]``."""
    code_of: npt.NDArray[np.intp]
    """``intp[N]``: the code of each document, as an index of `codes`."""

    @classmethod
    def of(cls, codes: Codes) -> Self:
        """Find the distinct ones of the documents' `codes`, ``uint8[N, C]``."""
        check_cancelled()
        return cls(*distinct_codes(codes))


@dataclass(frozen=True, slots=True)
class CodeTable:
    """The D distinct codes of N documents, in ascending order of their bytes.

    A document with several labels counts for each of them.
    """

    generation: int
    codes: Codes
    """``uint8[D, C]``."""
    documents: Integers
    """``int64[D]``: the number of documents with each code."""
    age: Floats
    """``float64[D]``: the mean position of the code's documents in the order of insertion, 0 to 1.
    """
    labels: tuple[str, ...]
    """All labels, by frequency descending, then by name."""
    label: Integers
    """``int64[D]``: the most frequent label of the code's documents, as an index of `labels`."""
    labelled: Integers
    """``int64[D]``: the number of the code's documents with a label."""
    purity: Floats
    """``float64[D]``: the share of these with `label`; NaN if there are none."""
    label_documents: Integers
    """``int64[L]``: the number of documents with each label."""


def code_table(collection: CollectionBackend, label_field: str = "label") -> CodeTable:
    """Read a collection and group its documents by their codes.

    Raises:
        InputError: if the field holds something that is no label in some document.
    """
    generation = collection.generation
    codes, labels = collection.labelled_codes(label_field)
    return table_of(DistinctCodes.of(codes), labels, generation)


def table_of(
    distinct: DistinctCodes, labels: Sequence[Sequence[str]], generation: int = 0
) -> CodeTable:
    """Group documents by their codes; `labels` has those of each document."""
    codes, code_of = distinct
    n = len(code_of)
    documents = np.bincount(code_of, minlength=len(codes)).astype(np.int64)
    age = np.bincount(code_of, np.arange(n) / max(n - 1, 1), len(codes)) / documents
    names, pairs = _pairs(labels, code_of)
    check_cancelled()
    label, most, labelled, label_documents = _majorities(pairs, len(names), len(codes))
    order = sorted(
        range(len(names)), key=lambda position: (-label_documents[position], names[position])
    )
    positions = np.empty(len(names) + 1, dtype=np.int64)
    positions[order] = np.arange(len(names))
    positions[UNLABELLED] = UNLABELLED
    with np.errstate(invalid="ignore"):
        purity = most / np.where(labelled > 0, labelled, np.nan)
    return CodeTable(
        generation=generation,
        codes=codes,
        documents=documents,
        age=age,
        labels=tuple(names[position] for position in order),
        label=positions[label],
        labelled=labelled,
        purity=purity,
        label_documents=label_documents[order],
    )


def _pairs(
    labels: Sequence[Sequence[str]], code_of: npt.NDArray[np.intp]
) -> tuple[list[str], tuple[Integers, Integers, Integers]]:
    """Return the names of labels; and code, label and document of each (document, label)."""
    numbers: dict[str, int] = {}
    # Lists of a million numbers would be freed, and converted, without a break.
    rows, label_numbers = array("q"), array("q")
    for row, of_one in enumerate(labels):
        if not row % ROWS_AT_ONCE:
            check_cancelled()
        for name in dict.fromkeys(of_one):
            rows.append(row)
            label_numbers.append(numbers.setdefault(name, len(numbers)))
    documents = np.frombuffer(rows, dtype=np.int64)
    of_pairs = np.frombuffer(label_numbers, dtype=np.int64)
    return list(numbers), (code_of[documents].astype(np.int64), of_pairs, documents)


def _majorities(
    pairs: tuple[Integers, Integers, Integers], n_labels: int, n_codes: int
) -> tuple[Any, Any, Any, Any]:
    """Return the majority label of each code, how many documents have it, and how many any."""
    codes, labels, documents = pairs
    label = np.full(n_codes, UNLABELLED, dtype=np.int64)
    most = np.zeros(n_codes, dtype=np.int64)
    first = np.flatnonzero(np.diff(documents, prepend=-1))
    labelled = np.bincount(codes[first], minlength=n_codes)
    keys, counts = np.unique(codes * max(n_labels, 1) + labels, return_counts=True)
    code, name = np.divmod(keys, max(n_labels, 1))
    # The last assignment wins: the highest count, and among equal counts the label seen first.
    order = np.lexsort((-name, counts))
    label[code[order]] = name[order]
    most[code[order]] = counts[order]
    return label, most, labelled, np.bincount(labels, minlength=n_labels)


# When the documents of each code are of: a payload field of numbers or of dates, as a scale.


Kind = Literal["number", "date"]

NUMBER: Kind = "number"
DATE: Kind = "date"
# A single wrong date must not squeeze all others into one colour.
OUTSIDE = 0.01
VALUES_AT_ONCE = 1 << 14
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
    position: Floats
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
        if not row % VALUES_AT_ONCE:
            check_cancelled()
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
    position = np.full(n_codes, np.nan)
    np.divide(total, documents, out=position, where=documents > 0)
    bounds = (float(start), float(end), float(least), float(most))
    return CodeTimes(kinds.pop(), *bounds, int(known.sum()), position)


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
