from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hummingbit.service.http.bodies import MAX_CONTAINERS, MAX_VALUES, parse_json
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


def strict(raw: bytes) -> Any:
    """Return what Python's parser finds, or None for what is no JSON or gives a key twice."""

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(found)) != len(found):
            raise ValueError("twice")
        return dict(found)

    def refuse(name: str) -> None:
        raise ValueError(name)

    try:
        return [json.loads(raw.decode(), object_pairs_hook=pairs, parse_constant=refuse)]
    except ValueError:
        return None


@given(value=values, indent=st.none() | st.integers(0, 3), ascii_=st.booleans())
def test_what_is_written_is_read(value: Any, indent: int | None, ascii_: bool) -> None:
    raw = json.dumps(value, indent=indent, ensure_ascii=ascii_).encode()
    assert repr(parse_json(raw)) == repr(value)


MARKS = [*'",[]{}:\\0 \0', "", "][", "NaN", '"a":1,"a":2', "1e999", "\\ud800", "0" * 25]


@settings(max_examples=400)
@given(
    value=values,
    place=st.integers(0, 200),
    mark=st.sampled_from(MARKS),
    cut=st.integers(0, 2),
)
def test_what_is_no_json_is_refused(value: Any, place: int, mark: str, cut: int) -> None:
    text = json.dumps(value)
    raw = (text[:place] + mark + text[place + cut :]).encode()
    expected = strict(raw)
    if expected is None:
        with pytest.raises(ProblemError, match="the body cannot be read as JSON"):
            parse_json(raw)
    else:
        assert repr([parse_json(raw)]) == repr(expected)


def test_the_place_of_an_error() -> None:
    raw = '{"ä": [1,\n  2, x, 3], "b": 2}'.encode()
    with pytest.raises(ProblemError, match=r"Expecting value \(line 2, column 6\)"):
        parse_json(raw)
    with pytest.raises(ProblemError, match="byte 8 is not UTF-8"):
        parse_json(b'{"a": ["\xff", 1, 2, 3, 4]}')
    with pytest.raises(ProblemError, match="'a' is given twice"):
        parse_json(b'{"a": 1, "b": 2, "a": [1, 2, 3, 4, 5, 6, 7]}')


@pytest.mark.parametrize("depth", [100, 900, 1010, 1500, 100_000])
def test_deep_nesting_is_read_or_refused(depth: int) -> None:
    for opening, inside, closing in (("[", "", "]"), ('{"a":', "1", "}"), ("[0,", "1", "]")):
        raw = (opening * depth + inside + closing * depth).encode()
        if depth == 100:
            parse_json(raw)
        else:
            with suppress(ProblemError):
                parse_json(raw)


def test_a_body_of_very_many_values_is_refused() -> None:
    few = b"[" + b",".join([b"[0]"] * (MAX_CONTAINERS // 2)) + b"]"
    assert len(parse_json(few)) == MAX_CONTAINERS // 2
    for raw in (
        b"[" + b",".join([b"[]"] * (MAX_CONTAINERS + 1)) + b"]",
        b"[" + b",".join([b"0"] * (MAX_VALUES + 2)) + b"]",
    ):
        with pytest.raises(ProblemError, match="the limit is"):
            parse_json(raw)


def test_a_byte_order_mark_is_ignored() -> None:
    raw = b'\xef\xbb\xbf{"text": "\xc3\xa9", "limit": [1, 2, 3]}'
    assert parse_json(raw) == {"text": "é", "limit": [1, 2, 3]}
    with pytest.raises(ProblemError, match="line 1, column 1"):
        parse_json(b"\xef\xbb\xbf" + raw)
