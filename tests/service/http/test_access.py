"""Who may do what: every operation of the description with every kind of key."""

from __future__ import annotations

import base64
import re
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn.protocols.http.httptools_impl as protocol
from pydantic import SecretStr

from hummingbit.service.app import create_app
from hummingbit.service.http.connections import READ_BYTES
from hummingbit.service.http.keys import revoke_key
from hummingbit.service.jobs.work import Progress
from hummingbit.service.settings import Settings
from tests.support.service import (
    check_problem,
    client_of,
    make_data_folder,
    running_service,
    wait_for_job,
)

KEYS = {role: role * 8 + "-" * 32 for role in ("read", "write", "admin")}
ROLES = ["nobody", "read", "write", "admin"]
JSON = {"Content-Type": "application/json"}


def settings_with_keys(**more: Any) -> Settings:
    keys: dict[str, Any] = {f"{role}_key": SecretStr(key) for role, key in KEYS.items()}
    return Settings(**keys, **more)


@pytest.fixture(scope="module")
def operations() -> list[tuple[str, str, str]]:
    """Method, path and role of every operation there is, and of the pages beside them."""
    app = create_app(Path("nowhere"), settings_with_keys())
    found = [
        (method.upper(), re.sub(r"\{.*?\}", "never", path), operation["x-role"])
        for path, methods in description(app).items()
        for method, operation in methods.items()
    ]
    pages = ("/docs", "/openapi.json", "/docs/swagger-ui.css", "/docs/start.js")
    return found + [("GET", page, "read") for page in pages]


def description(app: Any) -> dict[str, Any]:
    import json  # noqa: PLC0415 - only here

    paths: dict[str, Any] = json.loads(app.state.description())["paths"]
    return paths


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    folder = make_data_folder(tmp_path_factory.mktemp("data"))
    with running_service(folder, settings_with_keys()) as client:
        yield client


@pytest.mark.parametrize("shown", [None, "wrong" * 10, *KEYS.values()])
def test_a_key_reaches_the_operations_of_its_role_and_no_others(
    keyed: httpx.Client, operations: list[tuple[str, str, str]], shown: str | None
) -> None:
    headers = {} if shown is None else {"Authorization": f"Bearer {shown}"}
    rank = next((ROLES.index(r) for r, key in KEYS.items() if key == shown), 0)
    for method, path, role in operations:
        response = keyed.request(method, path, headers=headers)
        asked = f"{method} {path}"
        if rank >= ROLES.index(role):
            assert response.status_code not in {401, 403}, asked
            assert response.status_code < 500, asked
        elif rank == 0:
            check_problem(response, 401, "unauthorized")
            assert response.headers["www-authenticate"].startswith("Bearer "), asked
        else:
            check_problem(response, 403, "forbidden")
            assert f'scope="{role}"' in response.headers["www-authenticate"], asked


def test_only_liveness_needs_no_key(operations: list[tuple[str, str, str]]) -> None:
    assert [path for _, path, role in operations if role == "nobody"] == ["/livez"]


def test_nothing_is_told_of_places_without_a_key(keyed: httpx.Client) -> None:
    for method, path in (("GET", "/nope"), ("PATCH", "/v1/collections"), ("GET", "/livez/")):
        check_problem(keyed.request(method, path), 401, "unauthorized")


def test_the_ways_to_show_a_key(keyed: httpx.Client) -> None:
    key = KEYS["read"]
    basic = base64.b64encode(f"anybody:{key}".encode()).decode()
    for headers in (
        {"X-API-Key": key},
        {"Authorization": f"Bearer {key}"},
        {"Authorization": f"bearer  {key}"},
        {"Authorization": f"Basic {basic}"},
    ):
        assert keyed.get("/v1/collections", headers=headers).status_code == 200
    for wrong in (
        f"Basic {basic[:-6]}",
        "Basic !",
        "Bearer",
        f"Digest {key}",
        key,
        "Basic 4pyT/w==",
    ):
        response = keyed.get("/v1/collections", headers={"Authorization": wrong})
        check_problem(response, 401, "unauthorized")


