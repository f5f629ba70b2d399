"""Readers in another process: here, a second data folder that is open for reading only."""

from __future__ import annotations

import copy
import itertools
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from hummingbit.corpus.document import Document
from hummingbit.index import data_folder, folders
from hummingbit.index.catalog import AddAlias
from hummingbit.index.collection import Collection
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.engines import segments
from hummingbit.index.errors import StoreClosed, StoreError, UnknownCollection
from hummingbit.index.filters import parse_filter
from hummingbit.index.generations import PublishedGeneration
from hummingbit.index.records import Query
from hummingbit.index.store import database
from hummingbit.index.store import store as blocks
from tests.support.codes import random_hex
from tests.support.collections import Model, code_documents

LOW = parse_filter({"field": "at", "lt": 20})


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[DataFolder]:
    with DataFolder(tmp_path, writable=True) as folder:
        yield folder


@pytest.fixture
def reader(writer: DataFolder) -> Iterator[DataFolder]:
    with DataFolder(writer.path, writable=False) as folder:
        yield folder


def ids_of(folder: DataFolder, name: str) -> list[str]:
    hits = folder.collection(name).search([Query(code="0000")], 10_000).hits[0]
    return sorted(hit.id for hit in hits)


def test_documents_collections_and_aliases_are_followed(
    writer: DataFolder, reader: DataFolder
) -> None:
    with pytest.raises(UnknownCollection):
        reader.collection("c")
    collection = writer.create_collection("c", n_bits=16)
    writer.change_aliases([AddAlias("mine", "c")])
    reader.follow()
    assert ids_of(reader, "mine") == []
    collection.upsert(code_documents(["0000", "00ff"]))
    reader.follow()
    assert ids_of(reader, "mine") == ["d0", "d1"]
    collection.delete(["d0"])
    collection.set_ranking("asymmetric")
    reader.follow()
    assert ids_of(reader, "c") == ["d1"]
    assert reader.collection("c").ranking == "asymmetric"
    writer.drop_collection("c")
    reader.follow()
    assert not reader.collections()
    assert not reader.aliases()
    with pytest.raises(UnknownCollection):
        reader.collection("c")


def test_a_collection_that_takes_long_to_open_holds_up_no_other(
    writer: DataFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_folder, "SECONDS", 0.005)
    monkeypatch.setattr(folders, "SECONDS_FOR_OPENING", 0.01)
    build, may_build = Collection.build_index, threading.Event()
    writing = threading.current_thread()

    def build_when_allowed(collection: Collection) -> None:
        if collection.name == "large" and threading.current_thread() is not writing:
            may_build.wait()
        build(collection)

    monkeypatch.setattr(Collection, "build_index", build_when_allowed)
    pause = threading.Event()
    small = writer.create_collection("small", n_bits=16)
    writer.change_aliases([AddAlias("mine", "small")])
    with DataFolder(writer.path, writable=False, follow=True) as reader:
        writer.create_collection("large", n_bits=16)
        writer.change_aliases([AddAlias("mine", "large")])
        small.upsert(code_documents(["0000"]))
        while not len(reader.collection("small")):
            pause.wait(0.005)
        assert "large" not in reader.collections()
        assert reader.collection("mine") is reader.collection("small")
        assert [*reader.moved_aliases] == ["mine"]
        # An alias of a collection that is open moves meanwhile.
        writer.change_aliases([AddAlias("other", "small")])
        while reader.aliases() != {"mine": "large", "other": "small"}:
            pause.wait(0.005)
        assert reader.collection("other") is reader.collection("small")
        writer.drop_collection("small")
        while "small" in reader.collections():
            pause.wait(0.005)
        assert reader.collection("mine").get("d0") is not None
        may_build.set()
        while reader.moved_aliases:
            pause.wait(0.005)
        assert reader.collection("mine") is reader.collection("large")


def test_it_happens_by_itself(writer: DataFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_folder, "SECONDS", 0.005)
    with DataFolder(writer.path, writable=False, follow=True) as reader:
        writer.create_collection("c", n_bits=16).upsert(code_documents(["0000"]))
        pause = threading.Event()
        while "c" not in reader.collections() or not len(reader.collection("c")):
            pause.wait(0.005)
        assert ids_of(reader, "c") == ["d0"]


