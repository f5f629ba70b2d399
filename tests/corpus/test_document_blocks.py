"""Blocks of documents against the documents of their records, one by one."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hummingbit.corpus.document import (
    MAX_ID_LENGTH,
    Document,
    DocumentError,
    parse_document,
    parse_usual_documents,
)
from hummingbit.corpus.lines import MAX_LINE_BYTES, ROWS_AT_ONCE
from hummingbit.corpus.readers import ReadError, read_documents

CONTENTS: list[dict[str, Any]] = [
    {"text": "one"},
    {"text": "Öl"},
    {"code": "00ff"},
    {"vector": [1, 2.5]},
    {"vector": [0.1, -3e38], "text": ""},
]
ODD: list[tuple[str, Any]] = [
    ("id", ""),
    ("id", "a\0b"),
    ("id", "x" * (MAX_ID_LENGTH + 1)),
    ("id", "\ud800"),
    ("id", 7),
    ("id", None),
    ("text", "\udfff"),
    ("text", 1),
    ("code", "00"),
    ("vector", []),
    ("vector", [1, 2, 3]),
    ("vector", [True, 1]),
    ("vector", [[2, 1], [1, 2]]),
    ("vector", [math.nan, 1.0]),
    ("vector", [1e39, 1.0]),
    ("vector", [10**400, 1]),
    ("vector", np.array([1.0, 2.0])),
    ("label", ""),
    ("label", None),
    ("label", ["a"]),
    ("label", "\ud800"),
    ("labels", ["a", "b"]),
    ("labels", None),
    ("title", None),
    ("payload", None),
    ("payload", {}),
    ("payload", {"x": [1]}),
    ("payload", {"x": math.inf}),
    ("payload", {"x": 1e300, "y": True, "z": None}),
    ("payload", {"x": 2**70}),
    ("payload", {"x": "\ud800"}),
    ("payload", {"\ud800": 1}),
    ("payload", {3: 1}),
    ("payload", [1]),
]


def as_record(document: Document) -> dict[str, Any]:
    record = {name: getattr(document, name) for name in Document.__slots__}
    vector = record.pop("vector")
    return {**record, "vector": None if vector is None else (vector.dtype, vector.tolist())}


def expected(records: list[Any]) -> list[dict[str, Any]] | None:
    try:
        return [as_record(parse_document(record)) for record in records]
    except DocumentError:
        return None


@given(
    st.sampled_from(CONTENTS),
    st.lists(st.sampled_from([{}, {"label": "x"}, {"payload": {"n": 1, "s": "a"}}]), min_size=1),
    st.none() | st.tuples(st.integers(0), st.sampled_from(ODD)),
)
def test_a_block_is_what_its_records_are_or_is_left_to_them(
    content: dict[str, Any], rest: list[dict[str, Any]], odd: tuple[int, tuple[str, Any]] | None
) -> None:
    records: list[Any] = [{"id": f"d{at}", **content, **item} for at, item in enumerate(rest)]
    if odd is not None:
        at, (name, value) = odd
        records[at % len(records)][name] = value
    found = parse_usual_documents(records)
    if found is None:
        assert odd is not None
    else:
        assert [as_record(document) for document in found] == expected(records)


@pytest.mark.parametrize("records", [[], [None], ["text"], [{}], [{"id": "a", "text": "t"}, 3]])
def test_what_is_no_document_is_left_to_the_single_record(records: list[Any]) -> None:
    assert parse_usual_documents(records) is None


def lines(count: int) -> list[bytes]:
    return [json.dumps({"id": f"d{at}", "text": "t", "n": at}).encode() for at in range(count)]


@pytest.mark.parametrize("at", [0, 3, ROWS_AT_ONCE - 1, ROWS_AT_ONCE, 3 * ROWS_AT_ONCE + 7])
@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (b'{"id"', "is not valid JSON"),
        (b'{"id": "x", "text": 1}', "text: is 1"),
        (b'{"id": "x", "text": "a", "text": "b"}', "given twice"),
        (b'{"id": "x", "text": "\xff"}', "is not UTF-8"),
        (b'"' + b"x" * MAX_LINE_BYTES + b'"', "is longer than"),
    ],
)
def test_the_documents_before_a_bad_line_are_read_and_its_number_is_named(
    tmp_path: Path, at: int, bad: bytes, reason: str
) -> None:
    written = lines(4 * ROWS_AT_ONCE)
    written.insert(at, bad)
    path = tmp_path / "d.jsonl"
    path.write_bytes(b"\n".join(written))
    documents = read_documents(path)
    found = [next(documents).id for _ in range(at)]
    assert found == [f"d{number}" for number in range(at)]
    with pytest.raises(ReadError, match=rf"d\.jsonl:{at + 1}: .*{reason}"):
        next(documents)
    skipped: list[int] = []
    rest = read_documents(path, on_error="skip", report=lambda line: skipped.append(line.line))
    assert len([*rest]) == 4 * ROWS_AT_ONCE
    assert skipped == [at + 1]


def test_the_documents_before_the_end_of_a_truncated_file_are_read(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    written = [
        json.dumps({"id": f"d{at}", "text": rng.bytes(20).hex()}).encode() for at in range(500)
    ]
    whole = gzip.compress(b"\n".join(written))
    path = tmp_path / "d.jsonl.gz"
    path.write_bytes(whole[: len(whole) // 2])
    read: list[str] = []
    with pytest.raises(ReadError, match=r"d\.jsonl\.gz:\d+: cannot be read") as raised:
        read.extend(document.id for document in read_documents(path))
    line = int(str(raised.value).rpartition(".gz:")[2].partition(":")[0])
    assert read == [f"d{number}" for number in range(line - 1)]
    assert read


def test_a_repeated_id_is_named_with_both_lines(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    path.write_bytes(b"\n".join([*lines(100), *lines(7)[6:]]))
    with pytest.raises(ReadError, match=r"d\.jsonl:101: id: is 'd6', as on line 7"):
        list(read_documents(path))


def test_blank_lines_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    path.write_bytes(b"\n\n".join(lines(70)) + b"\n \n{}\n")
    with pytest.raises(ReadError, match=r"d\.jsonl:141: "):
        list(read_documents(path))
