"""What the store survives: kill -9 in the middle of its work, a disk that is full or fails."""

from __future__ import annotations

import json
import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hummingbit.index.backend import CollectionBackend
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.errors import StoreError
from hummingbit.index.records import Query
from hummingbit.index.store import connections
from tests.support.faults.disks import fill, small_disk
from tests.support.faults.endless_writes import KINDS, N_BITS, NAME, code_of, document_of, vector_of

ROOT = Path(__file__).parents[2]
Versions = dict[str, int]
Record = Callable[[str, object], None]


def write_and_kill(folder: Path, kind: str, chance: random.Random) -> list[str]:
    """Kill a process that writes after so many writes and a moment; return what it told."""
    module = "tests.support.faults.endless_writes"
    command = [sys.executable, "-m", module, str(folder), kind, str(chance.randrange(10**9))]
    wanted = chance.randint(1, 40)
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines: list[str] = []
        while sum(line == "done\n" for line in lines) < wanted:
            lines.append(process.stdout.readline())
            assert lines[-1], f"{kind}: it ended by itself: {process.wait()}"
        time.sleep(chance.random() / 50)
        process.kill()
        lines += process.stdout.readlines()
    # The kill may have cut the last line short.
    return [line for line in lines if line.endswith("\n")]


def applied(versions: Versions, change: dict[str, int | None]) -> Versions:
    after = {id_: version for id_, version in versions.items() if id_ not in change}
    return after | {id_: version for id_, version in change.items() if version is not None}


def possible(versions: Versions, lines: list[str]) -> list[Versions]:
    """Return what may be there: all that was acknowledged, with the write after it or without."""
    pending: list[dict[str, int | None]] = []
    for line in lines:
        if line == "done\n":
            versions = applied(versions, pending.pop(0))
        else:
            pending.append(json.loads(line.removeprefix("try ")))
    return [versions, *(applied(versions, change) for change in pending[:1])]


