"""Requests made up from the description, and bytes that are no requests: nothing breaks.

Every answer is below 500 and is what the description says: its status, its type, its fields.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from hummingbit.service.settings import Settings
from tests.support.service import SECONDS, client_of, make_data_folder, running_service

REQUESTS = 20_000
SLOW_SECONDS = 1.0
NAMES = {"collections": ["words", "codes"], "encoders": ["words", "numbers"]}
DEEP = 50_000
RAW: dict[str, bytes] = {
    "nothing": b"",
    "truncated": b'{"text": "a", "limit": 1',
    "truncated string": b'{"text": "a',
    "NaN": b'{"vector": [NaN], "documents": [{"id": "a", "vector": [NaN]}]}',
    "Infinity": b'{"vector": [Infinity], "limit": -Infinity}',
    "beyond a double": b'{"vector": [1e999], "limit": 1e999, "n_bits": 1e999}',
    "a surrogate": b'{"text": "\\ud800", "id": "\\udfff", "\\ud800": 1}',
    "deep lists": b"[" * DEEP + b"]" * DEEP,
    "deep objects": b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    "deep within a string": b'{"text": "' + b"[" * DEEP + b'"}',
    "escaped quotes without end": b"[" * 100 + b'"' + b'\\"' * DEEP,
    "a list": b"[1, 2, 3]",
    "null": b"null",
    "wrong types": b'{"text": 1, "documents": {}, "searches": "x", "inputs": true, "queries": 0}',
    "wrong types within": b'{"documents": [1, null, [], "x"], "searches": [[]], "inputs": [0]}',
    "a huge number": b'{"limit": ' + b"9" * 5000 + b"}",
    "not UTF-8": b'{"text": "\xff\xfe"}',
    "UTF-16": '{"text": "a"}'.encode("utf-16"),
    "keys twice": b'{"text": "a", "text": "b"}',
    "zero bytes": b"\x00" * 100,
    "pickle": b"\x80\x04K\x01.",
}


@dataclass
class Tally:
    """What has been asked and how it went."""

    statuses: Counter[int] = field(default_factory=Counter)
    slow: list[str] = field(default_factory=list)

    def add(self, status: int, seconds: float, what: str) -> None:
        self.statuses[status] += 1
        if seconds > SLOW_SECONDS:
            self.slow.append(f"{what}: {seconds:.2f} s")


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    data: Path = make_data_folder(tmp_path_factory.mktemp("data"))
    with running_service(data, Settings(access_log=False)) as client:
        make_collections(client)
        yield client


def make_collections(client: httpx.Client) -> None:
    for name, body in (("words", {"encoder": "words"}), ("codes", {"n_bits": 16})):
        assert client.put(f"/v1/collections/{name}", json=body).status_code in {200, 201}
    documents = [{"id": "a", "text": "apple"}, {"id": "b", "text": "rank trace"}]
    client.put("/v1/collections/words/documents", json={"documents": documents})


def ask_from_the_description(client: httpx.Client, examples: int) -> Tally:
    """Make up `examples` requests for every operation, half of them as they should not be."""
    from tests.support.described_requests import (  # noqa: PLC0415 - it says why
        CHECKS,
        operations,
        requests_of,
    )

    tally, base = Tally(), str(client.base_url).rstrip("/")
    for operation in operations(client):

        @settings(
            max_examples=examples,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=requests_of(operation), known=st.booleans(), pick=st.integers(0, 1))
        def ask(case: Any, known: bool, pick: int) -> None:
            kind = case.path.split("/")[2] if case.path.startswith("/v1/") else ""
            if known and kind in NAMES and "name" in case.path_parameters:
                case.path_parameters["name"] = NAMES[kind][pick]
            response = case.call(base_url=base, timeout=SECONDS)
            tally.add(response.status_code, response.elapsed, f"{case.method} {case.path}")
            case.validate_response(response, checks=CHECKS)

        ask()
        make_collections(client)  # some operations delete them
    return tally


def ask_with_bytes(client: httpx.Client, corpus: dict[str, bytes]) -> Tally:
    """Send everything of `corpus` to every operation that takes a body."""
    tally = Tally()
    description = client.get("/openapi.json").json()["paths"]
    for path, methods in description.items():
        for method, operation in methods.items():
            for media_type in operation.get("requestBody", {}).get("content", {}):
                for name, raw in corpus.items():
                    place = path.replace("{name}", "words").replace("{id}", "a")
                    headers = {"content-type": media_type}
                    response = client.request(method, place, content=raw, headers=headers)
                    seconds = response.elapsed.total_seconds()
                    tally.add(response.status_code, seconds, f"{method} {path}: {name}")
                    assert response.status_code < 500, (method, path, name, response.text[:500])
                    if response.status_code >= 400:
                        assert response.headers["content-type"] == "application/problem+json"
                        assert json.loads(response.content)["code"]
    return tally


def test_requests_made_from_the_description(fuzzed: httpx.Client) -> None:
    tally = ask_from_the_description(fuzzed, examples=2)
    assert sum(tally.statuses.values()) >= 50
    assert tally.statuses[200]


def test_bytes_that_are_no_requests(fuzzed: httpx.Client) -> None:
    tally = ask_with_bytes(fuzzed, RAW)
    assert tally.statuses[400]
    assert tally.statuses[422]


@pytest.mark.fuzz
def test_twenty_thousand_requests(fuzzed: httpx.Client) -> None:
    from tests.support.described_requests import operations  # noqa: PLC0415 - it says why

    count = len(operations(fuzzed))
    # Of operations without parameters there are only so many requests.
    tally = ask_from_the_description(fuzzed, examples=-(-2 * REQUESTS // count))
    large = {
        "50 MB of text": b'{"text": "' + b"a" * 50_000_000 + b'"}',
        "50 MB of spaces": b" " * 50_000_000,
    }
    with client_of(str(fuzzed.base_url)) as patient:
        raw = ask_with_bytes(patient, RAW | large)
    tally.statuses.update(raw.statuses)
    asked = sum(tally.statuses.values())
    slow = tally.slow + raw.slow
    print(f"{asked:,} requests: {dict(sorted(tally.statuses.items()))}")
    print(f"{len(slow)} took more than {SLOW_SECONDS:g} s {slow[:20]}")
    assert asked >= REQUESTS
    assert not [status for status in tally.statuses if status >= 500]