def test_a_collection_that_was_made_again_is_another_one(
    writer: DataFolder, reader: DataFolder
) -> None:
    writer.create_collection("c", n_bits=16).upsert(code_documents(["0000"]))
    reader.follow()
    before = reader.collection("c")
    writer.drop_collection("c")
    writer.create_collection("c", n_bits=16).upsert(code_documents(["ffff"], prefix="e"))
    reader.follow()
    assert reader.collection("c") is not before
    assert ids_of(reader, "c") == ["e0"]


def test_files_that_were_replaced_are_opened_anew(writer: DataFolder, tmp_path: Path) -> None:
    writer.create_collection("c", n_bits=16).upsert(code_documents(["0000"]))
    writer.close()
    (store,) = tmp_path.glob("collections/*/store.sqlite")
    with DataFolder(tmp_path, writable=False) as reader:
        other = tmp_path / "other"
        with DataFolder(other, writable=True) as folder:
            folder.create_collection("c", n_bits=16).upsert(code_documents(["ffff"], prefix="e"))
        (made,) = other.glob("collections/*/store.sqlite")
        shutil.copyfile(made, tmp_path / "copy")
        (tmp_path / "copy").replace(store)
        reader.follow()
        assert ids_of(reader, "c") == ["e0"]


def check_against(model: Model, collection: Collection, code: str) -> None:
    for filter_ in (None, LOW):
        result = collection.search([Query(code=code)], 10_000, filter=filter_)
        found = [(hit.id, hit.distance) for hit in result.hits[0]]
        assert found == [(hit.id, hit.distance) for hit in model.ranked(code, None, filter_)]
    assert len(collection) == len(model.held)


def test_what_was_folded_and_compacted_in_between_is_followed(
    writer: DataFolder, reader: DataFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "BLOCK_ROWS", 8)
    monkeypatch.setattr(segments, "MIN_FOLD", 16)
    rng, model = np.random.default_rng(0), Model(16)
    collection = writer.create_collection("c", n_bits=16)
    reader.follow()
    for step in range(60):
        for _ in range(rng.integers(1, 4)):
            documents = code_documents(random_hex(rng, int(rng.integers(1, 12)), 16))
            collection.upsert(documents)
            model.upsert(documents)
            ids = [f"d{i}" for i in rng.integers(0, 12, 4)]
            collection.delete(ids)
            model.delete(ids)
        if step % 7 == 6:
            assert isinstance(collection, Collection)
            collection.compact()
        reader.follow()
        followed = reader.collection("c")
        assert isinstance(followed, Collection)
        check_against(model, followed, random_hex(rng, 1, 16)[0])
        assert followed.generation == collection.generation
        assert followed.verify().problems == []


