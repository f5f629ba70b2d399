"""Broken HTTP, and expensive requests beside cheap ones: all are answered, in bounded memory."""

from __future__ import annotations

import itertools
import json
import os
import random
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.raw_http import KINDS
from tests.support.service import client_of, make_data_folder, serving_process

REQUESTS = 100_000
RAW_REQUESTS = 20_000
RAW_CLIENTS = 4
CLIENTS = 6
MOST_GROWTH = 500_000_000
# What is wanted of the event loop, and of a request.
WANTED_DELAY, WANTED_CPU = 0.1, 1.0
WORDS = "/v1/collections/words"
CODES = "/v1/collections/codes"
MIB = 1 << 20


def send_raw(port: int, raw: bytes, rng: random.Random) -> list[int]:
    """Send bytes, hang up now or later, and return the statuses of the answers."""
    answer = b""
    with socket.create_connection(("127.0.0.1", port), timeout=120) as one:
        try:
            one.sendall(raw)
            if rng.random() < 0.8:
                one.shutdown(socket.SHUT_WR)
            else:
                one.settimeout(0.1)
            while part := one.recv(1 << 16):
                answer += part
        except (ConnectionError, TimeoutError):
            pass
    heads = [part.partition(b"\r\n\r\n")[0] for part in answer.split(b"HTTP/1.1 ")[1:]]
    for head in heads:
        assert not head.startswith(b"503") or b"retry-after" in head.lower()
    return [int(head[:3]) for head in heads]


def check_status(status: int) -> None:
    assert status < 500 or status == 503, status


@pytest.mark.parametrize("kind", KINDS)
def test_broken_http_is_refused_or_answered(client: httpx.Client, kind: str) -> None:
    rng = random.Random(kind)  # noqa: S311
    for _ in range(3):
        for status in send_raw(client.base_url.port or 0, KINDS[kind](rng), rng):
            check_status(status)
    assert client.get("/livez").status_code == 200