def test_a_revoked_key_ends_at_once(tmp_path: Path) -> None:
    from hummingbit.service.http.keys import create_key  # noqa: PLC0415 - beside its opposite

    key = create_key(tmp_path / "keys.json", "ci", "read")
    with running_service(tmp_path) as client:
        headers = {"X-API-Key": key}
        assert client.get("/v1/collections", headers=headers).status_code == 200
        check_problem(client.get("/v1/collections"), 401, "unauthorized")
        revoke_key(tmp_path / "keys.json", "ci")
        check_problem(client.get("/v1/collections", headers=headers), 401, "unauthorized")


def test_a_body_without_a_key_is_not_read(
    keyed: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    received: list[int] = []
    on_body = protocol.HttpToolsProtocol.on_body

    def counting(self: protocol.HttpToolsProtocol, body: bytes) -> None:
        received.append(len(body))
        on_body(self, body)

    monkeypatch.setattr(protocol.HttpToolsProtocol, "on_body", counting)
    assert keyed.base_url.port is not None
    head = (
        "PUT /v1/collections/c/documents HTTP/1.1\r\nHost: localhost\r\n"
        "Content-Type: application/json\r\nContent-Length: 50000000\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", keyed.base_url.port), timeout=120) as connection:
        with suppress(OSError):  # the other end hangs up
            connection.sendall(head.encode())
            for _ in range(800):
                connection.sendall(b" " * 65_536)
        answer = connection.recv(4096)
        assert answer.startswith(b"HTTP/1.1 401 ")
        assert b"connection: close" in answer.lower()
    assert sum(received) <= (64 << 10) + READ_BYTES


def test_a_small_body_without_a_key_keeps_the_connection(keyed: httpx.Client) -> None:
    with client_of(str(keyed.base_url)) as client:
        for _ in range(3):
            response = client.post("/v1/collections/c/search", json={"text": "a"})
            check_problem(response, 401, "unauthorized")
            assert "connection" not in response.headers


def test_an_idempotency_key_names_a_job_of_the_api_key_that_sent_it(keyed: httpx.Client) -> None:
    started: dict[str, str] = {}
    for role, text in (("admin", "butter"), ("write", "bread")):
        sent = {
            "Authorization": f"Bearer {KEYS[role]}",
            "Content-Type": "application/x-ndjson",
            "Prefer": "respond-async",
            "Idempotency-Key": "monday",
        }
        keyed.put("/v1/collections/once", json={"encoder": "words"}, headers=sent | JSON)
        for _ in range(2):
            line = f'{{"id": "{role}", "text": "{text}"}}'
            path = "/v1/collections/once/documents:bulk"
            response = keyed.post(path, content=line, headers=sent)
            assert response.status_code == 202, response.text
            started.setdefault(role, response.json()["id"])
            assert started[role] == response.json()["id"]
    assert started["admin"] != started["write"]


def test_maps_and_duplicates_of_a_key_to_read_make_room_for_each_other(tmp_path: Path) -> None:
    # A map of three points and what describes it take some 400 bytes.
    settings = settings_with_keys(jobs_per_key=1000, job_bytes_per_key=900)
    admin = {"authorization": f"Bearer {KEYS['admin']}"}
    with running_service(make_data_folder(tmp_path), settings) as client:
        path = "/v1/collections/c"
        client.put(path, json={"n_bits": 8}, headers=admin).raise_for_status()
        documents = [{"id": str(at), "code": f"0{at}", "label": "x"} for at in range(3)]
        client.put(f"{path}/documents", json={"documents": documents}, headers=admin)
        client.headers["authorization"] = f"Bearer {KEYS['read']}"
        drawn = []
        for _ in range(6):
            asked = client.post(f"{path}/map", json={"method": "pca"})
            drawn.append(wait_for_job(client, asked)["id"])
            found = wait_for_job(client, client.post(f"{path}/duplicates", json={"radius": 1}))
            assert found["state"] == "done"
        kept = [id_ for id_ in drawn if client.get(f"/v1/maps/{id_}").status_code == 200]
        assert kept == drawn[-len(kept) :]
        assert 1 <= len(kept) < 6
        held = [
            path for path in (tmp_path / "jobs").rglob("*") if path.parent.parent.name == "jobs"
        ]
        assert sum(item.stat().st_size for item in held) <= 1800


