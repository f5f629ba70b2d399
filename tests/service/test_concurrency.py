"""Expensive requests hold up neither cheap ones nor health, and end when they have timed out."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from hummingbit.index.collection import Collection
from hummingbit.index.filters import parse_filter
from hummingbit.index.options import SearchOptions
from hummingbit.service.settings import Settings
from tests.support.service import check_problem, make_data_folder, running_service, send

PATH = "/v1/collections/codes"
SECONDS = 120.0
KNOWN = parse_filter({"field": "n", "gte": 5})


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Hold every search by a filter, but that of ``n >= 5``, until the event is set."""
    go_on, find = threading.Event(), Collection.find

    def find_later(self: Collection, queries: Any, options: SearchOptions) -> Any:
        if options.filter not in {None, KNOWN}:
            go_on.wait(SECONDS)
        return find(self, queries, options)

    monkeypatch.setattr(Collection, "find", find_later)
    yield go_on
    go_on.set()


def fill(client: httpx.Client) -> None:
    assert send(client, "PUT", PATH, {"n_bits": 8}).status_code == 201
    documents = [{"id": f"d{n}", "code": "0f", "payload": {"n": n}} for n in range(50)]
    send(client, "PUT", f"{PATH}/documents", {"documents": documents}).raise_for_status()


def search(client: httpx.Client, **options: Any) -> httpx.Response:
    return send(client, "POST", f"{PATH}/search", {"code": "0f", "limit": 3, **options})


def test_cheap_searches_and_health_are_answered_while_filters_wait(
    tmp_path: Path, held: threading.Event
) -> None:
    with running_service(make_data_folder(tmp_path)) as client:
        fill(client)
        found: dict[int, httpx.Response] = {}

        def ask(number: int) -> None:
            filter_ = {"field": "n", "gte": number, "lt": 100}
            with httpx.Client(base_url=client.base_url, timeout=120, trust_env=False) as own:
                found[number] = search(own, filter=filter_)

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(60)]
        for thread in threads:
            thread.start()
        # More than may run at a time.
        while "\nhummingbit_waiting_requests 52.0\n" not in client.get("/metrics").text:
            time.sleep(0.05)
        for _ in range(20):
            assert search(client).status_code == 200
            assert client.get("/readyz").status_code == 200
            assert client.get("/metrics").status_code == 200
        assert not found
        held.set()
        for thread in threads:
            thread.join(SECONDS)
        ids = {number: [hit["id"] for hit in item.json()["hits"]] for number, item in found.items()}
        assert ids == {n: [f"d{at}" for at in range(n, min(n + 3, 50))] for n in range(60)}


def test_a_filter_that_is_known_does_not_wait_for_those_that_are_not(
    tmp_path: Path, held: threading.Event
) -> None:
    known, unknown = {"field": "n", "gte": 5}, {"field": "m", "gte": 6}
    with running_service(make_data_folder(tmp_path)) as client:
        fill(client)
        first = search(client, filter=known).json()["hits"]
        thread = threading.Thread(target=lambda: search(client, filter=unknown))
        thread.start()
        assert search(client, filter=known).json()["hits"] == first
        held.set()
        thread.join(SECONDS)


def test_a_request_that_timed_out_gives_its_place_back(
    tmp_path: Path, held: threading.Event
) -> None:
    data = make_data_folder(tmp_path)
    with running_service(data) as client:  # which waits for as long as it takes
        fill(client)
    with running_service(data, Settings(request_timeout=1.5)) as client:
        late = search(client, filter={"field": "n", "gte": 7})
        check_problem(late, 503, "timed_out")
        held.set()
        deadline = time.monotonic() + SECONDS  # the machine may be too busy for the first ones
        while search(client, filter={"field": "n", "gte": 6}).status_code != 200:
            assert time.monotonic() < deadline
