import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hummingbit.corpus.document import (
    FIELDS,
    MAX_ID_LENGTH,
    MAX_PAYLOAD_DEPTH,
    MAX_TEXT_LENGTH,
    Document,
    DocumentError,
    parse_document,
    parse_text,
    parse_vector,
)

FLOAT32_MAX = float(np.finfo(np.float32).max)

text = st.text(st.characters(exclude_categories=["Cs"]))
id_text = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=20
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)
finite_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=5,
)
records = st.fixed_dictionaries({}, optional=dict.fromkeys(FIELDS, json_values))


@given(id_text, text, st.lists(text.filter(bool), unique=True), st.dictionaries(text, finite_json))
def test_a_good_text_record_keeps_every_field(
    id_: str, content: str, labels: list[str], payload: dict[str, Any]
) -> None:
    record = {"id": id_, "text": content, "labels": labels, "payload": payload}
    document = parse_document(record)
    assert document.id == id_
    assert document.text == content
    assert document.vector is None
    assert document.code is None
    assert document.labels == tuple(labels)
    assert document.payload == payload


@given(json_values | records)
def test_any_json_value_gives_a_storable_document_or_a_document_error(record: object) -> None:
    try:
        document = parse_document(record)
    except DocumentError:
        return
    contents = (document.text, document.vector, document.code)
    assert sum(content is not None for content in contents) == 1
    json.dumps(document.payload_with_labels, allow_nan=False).encode()
    document.id.encode()
    if document.vector is not None:
        assert document.vector.dtype == np.float32
        assert np.isfinite(document.vector).all()


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False, width=32), min_size=1))
def test_a_vector_keeps_its_numbers(numbers: list[float]) -> None:
    assert parse_vector(numbers).tolist() == numbers
    assert parse_vector(np.array(numbers, dtype=np.float64)).tolist() == numbers


@given(
    st.lists(st.floats(-1e3, 1e3), max_size=5),
    st.sampled_from([math.nan, math.inf, -math.inf, 1e39, -1e300]),
    st.lists(st.floats(-1e3, 1e3), max_size=5),
)
def test_a_vector_that_is_not_finite_within_float32_names_the_place(
    before: list[float], bad: float, after: list[float]
) -> None:
    with pytest.raises(DocumentError, match=f"at position {len(before)}; every number must"):
        parse_vector([*before, bad, *after])


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ([], "shape \\(0,\\)"),
        ([[1.0]], "it must be a list of numbers"),
        ([1, "2"], "it must be a list of numbers"),
        ([True], "it must be a list of numbers"),
        ([None], "it must be a list of numbers"),
        ("1,2", "is '1,2'; it must be a list of numbers"),
        (3, "is 3; it must be a list of numbers"),
        ({"0": 1}, "it must be a list of numbers"),
        ([10**400], "beyond the range of float32"),
        (np.zeros((2, 2)), "shape \\(2, 2\\)"),
        (np.array(["a"]), "holds <U1 values"),
        (np.array([True]), "holds bool values"),
        (np.array([1j]), "holds complex128 values"),
        (np.array([object()]), "holds object values"),
    ],
)
def test_what_is_not_a_vector_is_refused(value: object, reason: str) -> None:
    with pytest.raises(DocumentError, match=f"^vector: .*{reason}"):
        parse_vector(value)


def test_numbers_at_the_edge_of_float32_are_taken() -> None:
    assert parse_vector([FLOAT32_MAX, -FLOAT32_MAX, 5e-324, 7]).tolist() == [
        FLOAT32_MAX,
        -FLOAT32_MAX,
        0.0,
        7.0,
    ]


