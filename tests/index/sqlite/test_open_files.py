"""Files that are deleted or replaced while a store is open stop its writes."""

from __future__ import annotations

import shutil
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from hummingbit.corpus.document import Document
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.errors import StoreReplaced
from hummingbit.index.schema import Description
from hummingbit.index.store import connections
from hummingbit.index.store.store import Store
from tests.support.collections import code_documents, insert_code


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (folder := tmp_path / "folder").mkdir()
    Store.create(folder / "store.sqlite", Description("words", 16))
    return folder / "store.sqlite"


def delete_store(path: Path) -> None:
    path.unlink()


def delete_log(path: Path) -> None:
    path.with_name(f"{path.name}-wal").unlink()


def delete_folder(path: Path) -> None:
    shutil.rmtree(path.parent)


def replace_store(path: Path) -> None:
    shutil.copyfile(path, copy := path.with_name("copy"))
    copy.replace(path)


def replace_folder(path: Path) -> None:
    copy = shutil.copytree(path.parent, path.parent.with_name("copy"))
    path.parent.rename(path.parent.with_name("old"))
    copy.rename(path.parent)


HARM = [delete_store, delete_log, delete_folder, replace_store, replace_folder]


@pytest.mark.parametrize("harm", HARM)
def test_writes_stop_where_files_are_gone(path: Path, harm: Callable[[Path], None]) -> None:
    with closing(Store(path, writable=True)) as store:
        insert_code(store, "a")
        assert store.warnings() == []
        harm(path)
        with pytest.raises(StoreReplaced, match=r"was (deleted|replaced) while it was open"):
            insert_code(store, "b")
        with pytest.raises(StoreReplaced):
            store.compact()
        assert len(store.warnings()) == 1


@pytest.mark.parametrize("harm", HARM)
def test_a_commit_to_files_that_are_gone_is_not_acknowledged(
    path: Path, harm: Callable[[Path], None]
) -> None:
    with closing(Store(path, writable=True)) as store, store.writing() as changes:
        changes.insert([Document(id="b", code="0000")], np.zeros((1, 2), dtype=np.uint8))
        harm(path)
        with pytest.raises(StoreReplaced):
            changes.commit()


def test_a_store_that_was_written_over_by_an_earlier_one_is_noticed(path: Path) -> None:
    with closing(Store(path, writable=True)) as store:
        insert_code(store, "a")
        earlier = path.with_name("earlier")
        store.copy_to(earlier)
        insert_code(store, "b")
        store.compact()
        path.write_bytes(earlier.read_bytes())
        with pytest.raises(StoreReplaced, match="is at generation 1; 2 was written"):
            insert_code(store, "c")


def test_a_collection_goes_on_answering_and_refuses_writes(tmp_path: Path) -> None:
    with DataFolder(tmp_path / "data", writable=True) as folder:
        collection = folder.create_collection("c", n_bits=16)
        collection.upsert(code_documents(["ffff"]))
        shutil.rmtree(next((tmp_path / "data" / "collections").iterdir()))
        with pytest.raises(StoreReplaced):
            collection.upsert(code_documents(["0000"]))
        with pytest.raises(StoreReplaced):
            collection.delete(["d0"])
        assert list(folder.problems()) == ["c"]
        assert collection.generation == 1


def test_another_store_at_the_same_path_is_not_read(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "WAIT_SECONDS", 0.1)
    with closing(Store(path, writable=True)) as store, ThreadPoolExecutor(1) as pool:
        insert_code(store, "a")
        with store.read_transaction():
            replace_store(path)
            # This thread has the only connection; another thread needs a further one.
            with pytest.raises(StoreReplaced):
                pool.submit(store.count).result()
            assert store.count() == 1


def test_reads_of_a_deleted_store_share_the_connections_that_are_open(path: Path) -> None:
    with closing(Store(path, writable=True)) as store, ThreadPoolExecutor(1) as pool:
        insert_code(store, "a")
        with store.read_transaction():
            path.unlink()
            count = pool.submit(store.count)
            with pytest.raises(TimeoutError):
                count.result(0.1)
        assert count.result() == 1


def test_a_read_waits_for_slow_reads_of_a_deleted_store(path: Path) -> None:
    with closing(Store(path, writable=True)) as store, ThreadPoolExecutor(1) as pool:
        insert_code(store, "a")
        with store.read_transaction():
            path.unlink()
            count = pool.submit(store.count)
            time.sleep(2.5)  # as long as a read can take on a busy machine
            assert not count.done()
        assert count.result() == 1


@pytest.mark.parametrize("suffixes", [("",), ("-wal", "-shm"), ("", "-wal", "-shm")])
def test_files_that_are_deleted_while_a_connection_opens_are_not_read(
    path: Path, monkeypatch: pytest.MonkeyPatch, suffixes: tuple[str, ...]
) -> None:
    connect = connections.Connections.connect
    opened = threading.Event()

    def connect_and_delete(self: connections.Connections, mode: str) -> sqlite3.Connection:
        connection = connect(self, mode)
        for suffix in suffixes:
            path.with_name(path.name + suffix).unlink()
        opened.set()
        return connection

    with closing(Store(path, writable=True)) as store, ThreadPoolExecutor(1) as pool:
        insert_code(store, "a")
        with store.read_transaction():
            monkeypatch.setattr(connections.Connections, "connect", connect_and_delete)
            count = pool.submit(store.count)
            assert opened.wait(60)
        assert count.result() == 1


def test_a_deleted_store_without_open_connections_is_an_error_at_once(path: Path) -> None:
    with closing(Store(path, writable=True)) as store:
        insert_code(store, "a")
        store.release()
        path.unlink()
        with pytest.raises(StoreReplaced, match="was deleted while it was open"):
            store.count()


def test_a_data_folder_that_is_gone_takes_no_collections(tmp_path: Path) -> None:
    with DataFolder(tmp_path / "data", writable=True) as folder:
        (tmp_path / "data").rename(tmp_path / "elsewhere")
        with pytest.raises(StoreReplaced, match="was deleted or replaced while it was open"):
            folder.create_collection("c", n_bits=16)
        with DataFolder(tmp_path / "data", writable=True), pytest.raises(StoreReplaced):
            folder.create_collection("c", n_bits=16)
    assert not list((tmp_path / "data" / "collections").iterdir())
