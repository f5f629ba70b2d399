from __future__ import annotations

from typing import Any

import pytest

from hummingbit.foundation.errors import InputError
from hummingbit.index.records import labels_of


@pytest.mark.parametrize(
    ("payload", "field", "expected"),
    [
        ({"label": "a"}, "label", ("a",)),
        ({"labels": ["a", "b"]}, "label", ("a", "b")),
        ({"label": "a", "labels": ["b"]}, "label", ("a",)),
        ({"label": None}, "label", ()),
        ({}, "label", ()),
        ({"labels": ["a"]}, "topic", ()),
        ({"topic": ["x"]}, "topic", ("x",)),
        ({"year": 1999}, "year", ("1999",)),
        ({"spam": True}, "spam", ("true",)),
        ({"year": 1999.0}, "year", ("1999",)),
        ({"topic": ["a", None]}, "topic", ("a",)),
        ({"label": ""}, "label", ()),
    ],
)
def test_labels_of_a_payload(
    payload: dict[str, Any], field: str, expected: tuple[str, ...]
) -> None:
    assert labels_of(payload, field) == expected


@pytest.mark.parametrize("value", [{"a": 1}, [["a"]]])
def test_other_values_are_no_labels(value: Any) -> None:
    with pytest.raises(
        InputError, match=r"label_field: 'topic' is .*; it must be a text, a number"
    ):
        labels_of({"topic": value}, "topic")
