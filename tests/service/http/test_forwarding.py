"""Which requests a reader answers itself, of all there are."""

from __future__ import annotations

import asyncio
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from hummingbit.index.data_folder import DataFolder
from hummingbit.service.app import ROUTERS, create_app
from hummingbit.service.http.forwarding import LOCAL, Forwarding
from hummingbit.service.http.keys import Role, required_role
from hummingbit.service.settings import Settings

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
        Forwarding(create_app(folder), folder, tmp_path / "writer", 1.0)
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


async def statuses(folder: DataFolder, requests: int, settings: Settings) -> list[int]:
    """Return the statuses of searches of ``c`` for generation 99, sent at the same time."""
    app = create_app(folder, settings, writer=folder.path / "absent")
    transport = httpx.ASGITransport(app)
    headers = {"Min-Generation": "99"}
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        asked = (
            client.post("/v1/collections/c/search", json={"code": "00"}, headers=headers)
            for _ in range(requests)
        )
        return [response.status_code for response in await asyncio.gather(*asked)]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[DataFolder]:
    CountingFolder.most = CountingFolder.begun = 0
    with DataFolder(tmp_path, writable=True) as writing:
        writing.create_collection("c", n_bits=8)
        with CountingFolder(tmp_path, writable=False) as folder:
            yield folder


def test_many_who_wait_for_a_generation_take_one_thread(folder: DataFolder) -> None:
    # There is no writer, to which they are passed on in the end.
    assert set(asyncio.run(statuses(folder, 50, Settings()))) == {503}
    assert CountingFolder.most == 1
    assert CountingFolder.begun > 1


def test_a_key_is_checked_before_a_generation_is_waited_for(folder: DataFolder) -> None:
    settings = Settings(read_key=SecretStr("r" * 40))
    assert asyncio.run(statuses(folder, 2, settings)) == [401, 401]
    assert CountingFolder.begun == 0
