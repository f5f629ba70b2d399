from __future__ import annotations

import http.client
import json
import logging
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from hummingbit.index.data_folder import DataFolder
from hummingbit.service.batching import Batcher
from hummingbit.service.http.gateway import Gateway
from hummingbit.service.logs import FIELDS
from hummingbit.service.schemas.search import SENT_AT_ONCE
from hummingbit.service.settings import Settings
from tests.support.encoders import random_texts
from tests.support.service import check_problem, make_data_folder, running_service, send

PATH = "/v1/collections/c/search"
TEXTS = random_texts(60)
SEARCH = {"text": TEXTS[0], "ranking": "hamming"}


@pytest.fixture
def client(tmp_path: Path) -> Iterator[httpx.Client]:
    folder = make_data_folder(tmp_path)
    with DataFolder(folder, writable=True) as data:
        data.create_collection("c", encoder="words")
        with running_service(data, Settings(log_level="info")) as client:
            documents = [{"id": str(i), "text": text} for i, text in enumerate(TEXTS)]
            send(client, "PUT", "/v1/collections/c/documents", {"documents": documents})
            yield client


def until_at_once(client: httpx.Client, monkeypatch: pytest.MonkeyPatch, body: object) -> Any:
    """Search until the collection is known to be quick; return an answer that no task gave."""
    tasks = []
    search = Batcher.search

    async def counted(self: Batcher[bytes], *args: Any) -> bytes:
        tasks.append(args)
        return await search(self, *args)

    monkeypatch.setattr(Batcher, "search", counted)
    for _ in range(1000):
        before = len(tasks)
        response = send(client, "POST", PATH, body)
        if len(tasks) == before and response.status_code == 200:
            return response
    pytest.fail("no search was answered at once")


def without_time(response: httpx.Response) -> Any:
    return {name: value for name, value in response.json().items() if name != "took_ms"}


@pytest.mark.parametrize("more", [{}, {"limit": 3, "with_payload": True, "with_text": True}])
def test_an_answer_at_once_is_that_of_a_task(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch, more: dict[str, Any]
) -> None:
    body = {**SEARCH, **more}
    at_once = until_at_once(client, monkeypatch, body)
    monkeypatch.setattr(Gateway, "answer_now", lambda _, arrived: [None] * len(arrived))
    by_task = send(client, "POST", PATH, body)
    assert without_time(at_once) == without_time(by_task)
    assert len(at_once.json()["hits"]) == more.get("limit", 10)
    lengths = {"content-length": "0", "x-request-id": "", "date": ""}
    assert {**at_once.headers, **lengths} == {**by_task.headers, **lengths}


def exchange(connection: http.client.HTTPConnection, body: object) -> None:
    """Send a search; the caller reads the response."""
    connection.request("POST", PATH, json.dumps(body), {"content-type": "application/json"})