def listing(field: str, entry: str, size: int) -> bytes:
    """Return a body of about `size` bytes with one long list."""
    entries = ",".join(itertools.repeat(entry, size // (len(entry) + 1)))
    return f'{{"{field}":[{entries}]}}'.encode()


def expensive() -> dict[str, tuple[str, str, bytes]]:
    """Return requests of about the largest size that is taken: method, path and body."""
    text, code = json.dumps({"text": "apple bread " * 50}), json.dumps({"code": "0f0f"})
    document = json.dumps({"id": "x", "code": "0f0f", "payload": {"a": [1, 2, 3]}})
    rng = random.Random(0)  # noqa: S311
    strange = " ".join("".join(rng.choices(ascii_lowercase, k=5)) for _ in range(165_000))
    asked = [{"code": f"{rng.getrandbits(16):04x}", "label": "a"} for _ in range(7_700)]
    unknown = json.dumps({str(i): 0 for i in range(80_000)}).encode()
    batch = [{"code": "0f0f", "limit": 100, "with_payload": True}] * 1_000
    post, batches, most = "POST", f"{CODES}/search/batch", 16 * MIB - 99

    def searched(text: str) -> tuple[str, str, bytes]:
        body = json.dumps({"text": text}, ensure_ascii=False).encode()
        return post, f"{WORDS}/search", body

    hits = b'{"code": "0f0f", "limit": 10000, "with_payload": true}'
    filtered = b'{"code": "0f0f", "filter": {"field": "a", "gt": 7}}'
    return {
        "queries that are none": (post, f"{CODES}/evaluate", listing("queries", "0", most)),
        "an evaluation": (post, f"{CODES}/evaluate", json.dumps({"queries": asked}).encode()),
        "searches that are none": (
            post,
            f"{CODES}/search/batch",
            listing("searches", "0", MIB - 99),
        ),
        "documents that are none": ("PUT", f"{CODES}/documents", listing("documents", "0", most)),
        "empty documents": ("PUT", f"{CODES}/documents", listing("documents", "{}", 29_000)),
        "documents": ("PUT", f"{CODES}/documents", listing("documents", document, 500_000)),
        "a vector of strings": (post, f"{CODES}/search", listing("vector", '""', MIB - 99)),
        "a vector of numbers": (post, f"{CODES}/search", listing("vector", "0.5", MIB - 99)),
        "unknown fields": (post, f"{CODES}/search", unknown),
        "nested lists": (post, f"{CODES}/search", listing("vector", "[[[]]]", MIB - 99)),
        "a long string": (post, f"{CODES}/search", b'{"code": "' + b"0" * (MIB - 99) + b'"}'),
        "a long text": searched("apple " * 160_000),
        "a long word": searched("a" * 990_000),
        "unknown words": searched(strange),
        "a run of marks": searched("e" + "\u0301\u0316" * 240_000),
        "a long text without spaces": searched("\u5317\u4eac\u5927" * 110_000),
        "inputs": (post, f"{WORDS}/encode", listing("inputs", text, 600_000)),
        "a batch": (post, batches, json.dumps({"searches": batch}).encode()),
        "a batch of no limit": (post, batches, listing("searches", code, 16_000)),
        "many hits": (post, f"{CODES}/search", hits),
        "a scroll": (post, f"{CODES}/documents:scroll", b'{"limit": 1000}'),
        "a line without an end": (post, f"{CODES}/documents:bulk", b"x" * most),
        "empty lines": (post, f"{CODES}/documents:bulk", b"\n" * (MIB - 99)),
        "a filter": (post, f"{CODES}/search", filtered),
        "verification": (post, f"{CODES}/verify", b""),
    }


def ask(client: httpx.Client, method: str, path: str, body: bytes) -> int:
    kind = "application/x-ndjson" if path.endswith(":bulk") else "application/json"
    response = client.request(method, path, content=body, headers={"content-type": kind})
    check_status(response.status_code)
    assert response.status_code != 503 or "retry-after" in response.headers
    return response.status_code


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def longest_delay(client: httpx.Client) -> float:
    for family in text_string_to_metric_families(client.get("/metrics").text):
        if family.name == "hummingbit_longest_event_loop_delay_seconds":
            return float(family.samples[0].value)
    raise AssertionError("there is no such metric")


@contextmanager
def watched(pid: int) -> Iterator[list[int]]:
    """Note the resident memory ten times a second."""
    sizes, ended = [resident(pid)], threading.Event()

    def watch() -> None:
        while not ended.wait(0.1):
            sizes.append(resident(pid))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield sizes
    finally:
        ended.set()
        thread.join()


def fill(client: httpx.Client) -> None:
    client.put(WORDS, json={"encoder": "words"}).raise_for_status()
    client.put(CODES, json={"n_bits": 16}).raise_for_status()
    rng = random.Random(0)  # noqa: S311
    documents = [
        {
            "id": str(i),
            "code": f"{rng.getrandbits(16):04x}",
            "label": "ab"[i % 2],
            "payload": {"a": i},
        }
        for i in range(10_000)
    ]
    client.put(f"{CODES}/documents", json={"documents": documents}).raise_for_status()
    texts = [{"id": str(i), "text": "apple bread"} for i in range(100)]
    client.put(f"{WORDS}/documents", json={"documents": texts}).raise_for_status()


def dearest(client: httpx.Client, pid: int) -> list[tuple[float, float, str, int]]:
    """Return what each expensive request costs alone: CPU seconds, the longest delay, its status.

    A delay is one that is longer than those before it.
    """
    costs = []
    for name, (method, path, body) in expensive().items():
        before, delayed = cpu_seconds(pid), longest_delay(client)
        status = ask(client, method, path, body)
        after = longest_delay(client)
        costs.append((cpu_seconds(pid) - before, after if after > delayed else 0.0, name, status))
    return sorted(costs, reverse=True)


def storm(url: str, statuses: Counter[Any]) -> None:
    """Send cheap, expensive and broken requests at once."""
    port, lock = int(url.rpartition(":")[2]), threading.Lock()
    bodies = list(expensive().values())

    def count(found: Counter[Any]) -> None:
        with lock:
            statuses.update(found)

    def break_things(seed: int) -> None:
        rng, kinds = random.Random(seed), list(KINDS.values())  # noqa: S311
        found: Counter[Any] = Counter()
        for _ in range(RAW_REQUESTS // RAW_CLIENTS):
            answers: list[Any] = [*send_raw(port, rng.choice(kinds)(rng), rng)]
            for status in answers:
                check_status(status)
            found.update(answers or ["none"])
        count(found)

    def ask_things(seed: int) -> None:
        rng, found = random.Random(seed), Counter[Any]()  # noqa: S311
        with client_of(url) as client:
            client.timeout = httpx.Timeout(120)
            for _ in range(REQUESTS // CLIENTS):
                method, path, body = "POST", f"{CODES}/search", b'{"code": "0f0f"}'
                if rng.random() < 0.005:
                    method, path, body = rng.choice(bodies)
                found[ask(client, method, path, body)] += 1
        count(found)

    works: list[tuple[Callable[[int], None], int]] = [(break_things, i) for i in range(RAW_CLIENTS)]
    works += [(ask_things, 100 + i) for i in range(CLIENTS)]
    with ThreadPoolExecutor(len(works)) as pool:
        for item in [pool.submit(work, seed) for work, seed in works]:
            item.result()


@pytest.mark.fuzz
def test_a_storm(tmp_path: Path) -> None:
    data, log = make_data_folder(tmp_path / "data"), tmp_path / "log"
    statuses: Counter[Any] = Counter()
    with (
        log.open("w") as file,
        serving_process(data, "--no-access-log", stderr=file) as (process, url),
        client_of(url) as client,
    ):
        client.timeout = httpx.Timeout(120)
        fill(client)
        with watched(process.pid) as sizes:
            costs = dearest(client, process.pid)
            for cpu, delay, name, status in costs:
                print(f"{cpu:6.2f} s of CPU, event loop {delay * 1000:5.0f} ms: {name} ({status})")
            began = time.monotonic()
            storm(url, statuses)
            seconds = time.monotonic() - began
        growth = max(sizes) - sizes[0]
        print(f"{statuses.total():,} requests in {seconds:.0f} s: {dict(statuses)}")
        delay, (cpu, _, name, _) = longest_delay(client), costs[0]
        wanted = f"wanted: {WANTED_DELAY * 1000:.0f} ms"
        print(f"the event loop stood still for {delay * 1000:.0f} ms at most ({wanted})")
        print(f"the dearest request: {name}, {cpu:.2f} s of CPU (wanted: {WANTED_CPU:g} s)")
        print(f"resident memory grew from {sizes[0] >> 20} MiB by {growth >> 20} MiB at most")
        assert client.post(f"{CODES}/search", json={"code": "0f0f"}).status_code == 200
        process.terminate()
        assert process.wait(timeout=120) == 0
    assert "Traceback" not in log.read_text()
    assert growth < MOST_GROWTH
