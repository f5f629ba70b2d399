"""What the environment gives a client: an address, a key, proxies, and what is at the address."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from hummingbit import AsyncClient, Client, ServiceError
from hummingbit.cli import main

KEY = "hb_" + "s3cret" * 5
Ask = Callable[..., Any]


def ask(url: str | None = None, key: Any = None, **options: Any) -> Any:
    with Client(url, key, retries=0, **options) as client:
        return client.ready()


def ask_async(url: str | None = None, key: Any = None, **options: Any) -> Any:
    async def call() -> Any:
        async with AsyncClient(url, key, retries=0, **options) as client:
            return await client.ready()

    return asyncio.run(call())


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.lower().endswith("_proxy") or name.startswith("HUMMINGBIT_"):
            monkeypatch.delenv(name)


@pytest.fixture(params=[ask, ask_async])
def send(request: pytest.FixtureRequest) -> Ask:
    sent: Ask = request.param
    return sent


@contextmanager
def answering(*responses: bytes) -> Iterator[tuple[str, list[bytes]]]:
    """Yield the address of a server that gives each connection the next response, and its heads."""
    heads: list[bytes] = []

    def serve() -> None:
        for response in responses:
            connection, _ = listener.accept()
            with connection:
                heads.append(connection.recv(65536))
                connection.sendall(response)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", heads
        thread.join(10)


def response(body: bytes, kind: str = "application/json", status: str = "200 OK") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Connection: close\r\n\r\n".encode() + body


@pytest.fixture
def nobody() -> str:
    """Return an address at which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.parametrize("key", [f"{KEY}\n", f"  {KEY}\r\n", f"\t{KEY} "])
@pytest.mark.parametrize("is_given", [True, False])
def test_white_space_around_a_key_is_left_out(
    send: Ask, key: str, is_given: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_given:
        monkeypatch.setenv("HUMMINGBIT_KEY", key)
    with answering(response(b"{}")) as (url, heads):
        assert send(f" {url}\n", key if is_given else None) == {}
    assert f"Bearer {KEY}\r\n".encode() in heads[0]


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        (f"{KEY}ü", "a character beyond ASCII at position 33"),
        (f"{KEY[:9]}\n{KEY[9:]}", "white space at position 9"),
        (f"{KEY[:9]}\0{KEY[9:]}", "a control character at position 9"),
        (KEY.encode(), "is of type bytes; it must be a string"),
    ],
)
def test_a_key_that_is_none_is_named_and_never_shown(
    send: Ask, key: Any, reason: str, nobody: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ServiceError, match=f"^key.*{reason}") as caught:
        send(nobody, key)
    assert KEY[:9] not in repr(caught.value) + str(caught.value.__cause__)
    if isinstance(key, str) and "\0" not in key:
        monkeypatch.setenv("HUMMINGBIT_KEY", key)
        with pytest.raises(ServiceError, match=f"^HUMMINGBIT_KEY.*{reason}"):
            send(nobody)


