"""What clients can send over a socket: requests stay apart, and nothing is held for ever."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from hummingbit.service.http.connections import MAX_HEADERS, MAX_REQUEST_LINE
from hummingbit.service.settings import Settings
from tests.support.service import (
    client_of,
    make_data_folder,
    running_service,
    serving_process,
    with_longer_limits,
)

SECONDS = 120.0
PATH = "/v1/collections/codes"
JSON = b"Content-Type: application/json\r\n"
SEARCH = f"POST {PATH}/search HTTP/1.1\r\nHost: localhost\r\n".encode() + JSON
UPSERT = f"PUT {PATH}/documents HTTP/1.1\r\nHost: localhost\r\n".encode() + JSON
LIVE = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
LAST = LIVE.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
CHUNKED = b"Transfer-Encoding: chunked\r\n"


class Answer(NamedTuple):
    """A response."""

    status: int
    headers: dict[str, str]
    body: Any


class Service:
    def __init__(self, client: httpx.Client) -> None:
        self.client = client
        self.port = client.base_url.port or 0

    def connect(self) -> socket.socket:
        one = socket.create_connection(("127.0.0.1", self.port), timeout=SECONDS)
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return one

    def ask(self, *pieces: bytes) -> list[Answer]:
        """Send bytes and return all responses until the connection ends."""
        with self.connect() as one:
            for piece in pieces:
                one.sendall(piece)
                if len(pieces) > 1:
                    time.sleep(0.02)
            return answers_in(read_all(one))

    def ids(self, path: str = PATH) -> set[str]:
        page = self.client.post(f"{path}/documents:scroll", json={"limit": 1000}).json()
        return {document["id"] for document in page["documents"]}


def read_all(one: socket.socket) -> bytes:
    received = b""
    try:
        while part := one.recv(1 << 16):
            received += part
    except ConnectionResetError:
        pass
    return received


def answers_in(raw: bytes) -> list[Answer]:
    """Return the responses that `raw` consists of."""
    answers = []
    while raw:
        head, _, raw = raw.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        pairs = [line.partition(": ") for line in lines]
        headers = {name.lower(): value for name, _, value in pairs}
        size = int(headers.get("content-length", "0"))
        body, raw = raw[:size], raw[size:]
        is_json = "json" in headers.get("content-type", "")
        answers.append(
            Answer(int(first.split()[1]), headers, json.loads(body) if is_json else body)
        )
    return answers


def with_length(head: bytes, body: bytes) -> bytes:
    return head + b"Content-Length: %d\r\n\r\n" % len(body) + body


def in_chunks(head: bytes, body: bytes, size: int = 1 << 20) -> bytes:
    parts = [body[at : at + size] for at in range(0, len(body), size)]
    chunks = [b"%x\r\n%b\r\n" % (len(part), part) for part in parts]
    return head + CHUNKED + b"\r\n" + b"".join(chunks) + b"0\r\n\r\n"


def document(id_: str) -> bytes:
    return json.dumps({"documents": [{"id": id_, "code": "0f"}]}).encode()


def fill(client: httpx.Client) -> Service:
    client.put(PATH, json={"n_bits": 8}).raise_for_status()
    documents = [{"id": "d0", "code": "0f", "payload": {"long": "x" * 1000}}]
    client.put(f"{PATH}/documents", json={"documents": documents}).raise_for_status()
    return Service(client)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running_service(make_data_folder(tmp_path_factory.mktemp("data"))) as client:
        yield fill(client)


@contextmanager
def limited_service(path: Path, **limits: Any) -> Iterator[Service]:
    data = make_data_folder(path)
    with running_service(data) as client:
        fill(client)
    with running_service(data, Settings(**limits)) as client:
        yield Service(client)


def check(answer: Answer, status: int, code: str) -> None:
    assert answer.headers["content-type"] == "application/problem+json"
    assert (answer.status, answer.body["status"], answer.body["code"]) == (status, status, code)


def wait_until_closed(service: Service, *, open_: int = 1) -> None:
    """Wait until only the connection of the client of the tests is open."""
    wait_for_metric(service, f"hummingbit_open_connections {open_}.0")


def wait_for_metric(service: Service, line: str) -> None:
    deadline = time.monotonic() + SECONDS
    while f"\n{line}\n" not in service.client.get("/metrics").text:
        assert time.monotonic() < deadline
        time.sleep(0.02)


# Requests stay apart, whatever the framing.


UPGRADES = [
    b"Connection: Upgrade\r\n",
    b"Connection: Upgrade\r\nUpgrade: h2c\r\n",
    b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n",
    b"Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n",
    b"Upgrade: h2c\r\n",
]


@pytest.mark.parametrize("frame", [with_length, in_chunks])
@pytest.mark.parametrize("number", range(len(UPGRADES)))
@pytest.mark.parametrize("cuts", [(), (40,), (150, 200, 260)])
def test_the_body_of_a_request_to_upgrade_is_its_own(
    service: Service, frame: Callable[..., bytes], number: int, cuts: tuple[int, ...]
) -> None:
    """Java's HttpClient asks for HTTP/2 so in every request, and a proxy may pass that on."""
    other = f"{PATH}-{frame.__name__.replace('_', '-')}-{number}-{len(cuts)}"
    service.client.put(other, json={"n_bits": 8}).raise_for_status()
    first = frame(UPSERT.replace(PATH.encode(), other.encode()) + UPGRADES[number], document("a"))
    raw = first + with_length(UPSERT, document(f"of-{other[-9:]}")) + LAST
    pieces = [raw[a:b] for a, b in zip((0, *cuts), (*cuts, len(raw)), strict=True)]
    answers = service.ask(*pieces)
    assert [answer.status for answer in answers] == [200, 200, 200]
    assert service.ids(other) == {"a"}
    assert f"of-{other[-9:]}" in service.ids()


