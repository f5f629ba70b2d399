"""No page of another site reads or changes what a service without keys holds."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr

from hummingbit.service.settings import Settings
from tests.support.service import check_problem, running_service

KEY = "k" * 40
EVIL = "http://evil.example"


@pytest.mark.parametrize(
    ("host", "taken"),
    [
        ("127.0.0.1", True),
        ("localhost:8000", True),
        ("LOCALHOST", True),
        ("[::1]:8000", True),
        ("127.0.0.2", True),
        ("evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("localhost.evil.example:8000", False),
        ("10.0.0.1", False),
        ("", False),
    ],
)
def test_hosts_without_keys(client: httpx.Client, host: str, taken: bool) -> None:
    response = client.get("/v1/collections", headers={"Host": host})
    if taken:
        assert response.status_code == 200
    else:
        check_problem(response, 421, "unknown_host")


def test_hosts_with_keys_and_those_of_the_settings(tmp_path: Path) -> None:
    headers = {"Host": "search.example:8000", "X-API-Key": KEY}
    with running_service(tmp_path / "a", Settings(read_key=SecretStr(KEY))) as client:
        assert client.get("/v1/collections", headers=headers).status_code == 200
    limits = Settings(allowed_hosts="search.example, other.example", read_key=SecretStr(KEY))
    with running_service(tmp_path / "b", limits) as client:
        assert client.get("/v1/collections", headers=headers).status_code == 200
        response = client.get("/v1/collections", headers={"X-API-Key": KEY})
        check_problem(response, 421, "unknown_host")
    with running_service(tmp_path / "c", Settings(allowed_hosts="*")) as client:
        assert client.get("/v1/collections", headers=headers).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": EVIL},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_pages_of_other_origins_change_nothing(
    client: httpx.Client, headers: dict[str, str]
) -> None:
    path = "/v1/collections/cross"
    refused = client.put(path, json={"n_bits": 8}, headers=headers)
    check_problem(refused, 403, "cross_origin")
    check_problem(client.post(f"{path}/verify", headers=headers), 403, "cross_origin")
    check_problem(client.get(path), 404, "unknown_collection")
    assert "access-control-allow-origin" not in client.get("/readyz", headers=headers).headers


def test_pages_of_the_service_itself(client: httpx.Client) -> None:
    port = client.base_url.port
    for headers in (
        {"Origin": f"http://127.0.0.1:{port}", "Sec-Fetch-Site": "same-origin"},
        {"Origin": f"https://127.0.0.1:{port}"},
        {"Sec-Fetch-Site": "none"},
    ):
        assert client.post("/v1/aliases", json={}, headers=headers).status_code == 422


def test_origins_that_are_allowed(tmp_path: Path) -> None:
    friend = "https://console.example"
    limits = Settings(cors_origin=f"{friend}, https://other.example")
    headers = {"Origin": friend, "Sec-Fetch-Site": "cross-site"}
    asking = {"Access-Control-Request-Method": "PUT", "Access-Control-Request-Headers": "x-api-key"}
    with running_service(tmp_path, limits) as client:
        path = "/v1/collections/c"
        preflight = client.options(path, headers=headers | asking)
        assert preflight.status_code == 200
        assert preflight.headers["access-control-allow-origin"] == friend
        assert "x-api-key" in preflight.headers["access-control-allow-headers"].lower()
        response = client.put(path, json={"n_bits": 8}, headers=headers)
        assert response.status_code == 201
        assert response.headers["access-control-allow-origin"] == friend
        evil = client.put(path, json={"n_bits": 8}, headers={"Origin": EVIL})
        check_problem(evil, 403, "cross_origin")
        assert "access-control-allow-origin" not in evil.headers


def test_every_write_wants_the_type_that_it_documents(client: httpx.Client) -> None:
    client.put("/v1/collections/typed", json={"n_bits": 8})
    description = client.get("/openapi.json").json()
    for template, operations in description["paths"].items():
        path = template.replace("{name}", "typed").replace("{id}", "0")
        for method in set(operations) - {"get"}:
            operation = operations[method]
            taken = {*operation.get("requestBody", {}).get("content", {})}
            # Generators of clients take one type of a body; the description names the other.
            taken |= {"text/plain"} if "`text/plain`" in operation.get("description", "") else set()
            for media_type in {"text/plain", "application/x-www-form-urlencoded"} - taken:
                headers = {"content-type": media_type}
                response = client.request(method, path, content=b'{"a": 1}', headers=headers)
                check_problem(response, 415, "unsupported_media_type")
