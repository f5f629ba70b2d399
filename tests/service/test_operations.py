"""What operators see and rely on: metrics, the log, traces, deadlines, the queue, a calm end."""

from __future__ import annotations

import http.client
import io
import json
import logging
import secrets
import selectors
import signal
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client.parser import text_string_to_metric_families

from hummingbit.index.catalog import EncoderFolder
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.engines import kernel
from hummingbit.index.errors import StoreError
from hummingbit.service.http import monitoring
from hummingbit.service.http.monitoring import tracer_provider
from hummingbit.service.http.request_ids import request_id
from hummingbit.service.logs import JSONFormatter
from hummingbit.service.settings import Settings
from tests.support.service import (
    check_problem,
    client_of,
    make_data_folder,
    running_service,
    serving_process,
    with_longer_limits,
)


class SlowEncoders(EncoderFolder):
    """Encoders whose listing waits until it may go on."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.begun = threading.Semaphore(0)
        self.may_end = threading.Event()

    def names(self) -> list[str]:
        self.begun.release()
        assert self.may_end.wait(120)
        return super().names()


@contextmanager
def slowly_served(path: Path, **limits: Any) -> Iterator[tuple[httpx.Client, SlowEncoders]]:
    folder = DataFolder(path, writable=True)
    folder.encoders = encoders = SlowEncoders(path / "encoders")
    with folder, running_service(folder, Settings(**limits)) as client:
        try:
            yield client, encoders
        finally:
            encoders.may_end.set()


def samples(client: httpx.Client) -> dict[str, dict[tuple[str, ...], float]]:
    text = client.get("/metrics").text
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = tuple(value for name, value in sorted(sample.labels.items()) if name != "le")
            found.setdefault(sample.name, {})[labels] = sample.value
    return found


def test_metrics_count_by_the_template_of_the_route(tmp_path: Path) -> None:
    with running_service(make_data_folder(tmp_path)) as client:
        path = "/v1/collections/secret-name"
        client.put(path, json={"encoder": "words"})
        documents = [{"id": str(i), "text": "apple"} for i in range(3)]
        client.put(f"{path}/documents", json={"documents": documents})
        for _ in range(4):
            client.post(f"{path}/search", json={"text": "apple"})
        client.post(f"{path}/search", json={})
        client.get("/nope/and/nope")
        client.request("BREW", "/livez")
        found = samples(client)
    requests = found["hummingbit_request_seconds_count"]
    search = "/v1/collections/{name}/search"
    assert requests["POST", search, "200"] == 4
    assert requests["POST", search, "422"] == 1
    assert requests["GET", "unmatched", "404"] == 1
    assert not any("secret-name" in label for labels in requests for label in labels)
    assert all(labels[0] in {"GET", "PUT", "POST", "OTHER"} for labels in requests)
    assert found["hummingbit_collection_documents"]["secret-name",] == 3
    assert found["hummingbit_collection_n_bits"]["secret-name",] == 32
    for stage in ("encode", "search", "store"):
        assert found["hummingbit_stage_seconds_count"][stage,] >= 1
    assert found["hummingbit_unavailable_collections"][()] == 0


@pytest.mark.parametrize("compiled", [object(), None])
def test_a_metric_says_whether_the_kernel_is_there(
    tmp_path: Path, compiled: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_service(make_data_folder(tmp_path)) as client:
        monkeypatch.setattr(kernel, "native", compiled)
        assert samples(client)["hummingbit_compiled_kernel"][()] == (compiled is not None)


def test_a_request_beyond_the_queue_is_told_to_come_back(tmp_path: Path) -> None:
    limits = {"max_requests": 2}
    with slowly_served(tmp_path, **limits) as (client, encoders), ThreadPoolExecutor(2) as pool:
        first, second = (pool.submit(client.get, "/v1/encoders") for _ in range(2))
        for _ in range(2):
            assert encoders.begun.acquire(timeout=120)
        response = client.get("/v1/collections")
        check_problem(response, 429, "too_many_requests")
        assert int(response.headers["retry-after"]) >= 1
        assert client.get("/livez").status_code == 200
        assert samples(client)["hummingbit_refused_requests_total"][()] == 1
        encoders.may_end.set()
        assert first.result().status_code == second.result().status_code == 200
        assert client.get("/v1/collections").status_code == 200


def test_an_answer_that_takes_too_long(tmp_path: Path) -> None:
    limits = {"request_timeout": 0.2, "max_requests": 1}
    with slowly_served(tmp_path, **limits) as (client, encoders):
        response = client.get("/v1/encoders")
        check_problem(response, 503, "timed_out")
        assert "retry-after" in response.headers
        assert response.headers["x-request-id"]
        # What could not be stopped still counts.
        check_problem(client.get("/v1/collections"), 429, "too_many_requests")
        encoders.may_end.set()
        deadline = time.monotonic() + 120
        while client.get("/v1/collections").status_code != 200:
            assert time.monotonic() < deadline


def test_a_body_that_takes_too_long(tmp_path: Path) -> None:
    with_longer_limits(lambda seconds: check_slow_body(tmp_path / str(seconds), seconds), 0.3)


def check_slow_body(path: Path, seconds: float) -> None:
    with running_service(path, Settings(request_timeout=seconds)) as client:
        assert client.put("/v1/collections/c", json={"n_bits": 16}).status_code == 201
        assert client.base_url.port is not None
        head = (
            "POST /v1/collections/c/search HTTP/1.1\r\nHost: localhost\r\n"
            'Content-Type: application/json\r\nContent-Length: 50\r\n\r\n{"code": '
        )
        address = ("127.0.0.1", client.base_url.port)
        with socket.create_connection(address, timeout=120) as connection:
            connection.sendall(head.encode())
            answer = b"".join(iter(lambda: connection.recv(4096), b""))
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b'"body_too_slow"' in answer
        assert client.get("/readyz").status_code == 200


def begin_body(
    client: httpx.Client, path: str, length: int, part: bytes, media_type: str = "application/json"
) -> socket.socket:
    """Send the head of a request and a part of its body."""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\n"
        f"Content-Type: {media_type}\r\nContent-Length: {length}\r\n\r\n"
    )
    connection = socket.create_connection(("127.0.0.1", client.base_url.port or 0), timeout=120)
    connection.sendall(head.encode() + part)
    return connection


def test_bodies_that_come_slowly_hold_up_nobody(tmp_path: Path) -> None:
    path = "/v1/collections/c"
    limits = Settings(concurrent_long_reads=1)
    with running_service(make_data_folder(tmp_path), limits) as client, ExitStack() as slow:
        client.put(path, json={"encoder": "words"})
        for place in ("search", "search/batch", "encode", "evaluate") * 4:
            slow.enter_context(begin_body(client, f"{path}/{place}", 50, b"{"))
        for _ in range(3):
            assert client.post(f"{path}/search", json={"text": "apple"}).status_code == 200
            batch = {"searches": [{"text": "apple"}]}
            assert client.post(f"{path}/search/batch", json=batch).status_code == 200


def test_imports_that_come_slowly_hold_up_no_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = "/v1/collections/c"
    monkeypatch.setattr(Settings, "concurrent_writes", 1)
    limits = Settings(request_timeout=0)
    with running_service(make_data_folder(tmp_path), limits) as client, ExitStack() as slow:
        client.put(path, json={"n_bits": 8})
        for _ in range(4):
            begun = begin_body(client, f"{path}/labels/import", 50, b"{", "text/plain")
            slow.enter_context(begun)
        document = {"id": "a", "code": "00"}
        for _ in range(3):
            written = client.put(f"{path}/documents", json={"documents": [document]})
            assert written.status_code == 200
        # What keeps all writers out does not wait for these, either.
        add = {"alias": "books", "collection": "c"}
        assert client.post("/v1/aliases", json={"actions": [{"add": add}]}).status_code == 200


def test_answers_that_are_taken_slowly_hold_up_nobody(tmp_path: Path) -> None:
    path = "/v1/collections/c"
    limits = Settings(concurrent_long_reads=1)
    with running_service(make_data_folder(tmp_path), limits) as client, ExitStack() as slow:
        client.put(path, json={"n_bits": 8})
        payload = {"x": "x" * 60_000}
        documents = [{"id": str(i), "code": "00", "payload": payload} for i in range(200)]
        assert client.put(f"{path}/documents", json={"documents": documents}).status_code == 200
        body = b'{"limit": 200}'
        for _ in range(2):
            one = slow.enter_context(begin_body(client, f"{path}/documents:scroll", 14, body))
            assert one.recv(20).startswith(b"HTTP/1.1 200 ")
        response = client.post(f"{path}/documents:scroll", json={"limit": 1})
        assert response.status_code == 200


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("documents:scroll", b'{"limit": 200}'),
        ("search", b'{"code":"00","with_payload":true,"limit":200}'),
    ],
)
def test_responses_that_nobody_reads_are_bounded(path: str, body: bytes, tmp_path: Path) -> None:
    limits = Settings(max_held_bytes=30 << 20)
    with running_service(make_data_folder(tmp_path), limits) as client, ExitStack() as slow:
        client.put("/v1/collections/c", json={"n_bits": 8})
        payload = {"x": "x" * 60_000}
        documents = [{"id": str(i), "code": "00", "payload": payload} for i in range(200)]
        path = f"/v1/collections/c/{path}"
        client.put("/v1/collections/c/documents", json={"documents": documents}).raise_for_status()
        unread = [slow.enter_context(begin_body(client, path, len(body), body)) for _ in range(2)]
        for item in unread:
            assert item.recv(20).startswith(b"HTTP/1.1 200 ")

        def respond(content: bytes) -> httpx.Response:
            headers = {"Content-Type": "application/json"}
            return client.post(path, content=content, headers=headers)

        problem = check_problem(respond(body), 503, "too_many_responses")
        assert "are still being sent" in problem["detail"]
        assert respond(body.replace(b"200", b"1")).status_code == 200
        unread[0].close()
        deadline = time.monotonic() + 120
        while respond(body).status_code != 200:
            assert time.monotonic() < deadline
            time.sleep(0.02)


def test_large_bodies_beside_each_other_are_bounded(tmp_path: Path) -> None:
    path = "/v1/collections/c"
    with running_service(tmp_path, Settings(max_held_bytes=300_000)) as client, ExitStack() as slow:
        client.put(path, json={"n_bits": 8})
        part = b'{"code": "' + b" " * 200_000
        begun = [begin_body(client, f"{path}/search", 400_000, part) for _ in range(2)]
        answers = slow.enter_context(selectors.DefaultSelector())
        for item in begun:
            answers.register(slow.enter_context(item), selectors.EVENT_READ)
        ((key, _), *_) = answers.select(20)
        refused = cast("socket.socket", key.fileobj)
        assert refused.recv(20).startswith(b"HTTP/1.1 503 ")
        assert client.post(f"{path}/search", json={"code": "00"}).status_code == 200


class Failing(DataFolder):
    """A data folder whose collections cannot be read."""

    looked_up = 0

    def collection(self, name: str) -> Any:  # noqa: ARG002 - as of every folder
        self.looked_up += 1
        raise StoreError("it cannot be read")


def test_a_search_that_fails_is_made_once(tmp_path: Path) -> None:
    folder = Failing(tmp_path, writable=True)
    with folder, running_service(folder) as client:
        response = client.post("/v1/collections/c/search", json={"text": "apple"})
        check_problem(response, 503, "storage_failed")
        assert folder.looked_up == 1


def test_a_line_of_the_log_is_one_json_object() -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JSONFormatter())
    log = logging.Logger("hummingbit.test")
    log.addHandler(handler)
    token = request_id.set("r-1")
    try:
        log.info("two\nlines and %s", "\ud800")
        try:
            raise ValueError("why")
        except ValueError:
            log.exception("failed", extra={"fields": {"status": 500}})
    finally:
        request_id.reset(token)
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert (first["message"], first["level"]) == ("two\nlines and ?", "info")
    assert first["request_id"] == second["request_id"] == "r-1"
    assert second["status"] == 500
    assert "ValueError: why" in second["exception"]
    assert first["time"].endswith("+00:00")


def test_every_request_is_logged_without_its_key(tmp_path: Path) -> None:
    key = "k" * 40
    (tmp_path / "c.toml").write_text(f"admin_key = '{key}'\n")
    flags = ("--config", str(tmp_path / "c.toml"), "--shutdown-delay", "0.1")
    log = tmp_path / "log"
    with log.open("w") as file, serving_process(tmp_path, *flags, stderr=file) as (process, url):
        with client_of(url) as client:
            client.get("/v1/collections?x=1", headers={"Authorization": f"Bearer {key}"})
            client.get("/v1/collections", headers={"X-Request-ID": "mine"})
            client.get("/v1/%0aforged", headers={"X-API-Key": key})
        process.terminate()
        assert process.wait(timeout=120) == 0
    assert key not in log.read_text()
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    access = [line for line in lines if line["logger"] == "hummingbit.access"]
    assert [(item["path"], item["status"], item["role"]) for item in access] == [
        ("/v1/collections", 200, "admin"),
        ("/v1/collections", 401, "nobody"),
        ("/v1/%0aforged", 404, "admin"),
    ]
    assert access[0]["route"] == "/v1/collections"
    assert access[1]["request_id"] == "mine"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_requests_under_way_are_finished_and_new_ones_sent_away(
    tmp_path: Path, number: signal.Signals
) -> None:
    make_data_folder(tmp_path)
    flags = ("--shutdown-delay", "600")
    # The service keeps ignoring a signal that its parent ignores, as below nohup.
    inherited = signal.signal(number, signal.SIG_DFL)
    with serving_process(tmp_path, *flags) as (process, url), client_of(url) as client:
        signal.signal(number, inherited)
        assert client.get("/readyz").status_code == 200
        process.send_signal(number)
        while (response := client.get("/readyz")).status_code == 200:
            time.sleep(0.01)
        problem = check_problem(response, 503, "not_ready")
        assert "about to stop" in problem["detail"]
        assert client.get("/v1/encoders").status_code == 200
        process.send_signal(signal.SIGTERM)  # ends the delay
        assert process.wait(timeout=120) == 0
        with pytest.raises(httpx.ConnectError):
            client.get("/livez")


def test_no_request_goes_without_an_answer_when_the_service_ends(tmp_path: Path) -> None:
    make_data_folder(tmp_path)
    answers: list[int] = []
    with serving_process(tmp_path, "--no-access-log") as (process, url):
        port = int(url.rpartition(":")[2])

        def ask_until_refused(headers: dict[str, str]) -> None:
            client = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
            answered = time.monotonic()
            while True:
                is_open = client.sock is not None
                try:
                    client.request("GET", "/v1/collections", headers=headers)
                    response = client.getresponse()
                    response.read()
                except ConnectionRefusedError:
                    return
                except (ConnectionError, http.client.RemoteDisconnected):
                    client.close()
                    # An idle connection stays open for a second. A busy machine may pause a thread
                    # for longer.
                    assert is_open
                    assert time.monotonic() - answered > 0.5
                else:
                    answered = time.monotonic()
                    answers.append(response.status)

        with ThreadPoolExecutor(8) as pool:
            asking = [
                pool.submit(ask_until_refused, {"Connection": "close"} if i % 2 else {})
                for i in range(8)
            ]
            while len(answers) < 40:
                time.sleep(0.01)
            process.terminate()
            for item in asking:
                item.result(timeout=120)
        assert process.wait(timeout=120) == 0
    assert set(answers) == {200}


def test_a_connection_whose_response_had_begun_takes_a_last_request(tmp_path: Path) -> None:
    data = make_data_folder(tmp_path)
    digits = secrets.token_hex(8_000_000)
    given = {"documents": [{"id": "a", "text": "apple", "payload": {"digits": digits}}]}
    with serving_process(data) as (process, url):
        with client_of(url) as client:
            client.put("/v1/collections/c", json={"encoder": "words"}).raise_for_status()
            client.put("/v1/collections/c/documents", json=given).raise_for_status()
            snapshot = client.post("/v1/collections/c/snapshots").raise_for_status().json()["id"]
        connection = http.client.HTTPConnection("127.0.0.1", int(url.rpartition(":")[2]))
        connection.request("GET", f"/v1/snapshots/{snapshot}/file")
        response = connection.getresponse()
        assert response.getheader("connection") is None
        process.terminate()
        # The port is closed once the shutdown has told the connections.
        with suppress(ConnectionRefusedError):
            while True:
                socket.create_connection(("127.0.0.1", connection.port)).close()
        assert len(response.read()) > 8_000_000
        connection.request("GET", "/livez")
        response = connection.getresponse()
        assert (response.status, response.getheader("connection")) == (200, "close")
        response.read()
        connection.close()
        assert process.wait(timeout=120) == 0


@pytest.mark.parametrize("flags", [(), ("--workers", "2")])
def test_idle_connections_leave_files_to_the_data(tmp_path: Path, flags: tuple[str, ...]) -> None:
    data, log = make_data_folder(tmp_path / "data"), tmp_path / "log"
    with (
        log.open("w") as stderr,
        serving_process(data, *flags, stderr=stderr, max_files=128) as (_, address),
    ):
        given = {"documents": [{"id": "a", "text": "apple"}]}
        with client_of(address) as client, ExitStack() as idle:
            client.put("/v1/collections/c", json={"encoder": "words"}).raise_for_status()
            client.put("/v1/collections/c/documents", json=given).raise_for_status()
            url = httpx.URL(address)
            for _ in range(200):
                idle.enter_context(closing(socket.create_connection((url.host, url.port or 0))))
            search = {"text": "apple"}
            assert client.post("/v1/collections/c/search", json=search).status_code == 200
            # Each of these opens files.
            assert client.post("/v1/collections/c/snapshots").status_code == 201
            assert client.put("/v1/collections/d", json={"encoder": "words"}).status_code == 201
            assert client.get("/readyz").status_code == 200
        with client_of(address) as client:
            wait_until_accepted(client)
            assert client.post("/v1/collections/c/search", json=search).status_code == 200
            assert client.put("/v1/collections/c/documents", json=given).status_code == 200
    assert "Traceback" not in log.read_text()
    assert "this process may open only 128 files" in log.read_text()


def wait_until_accepted(client: httpx.Client) -> None:
    """Wait until the service has noticed that other connections are closed."""
    deadline = time.monotonic() + 120
    while True:
        with suppress(httpx.TransportError):
            if client.get("/livez").status_code == 200:
                return
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_span_for_every_request_below_its_callers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exporter = InMemorySpanExporter()
    provider = tracer_provider(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(monitoring, "otlp_provider", lambda _: provider)
    trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    search = "/v1/collections/{name}/search"
    settings = Settings(traces_endpoint="http://127.0.0.1:9/v1/traces")
    with running_service(make_data_folder(tmp_path), settings) as client:
        client.put("/v1/collections/c", json={"encoder": "words"}).raise_for_status()
        headers = {"traceparent": f"00-{trace}-{parent}-01"}
        for path in ("c/search", "absent/search", "c"):
            body = {"text": "apple"} if "search" in path else None
            client.request(
                "POST" if body else "GET", f"/v1/collections/{path}", headers=headers, json=body
            )
    spans = [span for span in exporter.get_finished_spans() if span.parent is not None]
    assert [span.name for span in spans] == [
        *[f"POST {search}"] * 2,
        "GET /v1/collections/{name}",
    ]
    for span, status in zip(spans, (200, 404, 200), strict=True):
        assert f"{span.context.trace_id:032x}" == trace
        assert f"{span.parent.span_id:016x}" == parent  # type: ignore[union-attr]
        assert span.attributes is not None
        assert span.attributes["http.response.status_code"] == status
        assert span.attributes["http.route"] == span.name.split()[1]