def test_a_password_in_an_address_is_not_shown(send: Ask, nobody: str) -> None:
    url = nobody.replace("http://", f"http://me:{KEY}@")
    with pytest.raises(ServiceError, match=rf"^{nobody}: cannot be reached: Connection ref") as got:
        send(url)
    assert KEY not in str(got.value)


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        (
            {"ALL_PROXY": f"socks5://me:{KEY}@127.0.0.1:1"},
            r"ALL_PROXY is 'socks5://127.0.0.1:1', which needs the package socksio",
        ),
        ({"NO_PROXY": "[::1]"}, r"NO_PROXY has '\[::1\]', which is no host; write .*as ::1"),
        ({"no_proxy": "a, [::1]:80"}, r"no_proxy has '\[::1\]:80', which is no host"),
        ({"HTTP_PROXY": "ftp://proxy"}, r"HTTP_PROXY is 'ftp://proxy', which is no address"),
        ({"https_proxy": "http://[::1"}, r"https_proxy is 'http://\[::1', which is no address"),
        ({"HUMMINGBIT_URL": "here"}, r"HUMMINGBIT_URL is 'here'; it must begin with http://"),
        (
            {"SSL_CERT_FILE": "/no/such.pem"},
            r"SSL_CERT_FILE is '/no/such.pem', which is no file of certificates: No such file",
        ),
        ({"SSL_CERT_FILE": __file__}, r"SSL_CERT_FILE is '.*', which is no file of certificates"),
    ],
)
def test_a_variable_that_cannot_be_used_is_named(
    send: Ask, variables: dict[str, str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ServiceError, match=f"^{message}") as caught:
        send()
    assert KEY not in str(caught.value)


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
def test_a_proxy_that_is_dead_is_named(
    send: Ask, name: str, nobody: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, nobody.replace("http://", f"http://me:{KEY}@"))
    with answering(response(b"{}")) as (url, _):
        message = rf"^{url}: the proxy {nobody} of {name} cannot be used: Connection refused; unset"
        with pytest.raises(ServiceError, match=message):
            send(url)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        assert send(url) == {}


def test_a_proxy_that_refuses_is_named(send: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    page = response(b"<html>", "text/html", "407 Proxy Authentication Required")
    with answering(page) as (proxy, _):
        monkeypatch.setenv("HTTP_PROXY", proxy)
        message = rf"returned 407 .*, perhaps from the proxy {proxy} of HTTP_PROXY"
        with pytest.raises(ServiceError, match=message) as caught:
            send("http://service.example")
    assert caught.value.status == 407


def test_a_command_says_to_start_a_service_only_if_there_is_none(
    nobody: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ready", "--url", nobody]) != 0
    assert "start it with hummingbit serve" in capsys.readouterr().err
    monkeypatch.setenv("HTTP_PROXY", nobody)
    assert main(["ready", "--url", nobody]) != 0
    said = capsys.readouterr().err
    assert "of HTTP_PROXY cannot be used" in said
    assert "hummingbit serve" not in said


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://[::1", "Invalid IPv6 URL"),
        ("http://h:99999", "Port out of range"),
        ("http://a..b", "label empty or too long"),
        ("http://", "it must have a host"),
        ("http://h\0x", "non-printable"),
        ("localhost:8000", "it must begin with http:// or https://"),
    ],
)
def test_an_address_that_is_none(send: Ask, url: str, reason: str) -> None:
    with pytest.raises(ServiceError, match=f"^url is .*{reason}"):
        send(url)


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (response(b"<html>", "text/html"), "returned what is no JSON; is it the address of a serv"),
        (response(b"{", "application/json"), "returned what is no JSON"),
        (
            b"HTTP/1.1 301 Moved\r\nLocation: https://x/y\r\nContent-Length: 0\r\n\r\n",
            "returned 301 Moved; it has moved to https://x/y",
        ),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "broke off its response, or does not speak HTTP"),
        (b"", "broke off its response, or does not speak HTTP"),
        (response(b"{}")[:-1], "broke off its response, or does not speak HTTP"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}",
            "broke off its response, or does not speak HTTP",
        ),
        (response(b"no", "text/plain", "503 Busy"), "returned 503 Busy"),
    ],
)
def test_what_is_no_service(send: Ask, sent: bytes, reason: str) -> None:
    with (
        answering(sent) as (url, _),
        pytest.raises(ServiceError, match=f"^{url}: {reason}"),
    ):
        send(url)


def test_a_service_that_does_not_answer_in_time(send: Ask) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        pytest.raises(ServiceError, match=r"did not answer within 0.2 s; pass a longer timeout"),
    ):
        send(f"http://127.0.0.1:{listener.getsockname()[1]}", timeout=0.2)


def test_http_where_https_is_asked_for(send: Ask) -> None:
    with answering(response(b"{}")) as (url, _):
        message = "WRONG_VERSION_NUMBER.*; does the address begin with http://"
        with pytest.raises(ServiceError, match=message):
            send(url.replace("http:", "https:"))


def test_a_client_that_is_closed() -> None:
    client = Client()
    client.close()
    with pytest.raises(ServiceError, match="the client is closed"):
        client.ready()

    async def call() -> None:
        client = AsyncClient()
        await client.close()
        await client.ready()

    with pytest.raises(ServiceError, match="the client is closed"):
        asyncio.run(call())
