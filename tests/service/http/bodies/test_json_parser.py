from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hummingbit.service.http.bodies import parse_json, parse_short_json
from hummingbit.service.http.problems import ProblemError

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
    | st.sampled_from(['"', "\\", '\\"', "[", "}]", ",,", ":", '",', "ü", "\n"])
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=5), inner, max_size=6)
    ),
    max_leaves=30,
)


def outcome(raw: bytes, size: int) -> Any:
    """Return what is parsed, or the status of the problem."""
    try:
        return parse_json(raw, 96, size=size)
    except ProblemError as problem:
        return problem.status_code, problem.code


@settings(max_examples=150)
@given(
    value=values,
    indent=st.none() | st.integers(0, 3),
    ascii_=st.booleans(),
    size=st.integers(1, 40),
)
@example(value={}, indent=None, ascii_=True, size=1)
@example(value=[], indent=None, ascii_=True, size=1)
@example(value=[[]], indent=2, ascii_=True, size=1)
@example(value={"a": {}, "b": []}, indent=1, ascii_=True, size=2)
def test_slices_are_the_whole(value: Any, indent: int | None, ascii_: bool, size: int) -> None:
    raw = json.dumps(value, indent=indent, ensure_ascii=ascii_).encode()
    assert parse_json(raw, 96, size=size) == value


@settings(max_examples=400)
@given(
    value=values,
    place=st.integers(0, 200),
    mark=st.sampled_from(
        ["", ",", '"', "[", "]", "{", "}", ":", "\\", "0", " ", "][", "NaN", "\0"]
    ),
    cut=st.integers(0, 2),
    size=st.integers(1, 30),
)
@example(value=[1], place=2, mark=",", cut=0, size=1)
@example(value=[1, 2], place=2, mark=",", cut=0, size=1)
@example(value={"a": [1, 2]}, place=5, mark="0", cut=0, size=1)
@example(value={"a": [1, 2]}, place=4, mark="1,", cut=0, size=1)
def test_slices_of_what_is_no_json(value: Any, place: int, mark: str, cut: int, size: int) -> None:
    text = json.dumps(value)
    raw = (text[:place] + mark + text[place + cut :]).encode()
    assert outcome(raw, size) == outcome(raw, 1 << 20)


@pytest.mark.parametrize("size", [1, 10, 1 << 20])
def test_the_place_of_an_error(size: int) -> None:
    raw = '{"ä": [1,\n  2, x, 3], "b": 2}'.encode()
    with pytest.raises(ProblemError, match=r"Expecting value \(line 2, column 6\)"):
        parse_json(raw, 96, size=size)
    with pytest.raises(ProblemError, match="byte 8 is not UTF-8"):
        parse_json(b'{"a": ["\xff", 1, 2, 3, 4]}', 96, size=size)
    with pytest.raises(ProblemError, match="'a' is given twice"):
        parse_json(b'{"a": 1, "b": 2, "a": [1, 2, 3, 4, 5, 6, 7]}', 96, size=size)
    with pytest.raises(ProblemError, match="more than 3 levels"):
        parse_json(b'{"a": [[["[[["]]]}', 3, size=size)
    assert parse_json(b'{"a": [["[[["]]}', 3, size=size) == {"a": [["[[["]]}


def test_lists_that_are_too_long_are_refused_before_they_are_parsed() -> None:
    raw = b'{"a": [1, 2, 3], "b": [' + b"x," * 1000 + b"x]}"
    with pytest.raises(ProblemError) as raised:
        parse_json(raw, 96, {"b": 1000}, size=10)
    assert raised.value.errors[0] == {
        "pointer": "/b",
        "message": "has 1,001 entries; at most 1,000 are allowed",
    }
    with pytest.raises(ProblemError, match="Expecting value"):
        parse_json(raw, 96, {"b": 1001}, size=10)


def test_a_long_text_of_every_kind() -> None:
    n = 300_000
    for value in (
        [0] * n,
        {"a": [[i] for i in range(n // 10)], "b": "x" * n},
        {str(i): i for i in range(n // 10)},
        {"documents": [{"id": str(i), "vector": [0.5] * 1000} for i in range(50)]},
        {"vector": [0.25] * n},
        ["\\" * n, '"' * n],
        "x" * n,
    ):
        assert parse_json(json.dumps(value).encode(), 96) == value


@settings(max_examples=200)
@given(
    value=values,
    place=st.integers(0, 100),
    mark=st.sampled_from(
        ["", ",", '"', "]", "}", '"a":1,"a":2', "NaN", "1e999", "\\ud800", "0" * 25]
    ),
    cut=st.integers(0, 2),
    depth=st.integers(1, 6),
)
def test_short_texts_are_parsed_as_any(
    value: Any, place: int, mark: str, cut: int, depth: int
) -> None:
    text = json.dumps(value)
    raw = (text[:place] + mark + text[place + cut :]).encode()
    found: list[object] = []
    for parse in (parse_json, parse_short_json):
        try:
            found.append(repr(parse(raw, depth)))
        except ProblemError as problem:
            found.append((problem.status_code, problem.code, problem.detail))
    assert found[0] == found[1]


@pytest.mark.parametrize("size", [4, 1 << 16])
def test_a_byte_order_mark_is_ignored(size: int) -> None:
    raw = b'\xef\xbb\xbf{"text": "\xc3\xa9", "limit": [1, 2, 3]}'
    expected = {"text": "é", "limit": [1, 2, 3]}
    assert parse_json(raw, 4, size=size) == expected
    assert parse_short_json(raw, 4) == expected
    with pytest.raises(ProblemError, match="line 1, column 1"):
        parse_json(b"\xef\xbb\xbf" + raw, 4)
