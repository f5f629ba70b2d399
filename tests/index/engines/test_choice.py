from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from hummingbit.foundation.errors import InputError
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.engines.choice import check_index_type
from hummingbit.index.errors import CollectionExists
from hummingbit.index.names import INDEX_TYPES
from tests.support.collections import code_documents


def test_an_engine_lasts(tmp_path: Path) -> None:
    with DataFolder(tmp_path, writable=True) as folder:
        made = folder.create_collection("c", n_bits=16, engine="flat")
        made.upsert(code_documents(["0000", "0001"]))
        assert folder.create_collection("c", n_bits=16, engine="flat") is made
        with pytest.raises(CollectionExists, match="with 16 bits, engine flat"):
            folder.create_collection("c", n_bits=16)
        tar = folder.snapshots.file(folder.create_snapshot("c").id)
        restored = folder.restore_snapshot(tar, "again")
        assert restored.engine_setting == "flat"
    with DataFolder(tmp_path, writable=False) as folder:
        for name in ("c", "again"):
            collection = folder.collection(name)
            assert collection.engine_setting == collection.stats()["engine"] == "flat"


@pytest.mark.parametrize(
    ("engine", "message"),
    [("hnsw", "it must be one of"), ("distinct", "it must be one of"), ("lookup", "bits")],
)
def test_other_engines_are_refused(tmp_path: Path, engine: str, message: str) -> None:
    with DataFolder(tmp_path, writable=True) as folder:
        with pytest.raises(InputError, match=f"engine: .*{message}") as caught:
            folder.create_collection("c", n_bits=72, engine=engine)
        assert caught.value.field == "engine"
        assert not folder.collections()


def test_every_engine_takes_short_codes() -> None:
    for engine in INDEX_TYPES:
        check_index_type(engine, 16)


def store_of(path: Path) -> Path:
    (store,) = (path / "collections").glob("*/store.sqlite")
    return store


def change_meta(path: Path, query: str, *values: str) -> None:
    with closing(sqlite3.connect(store_of(path))) as connection, connection:
        connection.execute(query, values)


def test_a_store_without_a_setting_has_the_automatic_one(tmp_path: Path) -> None:
    with DataFolder(tmp_path, writable=True) as folder:
        folder.create_collection("c", n_bits=16)
    change_meta(tmp_path, "DELETE FROM meta WHERE key = 'engine'")
    with DataFolder(tmp_path, writable=True) as folder:
        assert folder.collection("c").engine_setting == "auto"
        tar = folder.snapshots.file(folder.create_snapshot("c").id)
        assert folder.restore_snapshot(tar, "again").engine_setting == "auto"


def test_an_engine_that_there_is_not_makes_a_collection_unavailable(tmp_path: Path) -> None:
    with DataFolder(tmp_path, writable=True) as folder:
        folder.create_collection("c", n_bits=16)
    change_meta(tmp_path, "UPDATE meta SET value = 'hnsw' WHERE key = 'engine'")
    with DataFolder(tmp_path, writable=True) as folder:
        assert "engine: is 'hnsw'" in folder.unavailable()["c"]


@pytest.mark.parametrize("engine", ["direct", "distinct", "pruned"])
def test_a_collection_with_an_engine_of_an_earlier_version_gets_the_automatic_one(
    tmp_path: Path, engine: str
) -> None:
    with DataFolder(tmp_path, writable=True) as folder:
        folder.create_collection("c", n_bits=16).upsert(code_documents(["0000", "0001"]))
    change_meta(tmp_path, "UPDATE meta SET value = ? WHERE key = 'engine'", engine)
    with DataFolder(tmp_path, writable=True) as folder:
        assert folder.collection("c").engine_setting == "auto"
        assert folder.create_collection("c", n_bits=16) is folder.collection("c")
        tar = folder.snapshots.file(folder.create_snapshot("c").id)
        assert len(folder.restore_snapshot(tar, "again")) == 2
