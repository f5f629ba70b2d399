"""A service killed in the middle of a stream of upserts comes back with all it acknowledged."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from index.data_folder import DataFolder
from tests.support.service import client_of, serving_process

N_BITS = 32
WRITERS = 2
COLLECTION = "/v1/collections/words"


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


@contextmanager
def streaming(address: str, turn: int) -> Iterator[list[Stream]]:
    streams = [Stream(address, f"r{turn}w{i}", seed=turn * WRITERS + i) for i in range(WRITERS)]
    for stream in streams:
        stream.start()
    yield streams
    for stream in streams:
        stream.join(timeout=60)
        assert not stream.is_alive()
        assert not stream.unexpected


def upsert_and_kill(data_dir: Path, turn: int, seconds: float) -> list[Stream]:
    """Kill the service with upserts under way, so long after each stream has had an answer."""
    with serving_process(data_dir) as (process, address):
        with client_of(address) as client:
            assert client.put(COLLECTION, json={"n_bits": N_BITS}).status_code in {200, 201}
        with streaming(address, turn) as streams:
            begun = threading.Event()
            while not all(stream.answers for stream in streams):
                begun.wait(0.001)
            begun.wait(seconds)
            process.kill()
        process.wait()
    return streams


def lost(held: dict[str, dict[str, Any]], stream: Stream) -> list[str]:
    """Return the documents that are not as acknowledged.

    An upsert that was never answered may have been done or not: as a whole.
    """
    unanswered = {**stream.acknowledged, **stream.attempted}
    found = {id_: held[id_] for id_ in unanswered if id_ in held}
    differing = []
    for versions in (stream.acknowledged, unanswered):
        expected = {
            id_: {**document_of(id_, version), "text": None, "vector": None}
            for id_, version in versions.items()
        }
        differing.append([id_ for id_ in unanswered if found.get(id_) != expected.get(id_)])
    return min(differing, key=len)


def read_all(data_dir: Path, ids: list[str]) -> tuple[dict[str, dict[str, Any]], int]:
    """Start the service again and get each document; return also how many it says it has."""
    held = {}
    with serving_process(data_dir) as (process, address), client_of(address) as client:
        assert client.get("/readyz").status_code == 200
        for id_ in ids:
            response = client.get(f"{COLLECTION}/documents/{id_}")
            if response.status_code == 200:
                held[id_] = response.json()
            else:
                assert response.status_code == 404
        count = client.get(COLLECTION).json()["documents"]
        for id_ in random.Random(len(ids)).sample(sorted(held), min(20, len(held))):  # noqa: S311
            search = {"code": held[id_]["code"], "radius": 0}
            hits = client.post(f"{COLLECTION}/search", json=search).json()["hits"]
            assert id_ in [hit["id"] for hit in hits]
        process.terminate()
        process.wait()
    return held, count


def check_rounds(data_dir: Path, rounds: int, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - it only picks the moment of the kill
    streams: list[Stream] = []
    for turn in range(rounds):
        streams += upsert_and_kill(data_dir, turn, chance.uniform(0, 0.6))
        ids = [id_ for stream in streams for id_ in {**stream.acknowledged, **stream.attempted}]
        held, count = read_all(data_dir, ids)
        missing = [id_ for stream in streams for id_ in lost(held, stream)]
        this_round = sum(len(stream.acknowledged) for stream in streams[-WRITERS:])
        print(
            f"round {turn + 1}: {this_round} documents acknowledged,"
            f" {len(held)} held in all, {len(missing)} lost"
        )
        assert not missing
        assert count == len(held)
    with DataFolder(data_dir, writable=True) as folder:
        assert not folder.unavailable()


def test_what_was_acknowledged_survives_kills(tmp_path: Path) -> None:
    check_rounds(tmp_path, rounds=3, seed=0)


@pytest.mark.faults
def test_what_was_acknowledged_survives_twenty_kills(tmp_path: Path) -> None:
    check_rounds(tmp_path, rounds=20, seed=1)
