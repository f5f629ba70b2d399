from __future__ import annotations

from collections import defaultdict
from statistics import mean
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hummingbit.foundation.errors import InputError
from hummingbit.index.maps import DistinctCodes, code_times

DOCUMENTS = st.lists(
    st.tuples(st.binary(min_size=1, max_size=1), st.none() | st.integers(-1000, 1000)),
    min_size=1,
    max_size=30,
)


def distinct(codes: list[bytes]) -> DistinctCodes:
    return DistinctCodes.of(np.frombuffer(b"".join(codes), np.uint8).reshape(-1, 1))


@given(DOCUMENTS.filter(lambda some: any(value is not None for _, value in some)))
def test_codes_lie_where_their_documents_do(documents: list[tuple[bytes, int | None]]) -> None:
    payloads = [{} if value is None else {"year": value} for _, value in documents]
    found = code_times(distinct([code for code, _ in documents]), payloads, "year")
    values = [value for _, value in documents if value is not None]
    # Of less than fifty values, a hundredth is none.
    assert (found.start, found.end) == (found.least, found.most) == (min(values), max(values))
    assert (found.kind, found.documents) == ("number", len(values))
    width = max(values) - min(values) or 1
    of_code: dict[bytes, list[float]] = defaultdict(list)
    for code, value in documents:
        of_code[code] += [] if value is None else [(value - min(values)) / width]
    expected = [mean(of_code[code]) if of_code[code] else np.nan for code in sorted(of_code)]
    np.testing.assert_allclose(found.position, expected)


def test_a_hundredth_lies_outside_the_scale() -> None:
    years = [0, *range(1900, 2100), 9999]
    codes = distinct([bytes([at]) for at in range(101)] * 2)
    found = code_times(codes, [{"year": year} for year in years], "year")
    assert (found.least, found.start, found.end, found.most) == (0, 1901, 2098, 9999)
    assert found.position.min() >= 0
    assert found.position.max() <= 1


def test_of_values_that_are_nearly_all_alike_the_scale_is_the_whole_width() -> None:
    found = code_times(
        distinct([b"a"] * 999 + [b"b"]), [{"n": int(at == 999)} for at in range(1000)], "n"
    )
    assert (found.start, found.end) == (0, 1)
    assert found.position.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970", 0),
        ("1970-02", 31 * 86400),
        ("1970-01-02", 86400),
        ("1970-01-01T01:00:00", 3600),
        ("1970-01-01T01:00:00.75Z", 3600),
        ("1970-01-01T01:00:00+01:00", 0),
        ("0001-01-01", -62135596800),
        ("9999-12-31T23:59:59.999999", 253402300799),
    ],
)
def test_dates_are_read(text: str, seconds: int) -> None:
    found = code_times(distinct([b"a"]), [{"when": text}], "when")
    assert (found.kind, found.least, found.most) == ("date", seconds, seconds)


@pytest.mark.parametrize(
    "value",
    [
        True,
        "",
        "soon",
        "99",
        "1999-13",
        "0001-01-01T00:00:00+14:00",
        [1],
        {},
        10**400,
        float("nan"),
    ],
)
def test_what_is_no_time_is_refused(value: Any) -> None:
    with pytest.raises(InputError, match="it must hold numbers, or dates such as"):
        code_times(distinct([b"a", b"b"]), [{"when": 1}, {"when": value}], "when")


def test_numbers_of_any_size_have_a_position() -> None:
    found = code_times(
        distinct([b"a", b"b", b"c"]), [{"n": -1.7e308}, {"n": 0}, {"n": 1.7e308}], "n"
    )
    assert found.position.tolist() == [0, 0.5, 1]
