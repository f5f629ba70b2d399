"""Which requests a reader answers itself, of all there are."""

from __future__ import annotations

import asyncio
import json
import ssl
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from hummingbit.index.data_folder import DataFolder
from hummingbit.service.app import ROUTERS, create_app
from hummingbit.service.http.keys import Role, required_role
from hummingbit.service.settings import Settings
from hummingbit.service.workers import forwarding
from hummingbit.service.workers.forwarding import LOCAL, Forwarding

# What only the process that writes knows: jobs, labels, and whether the service writes.
OF_THE_WRITER = ("jobs", "evaluations", "evaluate", "maps", "map", "duplicates", "labels", "access")


def routes() -> list[tuple[str, str, Mapping[str, Any] | None]]:
    return [
        (method, getattr(route, "path"), getattr(route, "openapi_extra", None))  # noqa: B009
        for router in ROUTERS
        for route in router.routes
        for method in getattr(route, "methods", ())
    ]


def is_local(method: str, template: str) -> bool:
    path = template.replace("{name}", "c").replace("{id:any_text}", "a/b").replace("{id}", "x")
    path = path.replace("{file:any_text}", "x").replace("{file}", "x")
    return LOCAL.fullmatch(f"{method} {path}") is not None


def test_a_reader_answers_only_what_reads() -> None:
    local = {(method, path): role for method, path, role in routes() if is_local(method, path)}
    assert len(local) > 15
    assert all(required_role(role) <= Role.READ for role in local.values()), local
    for _, path in local:
        assert not any(f"/{word}" in path for word in OF_THE_WRITER), path


def test_searches_are_local_and_jobs_are_not() -> None:
    assert is_local("POST", "/v1/collections/{name}/search")
    assert is_local("GET", "/v1/collections/{name}/documents/{id:any_text}")
    assert not is_local("GET", "/v1/collections/{name}/labels")
    assert not is_local("DELETE", "/v1/collections/{name}/documents/{id:any_text}")
    assert not is_local("PUT", "/v1/collections/{name}/documents")
    assert not is_local("GET", "/v1/jobs")


def test_connections_to_sockets_of_this_machine_load_no_certificates(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    loaded: list[object] = []
    for load in ("load_verify_locations", "load_default_certs"):
        monkeypatch.setattr(ssl.SSLContext, load, lambda *args, **_: loaded.append(args))
    with DataFolder(tmp_path, writable=True) as folder:
        app = create_app(folder, Settings())
        Forwarding(app, app.gateway, folder, tmp_path / "writer", [tmp_path / "reader"])
    assert not loaded


class CountingFolder(DataFolder):
    """Counts how many threads follow at a time, and how often one begins."""

    running = most = begun = 0
    counting = threading.Lock()

    def follow(self, *, wait: bool = True) -> None:
        kind = CountingFolder
        with self.counting:
            kind.running += 1
            kind.begun += 1
            kind.most = max(kind.most, kind.running)
        time.sleep(0.005)
        super().follow(wait=wait)
        with self.counting:
            kind.running -= 1


async def exchange(reader: Forwarding, method: str, path: str) -> list[Any]:
    """Send a request without a body, for generation 99, and return the messages of the response."""
    messages: list[Any] = []

    async def send(message: Any) -> None:
        messages.append(message)

    async def receive() -> Any:
        return await asyncio.Event().wait()  # the client waits, too

    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(b"min-generation", b"99"), (b"host", b"127.0.0.1")],
    }
    await reader(scope, receive, send)
    return messages


def statuses(reader: Forwarding, requests: int) -> list[int]:
    """Return the statuses of searches of ``c`` for generation 99, sent at the same time."""

    async def together() -> list[int]:
        searches = (exchange(reader, "POST", "/v1/collections/c/search") for _ in range(requests))
        return [messages[0]["status"] for messages in await asyncio.gather(*searches)]

    return asyncio.run(together())


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[DataFolder]:
    CountingFolder.most = CountingFolder.begun = 0
    with DataFolder(tmp_path, writable=True) as writing:
        writing.create_collection("c", n_bits=8)
        with CountingFolder(tmp_path, writable=False) as folder:
            yield folder


def test_many_who_wait_for_a_generation_take_one_thread(folder: DataFolder) -> None:
    app = create_app(folder)
    reader = Forwarding(app, app.gateway, folder, folder.path / "absent", [])
    # There is no writer, to which they are passed on in the end.
    assert set(statuses(reader, 50)) == {503}
    assert CountingFolder.most == 1
    assert CountingFolder.begun > 1


def test_a_key_is_checked_before_a_generation_is_waited_for(folder: DataFolder) -> None:
    app = create_app(folder, Settings(read_key=SecretStr("r" * 40)))
    reader = Forwarding(app, app.gateway, folder, folder.path / "absent", [])
    assert statuses(reader, 2) == [401, 401]
    assert CountingFolder.begun == 0


async def exchange_with_writer(writer: Any, folder: DataFolder, method: str) -> list[Any]:
    """Forward a request to `writer`, a callback of :func:`asyncio.start_unix_server`."""
    with tempfile.TemporaryDirectory() as short:
        path = Path(short) / "w"
        async with await asyncio.start_unix_server(writer, path):
            app = create_app(folder, Settings(request_timeout=0))
            return await exchange(
                Forwarding(app, app.gateway, folder, path, []), method, "/v1/jobs"
            )


def test_a_writer_that_answers_nothing_is_not_waited_for(
    folder: DataFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forwarding, "SECONDS_BETWEEN_PROBES", 0.01)
    monkeypatch.setattr(forwarding, "PROBE_SECONDS", 0.2)

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()  # until the client is gone
        writer.close()

    start, body = asyncio.run(exchange_with_writer(hang, folder, "POST"))
    assert start["status"] == 503
    assert json.loads(body["body"])["code"] == "writer_unavailable"
    assert (b"connection", b"close") in start["headers"]


def test_a_slow_writer_that_is_alive_is_waited_for(
    folder: DataFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forwarding, "SECONDS_BETWEEN_PROBES", 0.01)
    probes = asyncio.Semaphore(0)
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if head.startswith(b"GET /livez "):
            probes.release()
        else:
            for _ in range(3):
                await probes.acquire()
        writer.write(answer)
        writer.close()

    start, *_ = asyncio.run(exchange_with_writer(respond, folder, "GET"))
    assert start["status"] == 200
