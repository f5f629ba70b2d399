"""Acknowledged writes that are gone when a store is opened again are noticed."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from hummingbit.corpus.document import Document
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.errors import StoreError, WritesLost
from hummingbit.index.records import Query
from hummingbit.index.schema import Description
from hummingbit.index.store.database import path_of, read_acknowledged
from hummingbit.index.store.store import Store
from tests.support.collections import code_documents, insert_code

WRITES = 12


@pytest.fixture
def crashed(tmp_path: Path) -> Path:
    """Return a store as a process leaves it that is killed after its twelfth write."""
    (running := tmp_path / "running").mkdir()
    path = running / "store.sqlite"
    Store.create(path, Description("words", 16))
    with closing(Store(path, writable=True)) as store:
        for step in range(WRITES):
            insert_code(store, f"d{step}")
        killed = shutil.copytree(running, tmp_path / "killed")
    return killed / "store.sqlite"


def log_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def flip_a_byte(log: Path) -> None:
    raw = bytearray(log.read_bytes())
    raw[len(raw) // 2] ^= 1
    log.write_bytes(raw)


def cut_short(log: Path) -> None:
    log.write_bytes(log.read_bytes()[: log.stat().st_size // 2])


def test_a_store_that_is_whole_after_a_crash_goes_on(crashed: Path) -> None:
    assert read_acknowledged(crashed) == WRITES
    with closing(Store(crashed, writable=True)) as store:
        assert (store.generation(), store.warnings()) == (WRITES, [])
        insert_code(store, "next")
    assert read_acknowledged(crashed) == WRITES + 1


@pytest.mark.parametrize("damage", [flip_a_byte, cut_short, Path.unlink])
def test_lost_writes_are_noticed_and_nothing_is_written_over_them(
    crashed: Path, damage: Callable[[Path], None]
) -> None:
    damage(log_of(crashed))
    log = log_of(crashed).read_bytes() if log_of(crashed).exists() else b""
    for _ in range(2):
        with closing(Store(crashed, writable=True)) as store:
            held = store.generation()
            assert held < WRITES
            (warning,) = store.warnings()
            assert warning.startswith(f"{WRITES - held} acknowledged writes are missing: ")
            with pytest.raises(WritesLost, match=f"generation {WRITES} was acknowledged"):
                insert_code(store, "next")
            with pytest.raises(WritesLost):
                store.compact()
            assert store.count() == held
    # What a specialist might still find in the log is left as it is.
    if log:
        assert log_of(crashed).read_bytes() == log
    with closing(Store(crashed, writable=False)) as reader:
        assert reader.warnings() == [warning]


def test_a_loss_that_is_accepted_goes_on_above_what_was_acknowledged(crashed: Path) -> None:
    flip_a_byte(log_of(crashed))
    with closing(Store(crashed, writable=True)) as store:
        before = store.incarnation
    with closing(Store(crashed, writable=True, accept_loss=True)) as store:
        assert (store.generation(), store.warnings()) == (WRITES + 1, [])
        assert store.incarnation != before
        insert_code(store, "next")
    with closing(Store(crashed, writable=True)) as store:
        assert (store.generation(), store.warnings()) == (WRITES + 2, [])
    assert read_acknowledged(crashed) == WRITES + 2


def test_accepting_a_loss_that_there_is_not_changes_nothing(crashed: Path) -> None:
    with closing(Store(crashed, writable=True, accept_loss=True)) as store:
        assert store.generation() == WRITES


@pytest.mark.parametrize("content", [b"", b"x" * 30, b"%020d %08x\n" % (3, 0)])
def test_a_number_that_is_damaged_is_said(crashed: Path, content: bytes) -> None:
    path_of(crashed).write_bytes(content)
    with closing(Store(crashed, writable=True)) as store:
        assert "last acknowledged write is unknown" in store.warnings()[0]
        with pytest.raises(WritesLost):
            insert_code(store, "next")
    with closing(Store(crashed, writable=True, accept_loss=True)) as store:
        assert store.generation() > WRITES
        insert_code(store, "next")
    with closing(Store(crashed, writable=True)) as store:
        assert store.warnings() == []


def test_a_store_without_a_number_gets_one(crashed: Path) -> None:
    path_of(crashed).unlink()
    with closing(Store(crashed, writable=True)) as store:
        assert store.warnings() == []
    assert read_acknowledged(crashed) == WRITES


def test_the_number_is_never_ahead_of_what_is_committed(tmp_path: Path) -> None:
    Store.create(path := tmp_path / "store.sqlite", Description("words", 16))
    with closing(Store(path, writable=True)) as store:
        insert_code(store, "a")
        with store.writing() as changes:
            changes.insert([Document(id="b", code="0000")], np.zeros((1, 2), dtype=np.uint8))
            changes.prepare()
            assert read_acknowledged(path) == 1
        assert read_acknowledged(path) == 1


def test_a_data_folder_names_what_was_lost_and_accepts_it(tmp_path: Path) -> None:
    with DataFolder(tmp_path / "data", writable=True) as folder:
        collection = folder.create_collection("c", n_bits=16)
        for step in range(WRITES):
            collection.upsert(code_documents(["ffff"], prefix=f"{step}-"))
        shutil.copytree(tmp_path / "data", tmp_path / "killed")
    (store,) = (tmp_path / "killed").glob("collections/*/store.sqlite")
    flip_a_byte(log_of(store))
    with DataFolder(tmp_path / "killed", writable=True) as folder:
        collection = folder.collection("c")
        (problem,) = folder.problems()["c"]
        assert "acknowledged writes are missing" in problem
        assert collection.verify().problems == [problem]
        assert collection.stats()["problems"] == [problem]
        assert len(collection.search([Query(code="ffff")], 100).hits[0]) == len(collection)
        with pytest.raises(StoreError, match="acknowledged writes are missing"):
            collection.upsert(code_documents(["0000"]))
        folder.accept_loss("c")
        assert dict(folder.problems()) == {}
        folder.collection("c").upsert(code_documents(["0000"]))
        assert folder.collection("c").verify().problems == []


def test_an_older_hummingbit_can_read_the_store(crashed: Path) -> None:
    with closing(sqlite3.connect(crashed)) as connection:
        version = connection.execute("SELECT value FROM meta WHERE key = 'format_version'")
        assert version.fetchone() == (2,)