def test_a_body_that_looks_like_a_request_is_none(service: Service) -> None:
    body = b'{"code": "0f", "filter": {"field": "GET /livez HTTP/1.1\\r\\n", "exists": false}}'
    inner = b"\r\n\r\n" + LIVE
    for frame in (with_length, in_chunks):
        fine, bad, last = service.ask(frame(SEARCH, body) + frame(SEARCH, inner) + LAST)
        assert (fine.status, last.status) == (200, 200)
        check(bad, 400, "invalid_json")


@pytest.mark.parametrize("in_pieces", [False, True])
def test_pipelined_requests_are_answered_one_after_the_other(
    service: Service, *, in_pieces: bool
) -> None:
    search = with_length(SEARCH, b'{"code": "0f"}')
    raw = (LIVE + search + in_chunks(SEARCH, b"{}") + UPSERT + b"\r\n") * 50 + LAST
    pieces = [raw[at : at + 1000] for at in range(0, len(raw), 1000)] if in_pieces else [raw]
    answers = service.ask(*pieces)
    # The upsert has no body.
    assert [answer.status for answer in answers] == [200, 200, 422, 422] * 50 + [200]
    assert all("status" in answer.body for answer in answers[::4])


def test_a_hundred_thousand_pipelined_requests_hold_up_nobody(service: Service) -> None:
    with service.connect() as one:
        one.settimeout(1.0)
        many = LIVE * 1000
        sent = 0
        try:
            for _ in range(100):  # nothing is read
                sent += one.send(many)
        except TimeoutError:
            pass
        assert sent
        assert service.client.get("/livez").status_code == 200


def test_trailers_are_no_headers(service: Service) -> None:
    trailer = b"Host: other\r\nAuthorization: Bearer x\r\nX-Request-ID: late\r\n"
    trailer += b"Connection: Upgrade\r\nUpgrade: h2c\r\n"
    chunked = in_chunks(SEARCH + b"X-Request-ID: mine\r\n", b'{"code": "0f"}')
    first, second = service.ask(chunked[:-2] + trailer + b"\r\n" + LAST)
    assert (first.status, first.headers["x-request-id"], second.status) == (200, "mine", 200)


