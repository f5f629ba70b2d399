"""What is stored of documents: their payloads as JSON, and checksums."""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hummingbit.index.schema import PAYLOADS_AT_ONCE, checksum, payload_to_json, payloads_to_json

texts = st.text(st.characters(exclude_categories=["Cs"]))
members = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["}, {", '"}, {"', "é", "\n", ""]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
payloads = st.dictionaries(texts, members, max_size=3)


@given(st.lists(payloads, max_size=8), st.sampled_from([1, PAYLOADS_AT_ONCE + 3]))
def test_payloads_are_written_as_each_of_them(some: list[dict[str, Any]], times: int) -> None:
    repeated = some * times
    written = [json.dumps(item, ensure_ascii=False) for item in repeated]
    assert payloads_to_json(repeated) == [payload_to_json(item) for item in repeated] == written


def test_a_payload_that_is_no_json_is_refused_among_others() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        payloads_to_json([{"a": 1}, {"a": float("nan")}])


@given(texts, st.binary(max_size=16), texts, st.none() | texts, st.none() | st.binary())
def test_a_checksum_is_the_hash_of_all_that_is_stored(
    id_: str, code: bytes, payload: str, text: str | None, vector: bytes | None
) -> None:
    written = "-" if text is None else f"+{text}"
    whole = f"{id_}\0{payload}\0{written}\0".encode() + code + (vector or b"")
    assert checksum(id_, code, payload, text, vector) == blake2b(whole, digest_size=8).digest()
