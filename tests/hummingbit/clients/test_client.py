from __future__ import annotations

import asyncio
import inspect
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import SecretStr

from hummingbit import AsyncClient, Client, ServiceError
from hummingbit.service.settings import Settings
from tests.support.service import make_data_folder, running_service

KEY = "k" * 32


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    data = make_data_folder(tmp_path_factory.mktemp("data"))
    with running_service(data, Settings(admin_key=SecretStr(KEY))) as client:
        yield str(client.base_url)


def test_a_whole_session(url: str) -> None:
    with Client(url, KEY) as client:
        assert client.ready()["encoders"] == ["numbers", "words"]
        assert client.create_collection("a", encoder="words")["documents"] == 0
        documents: list[dict[str, Any]] = [
            {"id": "x/y ü", "text": "apple", "payload": {"n": 1}},
            {"id": "z", "text": "rank"},
        ]
        assert client.upsert("a", documents)["upserted"] == 2
        assert client.collection("a")["documents"] == 2
        assert "a" in [collection["name"] for collection in client.collections()["collections"]]
        found = client.search("a", "apple", limit=1, with_payload=True)
        assert found["hits"][0]["id"] == "x/y ü"
        assert found["hits"][0]["payload"] == {"n": 1}
        batch = client.search_batch("a", [{"id": "z"}, {"text": "apple", "radius": 0}])
        assert [item["hits"][0]["id"] for item in batch] == ["z", "x/y ü"]
        assert client.get("a", "x/y ü")["text"] == "apple"
        client.delete("a", "x/y ü")
        with pytest.raises(ServiceError) as caught:
            client.get("a", "x/y ü")
        assert (caught.value.status, caught.value.code) == (404, "unknown_document")
        client.delete_collection("a")
        with pytest.raises(ServiceError):
            client.collection("a")


DOTS = [".", "..", "...", "a/../b", "../a", ".a"]


def test_an_id_of_dots_is_a_document(url: str) -> None:
    with Client(url, KEY) as client:
        client.create_collection("dots", n_bits=8)
        for id_ in DOTS:
            with pytest.raises(ServiceError) as caught:
                client.delete("dots", id_)
            assert (caught.value.status, caught.value.code) == (404, "unknown_document")
        client.upsert("dots", [{"id": id_, "code": "aa"} for id_ in DOTS])
        for left, item in enumerate(DOTS, start=1):
            assert client.get("dots", item)["id"] == item
            client.delete("dots", item)
            assert client.collection("dots")["documents"] == len(DOTS) - left
        client.delete_collection("dots")


def test_the_asynchronous_client_sends_dots_too(url: str) -> None:
    async def session() -> tuple[list[str], int]:
        async with AsyncClient(url, KEY) as client:
            await client.create_collection("more-dots", n_bits=8)
            await client.upsert("more-dots", [{"id": id_, "code": "aa"} for id_ in DOTS])
            read = [(await client.get("more-dots", id_))["id"] for id_ in DOTS]
            await client.delete("more-dots", "..")
            left = await client.count("more-dots")
            await client.delete_collection("more-dots")
            return read, left

    assert asyncio.run(session()) == (DOTS, len(DOTS) - 1)


@pytest.mark.parametrize("dots", [".", ".."])
def test_dots_are_the_name_of_nothing(url: str, dots: str) -> None:
    with Client(url, KEY) as client:
        calls: list[Callable[[str], object]] = [
            client.collection,
            client.stats,
            client.delete_collection,
            client.count,
            client.verify,
            client.label_stats,
            lambda name: client.update_collection(name, ranking="bm25"),
            lambda name: client.upsert(name, [{"id": "a", "text": "apple"}]),
            lambda name: client.bulk(name, [{"id": "a", "text": "apple"}]),
            lambda name: client.search(name, "apple"),
            lambda name: client.get(name, dots),
            lambda name: client.delete(name, dots),
            client.encoder,
            lambda name: client.encode(name, ["apple"]),
            client.evaluation,
            client.trec_run,
            client.job,
            client.cancel_job,
            client.confirm,
            client.snapshot,
            client.delete_snapshot,
        ]
        for call in calls:
            with pytest.raises(ServiceError) as caught:
                call(dots)
            assert caught.value.status == 404
            assert (caught.value.code or "").startswith("unknown_")
        with pytest.raises(ServiceError, match="must be 1 to 64"):
            client.create_collection(dots, n_bits=8)


def test_encoders_and_arrays(url: str) -> None:
    vector = np.linspace(0, 1, 6, dtype=np.float32)
    with Client(url, KEY) as client:
        assert [encoder["name"] for encoder in client.encoders()["encoders"]] == [
            "numbers",
            "words",
        ]
        assert client.encoder("numbers")["dimension"] == 6
        codes = client.encode("numbers", vectors=[vector], format="bits")["codes"]  # type: ignore[list-item]  # an array will do
        assert len(codes[0]) == 16
        client.create_collection("v", encoder="numbers")
        client.upsert("v", [{"id": "a", "vector": vector}])
        assert client.search("v", vector=vector)["hits"][0]["distance"] == 0  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="exactly one of texts and vectors"):
            client.encode("numbers")