@pytest.mark.parametrize(
    ("record", "field", "reason"),
    [
        ([], "document", "is \\[\\]; it must be an object"),
        (None, "document", "is None"),
        ({"id": "a"}, "document", "at least one of text, vector, code; it has none"),
        ({"id": "a", "text": "t", "code": 0}, "code", "is 0; it must be hexadecimal digits"),
        ({"id": "a", "text": "t", "txet": 1}, "txet", "is not a field; the fields are id, text"),
        ({"text": "t"}, "id", "is None; it must be a string of 1 to 512 characters"),
        ({"id": 5, "text": "t"}, "id", "is 5"),
        ({"id": "", "text": "t"}, "id", "is ''"),
        ({"id": "a\0", "text": "t"}, "id", "NUL"),
        ({"id": "\ud800", "text": "t"}, "id", "lone surrogate"),
        ({"id": "a" * (MAX_ID_LENGTH + 1), "text": "t"}, "id", "1 to 512"),
        ({"id": "a", "text": 5}, "text", "is 5; it must be a string"),
        ({"id": "a", "text": "\ud800"}, "text", "is '.*ud800', which holds a lone"),
        ({"id": "a", "text": "t" * (MAX_TEXT_LENGTH + 1)}, "text", "1,000,001 characters"),
        ({"id": "a", "code": 5}, "code", "is 5; it must be hexadecimal digits"),
        ({"id": "a", "text": "t", "label": ""}, "label", "must be a non-empty string"),
        ({"id": "a", "text": "t", "label": 3}, "label", "is 3"),
        ({"id": "a", "text": "t", "labels": "x"}, "labels", "must be a list of strings"),
        ({"id": "a", "text": "t", "labels": ["x", None]}, "labels", "is None"),
        (
            {"id": "a", "text": "t", "label": "x", "labels": []},
            "labels",
            "cannot be combined with label",
        ),
        ({"id": "a", "text": "t", "payload": []}, "payload", "must be an object"),
        ({"id": "a", "text": "t", "payload": {"x": math.nan}}, "payload", "as JSON"),
        ({"id": "a", "text": "t", "payload": {"x": -math.inf}}, "payload", "as JSON"),
        ({"id": "a", "text": "t", "payload": {"x": 10**5000}}, "payload", "as JSON"),
        ({"id": "a", "text": "t", "payload": {"\ud800": 1}}, "payload", "lone surrogate"),
        ({"id": "a", "text": "t", "payload": {"x": {1}}}, "payload", "as JSON"),
        ({"id": "a", "text": "t", "payload": {"x": "\udfff"}}, "payload", "lone surrogate"),
    ],
)
def test_a_bad_record_names_the_field_and_what_would_be_right(
    record: object, field: str, reason: str
) -> None:
    with pytest.raises(DocumentError, match=f"^{field}: .*{reason}") as caught:
        parse_document(record)
    assert caught.value.field == field


def test_a_payload_nested_without_end_is_refused() -> None:
    payload: dict[str, Any] = {}
    payload["self"] = payload
    with pytest.raises(DocumentError, match=r"^payload: is nested too deeply; at most"):
        parse_document({"id": "a", "text": "t", "payload": payload})


@pytest.mark.parametrize("wrap", [lambda inner: {"in": inner}, lambda inner: [inner]])
def test_a_payload_is_nested_to_a_limit(wrap: Callable[[object], object]) -> None:
    inner: object = {}
    for _ in range(MAX_PAYLOAD_DEPTH - 2):
        inner = wrap(inner)
    deepest = {"id": "a", "text": "t", "payload": {"in": inner}}
    assert parse_document(deepest).payload == {"in": inner}
    deeper = {**deepest, "payload": {"in": wrap(inner)}}
    with pytest.raises(DocumentError, match=r"^payload: is nested too deeply; at most 64 levels"):
        parse_document(deeper)


def test_the_longest_id_and_text_are_taken() -> None:
    longest = {"id": "é" * MAX_ID_LENGTH, "text": "é" * MAX_TEXT_LENGTH}
    assert parse_document(longest).id == longest["id"]


def test_null_fields_count_as_absent_and_empty_text_as_text() -> None:
    nothing = dict.fromkeys(("vector", "code", "label", "labels", "payload"))
    document = parse_document({"id": "a", "text": "", **nothing})
    assert (document.text, document.labels, document.payload) == ("", (), {})


def test_a_label_given_twice_counts_once_in_its_first_place() -> None:
    document = parse_document({"id": "a", "text": "t", "labels": ["y", "x", "y"]})
    assert document.labels == ("y", "x")


def test_the_field_that_an_error_names_can_be_chosen() -> None:
    with pytest.raises(DocumentError, match=r"^queries\[3\]\.text: is None"):
        parse_text(None, "queries[3].text")


@pytest.mark.parametrize(
    ("labels", "payload", "stored"),
    [
        ((), {"a": 1}, {"a": 1}),
        (("x",), {"a": 1}, {"a": 1, "label": "x"}),
        (("x", "y"), {}, {"labels": ["x", "y"]}),
        (("x",), {"label": "own"}, {"label": "own"}),
        (("x", "y"), {"labels": ["own"]}, {"labels": ["own"]}),
    ],
)
def test_labels_join_the_payload_and_never_replace_what_it_has(
    labels: tuple[str, ...], payload: dict[str, Any], stored: dict[str, Any]
) -> None:
    before = dict(payload)
    assert Document(id="a", text="", labels=labels, payload=payload).payload_with_labels == stored
    assert payload == before
