"""Which requests a reader answers itself, of all there are."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from index.data_folder import DataFolder
from service.app import ROUTERS, create_app
from service.http.roles import EVERYBODY, READ
from service.settings import Settings
from service.workers.forwarding import LOCAL, Forwarding

# What only the process that writes knows: jobs, labels, and whether the service writes.
OF_THE_WRITER = ("jobs", "evaluations", "evaluate", "maps", "map", "duplicates", "labels", "access")


def routes() -> list[tuple[str, str, object]]:
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
    assert all(role in (READ, EVERYBODY) for role in local.values()), local
    for _, path in local:
        assert not any(f"/{word}" in path for word in OF_THE_WRITER), path


def test_searches_are_local_and_jobs_are_not() -> None:
    assert is_local("POST", "/v1/collections/{name}/search")
    assert is_local("GET", "/v1/collections/{name}/documents/{id:any_text}")
    assert not is_local("GET", "/v1/collections/{name}/labels")
    assert not is_local("DELETE", "/v1/collections/{name}/documents/{id:any_text}")
    assert not is_local("PUT", "/v1/collections/{name}/documents")
    assert not is_local("GET", "/v1/jobs")


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


def statuses(reader: Forwarding, requests: int) -> list[int]:
    """Return the statuses of searches of ``c`` for generation 99, sent at the same time."""

    async def one() -> int:
        found: list[int] = []

        async def send(message: Any) -> None:
            found.append(message.get("status", 0))

        async def receive() -> Any:
            return await asyncio.Event().wait()  # the client waits, too

        path = "/v1/collections/c/search"
        scope = {
            "type": "http",
            "method": "POST",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": [(b"min-generation", b"99"), (b"host", b"127.0.0.1")],
        }
        await reader(scope, receive, send)
        return found[0]

    async def together() -> list[int]:
        return await asyncio.gather(*(one() for _ in range(requests)))

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
