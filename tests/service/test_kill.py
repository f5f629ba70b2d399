"""A service killed in the middle of writes comes back with all it acknowledged.

Before each kill there are streams of upserts and a bulk job under way. The service that is started
next must hold all that was acknowledged, and finish the jobs; it is the one that is killed next.
"""

from __future__ import annotations

import itertools
import json
import random
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from hummingbit.index.data_folder import DataFolder
from tests.support.service import client_of, serving_process

N_BITS = 32
WRITERS = 2
COLLECTION = "/v1/collections/words"
BULK_LINES = 6000
PAGE = 1000
QUIET = ("--no-access-log",)


def code_of(id_: str, version: int) -> str:
    """Return a code that no other document or version is likely to have."""
    return f"{random.Random(f'{id_} {version}').getrandbits(N_BITS):08x}"  # noqa: S311


def document_of(id_: str, version: int) -> dict[str, Any]:
    return {"id": id_, "code": code_of(id_, version), "payload": {"version": version}}


class Stream(threading.Thread):
    """Upserts one to four documents at a time, its own and some of them again, until it fails.

    `acknowledged` holds the version of each document as of the last answer; `attempted` what an
    upsert without an answer would have made of it.
    """

    def __init__(self, address: str, prefix: str, seed: int) -> None:
        super().__init__(daemon=True)
        self.acknowledged: dict[str, int] = {}
        self.attempted: dict[str, int] = {}
        self.answers = 0
        self.unexpected = ""
        self._address = address
        self._prefix = prefix
        self._chance = random.Random(seed)  # noqa: S311 - it only picks the documents

    def run(self) -> None:
        """Upsert until the service is gone."""
        with client_of(self._address) as client:
            for step in itertools.count():
                self.attempted = self._next(step)
                documents = [document_of(*item) for item in self.attempted.items()]
                try:
                    response = client.put(f"{COLLECTION}/documents", json={"documents": documents})
                except httpx.TransportError:
                    return
                if response.status_code != 200:
                    self.unexpected = response.text
                    return
                self.acknowledged.update(self.attempted)
                self.attempted = {}
                self.answers += 1

    def _next(self, step: int) -> dict[str, int]:
        batch = {f"{self._prefix}-{step}-{i}": 0 for i in range(self._chance.randint(1, 3))}
        if self.acknowledged and self._chance.random() < 0.5:
            again = self._chance.choice(list(self.acknowledged))
            batch[again] = self.acknowledged[again] + 1
        return batch


class Load(NamedTuple):
    """What was under way when the service was killed."""

    streams: list[Stream]
    job: str


@contextmanager
def streaming(address: str, turn: int) -> Iterator[list[Stream]]:
    streams = [Stream(address, f"r{turn}w{i}", seed=turn * WRITERS + i) for i in range(WRITERS)]
    for stream in streams:
        stream.start()
    yield streams
    for stream in streams:
        stream.join(timeout=120)
        assert not stream.is_alive()
        assert not stream.unexpected


def begin_bulk(client: httpx.Client, turn: int) -> str:
    """Have a job fill a collection of its own, and return where the job can be asked for."""
    path = f"/v1/collections/bulk{turn}"
    assert client.put(path, json={"n_bits": N_BITS}).status_code == 201
    lines = (json.dumps(document_of(f"b{i}", turn)) for i in range(BULK_LINES))
    headers = {
        "content-type": "application/x-ndjson",
        "prefer": "respond-async",
        "idempotency-key": f"turn {turn}",
    }
    content = "\n".join(lines).encode()
    taken = client.post(f"{path}/documents:bulk", content=content, headers=headers)
    assert taken.status_code == 202
    return taken.headers["location"]


def finish_bulk(client: httpx.Client, job: str) -> int:
    """Wait for a job, see that all of its lines are there; return how often it was begun."""
    pause = threading.Event()
    while (found := client.get(job).json())["state"] in {"queued", "running"}:
        pause.wait(0.05)
    assert found["state"] == "done", found
    assert found["result"]["written"] == BULK_LINES
    path = f"/v1/collections/{found['collection']}"
    turn = int(found["collection"].removeprefix("bulk"))
    held = held_by(client, path)
    assert held == {f"b{i}": expected(f"b{i}", turn) for i in range(BULK_LINES)}
    assert client.delete(path).status_code == 204
    attempts: int = found["attempts"]
    return attempts


