"""A service of several processes: exact under load, whoever is killed; one port, one answer."""

from __future__ import annotations

import json
import os
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from http.client import HTTPResponse
from itertools import product
from pathlib import Path
from typing import Any

import httpx
import pytest

from hummingbit.cli import main
from hummingbit.service.http.forwarding import IDLE_CONNECTIONS
from hummingbit.service.http.keys import create_key, revoke_key
from tests.support.faults import soak
from tests.support.service import (
    check_problem,
    client_of,
    running_service,
    serving_process,
    wait_for_job,
)

QUIET = ("--no-access-log", "--log-level", "warning")
WORKERS = ("--workers", "2", *QUIET)
ONE_WORKER = ("--workers", "1", *QUIET)
SECONDS = 120.0
CODE = "00ff00ff"
LAST_CONTENTS = 3
LINES = {"Content-Type": "application/x-ndjson"}


def children(pid: int) -> list[int]:
    """Return the processes of a service: the writer first, unless one was replaced."""
    return [int(part) for part in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def create(client: httpx.Client, path: str = soak.PATH) -> None:
    client.put(path, json={"n_bits": soak.N_BITS}).raise_for_status()


def wait_until(holds: Any) -> None:
    deadline = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def service(folder: Path) -> Iterator[str]:
    with serving_process(folder, *WORKERS) as (process, address):
        yield address
        process.terminate()
        assert process.wait(SECONDS) == 0


class Persistent(soak.SoakClient):
    """Asks again where the process that was to answer is gone."""

    def __init__(self, address: str, seed: int, end: threading.Event, *, reads: bool) -> None:
        super().__init__(address, seed, end, reads=reads)
        self.again = 0
        self.generation = 0
        """The newest generation that a response named."""
        self.maybe: list[soak.WriteRecord] = []
        """Writes that nobody acknowledged, with the least generation that each can have."""

    def _ask(self, method: str, path: str, body: Any) -> Any:
        while True:
            try:
                response = self._http.request(method, path, json=body)
                if response.status_code != 503:
                    if response.status_code != 200:
                        self.unexpected.append(response.text)
                        return None
                    found = response.json()
                    # A deletion that was made before it was asked again deletes nothing, and
                    # only its generation tells that.
                    self.generation = max(self.generation, found["generation"])
                    return found
            except httpx.TransportError:
                pass
            self.again += 1
            if not path.endswith("/search"):
                documents = [
                    (document["id"], document["code"], document["payload"]["tag"])
                    for document in body.get("documents", ())
                ]
                deleted = body.get("ids", ())
                self.maybe.append(soak.WriteRecord(self.generation + 1, documents, deleted))
            time.sleep(0.01)


def possible_histories(threads: Sequence[Persistent]) -> Iterator[list[soak.WriteRecord]]:
    """Yield all writes, with each choice of those that were made though nobody said so.

    The first thread writes, and the generations of those writes are missing. Asked again, a write
    may be made before the first attempt, which nobody waits for any more and which may be made
    after the next write.
    """
    writer = threads[0]
    made = {write.generation: write for write in writer.writes}
    last = max(*made, *(search.generation for thread in threads for search in thread.searches))
    missing = [generation for generation in range(1, last + 1) if generation not in made]
    choices = []
    for generation in missing:
        attempts = [item for item in writer.maybe if item.generation <= generation]
        contents = {repr(item[1:]): item._replace(generation=generation) for item in attempts}
        choices.append([*contents.values()][-LAST_CONTENTS:])
    for unacknowledged in product(*choices):
        yield sorted([*made.values(), *unacknowledged])


def run(address: str, clients: int, seconds: float) -> dict[str, int]:
    with client_of(address) as client:
        client.delete(soak.PATH)
        create(client)
    return soak.check(soak.soak(address, clients, seconds, seed=1))


def test_every_answer_is_exact_while_others_write(service: str) -> None:
    # A busy machine may answer no search in so short a time.
    assert any(run(service, clients=8, seconds=n)["searches"] for n in (0.3, 3, 25))


@pytest.mark.soak
def test_every_answer_is_exact_for_minutes(service: str) -> None:
    seconds = float(os.environ.get("SOAK_SECONDS", "120"))
    found = run(service, 32, seconds)
    print(f"2 workers, {seconds:g} s:", ", ".join(f"{n:,} {x}" for x, n in found.items()))


@pytest.mark.faults
def test_whoever_is_killed_is_replaced_and_no_answer_is_wrong(tmp_path: Path) -> None:
    with serving_process(tmp_path, *WORKERS) as (process, address):
        with client_of(address) as client:
            create(client)
        end = threading.Event()
        threads = [Persistent(address, at, end, reads=at > 0) for at in range(4)]
        for thread in threads:
            thread.start()
        first = children(process.pid)
        assert len(first) == 3
        for pid in first:
            time.sleep(0.5)
            os.kill(pid, signal.SIGKILL)
            wait_until(lambda pid=pid: pid not in children(process.pid))
        wait_until(lambda: len(children(process.pid)) == 3)
        written = len(threads[0].writes)
        wait_until(lambda: len(threads[0].writes) > written + 3)
        end.set()
        for thread in threads:
            thread.join(SECONDS)
            assert not thread.is_alive()
        process.terminate()
        assert process.wait(SECONDS) == 0
    assert sum(thread.again for thread in threads) > 0
    assert [problem for thread in threads for problem in thread.unexpected] == []
    assert any(thread.searches for thread in threads)
    wrong = [soak.differing(threads, writes) for writes in possible_histories(threads)]
    assert [] in wrong, min(wrong, key=len)[0]


@pytest.mark.faults
def test_processes_end_with_their_supervisor(tmp_path: Path) -> None:
    with serving_process(tmp_path, *WORKERS) as (process, _):
        pids = children(process.pid)
        process.kill()
        process.wait()
    wait_until(lambda: not any(Path(f"/proc/{pid}/exe").exists() for pid in pids))


@pytest.mark.usefixtures("service")
def test_a_second_writer_is_refused(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    arguments = ["serve", "--data-dir", str(folder), "--port", "0", "--workers", "1"]
    assert main(arguments) == 2
    assert "is in use: another process is writing to it" in capfd.readouterr().err


def test_a_folder_too_long_for_sockets_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    temporary = tmp_path / ("x" * 100)
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    arguments = ["serve", "--data-dir", str(tmp_path), "--create", "--port", "0", "--workers", "1"]
    assert main(arguments) == 2
    said = capfd.readouterr().err
    assert f"{temporary}: is too long a path for sockets" in said
    assert "Traceback" not in said


def test_a_client_sees_its_own_writes_on_its_connection(service: str) -> None:
    with client_of(service) as client:
        create(client, "/v1/collections/own")
        for number in range(50):
            documents = [{"id": f"d{number}", "code": CODE}]
            made = client.put("/v1/collections/own/documents", json={"documents": documents}).json()
            body = {"code": CODE, "limit": 100}
            found = client.post("/v1/collections/own/search", json=body).json()
            assert found["generation"] == made["generation"]
            assert len(found["hits"]) == number + 1


def test_a_generation_that_was_seen_is_seen_on_every_connection(service: str) -> None:
    with client_of(service) as client:
        create(client, "/v1/collections/seen")
        for number in range(30):
            documents = [{"id": f"d{number}", "code": CODE}]
            path = "/v1/collections/seen/documents"
            generation = client.put(path, json={"documents": documents}).json()["generation"]
            with client_of(service) as other:
                headers = {"Min-Generation": str(generation)}
                body = {"code": CODE, "limit": 100}
                found = other.post("/v1/collections/seen/search", json=body, headers=headers)
            assert found.json()["generation"] >= generation


def test_a_min_generation_that_is_none_is_refused_by_whoever_answers(
    service: str, tmp_path: Path
) -> None:
    def check(client: httpx.Client) -> None:
        create(client, "/v1/collections/min")
        asked = (("POST", "min/search"), ("GET", "min/labels"), ("POST", "no/search"))
        for given in ("abc", "-1", "1.5", "", "9" * 19):
            headers = {"Min-Generation": given}
            for method, name in asked:
                body = {"code": CODE} if method == "POST" else None
                path = f"/v1/collections/{name}"
                answer = client.request(method, path, json=body, headers=headers)
                detail = check_problem(answer, 422, "invalid_request")["detail"]
                assert detail.startswith(f"Min-Generation is {given!r}; it must be a whole number")
        twice = [("Min-Generation", "0"), ("Min-Generation", "abc")]
        found = client.post("/v1/collections/min/search", json={"code": CODE}, headers=twice)
        assert found.status_code == 200

    with client_of(service) as client:
        check(client)
    with running_service(tmp_path) as client:
        check(client)


def test_a_write_is_visible_to_all_within_a_second(service: str) -> None:
    with client_of(service) as client:
        create(client, "/v1/collections/soon")
        body = {"documents": [{"id": "a", "code": CODE}]}
        client.put("/v1/collections/soon/documents", json=body).raise_for_status()

    def seen_by_all() -> bool:
        found = []
        for _ in range(8):
            with client_of(service) as other:
                answer = other.post("/v1/collections/soon/search", json={"code": CODE}).json()
                found.append(len(answer["hits"]) == 1)
        return all(found)

    wait_until(seen_by_all)


def test_all_else_is_answered_by_the_writer(service: str) -> None:
    with client_of(service) as client:
        path = "/v1/collections/other"
        create(client, path)
        # More than one piece, both ways.
        text = "naïve " * 20_000
        documents = [{"id": f"d {n}/ü?", "code": CODE, "payload": {"t": text}} for n in range(20)]
        assert client.put(f"{path}/documents", json={"documents": documents}).status_code == 200
        assert client.get(f"{path}/documents/d%203%2F%C3%BC%3F").json()["payload"] == {"t": text}
        job = wait_for_job(
            client, client.post(f"{path}/verify", headers={"Prefer": "respond-async"})
        )
        assert job["result"] == {"documents": 20, "problems": []}
        assert client.get("/v1/jobs", params={"kind": "verify", "limit": 1}).json()["jobs"]
        many = "".join('{"id": "m%d", "code": "00000000"}\n' % n for n in range(5000))  # noqa: UP031
        sent = client.post(f"{path}/documents:bulk", content=many.encode(), headers=LINES)
        assert sent.status_code == 200, sent.text
        assert client.post(f"{path}/documents:count", json={}).json()["count"] == 5020
        check_problem(client.get("/v1/collections/absent"), 404, "unknown_collection")
        check_problem(client.put(path, json={"n_bits": 3}), 422, "invalid_request")
        assert client.request("GET", "/nowhere").status_code == 404
        assert client.get("/readyz").status_code == 200
        for at in ("/livez", "/readyz", "/metrics", "/v1/collections", path, "/openapi.json"):
            assert client.head(at).status_code == 200, at
        named = client.delete(path, headers={"X-Request-ID": "mine"})
        assert (named.status_code, named.headers["x-request-id"]) == (204, "mine")


def send(address: str, head: str, body: bytes = b"") -> socket.socket:
    """Send a request as it is written, which no client of HTTP tidies up."""
    host, _, port = address.removeprefix("http://").partition(":")
    connection = socket.create_connection((host, int(port)), timeout=SECONDS)
    connection.sendall(f"{head}\r\nHost: {host}\r\n\r\n".encode() + body)
    return connection


def answered(connection: socket.socket) -> tuple[int, bytes]:
    with connection, closing(HTTPResponse(connection)) as response:
        response.begin()
        return response.status, response.read()


def test_an_id_with_dots_is_passed_on_as_it_is_or_refused(service: str) -> None:
    with client_of(service) as client:
        path = "/v1/collections/dots"
        create(client, path)
        ids = ["a/../b", "b", "a/./b", "a/b", "..", ".a"]
        documents = [{"id": id_, "code": CODE} for id_ in ids]
        client.put(f"{path}/documents", json={"documents": documents}).raise_for_status()
        for item in ("a/../b", "a/./b", "..", ".a"):
            if item != ".a":
                status, body = answered(send(service, f"DELETE {path}/documents/{item} HTTP/1.1"))
                assert (status, json.loads(body)["code"]) == (400, "invalid_path")
            encoded = item.replace(".", "%2E")
            assert answered(send(service, f"DELETE {path}/documents/{encoded} HTTP/1.1"))[0] == 204
            ids.remove(item)
            found = client.post(f"{path}/documents:scroll", json={}).json()["documents"]
            assert sorted(document["id"] for document in found) == sorted(ids)


def test_a_request_that_cannot_be_passed_on_is_the_clients_mistake(service: str) -> None:
    status, body = answered(send(service, "GET /v1/jobs HTTP/1.1\r\nHost: other"))
    assert (status, json.loads(body)["code"]) == (400, "invalid_http")
    assert "2 headers Host" in json.loads(body)["detail"]


def test_a_connection_ends_where_the_writer_leaves_a_body_unread(service: str) -> None:
    body = b"x" * 300_000
    head = f"PUT /v1/collections/c/documents HTTP/1.1\r\nContent-Length: {len(body)}"
    with (
        send(service, f"{head}\r\nOrigin: http://other.example", body) as connection,
        closing(HTTPResponse(connection)) as response,
    ):
        response.begin()
        assert (response.status, response.headers["connection"]) == (403, "close")
        response.read()
        with suppress(ConnectionResetError):
            assert connection.recv(1) == b""


def test_who_sends_slowly_keeps_nobody_from_the_writer(tmp_path: Path) -> None:
    settings = ("--max-connections-per-address", "1000", *ONE_WORKER)
    path = "/v1/collections/c"
    head = f"PUT {path}/documents HTTP/1.1\r\nContent-Length: 99\r\nContent-Type: application/json"
    with serving_process(tmp_path, *settings) as (_, address), client_of(address) as client:
        create(client, path)
        with ExitStack() as slow:
            for _ in range(IDLE_CONNECTIONS + 8):
                slow.enter_context(send(address, head, b"{"))
            body = {"documents": [{"id": "a", "code": CODE}]}
            assert client.put(f"{path}/documents", json=body).json()["upserted"] == 1


def test_metrics_are_those_of_all_processes(service: str) -> None:
    def counted() -> float:
        with client_of(service) as client:
            text = client.get("/metrics").raise_for_status().text
        lines = [line for line in text.splitlines() if "request_seconds_count" in line]
        return sum(float(line.split()[-1]) for line in lines if 'route="/livez"' in line)

    before = counted()
    for _ in range(20):
        with client_of(service) as client:
            client.get("/livez").raise_for_status()
    assert counted() == before + 20


def test_a_request_that_the_writer_answers_is_counted_once_under_its_route(service: str) -> None:
    def counted() -> list[str]:
        with client_of(service) as client:
            text = client.get("/metrics").raise_for_status().text
        lines = [line for line in text.splitlines() if "request_seconds_count" in line]
        return sorted(line for line in lines if 'method="GET"' in line and '"/metrics"' not in line)

    before = counted()
    with client_of(service) as client:
        for _ in range(3):
            client.get("/v1/jobs").raise_for_status()
    (changed,) = set(counted()) - {*before}
    assert 'route="/v1/jobs"' in changed
    was = sum(float(line.split()[-1]) for line in before if 'route="/v1/jobs"' in line)
    assert float(changed.split()[-1]) == was + 3


@pytest.mark.parametrize("headers", [{}, {"Content-Encoding": "gzip"}])
@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_body_that_nobody_needs_spoils_no_answer(
    service: str, headers: dict[str, str], is_chunked: bool
) -> None:
    with client_of(service) as client:
        for path in ("/metrics", "/v1/collections", "/v1/jobs", "/readyz"):
            content = iter([b"{}"]) if is_chunked else b"{}"
            response = client.request("GET", path, content=content, headers=headers)
            assert response.status_code == 200, path
            assert client.get("/livez").status_code == 200


def test_keys_are_checked_wherever_an_answer_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUMMINGBIT_READ_KEY", "r" * 40)
    monkeypatch.setenv("HUMMINGBIT_ADMIN_KEY", "a" * 40)
    with serving_process(tmp_path, *ONE_WORKER) as (_, address), client_of(address) as client:
        for path in ("/v1/collections", "/v1/jobs", "/metrics", "/v1/access"):
            check_problem(client.get(path), 401, "unauthorized")
            assert client.get(path, headers={"X-API-Key": "r" * 40}).status_code == 200
        reader = client.put(
            "/v1/collections/c", json={"n_bits": 8}, headers={"X-API-Key": "r" * 40}
        )
        check_problem(reader, 403, "forbidden")


@pytest.mark.faults
def test_a_replacement_knows_that_there_was_a_key_and_stopped_processes_end(
    tmp_path: Path,
) -> None:
    keys, paths = tmp_path / "keys.json", ("/v1/collections/c", "/v1/jobs")
    with serving_process(tmp_path, *ONE_WORKER) as (process, address):

        def statuses() -> list[int]:
            with client_of(address) as client:
                return [client.get(path).status_code for path in paths]

        assert statuses() == [404, 200]
        create_key(keys, "first", "read")
        assert statuses() == [401, 401]
        time.sleep(1.5)  # the supervisor looks four times a second
        revoke_key(keys, "first")
        former = children(process.pid)
        for pid in former:
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: len({*children(process.pid)} - {*former}) == 2)
        wait_until(lambda: 503 not in statuses())
        assert statuses() == [401, 401], "whoever can reach the port would be an administrator"
        for pid in children(process.pid):
            os.kill(pid, signal.SIGSTOP)
        process.terminate()
        assert process.wait(SECONDS) == 0


@pytest.mark.faults
def test_who_the_writer_does_not_answer_is_told_so_in_time(tmp_path: Path) -> None:
    settings = ("--request-timeout", "1", *ONE_WORKER)
    path = "/v1/collections/c/documents"
    json_body = "Content-Type: application/json\r\nContent-Length"
    with serving_process(tmp_path, *settings) as (process, address):
        writer, _ = children(process.pid)
        os.kill(writer, signal.SIGSTOP)
        try:
            large = b" " * (8 << 20)  # more than the sockets hold
            asked = [
                send(address, "GET /v1/jobs HTTP/1.1"),
                send(address, f"PUT {path} HTTP/1.1\r\n{json_body}: {len(large)}", large),
                send(address, f"PUT {path} HTTP/1.1\r\n{json_body}: 99", b"{"),
            ]
            found = [(status, json.loads(body)) for status, body in map(answered, asked)]
        finally:
            os.kill(writer, signal.SIGCONT)
        assert [(status, item["code"]) for status, item in found] == [
            (503, "timed_out"),
            (503, "timed_out"),
            (408, "body_too_slow"),
        ]
        assert found[0][1]["detail"].startswith("there was no response within 1 s")
        with client_of(address) as client:
            wait_until(lambda: client.get("/v1/jobs").status_code == 200)


def test_readers_of_a_folder_that_another_service_writes(service: str, folder: Path) -> None:
    path = "/v1/collections/followed"
    with client_of(service) as writer:
        create(writer, path)
        with (
            serving_process(folder, "--read-only", *ONE_WORKER) as (_, other),
            client_of(other) as reader,
        ):
            body = {"documents": [{"id": "a", "code": CODE, "payload": {"label": "x"}}]}
            made = writer.put(f"{path}/documents", json=body).json()
            headers = {"Min-Generation": str(made["generation"])}
            found = reader.post(f"{path}/search", json={"code": CODE}, headers=headers)
            assert [hit["id"] for hit in found.json()["hits"]] == ["a"]
            check_problem(reader.put("/v1/collections/d", json={"n_bits": 8}), 403, "read_only")
            assert reader.get("/v1/access").json()["read_only"] is True
