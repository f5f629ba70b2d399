"""The service on loopback: in a thread of this process, or in a process of its own."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import httpx
import numpy as np
import pytest
import uvicorn

from hummingbit.encoder.artifact import write_artifact
from hummingbit.index.data_folder import DataFolder
from hummingbit.service.app import DEFAULT_SETTINGS, create_app
from hummingbit.service.http.keys import create_key
from hummingbit.service.jobs.store import JobFiles
from hummingbit.service.server import limited_connections, server_config
from hummingbit.service.settings import Settings
from tests.support.encoders import random_texts, text_encoder, vector_encoder

ROOT = Path(__file__).parents[2]
# Longer than any test takes on a busy machine; only a fault makes a test wait for so long.
SECONDS = 120.0


def make_data_folder(path: Path) -> Path:
    """Make a data folder with the encoders ``words`` (32 bits) and ``numbers`` (16 bits)."""
    write_artifact(path / "encoders" / "words", text_encoder(), random_texts(40))
    vectors = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)
    write_artifact(path / "encoders" / "numbers", vector_encoder(n_bits=16), vectors)
    return path


@contextmanager
def running_service(
    data: Path | DataFolder, settings: Settings = DEFAULT_SETTINGS
) -> Iterator[httpx.Client]:
    """Serve a data folder from a thread; yield a client for it."""
    with running_app(data, settings) as (_, client):
        yield client


@contextmanager
def running_app(
    data: Path | DataFolder, settings: Settings = DEFAULT_SETTINGS
) -> Iterator[tuple[Any, httpx.Client]]:
    """Serve a data folder from a thread; yield the application and a client for it."""
    app = create_app(data, settings)
    config = server_config(app, settings, limited_connections(settings))
    config.port = 0
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive(), "the service did not start"
            time.sleep(0.005)
        port = server.servers[0].sockets[0].getsockname()[1]
        with client_of(f"http://127.0.0.1:{port}") as client:
            yield app, client
    finally:
        server.should_exit = True
        thread.join()


@contextmanager
def serving_process(
    data_dir: Path, *flags: str, stderr: IO[str] | None = None, max_files: int | None = None
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Serve a data folder from another process; yield it and its address; kill it at the end.

    `max_files` limits the files that each of its processes may open.
    """
    command = [sys.executable, "-m", "hummingbit", "serve", "--data-dir", str(data_dir)]
    command += ["--port", "0", "--create", *flags]
    if max_files is not None:
        command = ["sh", "-c", f'ulimit -n {max_files} && exec "$0" "$@"', *command]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=stderr, text=True
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert " on http://" in line, "the service did not start"
            yield process, line.split()[-1]
        finally:
            process.kill()


@contextmanager
def service_with_keys(data_dir: Path, workers: int = 1) -> Iterator[tuple[str, str]]:
    """Serve a data folder, asking for a key; yield the address and a key.

    It is served by a process that writes and so many workers, or by this process if there are none.
    """
    settings = Settings(data_dir=data_dir)
    key = create_key(settings.keys_path, "tests", "admin")
    if workers:
        with serving_process(data_dir, "--workers", str(workers)) as (_, address):
            yield address, key
    else:
        with running_service(data_dir, settings) as client:
            yield str(client.base_url), key


def client_of(address: str) -> httpx.Client:
    """Return a client that uses no proxy."""
    return httpx.Client(base_url=address, timeout=SECONDS, trust_env=False)


def send(client: httpx.Client, method: str, path: str, body: object) -> httpx.Response:
    """Send JSON, given as bytes or as a value, which may hold what httpx will not send."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"content-type": "application/json"}
    return client.request(method, path, content=content, headers=headers)


def with_longer_limits(check: Callable[[float], None], seconds: float) -> None:
    """Run `check` with a limit of so many seconds, or with longer ones where it fails.

    A check whose client must keep a limit of the service fails if the machine is too busy.
    """
    for limit in (seconds, 5 * seconds):
        with suppress(AssertionError, OSError):
            check(limit)
            return
    check(25 * seconds)


def wait_for_job(client: httpx.Client, response: httpx.Response) -> dict[str, Any]:
    """Wait for the job that `response` says was accepted."""
    assert response.status_code == 202, response.text
    location = response.headers["location"]
    assert location == f"/v1/jobs/{response.json()['id']}"
    deadline = time.monotonic() + SECONDS
    while (job := client.get(location).raise_for_status().json())["finished"] is None:
        assert time.monotonic() < deadline, job
        time.sleep(0.02)
    found: dict[str, Any] = job
    return found


def forget_job_when_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a job forgotten between the look at its record and the look at its files."""

    def forgotten(files: JobFiles, id_: str) -> Path:
        folder = files.path / id_
        with closing(sqlite3.connect(files.path / "jobs.sqlite")) as records, records:
            records.execute("DELETE FROM jobs WHERE id = ?", (id_,))
        shutil.rmtree(folder)
        return folder

    monkeypatch.setattr(JobFiles, "of", forgotten)


def check_problem(response: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """Fail unless `response` is a problem with this status and code; return it."""
    assert response.status_code == status, response.text[:500]
    assert response.headers["content-type"] == "application/problem+json"
    problem: dict[str, Any] = response.json()
    assert problem["status"] == status
    assert problem["code"] == code
    assert problem["type"] == f"urn:hummingbit:problem:{code}"
    assert problem["title"]
    assert problem["detail"]
    assert problem["instance"].startswith("/")
    return problem