def test_searches_that_arrive_together_are_answered_as_alone(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hummingbit.service.batching.QUICK_SECONDS", 60.0)
    until_at_once(client, monkeypatch, SEARCH)
    bodies: list[dict[str, Any]] = [{**SEARCH, "text": text} for text in TEXTS[:12]]
    bodies[5] = {**SEARCH, "text": TEXTS[5], "limit": 3}
    bodies[7] = {"id": "absent"}
    alone = [send(client, "POST", PATH, body) for body in bodies]
    host, port = client.base_url.host, client.base_url.port
    connections = [http.client.HTTPConnection(host, port) for _ in bodies]
    for connection in connections:  # the service accepts them
        exchange(connection, SEARCH)
        connection.getresponse().read()
    begun, arrived = threading.Event(), threading.Event()
    answered: list[int] = []
    answer_now = Batcher.answer_now

    def blocking(self: Batcher[bytes], searches: Any) -> list[bytes | None]:
        begun.set()
        assert arrived.wait(60)
        answers = answer_now(self, searches)
        answered.append(sum(answer is not None for answer in answers))
        return answers

    monkeypatch.setattr(Batcher, "answer_now", blocking)
    first = http.client.HTTPConnection(host, port)
    exchange(first, SEARCH)
    assert begun.wait(60)  # nothing is read until all have arrived
    for connection, body in zip(connections, bodies, strict=True):
        exchange(connection, body)
    arrived.set()
    assert first.getresponse().status == 200
    for connection, expected in zip(connections, alone, strict=True):
        response = connection.getresponse()
        assert response.status == expected.status_code
        assert json.load(response).get("hits") == expected.json().get("hits")
        connection.close()
    first.close()
    assert answered == [1, 11]


@pytest.mark.parametrize("seconds", [0.001, 60.0])
def test_a_long_answer_is_searched_for_once(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    monkeypatch.setattr("hummingbit.service.batching.QUICK_SECONDS", seconds)
    texts = [f"{TEXTS[i]} {'word ' * 4000}" for i in range(20)]
    documents = [{"id": f"long{i}", "text": text} for i, text in enumerate(texts)]
    send(client, "PUT", "/v1/collections/c/documents", {"documents": documents}).raise_for_status()
    body = {**SEARCH, "limit": 80, "with_text": True}
    until_at_once(client, monkeypatch, SEARCH)
    monkeypatch.setattr(Gateway, "answer_now", lambda _, arrived: [None] * len(arrived))
    by_task = send(client, "POST", PATH, body)
    monkeypatch.undo()
    until_at_once(client, monkeypatch, SEARCH)
    searches = []
    search = Batcher._search_batch

    def counted(self: Batcher[bytes], *args: Any) -> list[bytes]:
        searches.append(args)
        return search(self, *args)

    monkeypatch.setattr(Batcher, "_search_batch", counted)
    response = send(client, "POST", PATH, body)
    assert len(response.content) > SENT_AT_ONCE
    assert len(searches) == 1
    assert without_time(response) == without_time(by_task)


def test_who_is_refused_gets_no_answer_at_once(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    until_at_once(client, monkeypatch, SEARCH)
    content = json.dumps(SEARCH)
    json_type = {"content-type": "application/json"}
    for headers, status, code in (
        ({"host": "other.example"}, 421, "unknown_host"),
        ({"origin": "http://other.example"}, 403, "cross_origin"),
        ({"content-encoding": "gzip"}, 415, "unsupported_media_type"),
        ({"min-generation": "x"}, 422, "invalid_request"),
    ):
        refused = client.post(PATH, content=content, headers={**json_type, **headers})
        check_problem(refused, status, code)
    check_problem(send(client, "POST", PATH, {"id": "absent"}), 404, "unknown_document")
    check_problem(send(client, "POST", PATH, {**SEARCH, "limit": 0}), 422, "invalid_request")
    check_problem(send(client, "POST", PATH, {"code": "zz"}), 422, "invalid_request")


def test_the_client_behind_a_trusted_proxy_is_logged(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    until_at_once(client, monkeypatch, SEARCH)
    caplog.set_level(logging.INFO, "hummingbit.access")
    headers = {"content-type": "application/json", "x-forwarded-for": "203.0.113.9"}
    for _ in range(20):
        client.post(PATH, content=json.dumps(SEARCH), headers=headers).raise_for_status()
    clients = {getattr(record, FIELDS)["client"] for record in caplog.records}
    routes = {getattr(record, FIELDS)["route"] for record in caplog.records}
    assert clients == {"203.0.113.9"}
    assert routes == {"/v1/collections/{name}/search"}


def test_a_connection_that_is_to_close_closes(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    until_at_once(client, monkeypatch, SEARCH)
    body = json.dumps(SEARCH).encode()
    head = b"POST %b HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" % PATH.encode()
    head += b"X-Request-ID: mine\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    for _ in range(5):
        with socket.create_connection((client.base_url.host, client.base_url.port or 80)) as one:
            one.sendall(head % len(body) + body)
            answer = b"".join(iter(lambda: one.recv(1 << 16), b""))
        head_sent, _, json_sent = answer.partition(b"\r\n\r\n")
        assert head_sent.startswith(b"HTTP/1.1 200 OK\r\n")
        assert b"\r\nconnection: close" in head_sent
        assert b"\r\nx-request-id: mine" in head_sent
        assert len(json.loads(json_sent)["hits"]) == 10
