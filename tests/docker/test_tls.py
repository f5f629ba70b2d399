"""Caddy itself runs docker/Caddyfile here, in front of a service, with a certificate of its own."""

from __future__ import annotations

import os
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from socket import socket
from typing import Any

import httpx
import pytest
import yaml

from hummingbit.service.http.keys import create_key
from hummingbit.service.settings import ENV_PREFIX, Settings
from tests.support.service import make_data_folder, running_service

ROOT = Path(__file__).parents[2]
CADDYFILE = (ROOT / "docker" / "Caddyfile").read_text()
CADDY = Path(sys.executable).with_name("caddy")
COMPOSE = yaml.safe_load((ROOT / "docker-compose.tls.yml").read_text())
UPSTREAM = "service:8000"
SECONDS = 60.0


def free_port() -> int:
    with socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def proxied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, ssl.SSLContext, str]]:
    """The address of Caddy in front of a service, the certificates to trust, and a key."""
    folder = tmp_path_factory.mktemp("tls")
    data_dir = make_data_folder(folder / "data")
    settings = Settings(data_dir=data_dir)
    key = create_key(settings.keys_path, "tests", "admin")
    https_port = free_port()
    options = f"""{{
    admin off
    skip_install_trust
    http_port {free_port()}
    https_port {https_port}
    default_bind 127.0.0.1
    storage file_system {folder}
}}
"""
    with running_service(data_dir, settings) as service:
        configuration = folder / "Caddyfile"
        assert UPSTREAM in CADDYFILE
        upstream = f"{service.base_url.host}:{service.base_url.port}"
        configuration.write_text(options + CADDYFILE.replace(UPSTREAM, upstream))
        environment = os.environ | {"DOMAIN": "localhost", "HOME": str(folder)}
        command = [str(CADDY), "run", "--adapter", "caddyfile", "--config", str(configuration)]
        with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as process:
            try:
                root = folder / "pki" / "authorities" / "local" / "root.crt"
                address = f"https://localhost:{https_port}"
                yield address, wait_for(root, address, process), key
            finally:
                process.terminate()


def wait_for(root: Path, address: str, process: subprocess.Popen[bytes]) -> ssl.SSLContext:
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        assert process.poll() is None, "Caddy stopped"
        try:
            trusted = ssl.create_default_context(cafile=str(root))
            httpx.get(f"{address}/livez", verify=trusted, trust_env=False)
        except (OSError, httpx.TransportError):
            time.sleep(0.02)
        else:
            return trusted
    raise AssertionError("Caddy does not answer")


def test_caddy_takes_its_file_as_it_is() -> None:
    command = [str(CADDY), "adapt", "--adapter", "caddyfile", "--config", "-", "--validate"]
    environment = os.environ | {"DOMAIN": "search.example.org"}
    done = subprocess.run(
        command, input=CADDYFILE, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "not formatted" not in done.stderr


def test_a_client_uses_the_service_over_https(
    proxied: tuple[str, ssl.SSLContext, str],
) -> None:
    address, trusted, key = proxied
    headers = {"Authorization": f"Bearer {key}", "Origin": address}
    with httpx.Client(base_url=address, verify=trusted, trust_env=False) as client:
        assert client.get("/readyz").status_code == 401
        client.headers.update(headers)
        # As the console in a browser does, which sends the origin of its page.
        client.put("/v1/collections/notes", json={"encoder": "words"}).raise_for_status()
        documents = [{"id": str(number), "text": "pear " * 20} for number in range(500)]
        path = "/v1/collections/notes"
        client.put(f"{path}/documents", json={"documents": documents}).raise_for_status()
        found = client.post(f"{path}/search", json={"text": "pear", "limit": 3})
        assert len(found.raise_for_status().json()["hits"]) == 3
        client.headers["Origin"] = "https://elsewhere.example"
        assert client.delete(path).status_code == 403


def test_the_override_of_compose_is_as_strict_and_names_what_is_there() -> None:
    base: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    proxy = COMPOSE["services"]["proxy"]
    assert proxy["read_only"] is True
    assert proxy["cap_drop"] == ["ALL"]
    assert proxy["security_opt"] == ["no-new-privileges:true"]
    (config,) = proxy["configs"]
    assert (ROOT / COMPOSE["configs"][config["source"]]["file"]).read_text() == CADDYFILE
    assert set(proxy["depends_on"]) <= base["services"].keys()
    assert UPSTREAM.partition(":")[0] in base["services"]
    for volume in proxy["volumes"]:
        assert volume.partition(":")[0] in COMPOSE["volumes"]
    given = COMPOSE["services"]["service"]["environment"]
    names = {name.removeprefix(ENV_PREFIX).lower() for name in given}
    assert names <= set(Settings.model_fields)
    # A variable of the proxy that looked like a setting would stop commands of hummingbit.
    assert not any(name.startswith(ENV_PREFIX) for name in proxy["environment"])


def test_the_proxy_closes_idle_connections_before_the_service() -> None:
    (seconds,) = [
        line.split()[1].removesuffix("s")
        for line in CADDYFILE.splitlines()
        if line.strip().startswith("keepalive")
    ]
    assert float(seconds) < Settings().idle_timeout