@pytest.mark.parametrize("size", [1, 2, 7])
def test_tiny_chunks(service: Service, size: int) -> None:
    body = b'{"code": "0f"' + b" " * 20_000 + b"}"
    first, _ = service.ask(in_chunks(SEARCH, body, size) + LAST)
    assert first.status == 200


def test_a_head_in_pieces_of_a_byte(service: Service) -> None:
    raw = with_length(SEARCH, b'{"code": "0f"}') + LAST
    with service.connect() as one:
        for byte in raw:
            one.sendall(bytes([byte]))
        assert [answer.status for answer in answers_in(read_all(one))] == [200, 200]


def test_a_client_that_closes_its_side_gets_its_answer(service: Service) -> None:
    for raw in (LIVE, with_length(SEARCH, b'{"code": "0f"}'), in_chunks(SEARCH, b'{"code": "0f"}')):
        with service.connect() as one:
            one.sendall(raw)
            one.shutdown(socket.SHUT_WR)
            (answer,) = answers_in(read_all(one))
            assert answer.status == 200
    with service.connect() as one:
        one.sendall(with_length(SEARCH, b'{"code": "0f"}')[:-3])
        one.shutdown(socket.SHUT_WR)
        assert read_all(one) == b""


def test_what_follows_a_valid_request_does_not_cost_it_its_answer(service: Service) -> None:
    first, *others = service.ask(LIVE + b"\x00\x01 nonsense\r\n\r\n")
    assert first.status == 200
    assert all(answer.status == 400 for answer in others)


# What a head must have, and may not.


@pytest.mark.parametrize(
    "lines",
    [
        b"GET /livez HTTP/1.1\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\nhost: other.example\r\n\r\n",
        b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        SEARCH + CHUNKED + b"Content-Length: 2\r\n\r\n0\r\n\r\n",
        SEARCH + b"Content-Length: -1\r\n\r\n",
        SEARCH + CHUNKED + b"\r\nxyz\r\n",
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\x00: 1\r\n\r\n",
        b"nonsense\r\n\r\n",
    ],
)
def test_invalid_http_is_a_problem(service: Service, lines: bytes) -> None:
    (answer,) = service.ask(lines + LIVE)
    check(answer, 400, "invalid_http")
    assert answer.headers["connection"] == "close"


def test_http_1_0_needs_no_host(service: Service) -> None:
    for headers, status in ((b"", 421), (b"Host: localhost\r\n", 200)):
        (answer,) = service.ask(b"GET /v1/collections HTTP/1.0\r\n" + headers + b"\r\n")
        assert (answer.status, answer.headers["connection"]) == (status, "close")


def test_a_request_line_beyond_the_limit(service: Service) -> None:
    path = b"/" + b"a" * (MAX_REQUEST_LINE - 1)
    head = b"GET %b HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    (answer,) = service.ask(head % path)
    assert answer.status == 404
    for raw in (head % (path + b"a"), b"GET /" + b"a" * (4 << 20)):
        (answer,) = service.ask(raw)
        check(answer, 414, "uri_too_long")


