"""Services on one PostgreSQL server: one of them is killed, the server is, a standby takes over."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest

from tests.support.postgres import postgres_server as own_server
from tests.support.postgres import reason_unavailable
from tests.support.service import client_of, serving_process

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(reason_unavailable() is not None, reason="there is no PostgreSQL here"),
]

PATH = "/v1/collections/c"
SECONDS = 60.0


class Stream(threading.Thread):
    """Writes a document after the other at a service, until it is told to stop.

    `acknowledged` are the ids of those whose write was answered with 200.
    """

    def __init__(self, address: str, prefix: str) -> None:
        super().__init__(daemon=True)
        self.acknowledged: list[str] = []
        self.refused: set[int] = set()
        self._address, self._prefix = address, prefix
        self._ended = threading.Event()

    def run(self) -> None:
        """Write, also after a failure."""
        with client_of(self._address) as client:
            for step in itertools.count():
                if self._ended.is_set():
                    return
                id_ = f"{self._prefix}-{step}"
                body = {"documents": [{"id": id_, "code": f"{step % 65536:04x}"}]}
                try:
                    answer = client.put(f"{PATH}/documents", json=body)
                except httpx.TransportError:
                    self._ended.wait(0.05)
                    continue
                if answer.status_code == 200:
                    self.acknowledged.append(id_)
                else:
                    self.refused.add(answer.status_code)
                    self._ended.wait(0.05)

    def stop(self) -> None:
        """End after the write in progress."""
        self._ended.set()
        self.join()


@contextmanager
def writing(*addresses: str) -> Iterator[list[Stream]]:
    streams = [Stream(address, f"s{at}") for at, address in enumerate(addresses)]
    for stream in streams:
        stream.start()
    try:
        yield streams
    finally:
        for stream in streams:
            stream.stop()


def eventually(is_so: Callable[[], object]) -> None:
    deadline = time.monotonic() + SECONDS
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def flags(uri: str) -> tuple[str, ...]:
    return ("--backend", "postgres", "--postgres-uri", uri, "--no-access-log")


def stored_ids(client: httpx.Client) -> set[str]:
    ids: set[str] = set()
    cursor = None
    while True:
        body = {"limit": 1000} | ({"cursor": cursor} if cursor else {})
        page = client.post(f"{PATH}/documents:scroll", json=body).json()
        ids.update(document["id"] for document in page["documents"])
        cursor = page["next_cursor"]
        if cursor is None:
            return ids


@pytest.mark.faults
def test_a_killed_service_loses_nothing_and_holds_nobody_up(
    postgres_uri: str, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        (killed, one), (_, other) = (
            stack.enter_context(serving_process(tmp_path / name, *flags(postgres_uri)))
            for name in "ab"
        )
        here, there = (stack.enter_context(client_of(address)) for address in (one, other))
        assert here.put(PATH, json={"n_bits": 16}).status_code == 201
        eventually(lambda: there.get(PATH).status_code == 200)
        with writing(one, other) as (ours, theirs):
            eventually(lambda: len(ours.acknowledged) > 50 and len(theirs.acknowledged) > 50)
            killed.kill()
            killed.wait()
            before = len(theirs.acknowledged)
            eventually(lambda: len(theirs.acknowledged) > before + 50)
            query = {"code": "0000", "limit": 1}
            assert there.post(f"{PATH}/search", json=query).status_code == 200
        assert theirs.refused == set()
        stored = stored_ids(there)
        assert {*ours.acknowledged, *theirs.acknowledged} <= stored
        # One write of the killed service may be stored, whose answer was lost.
        assert len(stored) <= len(ours.acknowledged) + len(theirs.acknowledged) + 1
        assert there.post(f"{PATH}/verify").json()["problems"] == []


def test_readiness_follows_the_server(tmp_path: Path) -> None:
    with own_server() as server, ExitStack() as stack:
        _, address = stack.enter_context(serving_process(tmp_path, *flags(server.uri)))
        client = stack.enter_context(client_of(address))
        assert client.put(PATH, json={"n_bits": 16}).status_code == 201
        with writing(address) as (stream,):
            eventually(lambda: len(stream.acknowledged) > 20)
            server.kill()
            answer = client.get("/readyz")
            assert (answer.status_code, answer.json()["code"]) == (503, "not_ready")
            assert "PostgreSQL at" in answer.json()["detail"]
            assert "cannot be reached" in answer.json()["detail"]
            server.start()
            before = len(stream.acknowledged)
            eventually(lambda: client.get("/readyz").status_code == 200)
            eventually(lambda: len(stream.acknowledged) > before)
        assert stream.refused == {503}
        assert {*stream.acknowledged} <= stored_ids(client)


@pytest.mark.faults
def test_a_standby_takes_over_with_all_that_was_acknowledged(tmp_path: Path) -> None:
    with own_server() as server, ExitStack() as stack:
        (tmp_path / "reader").mkdir()
        with serving_process(tmp_path / "data", *flags(server.uri)) as (service, address):
            client = stack.enter_context(client_of(address))
            assert client.put(PATH, json={"n_bits": 16}).status_code == 201
            standby = stack.enter_context(server.standby())
            reading = serving_process(tmp_path / "reader", *flags(standby.uri), "--read-only")
            reader = stack.enter_context(client_of(stack.enter_context(reading)[1]))
            with writing(address) as (stream,):
                eventually(lambda: len(stream.acknowledged) > 50)
                assert server.run("SELECT sync_state FROM pg_stat_replication") == "sync"
                server.kill()
                eventually(lambda: client.get("/readyz").status_code == 503)
            service.kill()
        acknowledged = {*stream.acknowledged}
        standby.run("SELECT pg_promote()")
        eventually(lambda: acknowledged <= stored_ids(reader))
        # The same data folder, another address.
        _, address = stack.enter_context(serving_process(tmp_path / "data", *flags(standby.uri)))
        client = stack.enter_context(client_of(address))
        stored = stored_ids(client)
        assert acknowledged <= stored
        assert len(stored) <= len(acknowledged) + 1
        with writing(address) as (stream,):
            eventually(lambda: len(stream.acknowledged) > 20)
        assert client.post(f"{PATH}/verify").json()["problems"] == []
