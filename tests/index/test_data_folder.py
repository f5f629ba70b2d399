from __future__ import annotations

import errno
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from hummingbit.corpus.document import Document
from hummingbit.encoder.artifact import ArtifactError, write_artifact
from hummingbit.foundation.errors import InputError
from hummingbit.index import folders, lock
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.errors import (
    CollectionExists,
    CollectionUnavailable,
    DataFolderError,
    DataFolderInUse,
    StoreError,
    StoreFull,
    UnknownCollection,
    UnknownEncoder,
)
from hummingbit.index.folders import Draft
from hummingbit.index.records import Query
from tests.support.collections import code_documents
from tests.support.encoders import random_texts, text_encoder

ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def data(folder: Path) -> Iterator[DataFolder]:
    with DataFolder(folder, writable=True) as data:
        yield data


def add_encoder(folder: Path, name: str = "words", seed: int = 0) -> None:
    write_artifact(
        folder / "encoders" / name, text_encoder(seed=seed), random_texts(20), overwrite=True
    )


@contextmanager
def closing_draft(data: DataFolder) -> Iterator[Draft]:
    draft = data.draft_collection("drafted", encoder="words")
    try:
        yield draft
    finally:
        draft.discard()


def store_folders(folder: Path) -> list[Path]:
    return sorted((folder / "collections").iterdir())


def test_collections_are_there_when_it_is_opened_again(folder: Path) -> None:
    with DataFolder(folder, writable=True) as data:
        add_encoder(folder)
        texts = data.create_collection("texts", encoder="words")
        texts.upsert([Document(id="a", text="apple bread")])
        data.create_collection("codes", n_bits=64)
        assert list(data.collections()) == ["codes", "texts"]
    with DataFolder(folder, writable=True) as data:
        assert list(data.collections()) == ["codes", "texts"]
        assert data.encoders.names() == ["words"]
        texts = data.collection("texts")
        assert texts.encoder is data.encoders.load("words")
        assert texts.search([Query(text="apple bread")], 1).hits[0][0].id == "a"
        assert data.collection("codes").n_bits == 64
    assert all(
        path.name in {"store.sqlite", "store.sqlite-acknowledged"}
        for item in store_folders(folder)
        for path in item.iterdir()
    )


def test_one_just_like_it_is_returned(data: DataFolder, folder: Path) -> None:
    add_encoder(folder)
    first = data.create_collection("c", encoder="words")
    assert data.create_collection("c", encoder="words") is first
    with pytest.raises(CollectionExists, match="'c' already exists, with encoder words"):
        data.create_collection("c", n_bits=32)
    codes = data.create_collection("codes", n_bits=32)
    assert data.create_collection("codes", n_bits=32) is codes
    with pytest.raises(CollectionExists, match="'codes' already exists, with 32 bits"):
        data.create_collection("codes", n_bits=64)
    assert len(store_folders(folder)) == 2


@pytest.mark.parametrize(
    "name", ["", "A", "a b", "../up", "a/b", ".", "-a", "é", "a" * 65, "a\n", "a\0", ".ab"]
)
def test_other_names_are_refused(data: DataFolder, folder: Path, name: str) -> None:
    with pytest.raises(InputError, match=r"name: is .*it must be 1 to 64 of a-z") as caught:
        data.create_collection(name, n_bits=32)
    assert caught.value.field == "name"
    with pytest.raises(UnknownCollection):
        data.collection(name)
    with pytest.raises(UnknownEncoder):
        data.encoders.load(name)
    assert store_folders(folder) == []


@pytest.mark.parametrize("n_bits", [12, -8, 4104])
def test_other_lengths_are_refused(data: DataFolder, folder: Path, n_bits: int) -> None:
    with pytest.raises(InputError, match=f"n_bits: is {n_bits}; it must be a multiple of 8"):
        data.create_collection("c", n_bits=n_bits)
    assert store_folders(folder) == []


def test_an_encoder_or_a_length_and_not_both(data: DataFolder) -> None:
    with pytest.raises(InputError, match="only one of encoder and n_bits"):
        data.create_collection("c", encoder="words", n_bits=32)
    with pytest.raises(UnknownEncoder, match="no encoder 'words'; known encoders: none"):
        data.create_collection("c", encoder="words")


