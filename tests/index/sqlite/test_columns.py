"""Columns of payload fields, brought up to date, packed and cut, against the payloads."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hummingbit.index.filters import MAX_STRING_LENGTH, AnyOf, Filter, HasText, InRange, fields_of
from hummingbit.index.store.columns import (
    FIRST_CELL,
    FIRST_NUMBER,
    Column,
    ColumnReader,
    TooManyValuesError,
)
from hummingbit.index.store.fields import Evaluation, read_columns
from tests.support.columns import database_of
from tests.support.oracles.filters import NAMES, PAYLOADS

FIELDS = st.sampled_from([*NAMES, "a", "b", "a.b"])
TIMES = ["2024-05-01", "2024-05-01T00:00Z", "2024-05-01T02:00:00+02:00", "2024-05-02", "2024"]
VALUES = st.one_of(
    st.sampled_from([*TIMES, "a", "b", "", 2**53 + 1, 2.0**53, 1, True, None, [1, "a"], []]),
    st.floats(allow_nan=False, allow_infinity=False),
)


def column_of(field: str, payloads: list[dict[str, Any]], first_row: int = 1) -> Column:
    reader = ColumnReader(field, first_row + len(payloads) - 1)
    reader.add([*range(first_row, first_row + len(payloads))], payloads)
    return reader.column(1)


def holds(column: Column) -> list[Any]:
    """Return what each document holds, as a list of the kind and the value of each entry."""
    cells = column.cells[1:].tolist()
    entries: dict[int, list[Any]] = {}
    for owner, code in zip(column.owners.tolist(), column.codes.tolist(), strict=True):
        value = column.values.value(code) if code >= FIRST_NUMBER else code
        entries.setdefault(owner, []).append((code >= FIRST_NUMBER, repr(value)))
    return [cell if cell < FIRST_CELL else sorted(entries.get(cell, [])) for cell in cells]


@given(st.data(), st.sampled_from(["a", "a.b"]))
def test_a_column_that_was_brought_up_to_date_is_the_one_of_all_payloads(
    data: st.DataObject, field: str
) -> None:
    own = st.fixed_dictionaries({}, optional={"a": VALUES | st.fixed_dictionaries({"b": VALUES})})
    payloads = data.draw(st.lists(own | PAYLOADS, max_size=6))
    column = column_of(field, payloads)
    for _ in range(data.draw(st.integers(1, 3))):
        changes = {}
        if payloads:
            rows = st.integers(0, len(payloads) - 1)
            changes = data.draw(st.dictionaries(rows, own, max_size=3))
        for at, payload in changes.items():
            payloads[at] = payload
        added = data.draw(st.lists(own, max_size=3))
        payloads += added
        reader = ColumnReader(field, len(payloads))
        reader.add([at + 1 for at in changes], [*changes.values()])
        reader.add([*range(len(payloads) - len(added) + 1, len(payloads) + 1)], added)
        column = column.updated(reader.column(column.generation + 1))
    whole = column_of(field, payloads)
    assert holds(column) == holds(whole)
    unpacked = Column.unpack(field, 7, column.pack())
    assert holds(unpacked) == holds(column)
    assert column.agrees_with(whole)
    assert unpacked.agrees_with(column)
    other = column_of(field, [*payloads[:-1], {"a": {"b": "changed"}}])
    assert column.agrees_with(other) == (holds(column) == holds(other))


@pytest.mark.parametrize("at", [0, 3, 4, 100, -1])
def test_a_packed_column_that_is_damaged_is_refused(at: int) -> None:
    packed = bytearray(column_of("a", [{"a": n} for n in range(50)]).pack())
    packed[at] ^= 4
    with pytest.raises(ValueError, match="checksum"):
        Column.unpack("a", 1, bytes(packed))
    with pytest.raises(ValueError, match="checksum"):
        Column.unpack("a", 1, b"")


@given(st.lists(PAYLOADS, max_size=6), FIELDS)
@example([{"a": [True, 1, "2024-05-01", "2024-05-01T00:00Z"]}], "a")
def test_positions_and_the_keys_of_positions_fit(
    payloads: list[dict[str, Any]], field: str
) -> None:
    column = column_of(field, payloads)
    rows = np.arange(1, len(payloads) + 1)
    for descending in (False, True):
        for position in column.positions(rows, descending=descending).tolist():
            key = column.key_at(position, descending=descending)
            assert column.position_of(key, descending=descending) == position


def test_of_long_strings_only_what_filters_look_at_is_kept() -> None:
    longest = "x" * MAX_STRING_LENGTH
    strings = [longest[:-1], longest, longest + "\0", longest + "a", longest + "b" * 10**5, "y"]
    payloads: list[dict[str, Any]] = [
        {"a": string} for string in [*strings, strings, [strings[4]], [7]]
    ]
    filters: list[Filter] = [
        AnyOf("a", (longest,)),
        InRange("a", gt=longest),
        InRange("a", lte=longest),
        HasText("a", longest, is_prefix=True),
        HasText("a", "bbb"),
        # No request may name longer ones, but a caller of the library can.
        AnyOf("a", (strings[4],)),
        InRange("a", gt=strings[3]),
        HasText("a", longest + "b", is_prefix=True),
    ]
    with closing(database_of(payloads)) as connection:
        (column,) = read_columns(connection, ["a"])
        assert len(column.pack()) < 12 * MAX_STRING_LENGTH
        for filter_ in filters:
            found = Evaluation(connection, {"a": column}).mask(filter_).nonzero()[0].tolist()
            assert fields_of(filter_) == {"a"}
            assert found == [
                row for row, payload in enumerate(payloads, 1) if filter_.matches(payload)
            ]


def test_a_column_of_too_many_long_values_is_refused() -> None:
    reader = ColumnReader("a", 100, most_bytes=5000)
    reader.add([1, 2], [{"a": "x" * 1000}, {"a": "y" * 1000}])
    reader.add([3], [{"a": "x" * 1000}])
    with pytest.raises(TooManyValuesError, match="'a' holds too many different long values"):
        reader.add([4, 5], [{"a": "z" * 2000}, {"a": ["w" * 2000]}])
