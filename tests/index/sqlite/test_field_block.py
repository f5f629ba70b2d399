"""Packed values of a field, against what filters mean."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from hummingbit.index.filters import fields_of, is_indexable, parse_filter, read_field
from hummingbit.index.schema import payload_to_json
from hummingbit.index.store.fields import matching_offsets, pack_field, unpack_field
from tests.support.oracles.filters import FILTERS, PAYLOADS


@given(st.lists(PAYLOADS, max_size=8), FILTERS, st.integers(0, 3), st.integers(1, 3))
@example([{"a": True}, {"a": 1}, {"a": 1.0}, {"a": [False, 0]}], {"field": "a", "eq": 1}, 0, 1)
@example([{"a": 2**63}, {"a": 2**64 + 1}, {"a": 2.0**64}], {"field": "a", "gt": 2**63 - 1}, 0, 1)
@example([{"a": 2**53 + 1}, {"a": 2.0**53}], {"field": "a", "eq": 2**53 + 1}, 0, 1)
@example([{"a": -0.0}, {"a": 0}, {"a": 10**400}], {"field": "a", "gte": 0}, 2, 2)
@example([{"a": "é\0"}, {"a": "\U0001f600"}, {"a": "\ue000"}], {"field": "a", "gt": "\ue000"}, 0, 1)
def test_packed_values_say_what_the_payloads_say(
    payloads: list[dict[str, Any]], record: Any, first: int, step: int
) -> None:
    filter_ = parse_filter(record)
    assume(is_indexable(filter_))
    read_back = [json.loads(payload_to_json(payload)) for payload in payloads]
    offsets = [first + step * position for position in range(len(payloads))]
    size = first + step * len(payloads) + 1
    blocks = {
        field: unpack_field(pack_field(offsets, [read_field(item, field) for item in read_back]))
        for field in fields_of(filter_)
    }
    expected = [
        offset for offset, item in zip(offsets, read_back, strict=True) if filter_.matches(item)
    ]
    assert matching_offsets(filter_, blocks, size).nonzero()[0].tolist() == expected


@pytest.mark.parametrize("distinct", [250, 260, 70_000])
def test_codes_are_as_wide_as_they_must_be(distinct: int) -> None:
    values = [*range(distinct)] if distinct < 1000 else [[*range(distinct)], 7]
    block = unpack_field(pack_field(range(len(values)), values))
    assert block.codes.itemsize == (1 if distinct == 250 else 2 if distinct == 260 else 4)
    last = parse_filter({"field": "a", "eq": distinct - 1})
    found = matching_offsets(last, {"a": block}, len(values)).nonzero()[0].tolist()
    assert found == [0 if distinct > 1000 else distinct - 1]


def test_many_values_are_looked_up_at_once() -> None:
    block = unpack_field(pack_field(range(100), [f"v{n}" for n in range(100)]))
    wanted = parse_filter({"field": "a", "in": [f"v{n}" for n in range(0, 100, 7)]})
    found = matching_offsets(wanted, {"a": block}, 100).nonzero()[0].tolist()
    assert found == [*range(0, 100, 7)]


@pytest.mark.parametrize("packed", [b"", b"\0" * 10, b"\xff" * 64])
def test_what_was_not_packed_is_refused(packed: bytes) -> None:
    with pytest.raises(ValueError, match=r"short|wide|buffer"):
        unpack_field(packed)