@pytest.mark.parametrize(
    "headers",
    [
        b"a: " + b"b" * MAX_HEADERS + b"\r\n\r\n",
        b"a: bc\r\n" * (MAX_HEADERS // 3 + 1) + b"\r\n",
        b"a" * (MAX_HEADERS + (32 << 10)),
        b"a: " + b"b" * (2 << 20),
        b"a: b\r\n" * (2 << 17),
    ],
)
def test_headers_beyond_the_limit(service: Service, headers: bytes) -> None:
    fits = b"a: " + b"b" * (MAX_HEADERS - 100) + b"\r\nConnection: close\r\n\r\n"
    head = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n"
    (answer,) = service.ask(head + fits)
    assert answer.status == 200
    (answer,) = service.ask(head + headers)
    check(answer, 431, "headers_too_large")


@pytest.mark.parametrize(
    "rest",
    [
        b"2\r\n{}\r\n0\r\na: " + b"b" * (1 << 20),
        b"2\r\n{}\r\n0\r\n" + b"a: b\r\n" * (1 << 17),
        b"2;a=" + b"b" * (1 << 20),
        b"0" * (1 << 20),
    ],
)
def test_a_chunked_body_without_content(service: Service, rest: bytes) -> None:
    (answer,) = service.ask(SEARCH + CHUNKED + b"\r\n" + rest)
    assert (answer.status, answer.headers["connection"]) in {(431, "close"), (400, "close")}


def test_empty_lines_without_end(service: Service) -> None:
    (answer,) = service.ask(b"\r\n" * (1 << 20))
    assert answer.status in {400, 431}


# What a body may hold.


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"vector": [NaN]}', 400),
        (b'{"vector": [1e400]}', 422),
        (b'{"text": "\\ud800"}', 422),
        (b'{"text": "\xed\xa0\x80"}', 400),
    ],
)
def test_numbers_and_texts_that_are_none(service: Service, body: bytes, status: int) -> None:
    answer, _ = service.ask(with_length(SEARCH, body) + LAST)
    assert answer.status == status


@pytest.mark.parametrize("frame", [with_length, in_chunks])
def test_a_body_beyond_the_limit_ends_the_request_and_not_the_service(
    service: Service, frame: Callable[..., bytes]
) -> None:
    first, *_ = service.ask(frame(SEARCH, b" " * (2 << 20)) + LAST)
    check(first, 413, "body_too_large")


def test_a_body_without_end(tmp_path: Path) -> None:
    with_longer_limits(lambda limit: check_endless_body(tmp_path / str(limit), limit), 1.0)


def check_endless_body(path: Path, limit: float) -> None:
    with limited_service(path, request_timeout=limit, idle_timeout=2 * limit) as service:
        with service.connect() as one:
            one.sendall(SEARCH + CHUNKED + b"\r\n")
            try:
                for _ in range(100):
                    one.sendall(b"%x\r\n%b\r\n" % (1 << 20, b" " * (1 << 20)))
            except (BrokenPipeError, ConnectionResetError, TimeoutError):
                pass
            answers = answers_in(read_all(one))
        assert not answers or answers[0].status == 413
        assert service.client.get("/livez").status_code == 200


# What takes too long.


def test_clients_that_send_nothing_or_half_a_head_or_too_slowly(tmp_path: Path) -> None:
    with_longer_limits(lambda idle: check_idle_connections(tmp_path / str(idle), idle), 0.3)


def check_idle_connections(path: Path, idle: float) -> None:
    with limited_service(path, idle_timeout=idle) as service:
        assert service.ask(b"") == []
        (answer,) = service.ask(b"GET /livez HTTP/1.1\r\nHost: ")
        check(answer, 408, "request_too_slow")
        first, *others = service.ask(LIVE)  # and then the connection is idle
        assert first.status == 200
        assert not others
        first, second = service.ask(LIVE + b"GET /")
        assert first.status == 200
        check(second, 408, "request_too_slow")
        with service.connect() as one:  # a byte from time to time
            began = time.monotonic()
            try:
                for byte in b"GET /livez HTTP/1.1\r\nX: " + b"x" * 1000:
                    one.sendall(bytes([byte]))
                    time.sleep(idle / 10)
            except (BrokenPipeError, ConnectionResetError):
                pass
            assert time.monotonic() - began < 100 * idle
        with ExitStack() as stack:
            for _ in range(200):
                stack.enter_context(service.connect())
            wait_until_closed(service)


def test_a_body_that_does_not_arrive(tmp_path: Path) -> None:
    with limited_service(tmp_path, request_timeout=0.5) as service:
        for raw in (SEARCH + b"Content-Length: 100\r\n\r\n{", SEARCH + CHUNKED + b"\r\n1\r\n{\r\n"):
            (answer,) = service.ask(raw)
            check(answer, 408, "body_too_slow")
            assert answer.headers["connection"] == "close"
        with service.connect() as one:  # a byte from time to time
            one.sendall(SEARCH + b"Content-Length: 100\r\n\r\n")
            try:
                for _ in range(50):
                    one.sendall(b" ")
                    time.sleep(0.05)
            except (BrokenPipeError, ConnectionResetError):
                pass
            answers = answers_in(read_all(one))
            assert not answers or answers[0].status == 408
        wait_until_closed(service)