def test_the_asynchronous_client(url: str) -> None:
    async def session() -> list[int]:
        async with AsyncClient(url, KEY) as client:
            await client.create_collection("b", n_bits=16)
            await client.upsert("b", [{"id": f"{i}", "code": f"{i:04x}"} for i in range(8)])
            searches = (client.search("b", code=f"{i:04x}", limit=1) for i in range(8))
            hits = [(await search)["hits"][0] for search in searches]
            await client.delete_collection("b")
            with pytest.raises(ServiceError, match="there is no collection"):
                await client.collection("b")
            return [int(hit["id"]) for hit in hits]

    assert asyncio.run(session()) == list(range(8))


def test_both_clients_have_the_same_methods() -> None:
    def public(kind: type) -> dict[str, list[str]]:
        return {
            name: list(inspect.signature(method).parameters)
            for name, method in inspect.getmembers(kind, callable)
            if not name.startswith("_")
        }

    assert public(Client) == public(AsyncClient)


def test_errors_say_what_is_wrong(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Client(url) as client, pytest.raises(ServiceError, match="a key is required") as caught:
        client.collections()
    assert caught.value.status == 401
    with Client(url, KEY) as client:
        client.create_collection("c", n_bits=16)
        with pytest.raises(ServiceError) as caught:
            client.search("c", code="zz")
    assert caught.value.errors[0]["pointer"] == "/code"
    assert caught.value.request_id
    unreachable = pytest.raises(ServiceError, match=r"http://127.0.0.1:9: cannot be reached")
    with Client("http://127.0.0.1:9", retries=0) as client, unreachable:
        client.collections()
    with pytest.raises(ServiceError, match="must begin with http"):
        Client("ftp://example.org")
    monkeypatch.setenv("HUMMINGBIT_URL", url)
    monkeypatch.setenv("HUMMINGBIT_KEY", KEY)
    with Client() as client:
        assert client.ready()["status"] == "ready"


@contextmanager
def scripted(*script: tuple[int, dict[str, str]]) -> Iterator[tuple[str, list[float]]]:
    """Answer requests with these statuses and headers, in order; note when each came."""
    times: list[float] = []

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            status, headers = script[min(len(times), len(script) - 1)]
            times.append(time.monotonic())
            self.rfile.read(int(self.headers.get("Content-Length", "0")))
            body = json.dumps({"collections": [], "unavailable": [], "detail": "no"}).encode()
            self.send_response(status)
            for name, value in {**headers, "Content-Type": "application/json"}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_PUT = do_POST = do_DELETE = answer

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", times
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_busy_service_is_asked_again_when_it_says() -> None:
    soon = {"Retry-After": "1"}
    with scripted((429, soon), (503, {}), (200, {})) as (url, times), Client(url) as client:
        assert client.collections()["collections"] == []
    assert len(times) == 3
    assert times[1] - times[0] >= 1.0


def test_a_date_to_come_back_is_understood() -> None:
    past = {"Retry-After": formatdate(time.time() - 5, usegmt=True)}
    with scripted((503, past), (200, {})) as (url, times), Client(url) as client:
        client.collections()
    assert len(times) == 2


@pytest.mark.parametrize(
    ("answer", "attempts"),
    [
        ((503, {"Retry-After": "0"}), 3),
        ((429, {"Retry-After": "0"}), 3),
        ((503, {"Retry-After": "3600"}), 1),
        ((500, {}), 1),
        ((404, {}), 1),
    ],
)
def test_how_often_a_call_is_tried(answer: tuple[int, dict[str, str]], attempts: int) -> None:
    caught = pytest.raises(ServiceError)
    with scripted(answer) as (url, times), Client(url, retries=2) as client, caught as found:
        client.collections()
    assert found.value.status == answer[0]
    assert len(times) == attempts


def test_what_would_be_done_twice_is_not_repeated() -> None:
    busy, caught = (503, {"Retry-After": "0"}), pytest.raises(ServiceError)
    with scripted(busy) as (url, times), Client(url) as client, caught:
        client.evaluate("a", {"queries": []})
    assert len(times) == 1
    refused = (429, {"Retry-After": "0"})  # before any work was done
    with scripted(refused, (200, {})) as (url, times), Client(url) as client:
        client.evaluate("a", {"queries": []})
    assert len(times) == 2


def test_a_repeated_deletion_may_find_nothing() -> None:
    with scripted((503, {"Retry-After": "0"}), (404, {})) as (url, times), Client(url) as client:
        client.delete("a", "x")
    assert len(times) == 2


def test_the_package_says_that_it_is_typed() -> None:
    import hummingbit  # noqa: PLC0415 - its place is asked for

    assert (Path(str(hummingbit.__file__)).parent / "py.typed").is_file()