def test_a_dropped_collection_is_gone(folder: Path) -> None:
    with DataFolder(folder, writable=True) as data:
        collection = data.create_collection("c", n_bits=16)
        collection.upsert(code_documents(["0000"]))
        data.drop_collection("c")
        with pytest.raises(UnknownCollection, match="there is no collection 'c'"):
            data.collection("c")
        with pytest.raises(UnknownCollection):
            data.drop_collection("c")
        with pytest.raises(StoreError, match="closed"):
            collection.search([Query(code="0000")], 1)
        assert store_folders(folder) == []
        assert len(data.create_collection("c", n_bits=32)) == 0


def test_a_writer_waits_while_the_lock_is_released(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fcntl = pytest.importorskip("fcntl")
    monkeypatch.setattr(lock, "HANDOVER", 120.0)
    folder.mkdir(exist_ok=True)
    held = os.open(folder, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    timer = threading.Timer(0.1, os.close, [held])
    timer.start()
    with DataFolder(folder, writable=True) as second:
        timer.join()
        assert len(second.create_collection("c", n_bits=16)) == 0


def test_what_a_killed_training_left_is_deleted(folder: Path) -> None:
    (folder / "encoders" / ".writing-mine-abcd1234" / "written").mkdir(parents=True)
    with DataFolder(folder, writable=False):
        assert len(list((folder / "encoders").iterdir())) == 1
    with DataFolder(folder, writable=True):
        assert list((folder / "encoders").iterdir()) == []


def test_a_folder_that_cannot_be_locked_is_not_called_in_use(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fcntl = pytest.importorskip("fcntl")

    def refuse(_descriptor: int, _operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(DataFolderError, match=r"cannot be locked .*No locks available") as raised:
        DataFolder(folder, writable=True)
    assert not isinstance(raised.value, DataFolderInUse)
    monkeypatch.undo()
    DataFolder(folder, writable=True).close()


def test_one_writer_at_a_time(data: DataFolder, folder: Path) -> None:
    data.create_collection("c", n_bits=16).upsert(code_documents(["0000"]))
    open_it = f"from index.data_folder import *; DataFolder(Path({str(folder)!r}), writable="
    command = [sys.executable, "-c"]
    second = subprocess.run(
        [*command, f"{open_it}True)"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert second.returncode == 1
    assert "DataFolderInUse" in second.stderr
    assert "is in use: another process is writing to it" in second.stderr
    with pytest.raises(DataFolderInUse):
        DataFolder(folder, writable=True)
    reader = f"{open_it}False).collection('c').stats()['documents']"
    first = subprocess.run(
        [*command, reader.replace("; ", "; print(", 1) + ")"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert first.stdout == "1\n"
    data.close()
    DataFolder(folder, writable=True).close()


def test_opened_for_reading_it_changes_nothing(folder: Path) -> None:
    with DataFolder(folder, writable=True) as data:
        data.create_collection("c", n_bits=16).upsert(code_documents(["0000"]))
    with DataFolder(folder, writable=False) as data:
        collection = data.collection("c")
        assert collection.search([Query(code="0000")], 1).hits[0][0].id == "d0"
        with pytest.raises(DataFolderError, match="not open for writing"):
            data.create_collection("d", n_bits=16)
        with pytest.raises(DataFolderError, match="not open for writing"):
            data.drop_collection("c")
        with pytest.raises(StoreError, match="reading only"):
            collection.upsert(code_documents(["0000"]))
        with pytest.raises(StoreError, match="reading only"):
            collection.delete(["d0"])


def test_a_missing_folder_is_made_only_for_writing(tmp_path: Path) -> None:
    with pytest.raises(DataFolderError, match="No such file"):
        DataFolder(tmp_path / "none", writable=False)
    assert not (tmp_path / "none").exists()
    (tmp_path / "file").write_text("")
    with pytest.raises(DataFolderError, match="file"):
        DataFolder(tmp_path / "file", writable=True)


def test_half_made_collections_are_cleared_away(folder: Path) -> None:
    DataFolder(folder, writable=True).close()
    partial = folder / "collections" / "0123.partial"
    partial.mkdir()
    (partial / "store.sqlite").write_bytes(b"")
    with DataFolder(folder, writable=False) as data:
        assert (dict(data.collections()), dict(data.unavailable())) == ({}, {})
    assert partial.exists()
    with DataFolder(folder, writable=True) as data:
        assert (dict(data.collections()), dict(data.unavailable())) == ({}, {})
    assert not partial.exists()


@pytest.mark.parametrize("change", ["missing", "other", "damaged"])
def test_without_its_encoder_a_collection_waits(folder: Path, change: str) -> None:
    with DataFolder(folder, writable=True) as data:
        add_encoder(folder)
        data.create_collection("texts", encoder="words").upsert([Document(id="a", text="apple")])
        data.create_collection("codes", n_bits=16).upsert(code_documents(["0000"]))
    if change == "missing":
        shutil.rmtree(folder / "encoders" / "words")
    elif change == "other":
        add_encoder(folder, seed=1)
    else:
        (folder / "encoders" / "words" / "vocabulary.txt").write_text("changed\n")
    reason = {
        "missing": "no encoder 'words'",
        "other": "made with encoder 'words', fingerprint",
        "damaged": "has changed since the encoder was written",
    }
    with DataFolder(folder, writable=True) as data:
        assert list(data.collections()) == ["codes"]
        assert data.collection("codes").search([Query(code="0000")], 1).hits[0][0].id == "d0"
        assert reason[change] in data.unavailable()["texts"]
        with pytest.raises(CollectionUnavailable, match=reason[change]):
            data.collection("texts")
        with pytest.raises(CollectionUnavailable, match=reason[change]):
            data.create_collection("texts", n_bits=16)
    shutil.rmtree(folder / "encoders" / "words", ignore_errors=True)
    add_encoder(folder)
    with DataFolder(folder, writable=True) as data:
        assert len(data.collection("texts")) == 1


def test_a_damaged_store_does_not_stand_in_the_way(folder: Path) -> None:
    with DataFolder(folder, writable=True) as data:
        data.create_collection("a", n_bits=16)
    (path,) = store_folders(folder)
    (path / "store.sqlite").write_bytes(b"nonsense" * 600)
    with DataFolder(folder, writable=True) as data:
        assert "not a database" in data.unavailable()[path.name]
        with pytest.raises(UnknownCollection) as raised:
            data.collection("a")
        assert f"its name is unknown: {path.name}/store.sqlite: " in str(raised.value)
        assert str(folder) not in str(raised.value)
        data.create_collection("b", n_bits=16)
        data.drop_collection(path.name)
        assert dict(data.unavailable()) == {}
    assert not path.exists()


def test_a_store_of_a_later_format_is_kept_and_reported(folder: Path) -> None:
    with DataFolder(folder, writable=True) as data:
        data.create_collection("a", n_bits=16)
    (path,) = store_folders(folder)
    with closing(sqlite3.connect(path / "store.sqlite", isolation_level=None)) as connection:
        connection.execute("UPDATE meta SET value = 9 WHERE key = 'format_version'")
    with DataFolder(folder, writable=True) as data:
        assert "has format version 9" in data.unavailable()[path.name]
    assert (path / "store.sqlite").exists()


def test_two_stores_of_one_name(folder: Path) -> None:
    with DataFolder(folder, writable=True) as data:
        data.create_collection("a", n_bits=16)
    (path,) = store_folders(folder)
    shutil.copytree(path, path.with_name("zz"))
    with DataFolder(folder, writable=True) as data:
        assert list(data.collections()) == ["a"]
        assert "another collection is also named 'a'" in data.unavailable()["zz"]


def test_a_damaged_encoder_is_reported(data: DataFolder, folder: Path) -> None:
    add_encoder(folder)
    (folder / "encoders" / "words" / "golden.json").write_text("{}")
    with pytest.raises(ArtifactError, match="has changed"):
        data.create_collection("c", encoder="words")
    assert store_folders(folder) == []


@pytest.mark.parametrize("step", ["begin_folder", "finish_folder"])
def test_a_full_disk_is_told_of_and_leaves_nothing(
    data: DataFolder, folder: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    add_encoder(folder)

    def full(_: Path) -> Path:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    message = f"{re.escape(str(folder))}: cannot be written: No space left on device"
    with monkeypatch.context() as patch:
        patch.setattr(folders, step, full)
        with pytest.raises(StoreFull, match=message):
            data.create_collection("made", encoder="words")
        with pytest.raises(StoreFull, match=message), closing_draft(data) as draft:
            draft.publish()
    assert store_folders(folder) == []
    assert data.collections() == {}
    with closing_draft(data) as draft:
        draft.publish()
    assert list(data.collections()) == ["drafted"]