def test_clients_that_read_nothing_of_their_responses_are_disconnected(tmp_path: Path) -> None:
    data = make_data_folder(tmp_path)
    flags = ("--write-timeout", "1", "--no-access-log", "--log-level", "error")
    payload = {"long": "x" * 100_000}
    documents = [{"id": f"d{n}", "code": "0f", "payload": payload} for n in range(100)]
    ask = with_length(SEARCH, b'{"code": "0f", "limit": 100, "with_payload": true}')
    with (
        serving_process(data, *flags) as (_, address),
        client_of(address) as client,
        ExitStack() as stack,
    ):
        service = fill(client)
        client.put(f"{PATH}/documents", json={"documents": documents}).raise_for_status()
        for _ in range(5):
            stack.enter_context(service.connect()).sendall(ask)
        wait_until_closed(service, open_=6)
        wait_until_closed(service)


def test_a_client_that_reads_slowly_gets_all(service: Service) -> None:
    documents = [{"id": "large", "code": "f0", "payload": {"long": "x" * 8_000_000}}]
    service.client.put(f"{PATH}/documents", json={"documents": documents}).raise_for_status()
    head = f"GET {PATH}/documents/large HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with service.connect() as one:
        one.sendall(head.encode())
        received = 0
        while part := one.recv(400_000):
            received += len(part)
            time.sleep(0.01)
    assert received > 8_000_000


def test_a_response_that_nobody_waits_for_ends_with_its_connection(service: Service) -> None:
    for _ in range(20):
        with service.connect() as one:
            one.sendall(with_length(SEARCH, b'{"code": "0f"}'))
    wait_until_closed(service)


# Many connections.


def test_connections_beyond_the_limits(tmp_path: Path) -> None:
    limits = {"max_connections": 4, "max_connections_per_address": 3}
    with limited_service(tmp_path, **limits) as service, ExitStack() as stack:
        service.client.get("/livez").raise_for_status()
        for _ in range(2):
            one = stack.enter_context(service.connect())
            one.sendall(LIVE)
            assert one.recv(1000).startswith(b"HTTP/1.1 200 ")
        for raw in (b"", LIVE):
            (answer,) = service.ask(raw)
            check(answer, 503, "too_many_connections")
            assert answer.headers["retry-after"] == "5"
        wait_for_metric(service, "hummingbit_refused_connections 2.0")
        stack.close()
        wait_until_closed(service)
        assert service.ask(LAST)[0].status == 200


def test_1500_connections_of_one_address(service: Service) -> None:
    assert service.client.get("/livez").status_code == 200
    with ExitStack() as stack:
        connected = [stack.enter_context(service.connect()) for _ in range(1500)]
        assert service.client.get("/livez").status_code == 200
        served = 0
        for one in connected:
            try:
                one.sendall(LIVE)
                served += one.recv(1000).startswith(b"HTTP/1.1 200 ")
            except ConnectionError:
                continue
        assert 0 < served < 256
    wait_until_closed(service)


def test_requests_that_were_begun_before_the_end_are_answered(tmp_path: Path) -> None:
    with serving_process(make_data_folder(tmp_path)) as (process, address):
        with client_of(address) as client:
            service = fill(client)
            with service.connect() as begun:
                begun.sendall(with_length(SEARCH, b'{"code": "0f"}')[:-5])
                time.sleep(0.2)
                process.terminate()
                time.sleep(0.2)
                begun.sendall(b'"0f"}'[-5:])
                (answer,) = answers_in(read_all(begun))
        assert (answer.status, answer.headers["connection"]) == (200, "close")
        assert process.wait(SECONDS) == 0