@pytest.mark.long
def test_answers_of_a_reader_are_those_of_their_generation(
    writer: DataFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "MIN_FOLD", 20)
    monkeypatch.setattr(blocks, "BLOCK_ROWS", 8)
    monkeypatch.setattr(data_folder, "SECONDS", 0.01)
    collection = writer.create_collection("c", n_bits=16)
    rng, model = np.random.default_rng(1), Model(16)
    history = {0: copy.deepcopy(model)}
    done = threading.Event()

    def search(reader: DataFolder, seed: int) -> int:
        chance, answers = np.random.default_rng(seed), []
        # Without a pause, searches would take most of the time that the writer needs.
        while not done.wait(0.002):
            code, filter_ = random_hex(chance, 1, 16)[0], LOW if chance.random() < 0.5 else None
            result = reader.collection("c").search([Query(code=code)], 30, filter=filter_)
            answers.append((code, filter_, result))
        generations = {result.generation for *_, result in answers}
        for code, filter_, result in answers[:: max(1, len(answers) // 100)]:
            found = [(hit.id, hit.distance) for hit in result.hits[0]]
            ranked = history[result.generation].ranked(code, None, filter_)[:30]
            assert found == [(hit.id, hit.distance) for hit in ranked]
        return len(generations)

    with (
        DataFolder(writer.path, writable=False, follow=True) as reader,
        ThreadPoolExecutor(3) as pool,
    ):
        searches = [pool.submit(search, reader, seed) for seed in range(3)]
        try:
            for _ in range(60):
                documents = code_documents(random_hex(rng, int(rng.integers(1, 40)), 16))
                model.upsert(documents)
                history[collection.generation + 1] = copy.deepcopy(model)
                collection.upsert(documents)
        finally:
            done.set()
        assert max(future.result() for future in searches) > 5


def test_the_lexical_index_follows(writer: DataFolder, reader: DataFolder) -> None:
    collection = writer.create_collection("c", n_bits=16)
    collection.upsert(code_documents(["0000"] * 9))
    reader.follow()
    followed = reader.collection("c")
    assert isinstance(followed, Collection)
    followed._published_index.current_with_lexical()
    encoded = np.zeros((1, 2), dtype=np.uint8)
    collection.upsert_encoded([Document(id="b", text="apple")], encoded)
    collection.upsert_encoded([Document(id="c", text="bread")], encoded)
    reader.follow()
    lexical = followed._published_index.current().lexical
    assert lexical is not None
    assert lexical.rows().tolist() == [10, 11]
    collection.delete(["b"])
    reader.follow()
    lexical = followed._published_index.current().lexical
    assert lexical is not None
    assert lexical.rows().tolist() == [11]


def test_a_reader_keeps_no_checkpoint_back(writer: DataFolder, reader: DataFolder) -> None:
    collection = writer.create_collection("c", n_bits=16)
    collection.upsert(code_documents(["0000"]))
    reader.follow()
    assert ids_of(reader, "c") == ["d0"]
    assert len(reader.collection("c").all_documents()) == 1
    (store,) = writer.path.glob("collections/*/store.sqlite")
    collection.upsert(code_documents(["00ff"]))
    connection = sqlite3.connect(store)
    try:
        busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        assert busy == 0
        assert store.with_name(f"{store.name}-wal").stat().st_size == 0
    finally:
        connection.close()
    collection.upsert(code_documents(["0f0f"], prefix="e"))
    reader.follow()
    assert ids_of(reader, "c") == ["d0", "e0"]


def test_reads_go_on_beside_one_that_takes_long(writer: DataFolder, reader: DataFolder) -> None:
    writer.create_collection("c", n_bits=16).upsert(code_documents(["0000", "00ff"]))
    reader.follow()
    collection = reader.collection("c")
    assert isinstance(collection, Collection)
    with ThreadPoolExecutor(1) as pool, collection.store.read_transaction():
        # As a verification does, this thread holds a transaction.
        assert pool.submit(ids_of, reader, "c").result() == ["d0", "d1"]
        assert pool.submit(collection.get, "d0").result() is not None


def test_readers_that_overlap_do_not_let_the_log_grow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "LOG_PAGES", 16)
    monkeypatch.setattr(database, "LOG_BYTES_KEPT", 64 << 10)
    with DataFolder(tmp_path, writable=True) as writer, ThreadPoolExecutor(1) as pool:
        collection = writer.create_collection("c", n_bits=16)
        collection.upsert(code_documents(["0000"]))
        (store,) = tmp_path.glob("collections/*/store.sqlite")
        log = store.with_name(f"{store.name}-wal")
        done = threading.Event()

        def read() -> None:
            """Begin to read before the last reading has ended, so that somebody always reads."""
            uri = f"{store.as_uri()}?mode=ro"
            with (
                closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as one,
                closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as other,
            ):
                for before, after in itertools.cycle([(one, other), (other, one)]):
                    after.execute("BEGIN")
                    after.execute("SELECT * FROM meta").fetchall()
                    if before.in_transaction:
                        before.execute("ROLLBACK")
                    if done.wait(0.002):
                        return

        reading = pool.submit(read)
        sizes = []
        try:
            for step in range(100):
                payload = {"x": f"{step}" * 4000}
                collection.upsert([Document(id=f"d{step % 7}", code="00ff", payload=payload)])
                sizes.append(log.stat().st_size)
        finally:
            done.set()
        reading.result()
    assert max(sizes) < 512 << 10


def test_a_list_of_a_later_moment_is_not_taken_for_an_earlier_one(
    writer: DataFolder, reader: DataFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    collection = writer.create_collection("c", n_bits=16)
    collection.upsert(code_documents(["0000"] * 10))
    reader.follow()
    followed = reader.collection("c")
    assert isinstance(followed, Collection)
    assert len(followed.search([Query(code="0000")], 100, filter=LOW).hits[0]) == 10
    fields = followed._payload_fields
    caught_up = followed._published_index.catch_up

    def overtaken() -> PublishedGeneration:
        """Write, and let another thread complete the list, once the moment has begun."""
        monkeypatch.setattr(followed._published_index, "catch_up", caught_up)
        published = caught_up()
        collection.upsert(code_documents(["0000"] * 10, prefix="e"))
        collection.delete(["e3"])
        with ThreadPoolExecutor(1) as pool:
            pool.submit(fields.rows, LOW, 3).result()
        return published

    collection.delete(["d9"])
    monkeypatch.setattr(followed._published_index, "catch_up", overtaken)
    with followed._published_index.target_in_transaction(LOW) as searched:
        generation = searched.published.generation
        assert searched.allowed_rows is not None
        assert generation.live_rows(searched.allowed_rows).tolist() == [*range(1, 10)]
    assert generation.number == 2
    reader.follow()
    for _ in range(2):
        result = followed.search([Query(code="0000")], 100, filter=LOW)
        ids = [hit.id for hit in result.hits[0]]
        assert ids == [f"d{i}" for i in range(9)] + [f"e{i}" for i in range(10) if i != 3]


def test_an_alias_whose_collection_is_dropped_at_once_is_always_found(
    writer: DataFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_folder, "SECONDS", 0.002)
    done = threading.Event()

    def make(name: str) -> None:
        writer.create_collection(name, n_bits=16).upsert(code_documents(["0000"]))
        writer.change_aliases([AddAlias("mine", name)])

    def read(folder: DataFolder) -> int:
        count = 0
        while not done.is_set():
            collection = folder.collection("mine")
            assert collection.get("d0") is not None
            assert [hit.id for hit in collection.search([Query(code="0000")], 1).hits[0]] == ["d0"]
            assert not folder.unavailable()
            assert not folder.problems()
            count += 1
        return count

    make("c0")
    writer.linger_seconds = 60.0
    with (
        DataFolder(writer.path, writable=False, follow=True) as reader,
        ThreadPoolExecutor(4) as pool,
    ):
        reader.linger_seconds = 60.0
        reads = [pool.submit(read, folder) for folder in (writer, reader, writer, reader)]
        try:
            for step in range(1, 13):
                make(f"c{step}")
                writer.drop_collection(f"c{step - 1}")
        finally:
            done.set()
        assert all(future.result() for future in reads)


def test_a_dropped_collection_is_read_to_the_end_and_then_closed(
    writer: DataFolder, reader: DataFolder
) -> None:
    held = []
    writer.create_collection("c", n_bits=16).upsert(code_documents(["0000"]))
    reader.follow()
    for folder in (writer, reader):
        folder.linger_seconds = 60.0
        collection = folder.collection("c")
        assert isinstance(collection, Collection)
        held.append(collection)
    writer.drop_collection("c")
    reader.follow()
    stores = [collection.store for collection in held]
    for collection in held:
        assert collection.get("d0") is not None
        assert len(collection.search([Query(code="0000")], 9).hits[0]) == 1
        with pytest.raises(StoreError):
            collection.upsert(code_documents(["ffff"]))
        with pytest.raises(StoreClosed):
            collection.verify()
    del collection
    held.clear()
    for store in stores:
        with pytest.raises(StoreClosed):
            store.count()


def test_reads_of_a_dropped_collection_do_not_linger_for_ever(writer: DataFolder) -> None:
    collection = writer.create_collection("c", n_bits=16)
    writer.linger_seconds = 0.01
    writer.drop_collection("c")
    with pytest.raises(StoreClosed):
        for _ in iter(lambda: collection.get("d0"), collection):
            pass
