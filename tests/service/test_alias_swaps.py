"""An alias moves to a new collection and the old one is dropped at once: every answer is a 200."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.service import client_of, serving_process

QUIET = ("--no-access-log", "--log-level", "warning")
ALIAS = "/v1/collections/books"
DOCUMENTS = [
    {"id": f"d{i}", "code": f"{i:04x}", "payload": {"at": i, "third": i // 3}} for i in range(200)
]
READS: list[tuple[str, str, Any]] = [
    ("POST", f"{ALIAS}/search", {"code": "00ff", "limit": 5}),
    ("POST", f"{ALIAS}/search", {"code": "00ff", "limit": 5, "with_payload": True}),
    ("POST", f"{ALIAS}/search", {"code": "00ff", "filter": {"field": "at", "lt": 90}}),
    ("POST", f"{ALIAS}/search/batch", {"searches": [{"code": "00ff"}] * 5}),
    ("POST", f"{ALIAS}/documents:scroll", {"limit": 50}),
    ("POST", f"{ALIAS}/documents:get", {"ids": ["d3", "d7"]}),
    ("POST", f"{ALIAS}/search", {"code": "00ff", "group_by": "third", "group_size": 2}),
    ("POST", f"{ALIAS}/search", {"code": "00ff", "facets": [{"field": "third"}]}),
    ("POST", f"{ALIAS}/recommend", {"positive": ["d3"], "negative": ["d7"]}),
    ("POST", f"{ALIAS}/facets", {"facets": [{"field": "third"}, {"field": "at", "interval": 50}]}),
    ("POST", f"{ALIAS}/documents:scroll", {"limit": 50, "sort": [{"field": "at"}]}),
    ("POST", f"{ALIAS}/documents:count", {}),
    ("GET", f"{ALIAS}/documents/d3", None),
    ("GET", f"{ALIAS}/stats", None),
    ("GET", f"{ALIAS}/codes", None),
    ("GET", ALIAS, None),
    ("GET", "/readyz", None),
    ("GET", "/v1/collections", None),
    ("GET", "/v1/aliases", None),
    ("GET", "/metrics", None),
]
WRITES: list[tuple[str, str, Any]] = [
    ("PUT", f"{ALIAS}/documents", {"documents": [{"id": "w", "code": "abcd"}]}),
    (
        "POST",
        f"{ALIAS}/documents:payload",
        {"updates": [{"filter": {"field": "at", "lt": 50}, "merge": {"seen": True}}]},
    ),
    ("PUT", f"{ALIAS}/documents", {"documents": [{"id": "v", "code": "abcd"}]}),
    ("POST", f"{ALIAS}/documents:delete", {"ids": ["v", "w"]}),
    ("PUT", f"{ALIAS}/labels", {"labels": [{"id": "d3", "label": "one"}]}),
]


def swap(client: httpx.Client, step: int) -> None:
    """Fill a collection, move the alias to it, and drop the one that it named before."""
    name = f"c{step}"
    client.put(f"/v1/collections/{name}", json={"n_bits": 16}).raise_for_status()
    body = {"documents": DOCUMENTS}
    client.put(f"/v1/collections/{name}/documents", json=body).raise_for_status()
    actions = {"actions": [{"add": {"alias": "books", "collection": name}}]}
    client.post("/v1/aliases", json=actions).raise_for_status()
    # The same connection sees its own writes.
    assert client.get(f"{ALIAS}/documents/d0").status_code == 200
    assert client.get(ALIAS).json()["name"] == name
    if step:
        client.delete(f"/v1/collections/c{step - 1}").raise_for_status()
        assert client.get(f"/v1/collections/c{step - 1}").status_code == 404


def ask(address: str, requests: list[tuple[str, str, Any]], end: threading.Event) -> Counter[Any]:
    """Send the requests in turn until the end, and count the answers."""
    answers: Counter[Any] = Counter()
    with client_of(address) as client:
        while not end.is_set():
            for method, path, body in requests:
                response = client.request(method, path, json=body)
                is_ok = response.status_code == 200
                detail = "" if is_ok else response.json()["detail"]
                answers[method, path, response.status_code, detail] += 1
    return answers


def check_swaps(writer: str, readers: list[str], seconds: float) -> None:
    """Swap for so many seconds, and thrice, beside reads and writes, and check every answer."""
    end, answers = threading.Event(), list[Counter[Any]]()

    def run(address: str, requests: list[tuple[str, str, Any]]) -> None:
        answers.append(ask(address, requests, end))

    with client_of(writer) as client:
        swap(client, 0)
        for reader in readers:
            with client_of(reader) as other:
                deadline = time.monotonic() + 120
                while other.get(ALIAS).status_code != 200:
                    assert time.monotonic() < deadline
                    time.sleep(0.02)
        arguments = [(reader, READS) for reader in readers] + [(writer, WRITES)]
        threads = [threading.Thread(target=run, args=argument) for argument in arguments]
        for thread in threads:
            thread.start()
        try:
            deadline, step = time.monotonic() + seconds, 0
            while step < 3 or time.monotonic() < deadline:
                step += 1
                swap(client, step)
        finally:
            end.set()
            for thread in threads:
                thread.join()
    assert len(answers) == len(threads)
    total = sum(answers, Counter())
    wrong = {answer: count for answer, count in total.items() if answer[2] != 200}
    told = "\n".join(f"{count} x {answer}" for answer, count in wrong.items())
    assert not wrong, f"of {sum(total.values())}:\n{told}"
    print(f"{step} swaps, {sum(total.values()):,} answers")


@contextmanager
def serving(kind: str, data_dir: Path) -> Iterator[tuple[str, list[str]]]:
    """Serve in a way; yield the address to write to, and those to read from."""
    flags = ("--workers", "2") if kind == "workers" else ()
    with ExitStack() as stack:
        _, address = stack.enter_context(serving_process(data_dir, *flags, *QUIET))
        reading = [address] * 3
        if kind == "followers":
            followers = [
                stack.enter_context(serving_process(data_dir, "--read-only", *QUIET))[1]
                for _ in range(2)
            ]
            reading = followers + followers[:1]
        yield address, reading


KINDS = pytest.mark.parametrize("kind", ["single", "workers", "followers"])


@KINDS
def test_nothing_but_200_while_an_alias_moves_and_its_collection_is_dropped(
    tmp_path: Path, kind: str
) -> None:
    with serving(kind, tmp_path) as (writer, readers):
        check_swaps(writer, readers, seconds=0.2)


@pytest.mark.soak
@KINDS
def test_nothing_but_200_for_a_minute(tmp_path: Path, kind: str) -> None:
    with serving(kind, tmp_path) as (writer, readers):
        check_swaps(writer, readers, seconds=float(os.environ.get("SOAK_SECONDS", "60")))
