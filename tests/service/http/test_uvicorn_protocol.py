"""What a client can make the service hold, by bytes on a socket."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import uvicorn
from packaging.requirements import Requirement
from packaging.version import Version

from hummingbit.service.http.protocol import (
    MAX_HEADERS,
    MAX_REQUEST_LINE,
    Connections,
    Starts,
    connection_protocol,
)
from tests.support.service import ROOT, with_longer_limits

SECONDS = 120.0
GET = b"GET /%d HTTP/1.1\r\nHost: x\r\n\r\n"
LARGE = 8 << 20


class App:
    """Answers with the path; `/hold` waits, `/large` is large, `/unread` leaves the body unread."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.may_answer = threading.Event()
        self.bodies: list[bytes] = []
        self.scopes: list[dict[str, Any]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        path = scope["path"]
        self.started.append(path)
        self.scopes.append(dict(scope))
        body, more = b"", path != "/unread"
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message["body"]
            more = message["more_body"]
        self.bodies.append(body)
        if path == "/hold":
            while not self.may_answer.is_set():
                await asyncio.sleep(0.005)
        content = b"x" * LARGE if path == "/large" else path.encode()
        headers = [(b"content-length", str(len(content)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for at in range(0, len(content), 1 << 16):
            more = at + (1 << 16) < len(content)
            part = content[at : at + (1 << 16)]
            await send({"type": "http.response.body", "body": part, "more_body": more})


class Served:
    def __init__(self, app: App, connections: Connections, server: uvicorn.Server) -> None:
        self.app, self.connections, self.server = app, connections, server
        self.port: int = server.servers[0].sockets[0].getsockname()[1]

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=SECONDS)

    def ask(self, raw: bytes) -> bytes:
        """Send bytes and return all that comes back until the connection ends."""
        with self.connect() as one:
            one.sendall(raw)
            return read_all(one)

    def wait_until_closed(self) -> None:
        wait_until(lambda: self.connections.open == 0)


def wait_until(condition: Any) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def read_all(one: socket.socket) -> bytes:
    return b"".join(iter(lambda: one.recv(1 << 16), b""))


@contextmanager
def serving(
    most: int = 100, per_address: int = 100, idle: float = SECONDS, write: float = SECONDS
) -> Iterator[Served]:
    app, connections = App(), Connections(most, per_address, idle, write)
    config = uvicorn.Config(
        app,
        http=partial(connection_protocol, connections, Starts(app)),  # type: ignore[arg-type]
        port=0,
        lifespan="off",
        log_config=None,
        timeout_keep_alive=idle,  # type: ignore[arg-type]
        timeout_graceful_shutdown=10,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        wait_until(lambda: server.started)
        yield Served(app, connections, server)
    finally:
        app.may_answer.set()
        server.should_exit = True
        thread.join()


def check_refusal(answer: bytes, status: int, code: str) -> None:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(f"HTTP/1.1 {status} ".encode()), answer[:200]
    assert b"application/problem+json" in head
    problem = json.loads(body)
    assert (problem["status"], problem["code"]) == (status, code)
    assert (b"retry-after" in head) == (status == 503)


def test_only_versions_of_uvicorn_that_were_tested_are_installed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = {item.name: item for item in map(Requirement, project["dependencies"])}["uvicorn"]
    installed = Version(uvicorn.__version__)
    assert installed in needed.specifier
    assert Version(f"{installed.major}.{installed.minor + 1}") not in needed.specifier


def test_a_request_line_beyond_the_limit() -> None:
    with serving() as served:
        path = b"/" + b"a" * (MAX_REQUEST_LINE - 1)
        fits = b"GET %s HTTP/1.1\r\nConnection: close\r\n\r\n" % path
        assert served.ask(fits).endswith(path)
        check_refusal(served.ask(fits.replace(b"/a", b"/aa", 1)), 414, "uri_too_long")
        check_refusal(served.ask(b"GET /" + b"a" * (4 << 20)), 414, "uri_too_long")
        assert served.app.started == [path.decode()]


@pytest.mark.parametrize(
    "headers",
    [
        b"a: " + b"b" * MAX_HEADERS + b"\r\n\r\n",
        b"a: b\r\n" * (MAX_HEADERS // 6 + 1) + b"\r\n",
        b"a" * (MAX_HEADERS + (32 << 10)),
        b"a: " + b"b" * (2 << 20),
        b"a: b\r\n" * (2 << 17),
    ],
)
def test_headers_beyond_the_limit(headers: bytes) -> None:
    with serving() as served:
        fits = b"a: " + b"b" * (MAX_HEADERS - 100) + b"\r\nConnection: close\r\n\r\n"
        assert served.ask(b"GET /1 HTTP/1.1\r\n" + fits).endswith(b"/1")
        check_refusal(served.ask(b"GET /2 HTTP/1.1\r\n" + headers), 431, "headers_too_large")
        assert served.app.started == ["/1"]


def test_a_head_in_small_pieces() -> None:
    raw = b"POST /1 HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc"
    with serving() as served, served.connect() as one:
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in raw:
            one.sendall(bytes([byte]))
        assert read_all(one).endswith(b"/1")
        assert served.app.bodies == [b"abc"]


def test_a_trailer_without_end() -> None:
    head = b"POST /1 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n"
    with serving() as served:
        answer = served.ask(head + b"a: " + b"b" * (1 << 20))
        check_refusal(answer, 431, "headers_too_large")


def test_pipelined_requests_are_answered_one_after_the_other() -> None:
    n = 300
    post = b"POST /p HTTP/1.1\r\nContent-Length: 5\r\n\r\n12345"
    last = b"GET /last HTTP/1.1\r\nConnection: close\r\n\r\n"
    with serving() as served:
        answer = served.ask(b"".join(GET % i + post for i in range(n)) + last)
        wanted = [path for i in range(n) for path in (f"/{i}", "/p")] + ["/last"]
        assert served.app.started == wanted
        assert served.app.bodies.count(b"12345") == n
        bodies = [part.rpartition(b"\r\n\r\n")[2] for part in answer.split(b"HTTP/1.1 200 OK")[1:]]
        assert [body.decode() for body in bodies] == wanted


def test_a_head_that_was_read_before_says_the_same() -> None:
    head = b"POST /%61?b=c HTTP/1.1\r\nHost: x\r\nX: 1\r\nX: 2\r\nContent-Length: 5\r\n\r\n"
    with serving() as served, served.connect() as one:
        for body in (b"12345", b"67890", b"GET /"):
            one.sendall(head + body)
            assert one.recv(1 << 16).endswith(b"/a")
        first, *others = served.app.scopes
        assert others == [first, first]
        assert first["headers"][2:] == [(b"x", b"2"), (b"content-length", b"5")]
        assert (first["path"], first["raw_path"], first["query_string"]) == ("/a", b"/%61", b"b=c")
        assert served.app.bodies == [b"12345", b"67890", b"GET /"]
        one.sendall(GET % 1 + GET % 1 + head[:-4] + b"\r\n\x00: 1\r\n\r\n")
        one.shutdown(socket.SHUT_WR)
        answer = read_all(one)
    assert answer.count(b"HTTP/1.1 200 OK") == 2
    check_refusal(b"HTTP/1.1 400 " + answer.partition(b"HTTP/1.1 400 ")[2], 400, "invalid_http")


def test_known_and_other_requests_in_pieces_of_any_size() -> None:
    random = np.random.default_rng(0)
    requests = [
        (b"GET /1 HTTP/1.1\r\nHost: x\r\n\r\n", b""),
        (b"POST /2 HTTP/1.1\r\nContent-Length: 0\r\n\r\n", b""),
        (b"POST /3 HTTP/1.1\r\nContent-Length: 24\r\n\r\n", b"GET /1 HTTP/1.1\r\nHost: x"),
        (b"POST /4 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", b"3\r\nabc\r\n0\r\n\r\n"),
        (b"POST /5 HTTP/1.1\r\nX: %b\r\nContent-Length: 3\r\n\r\n" % (b"y" * 2000), b"xyz"),
    ]
    with serving() as served, served.connect() as one:
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        one.settimeout(SECONDS)
        for number in range(300):
            place = int(random.integers(len(requests)))
            raw = b"".join(requests[place])
            cuts = np.sort(random.integers(1, len(raw), random.integers(4))).tolist()
            for start, end in pairwise((0, *cuts, len(raw))):
                one.sendall(raw[start:end])
                time.sleep(0.002 * random.integers(2))
            assert one.recv(1 << 16).endswith(b"/%d" % (place + 1))
            body = requests[place][1]
            assert served.app.bodies[number] == (b"abc" if b"\r\nabc" in body else body)


def test_what_comes_behind_a_request_stays_in_the_socket() -> None:
    with serving() as served, served.connect() as one:
        one.sendall(b"GET /hold HTTP/1.1\r\n\r\n")
        wait_until(lambda: served.app.started)
        one.setblocking(False)
        sent, many = 0, b"GET /1 HTTP/1.1\r\n\r\n" * 10_000
        try:
            for _ in range(200):
                sent += one.send(many)
        except BlockingIOError:
            pass
        assert sent < 100 * len(many)
        assert served.app.started == ["/hold"]


def test_a_request_on_the_heels_of_a_chunked_body() -> None:
    chunked = b"POST /1 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
    with serving() as served:
        answer = served.ask(chunked + GET % 2)
        assert answer.endswith(b"/1")
        assert served.app.started == ["/1"]
        assert served.app.bodies == [b"abc"]


@pytest.mark.parametrize("in_pieces", [False, True])
@pytest.mark.parametrize(
    ("framing", "body"),
    [
        (b"Content-Length: 29\r\n", GET % 13),
        (b"Transfer-Encoding: chunked\r\n", b"1d\r\n" + GET % 13 + b"\r\n0\r\n\r\n"),
    ],
)
def test_the_body_of_a_request_to_upgrade_is_no_request(
    framing: bytes, body: bytes, *, in_pieces: bool
) -> None:
    """Java's HttpClient asks for HTTP/2 so in every request, and a proxy may pass that on."""
    upgrade = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
    head = b"POST /1 HTTP/1.1\r\nHost: x\r\n" + upgrade + framing + b"\r\n"
    pieces = [head + body]
    if in_pieces:
        pieces = [head[:40], head[40:] + body[:6], body[6:20], body[20:]]
    with serving() as served, served.connect() as one:
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for piece in pieces:
            one.sendall(piece)
            time.sleep(0.02 * in_pieces)
        wait_until(lambda: served.app.bodies)
        if b"chunked" not in framing:  # a connection with a chunked body may close behind it
            one.sendall(GET % 2)
            wait_until(lambda: len(served.app.bodies) == 2)
        one.shutdown(socket.SHUT_WR)
        read_all(one)
    assert served.app.started == (["/1"] if b"chunked" in framing else ["/1", "/2"])
    assert served.app.bodies[0] == GET % 13


def test_nonsense_behind_a_request_does_not_cost_it_its_answer() -> None:
    with serving() as served:
        answer = served.ask(GET % 1 + b"\x00\x01 nonsense\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 200 ")
        check_refusal(b"HTTP/1.1 400 " + answer.partition(b"HTTP/1.1 400 ")[2], 400, "invalid_http")


def test_connections_that_send_nothing_or_half_a_head() -> None:
    with_longer_limits(check_idle_connections, 0.2)


def check_idle_connections(idle: float) -> None:
    with serving(idle=idle) as served:
        assert served.ask(b"") == b""
        check_refusal(served.ask(b"GET / HTTP/1.1\r\nHost: "), 408, "request_too_slow")
        with served.connect() as one:
            one.sendall(GET % 1)
            assert read_all(one).endswith(b"/1")  # and then it is idle
        served.wait_until_closed()


@pytest.mark.parametrize("last", [b"", b"Connection: close\r\n"])
def test_a_client_that_takes_nothing_of_an_answer(last: bytes) -> None:
    with serving(write=0.2) as served, served.connect() as one:
        one.sendall(b"GET /large HTTP/1.1\r\n" + last + b"\r\n")
        served.wait_until_closed()


def test_a_client_that_takes_its_time() -> None:
    with_longer_limits(check_slow_reader, 0.5)


def check_slow_reader(write: float) -> None:
    with serving(write=write) as served, served.connect() as one:
        one.sendall(b"GET /large HTTP/1.1\r\nConnection: close\r\n\r\n")
        taken = 0
        while part := one.recv(LARGE // 20):
            taken += len(part)
            time.sleep(write / 10)
        assert taken > LARGE


def test_connections_beyond_the_limits() -> None:
    with serving(most=3, per_address=2) as served:
        with served.connect() as one, served.connect() as two:
            for raw in (one, two):
                raw.sendall(GET % 1)
                assert raw.recv(1000).startswith(b"HTTP/1.1 200 ")
            check_refusal(served.ask(b""), 503, "too_many_connections")
            check_refusal(served.ask(GET % 2), 503, "too_many_connections")
            assert served.connections.refused == 2
        served.wait_until_closed()
        assert served.ask(b"GET /3 HTTP/1.1\r\nConnection: close\r\n\r\n").endswith(b"/3")


def test_a_body_that_nobody_wants_is_not_read_for_ever() -> None:
    with_longer_limits(check_unread_body, 0.2)


def check_unread_body(idle: float) -> None:
    with serving(idle=idle) as served, served.connect() as one:
        one.sendall(b"POST /unread HTTP/1.1\r\nContent-Length: 100\r\n\r\n")
        assert one.recv(1000).startswith(b"HTTP/1.1 200 ")
        served.wait_until_closed()


def test_requests_that_were_begun_before_the_end_are_answered() -> None:
    with serving() as served, served.connect() as held, served.connect() as begun:
        held.sendall(b"GET /hold HTTP/1.1\r\n\r\n")
        begun.sendall(b"GET /begun HTTP/1.1\r\n")
        wait_until(lambda: served.app.started == ["/hold"] and served.connections.open == 2)
        served.server.should_exit = True
        wait_until(lambda: not served.server.servers[0].is_serving())
        begun.sendall(b"\r\n")
        answer = read_all(begun)
        assert answer.endswith(b"/begun")
        assert b"connection: close" in answer
        served.app.may_answer.set()
        assert read_all(held).endswith(b"/hold")
