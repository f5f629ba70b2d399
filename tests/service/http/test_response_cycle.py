from __future__ import annotations

import asyncio
import http.client
import io
import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from uvicorn.protocols.http.flow_control import FlowControl

from hummingbit.service.http.protocol import (
    KNOWN_HEADS,
    MAX_KNOWN_HEAD,
    Head,
    KnownHeads,
    ResponseCycle,
)

DATE = (b"date", b"Mon, 23 Nov 2026 00:00:00 GMT")
START = {"type": "http.response.start", "status": 200}


class Writes:
    """A transport that keeps what is written to it."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.is_closed = False

    def write(self, data: bytes) -> None:
        self.writes.append(bytes(data))

    def close(self) -> None:
        self.is_closed = True


class Received:
    """The bytes of a response, as a socket for :class:`http.client.HTTPResponse`."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, _mode: str) -> Any:
        return io.BytesIO(self._data)


def cycle_of(transport: Writes, method: str = "GET", *, keep_alive: bool = True) -> ResponseCycle:
    log = logging.getLogger("test")
    return ResponseCycle(
        scope={"method": method},  # type: ignore[typeddict-item]  # all that a response needs
        transport=transport,  # type: ignore[arg-type]
        flow=FlowControl(transport),  # type: ignore[arg-type]
        logger=log,
        access_logger=log,
        access_log=False,
        default_headers=[DATE],
        message_event=asyncio.Event(),
        expect_100_continue=False,
        keep_alive=keep_alive,
        on_response=lambda: None,
    )


def send_all(cycle: ResponseCycle, *messages: dict[str, Any]) -> None:
    async def send() -> None:
        for message in messages:
            await cycle.send(message)

    asyncio.run(send())


def parts_of(chunks: list[bytes]) -> list[dict[str, Any]]:
    last = len(chunks) - 1
    return [
        {"type": "http.response.body", "body": chunk, "more_body": position < last}
        for position, chunk in enumerate(chunks)
    ]


@pytest.mark.parametrize("declared", [True, False])
@given(chunks=st.lists(st.binary(max_size=40), min_size=1, max_size=5))
def test_a_client_reads_what_the_application_sent(declared: bool, chunks: list[bytes]) -> None:
    transport = Writes()
    size = str(len(b"".join(chunks))).encode()
    headers = [(b"content-length", size)] if declared else []
    send_all(cycle_of(transport), {**START, "headers": headers}, *parts_of(chunks))
    read = http.client.HTTPResponse(Received(b"".join(transport.writes)), method="GET")  # type: ignore[arg-type]
    read.begin()
    assert (read.status, read.getheader("date")) == (200, DATE[1].decode())
    assert read.read() == b"".join(chunks)
    assert len(transport.writes) <= len(chunks)
    assert not transport.is_closed


def test_the_head_waits_for_the_body() -> None:
    transport = Writes()
    cycle = cycle_of(transport)
    send_all(cycle, {**START, "headers": [(b"content-length", b"2")]})
    assert transport.writes == []
    send_all(cycle, *parts_of([b"ok"]))
    assert len(transport.writes) == 1
    assert transport.writes[0].endswith(b"content-length: 2\r\n\r\nok")


@pytest.mark.parametrize(("method", "status"), [("HEAD", 200), ("GET", 204), ("GET", 304)])
def test_a_response_without_a_body_has_only_a_head(method: str, status: int) -> None:
    transport = Writes()
    headers = [(b"content-length", b"7")] if method == "HEAD" else []
    start = {**START, "status": status, "headers": headers}
    body = b"ignored" if method == "HEAD" else b""
    send_all(cycle_of(transport, method), start, *parts_of([body]))
    (written,) = transport.writes
    assert written.startswith(f"HTTP/1.1 {status} ".encode())
    assert written.endswith(b"\r\n\r\n")
    assert b"transfer-encoding" not in written


@pytest.mark.parametrize("value", [b"close", b"Keep-Alive, Close"])
def test_a_response_can_end_the_connection(value: bytes) -> None:
    transport = Writes()
    headers = [(b"content-length", b"0"), (b"Connection", value)]
    send_all(cycle_of(transport), {**START, "headers": headers}, *parts_of([b""]))
    assert transport.is_closed
    assert transport.writes[0].count(b"connection: close\r\n") == 1


def test_a_connection_that_is_not_kept_says_so() -> None:
    transport = Writes()
    start = {**START, "headers": [(b"content-length", b"0")]}
    send_all(cycle_of(transport, keep_alive=False), start, *parts_of([b""]))
    assert transport.is_closed
    assert b"connection: close\r\n" in transport.writes[0]


@pytest.mark.parametrize(
    ("messages", "error"),
    [
        ([{**START, "headers": [(b"a b", b"c")]}], "the header b'a b': b'c' is invalid"),
        ([{**START, "headers": [(b"a", b"b\r\nc: d")]}], "is invalid"),
        (parts_of([b"x"]), "sent http.response.body, not http.response.start"),
        ([START, START], "sent http.response.start, not http.response.body"),
        ([START, *parts_of([b"x"]), *parts_of([b"y"])], "sent http.response.body"),
        (
            [{**START, "headers": [(b"content-length", b"3")]}, *parts_of([b"x"])],
            "the body is 2 bytes shorter than its",
        ),
        (
            [{**START, "headers": [(b"content-length", b"1")]}, *parts_of([b"xyz"])],
            "the body is 2 bytes longer than its",
        ),
    ],
)
def test_a_response_that_is_no_http_is_refused(messages: list[dict[str, Any]], error: str) -> None:
    with pytest.raises(RuntimeError, match=error):
        send_all(cycle_of(Writes()), *messages)


HEAD = Head({"path": "/"}, {}, 0, keep_alive=True, is_plain=True)


@pytest.mark.parametrize(
    ("raw", "head"),
    [
        (b"", HEAD),  # it did not arrive in one piece
        (b"x" * (MAX_KNOWN_HEAD + 1), HEAD),
        (b"x", HEAD._replace(body_size=None)),
        (b"x", HEAD._replace(keep_alive=False)),
        (b"x", HEAD._replace(is_plain=False)),
    ],
)
def test_heads_that_are_parsed_again(raw: bytes, head: Head) -> None:
    heads = KnownHeads()
    heads.add(raw, head)
    assert heads.get(raw) is None


def test_only_so_many_heads_are_kept() -> None:
    heads = KnownHeads()
    for number in range(KNOWN_HEADS + 1):
        heads.add(b"%d" % number, HEAD)
    assert heads.get(b"0") is None
    assert heads.get(b"%d" % KNOWN_HEADS) == HEAD