def test_a_key_to_read_evaluates_as_a_job_within_its_quota_and_verifies_at_once_only(
    tmp_path: Path,
) -> None:
    settings = settings_with_keys(jobs_per_key=1000, job_bytes_per_key=40_000)
    reader = {"authorization": f"Bearer {KEYS['read']}", "prefer": "respond-async"}
    writer = {"authorization": f"Bearer {KEYS['write']}", "prefer": "respond-async"}
    with running_service(make_data_folder(tmp_path), settings) as client:
        admin = {"authorization": f"Bearer {KEYS['admin']}"}
        path = "/v1/collections/c"
        client.put(path, json={"n_bits": 8}, headers=admin).raise_for_status()
        documents = [{"id": "a", "code": "00", "label": "x"}]
        client.put(f"{path}/documents", json={"documents": documents}, headers=admin)
        check_problem(client.post(f"{path}/verify", headers=reader), 403, "forbidden")
        assert client.post(f"{path}/verify", headers=writer).status_code == 202
        plain = {"authorization": reader["authorization"]}
        assert client.post(f"{path}/verify", headers=plain).status_code == 200
        query = {"code": "00", "label": "x", "id": "q" * 200}
        body = {"queries": [query], "metrics": ["P@1"]}
        for _ in range(3):
            accepted = client.post(f"{path}/evaluate", json=body, headers=reader)
            assert accepted.status_code == 202
        refused = client.post(
            f"{path}/evaluate", json={**body, "queries": [query] * 200}, headers=reader
        )
        problem = check_problem(refused, 429, "too_many_jobs")
        assert "retry-after" in refused.headers
        assert "together they may have 40,000" in problem["detail"]
        # The quota of one key is not another's.
        assert client.post(f"{path}/evaluate", json=body, headers=writer).status_code == 202
        held = sum(path.stat().st_size for path in tmp_path.glob("jobs/*/*"))
        assert held <= 2 * 40_000


def test_a_read_key_cancels_its_own_jobs_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both jobs read on until they are cancelled, each in a thread of its own."""
    from hummingbit.service.http.keys import create_key  # noqa: PLC0415 - as above

    def read_forever(_: object, progress: Progress) -> dict[str, Any]:
        while True:
            progress.advance()
            time.sleep(0.001)

    monkeypatch.setattr("hummingbit.service.jobs.kinds.write_clusters", read_forever)
    names = ("one", "other")
    headers = {
        name: {"X-API-Key": create_key(tmp_path / "keys.json", name, "read")} for name in names
    }
    with running_service(make_data_folder(tmp_path), settings_with_keys()) as client:
        admin, write = ({"X-API-Key": KEYS[role]} | JSON for role in ("admin", "write"))
        client.put("/v1/collections/c", json={"n_bits": 8}, headers=admin).raise_for_status()
        path = "/v1/collections/c/duplicates"
        jobs = [
            client.post(path, json={"radius": 1}, headers=headers[name] | JSON).json()["id"]
            for name in names
        ]

        def cancel(job: str, shown: dict[str, str]) -> httpx.Response:
            return client.post(f"/v1/jobs/{job}/cancel", headers=shown)

        check_problem(cancel(jobs[0], headers["other"]), 403, "forbidden")
        assert cancel(jobs[0], headers["one"]).status_code == 202
        assert cancel(jobs[1], write).status_code == 202