def held_by(client: httpx.Client, path: str) -> dict[str, dict[str, Any]]:
    """Return every document of a collection."""
    held: dict[str, dict[str, Any]] = {}
    body: dict[str, Any] = {"limit": PAGE}
    while True:
        page = client.post(f"{path}/documents:scroll", json=body).json()
        held |= {document["id"]: document for document in page["documents"]}
        if page["next_cursor"] is None:
            return held
        body["cursor"] = page["next_cursor"]


def expected(id_: str, version: int) -> dict[str, Any]:
    """Return a document as it is answered."""
    return {**document_of(id_, version), "text": None, "vector": None}


def lost(held: dict[str, dict[str, Any]], stream: Stream) -> list[str]:
    """Return the documents that are not as acknowledged.

    An upsert that was never answered may have been done or not: as a whole.
    """
    unanswered = {**stream.acknowledged, **stream.attempted}
    found = {id_: held[id_] for id_ in unanswered if id_ in held}
    differing = []
    for versions in (stream.acknowledged, unanswered):
        right = {id_: expected(id_, version) for id_, version in versions.items()}
        differing.append([id_ for id_ in unanswered if found.get(id_) != right.get(id_)])
    return min(differing, key=len)


def check_streams(client: httpx.Client, streams: list[Stream]) -> int:
    """Fail if anything that was acknowledged is not there; return how many documents there are."""
    held = held_by(client, COLLECTION)
    assert [id_ for stream in streams for id_ in lost(held, stream)] == []
    assert client.get(COLLECTION).json()["documents"] == len(held)
    for id_ in random.Random(len(held)).sample(sorted(held), min(20, len(held))):  # noqa: S311
        search = {"code": held[id_]["code"], "radius": 0, "limit": 100}
        hits = client.post(f"{COLLECTION}/search", json=search).json()["hits"]
        assert id_ in [hit["id"] for hit in hits]
    return len(held)


def load_and_kill(process: subprocess.Popen[str], address: str, turn: int, seconds: float) -> Load:
    """Kill the service with writes under way, so long after each stream has had an answer."""
    with client_of(address) as client:
        assert client.put(COLLECTION, json={"n_bits": N_BITS}).status_code in {200, 201}
        job = begin_bulk(client, turn)
    with streaming(address, turn) as streams:
        begun = threading.Event()
        while not all(stream.answers for stream in streams):
            begun.wait(0.001)
        begun.wait(seconds)
        process.kill()
    process.wait()
    return Load(streams, job)


def check_rounds(data_dir: Path, rounds: int, seed: int) -> int:
    """Kill a service so often and check what is there; return how many writes it acknowledged."""
    chance = random.Random(seed)  # noqa: S311 - it only picks the moment of the kill
    streams: list[Stream] = []
    jobs: list[str] = []
    attempts: list[int] = []
    for turn in range(rounds + 1):
        with serving_process(data_dir, *QUIET) as (process, address):
            with client_of(address) as client:
                assert client.get("/readyz").status_code == 200
                held = check_streams(client, streams) if turn else 0
                # Now and then a job is not waited for, but killed once more.
                if turn == rounds or chance.random() < 0.7:
                    attempts += [finish_bulk(client, job) for job in jobs]
                    jobs = []
            if turn == rounds:
                process.terminate()
                assert process.wait() == 0
            else:
                load = load_and_kill(process, address, turn, chance.uniform(0, 0.6))
                streams += load.streams
                jobs.append(load.job)
    acknowledged = sum(len(stream.acknowledged) for stream in streams)
    again = sum(1 for attempt in attempts if attempt > 1)
    print(
        f"{rounds} kills and restarts: {acknowledged:,} documents acknowledged, none lost,"
        f" {held:,} held; {len(attempts)} jobs done, {again} of them resumed"
    )
    assert len(attempts) == rounds
    with DataFolder(data_dir, writable=True) as folder:
        assert not folder.unavailable()
    return acknowledged


def test_what_was_acknowledged_survives_kills(tmp_path: Path) -> None:
    check_rounds(tmp_path, rounds=2, seed=0)


@pytest.mark.faults
def test_what_was_acknowledged_survives_a_hundred_kills(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    record_property("acknowledged writes", check_rounds(tmp_path, rounds=100, seed=1))
    record_property("kills of the service", 100)
