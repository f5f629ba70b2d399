from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hummingbit.foundation.quick_json import Unsure, parse_lines_quickly, parse_quickly

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**62), 2**62)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"), max_size=20)
    | st.sampled_from(['a": ', "1:2", "{", "9" * 30])
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=12,
)


def strict(raw: bytes) -> Any:
    """Parse as Python does; refuse what is no JSON or gives a key twice."""

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(found)) != len(found):
            raise ValueError("twice")
        return dict(found)

    def refuse(name: str) -> None:
        raise ValueError(name)

    return json.loads(raw, object_pairs_hook=pairs, parse_constant=refuse)


@given(values, st.booleans(), st.sampled_from([None, 2]))
def test_what_is_parsed_is_what_python_parses(
    value: object, ascii_only: bool, indent: int | None
) -> None:
    raw = json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode("utf-8", "surrogatepass")
    try:
        found = parse_quickly(raw)
    except Unsure:
        return
    assert repr(found) == repr(strict(raw))


@given(st.lists(st.sampled_from([*'{}[]:,"ab0129.-e \\', '"a":', "NaN", "true"]), max_size=12))
def test_broken_json_is_never_taken_for_something(parts: list[str]) -> None:
    raw = "".join(parts).encode()
    try:
        found = parse_quickly(raw)
    except Unsure:
        return
    assert repr(found) == repr(strict(raw))


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"NaN",
        b'{"a": Infinity}',
        b'{"a": 1, "a": 2}',
        b'{"b": {"a": 1, "a": 2}}',
        b'{"b": [0, {"a": 1, "a" :2}]}',
        b'{"a": 18446744073709551616}',
        b"123456789012345678901",
        b"-9223372036854775809",
        b'{"a": 1e999}',
        b'{"a": "\xff"}',
        b'{"a": "\\ud800"}',
    ],
)
def test_what_the_two_parsers_may_see_otherwise_is_left_to_python(raw: bytes) -> None:
    with pytest.raises(Unsure):
        parse_quickly(raw)


@pytest.mark.parametrize(
    "raw",
    [
        b'{"id": "a", "text": "at 9:30", "payload": {"x": {"y": [1, 2]}}}',
        b'{"vector": [0.0010235414534288639, -1.5e-7, 3]}',
        b'{"list": [{"a": 1}, {"a": 2}]}\n',
    ],
)
def test_the_usual_is_parsed(raw: bytes) -> None:
    assert parse_quickly(raw) == json.loads(raw)


@given(st.lists(values, max_size=5), st.sampled_from([(", ", ": "), (",", ":"), (" ,", "\t:")]))
def test_lines_are_what_they_are_one_by_one(
    some: list[object], separators: tuple[str, str]
) -> None:
    lines = [json.dumps(item, separators=separators).encode() for item in some]
    try:
        found = parse_lines_quickly(lines)
    except Unsure:
        return
    assert repr(found) == repr([strict(line) for line in lines])


def test_a_repeated_key_is_not_hidden_by_the_colons_of_other_lines() -> None:
    for other in (b'{"a" :1}', b'{"a":"1:2"}', b'{"a":"\\":"}', b'{"a":"\\" :"}', b'":"'):
        for lines in ([b'{"a":1,"a":2}', other], [other, b'{"a":1,"a" :2}']):
            with pytest.raises(Unsure):
                parse_lines_quickly(lines)


def test_colons_in_strings_are_no_keys() -> None:
    lines = [b'{"id": "a", "text": "at 9:30"}', b'{"id": "b", "text": "he said: \\"so\\""}']
    assert parse_lines_quickly(lines) == [json.loads(line) for line in lines]
