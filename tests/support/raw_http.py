"""Broken HTTP: random bytes, malformed requests, and requests beyond the limits."""

from __future__ import annotations

import random
from collections.abc import Callable

HEAD = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n"
POST = b"POST /v1/collections/words/search HTTP/1.1\r\nHost: localhost\r\n"
JSON = b"Content-Type: application/json\r\n"
CHUNKED = POST + JSON + b"Transfer-Encoding: chunked\r\n\r\n"


def _noise(rng: random.Random, most: int = 200) -> bytes:
    return rng.randbytes(rng.randrange(1, most))


def _truncate(rng: random.Random, raw: bytes) -> bytes:
    return raw[: rng.randrange(len(raw))]


def _mutate(rng: random.Random, raw: bytes) -> bytes:
    changed = bytearray(raw)
    for _ in range(rng.randrange(1, 6)):
        changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


def _with_length(length: bytes, body: bytes = b"{}") -> bytes:
    return POST + JSON + b"Content-Length: " + length + b"\r\n\r\n" + body


def _request(line: bytes, headers: bytes = b"") -> bytes:
    return line + b" HTTP/1.1\r\nHost: localhost\r\n" + headers + b"\r\n"


def _repeat(rng: random.Random, piece: bytes, least: int, most: int) -> bytes:
    return piece * rng.randrange(least, most)


def _random_hex(rng: random.Random) -> bytes:
    return _noise(rng).hex().encode()


def _high_bytes(rng: random.Random) -> bytes:
    return bytes(rng.randrange(128, 256) for _ in range(20))


GOOD = _with_length(b"17", b'{"text": "apple"}')

KINDS: dict[str, Callable[[random.Random], bytes]] = {
    "noise": _noise,
    "noise after a request": lambda rng: GOOD + _noise(rng),
    "a good request changed": lambda rng: _mutate(rng, GOOD),
    "a good request cut": lambda rng: _truncate(rng, GOOD),
    "chunks changed": lambda rng: _mutate(rng, CHUNKED + b"2\r\n{}\r\n0\r\n\r\n"),
    "chunks cut": lambda rng: _truncate(rng, CHUNKED + b"2\r\n{}\r\n0\r\n\r\n"),
    "nothing": lambda _: b"",
    "empty lines": lambda rng: b"\r\n" * rng.randrange(1, 40_000),
    "a TLS hello": lambda rng: b"\x16\x03\x01\x02\x00\x01" + _noise(rng),
    "HTTP/2": lambda _: b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP/0.9": lambda _: b"GET /livez\r\n",
    "HTTP/1.0": lambda _: b"GET /livez HTTP/1.0\r\n\r\n",
    "HTTP/9.9": lambda _: b"GET /livez HTTP/9.9\r\nHost: localhost\r\n\r\n",
    "no version": lambda _: b"GET /livez \r\nHost: localhost\r\n\r\n",
    "no path": lambda _: b"GET  HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "no host": lambda _: b"GET /v1/collections HTTP/1.1\r\n\r\n",
    "two hosts": lambda _: HEAD + b"Host: evil.example\r\n\r\n",
    "a strange host": lambda rng: b"GET / HTTP/1.1\r\nHost: %s\r\n\r\n" % _random_hex(rng),
    "a method that is none": lambda _: b"BREW /livez HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a lower-case method": lambda _: b"get /livez HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "CONNECT": lambda _: b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "OPTIONS *": lambda _: b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "TRACE": lambda _: b"TRACE / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "an absolute address": lambda _: _request(b"GET http://evil.example/v1/collections"),
    "a path of bytes": lambda rng: _request(b"GET /" + _high_bytes(rng)),
    "a percent at the end": lambda _: _request(b"GET /v1/collections/%"),
    "NUL in the path": lambda _: _request(b"GET /v1/collections/%00"),
    "a long path": lambda rng: _request(b"GET /" + _repeat(rng, b"a", 8_000, 100_000)),
    "a long query": lambda rng: _request(b"GET /?" + _repeat(rng, b"a=b&", 2_000, 30_000)),
    "many headers": lambda rng: _request(b"GET /", _repeat(rng, b"a: b\r\n", 5_000, 30_000)),
    "a long header": lambda rng: _request(
        b"GET /", b"a: %s\r\n" % _repeat(rng, b"b", 32_000, 200_000)
    ),
    "a long name of a header": lambda rng: _request(
        b"GET /", _repeat(rng, b"a", 32_000, 200_000) + b": b\r\n"
    ),
    "a header without a name": lambda _: HEAD + b": b\r\n\r\n",
    "a header without a colon": lambda _: HEAD + b"nonsense\r\n\r\n",
    "a folded header": lambda _: HEAD + b"a: b\r\n c\r\n\r\n",
    "a space before the colon": lambda _: HEAD + b"a : b\r\n\r\n",
    "NUL in a header": lambda _: HEAD + b"a: \x00\r\n\r\n",
    "line feeds alone": lambda _: b"GET /livez HTTP/1.1\nHost: localhost\n\n",
    "two lengths": lambda _: POST + JSON + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    "a length and chunks": lambda _: CHUNKED[:-2] + b"Content-Length: 2\r\n\r\n0\r\n\r\n",
    "a negative length": lambda _: _with_length(b"-1"),
    "a huge length": lambda rng: _with_length(str(rng.getrandbits(80)).encode()),
    "a length that is no number": lambda _: _with_length(b"two"),
    "chunks without a size": lambda _: CHUNKED + b"x\r\n{}\r\n0\r\n\r\n",
    "a huge chunk": lambda _: CHUNKED + b"ffffffffffffffff\r\n{}",
    "pipelined requests": lambda rng: (HEAD + b"\r\n") * rng.randrange(2, 500),
}
"""Functions that make a random request of each kind of defect."""