def held_in(collection: CollectionBackend) -> Versions:
    """Return the versions that a collection holds, each with its code, and found once."""
    stored = collection.all_documents()
    versions = {document.id: int(document.payload["version"]) for document in stored}
    assert len(versions) == len(stored) == len(collection)
    assert all(document.code == code_of(document.id, versions[document.id]) for document in stored)
    kept = [[] if document.vector is None else document.vector.tolist() for document in stored]
    assert kept == [vector_of(document.id, versions[document.id]).tolist() for document in stored]
    hits = collection.search([Query(code="0" * (N_BITS // 4))], 10_000).hits[0]
    assert sorted(hit.id for hit in hits) == sorted(versions)
    assert collection.verify().problems == []
    return versions


def kill_many_times(folder: Path, rounds: int) -> int:
    """Kill a process that writes so often; return how many writes it acknowledged."""
    chance = random.Random(0)  # noqa: S311 - it only picks the moments
    versions: Versions = {}
    acknowledged = 0
    for turn in range(rounds):
        kind = list(KINDS)[turn % len(KINDS)]
        lines = write_and_kill(folder, kind, chance)
        with DataFolder(folder, writable=True) as data:
            found = held_in(data.collection(NAME))
        assert found in possible(versions, lines), f"round {turn}, {kind}"
        versions = found
        acknowledged += sum(line == "done\n" for line in lines)
    print(f"\n{rounds} kills, {acknowledged:,} acknowledged writes, {len(versions)} documents")
    return acknowledged


def test_nothing_acknowledged_is_lost_by_a_kill(tmp_path: Path) -> None:
    kill_many_times(tmp_path, rounds=6)


@pytest.mark.faults
def test_nothing_acknowledged_is_lost_by_two_hundred_kills(
    tmp_path: Path, record_property: Record
) -> None:
    record_property("acknowledged writes", kill_many_times(tmp_path, rounds=200))
    record_property("kills of a process that writes", 200)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path) as disk:
        yield disk


def check_reads(collection: CollectionBackend, versions: Versions, chance: random.Random) -> None:
    assert held_in(collection) == versions
    for id_ in chance.sample(sorted(versions), min(20, len(versions))):
        (hit,) = collection.search([Query(code=code_of(id_, versions[id_]))], 1).hits[0]
        assert (hit.id, hit.distance) == (id_, 0)
        stored = collection.get(id_)
        assert stored is not None
        assert stored.payload == document_of(id_, versions[id_]).payload


def write_until_full(
    collection: CollectionBackend, versions: Versions, chance: random.Random, version: int
) -> int:
    """Upsert, delete and compact until the disk is full; return how many writes were done."""
    for step in range(10_000):
        ids = [f"d{chance.randrange(3000)}" for _ in range(chance.randint(1, 200))]
        try:
            if step % 7 == 6:
                collection.delete(ids[:3])
                change: dict[str, int | None] = dict.fromkeys(ids[:3])
            elif step % 29 == 28:
                collection.compact()
                change = {}
            else:
                collection.upsert([document_of(id_, version + step) for id_ in ids])
                change = dict.fromkeys(ids, version + step)
        except StoreError as error:
            if "full" not in str(error) and "disk I/O error" not in str(error):
                raise
            return step
        after = applied(versions, change)
        versions.clear()
        versions.update(after)
    raise AssertionError("the disk was never full")


def fill_many_times(disk: Path, rounds: int) -> int:
    """Fill a disk so often; return how many writes were done."""
    chance = random.Random(0)  # noqa: S311 - it only picks what is written
    versions: Versions = {}
    ballast = disk / "ballast"
    writes = 0
    for turn in range(rounds):
        with DataFolder(disk / "data", writable=True) as data:
            collection = data.create_collection(NAME, n_bits=N_BITS)
            fill(ballast, chance.randrange(8 << 20))
            writes += write_until_full(collection, versions, chance, turn * 100_000)
            check_reads(collection, versions, chance)
            ballast.unlink()
            collection.upsert([document_of("resumed", turn)])
            versions["resumed"] = turn
            check_reads(collection, versions, chance)
        with DataFolder(disk / "data", writable=True) as data:
            check_reads(data.collection(NAME), versions, chance)
            data.collection(NAME).compact()
    print(f"\n{rounds} times full, {writes:,} writes done, {len(versions)} documents")
    return writes


def test_a_full_disk_loses_nothing_and_reads_go_on(disk: Path) -> None:
    fill_many_times(disk, rounds=2)


@pytest.mark.faults
def test_a_disk_that_is_full_twenty_times_loses_nothing(
    disk: Path, record_property: Record
) -> None:
    record_property("acknowledged writes", fill_many_times(disk, rounds=20))
    record_property("full disks", 20)


def test_an_error_of_the_disk_loses_nothing_and_reads_go_on(tmp_path: Path) -> None:
    chance = random.Random(0)  # noqa: S311 - it only picks what is read
    with DataFolder(tmp_path, writable=True) as data:
        collection = data.create_collection(NAME, n_bits=N_BITS)
        versions = {f"d{i}": i for i in range(50)}
        collection.upsert([document_of(*item) for item in versions.items()])
        (log,) = tmp_path.glob("collections/*/store.sqlite-wal")
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        # The system refuses to write beyond this size of a file, which SQLite takes for a bad disk.
        resource.setrlimit(resource.RLIMIT_FSIZE, (log.stat().st_size + 5000, limits[1]))
        try:
            with pytest.raises(StoreError, match="disk I/O error"):
                collection.upsert([document_of(f"e{i}", i) for i in range(500)])
            check_reads(collection, versions, chance)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        collection.upsert([document_of("resumed", 1)])
        check_reads(collection, {**versions, "resumed": 1}, chance)


def test_a_second_writer_is_refused_and_reads_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "BUSY_SECONDS", 0.2)
    with DataFolder(tmp_path, writable=True) as data:
        collection = data.create_collection(NAME, n_bits=N_BITS)
        collection.upsert([document_of("a", 1)])
        (path,) = tmp_path.glob("collections/*/store.sqlite")
        statement = f"""
import sqlite3, sys
connection = sqlite3.connect({str(path)!r}, isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("holds", flush=True)
sys.stdin.read()
"""
        with subprocess.Popen(
            [sys.executable, "-c", statement],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as other:
            assert other.stdout is not None
            assert other.stdout.readline() == "holds\n"
            with pytest.raises(StoreError, match="locked"):
                collection.upsert([document_of("b", 1)])
            assert held_in(collection) == {"a": 1}
            other.communicate()
        collection.upsert([document_of("b", 1)])
        assert held_in(collection) == {"a": 1, "b": 1}
