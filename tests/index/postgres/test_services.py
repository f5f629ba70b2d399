"""Several services on one PostgreSQL server: what one writes, others find."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hummingbit.corpus.document import Document
from hummingbit.encoder.artifact import write_artifact
from hummingbit.foundation.errors import InputError
from hummingbit.index.catalog import AddAlias
from hummingbit.index.data_folder import DataFolder, DataFolderLocation
from hummingbit.index.errors import (
    CollectionExists,
    DataFolderError,
    StoreError,
    StoreUnavailable,
    UnknownCollection,
)
from hummingbit.index.records import Query
from tests.support.corpora import topic_documents
from tests.support.encoders import random_texts, text_encoder
from tests.support.postgres import postgres_server as own_server
from tests.support.postgres import reason_unavailable

if TYPE_CHECKING:
    from hummingbit.index.postgres.folder import PostgresFolder

RANKINGS = ("hamming", "asymmetric", "bm25", "hybrid")
SECONDS = 20.0
Open = Callable[..., "PostgresFolder"]


@pytest.fixture
def open_folder(postgres_uri: str, tmp_path: Path) -> Iterator[Open]:
    from hummingbit.index.postgres.folder import PostgresFolder  # noqa: PLC0415 - psycopg may be missing

    with ExitStack() as stack:

        def open_one(name: str, **options: Any) -> PostgresFolder:
            options = {"writable": True, **options}
            folder = PostgresFolder(tmp_path / name, postgres_uri, **options)
            stack.enter_context(folder)
            return folder

        yield open_one


def eventually(is_so: Callable[[], object]) -> None:
    deadline = time.monotonic() + SECONDS
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_texts_find_what_they_find_in_the_data_folder(open_folder: Open, tmp_path: Path) -> None:
    documents = [
        Document(id=document.id, text=f"{document.text} {'zq' * (at % 9)}x")
        for at, document in enumerate(topic_documents(500))
    ]
    asked = [f"{document.text} zqzqx unheard" for document in topic_documents(150, 1)]
    found = []
    for name in ("local", "remote"):
        write_artifact(tmp_path / name / "encoders" / "plain", text_encoder(), random_texts(50))
    with DataFolder(tmp_path / "local", writable=True) as local:
        for folder in (local, open_folder("remote")):
            collection = folder.create_collection("c", encoder="plain")
            collection.upsert(documents)
            found.append(
                [
                    [[(hit.id, hit.score) for hit in hits] for hits in result.hits]
                    for ranking in RANKINGS
                    for result in [
                        collection.search([Query(text=text) for text in asked], 10, ranking=ranking)
                    ]
                ]
            )
    assert found[0] == found[1]
    assert sum(len(hits) for ranking in found[0] for hits in ranking) > 5000


def test_services_write_at_once_and_lose_nothing(open_folder: Open) -> None:
    folders = [open_folder(name) for name in ("a", "b", "c")]
    folders[0].create_collection("c", n_bits=16)
    for folder in folders:
        folder.follow()

    def write(number: int) -> None:
        collection = folders[number].collection("c")
        for at in range(20):
            own = [Document(id=f"{number}-{at}", code=f"{at:04x}")]
            collection.upsert([*own, Document(id="shared", code=f"{number:04x}")])

    threads = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for folder in folders:
        folder.follow()
        collection = folder.collection("c")
        assert (len(collection), collection.generation) == (61, 60)
        assert collection.verify().problems == []
        assert len(collection.search([Query(code="0000")], 100).hits[0]) == 61


def test_what_a_service_does_others_follow(open_folder: Open, tmp_path: Path) -> None:
    write_artifact(tmp_path / "a" / "encoders" / "plain", text_encoder(), random_texts(50))
    a, b = open_folder("a"), open_folder("b")
    a.create_collection("one", encoder="plain")
    a.change_aliases([AddAlias("it", "one")])
    # The encoder comes with the collection.
    eventually(lambda: "it" in b.aliases() and "one" in b.collections())
    b.collection("it").upsert([Document(id="x", text="garlic bread")])
    eventually(lambda: a.collection("one").generation == 1)
    found = a.collection("one").search([Query(text="bread")], 1, ranking="bm25").hits[0]
    assert [hit.id for hit in found] == ["x"]
    b.collection("it").set_ranking("bm25")
    eventually(lambda: a.collection("one").ranking == "bm25")
    with pytest.raises(CollectionExists, match="'one' already exists"):
        b.draft_collection("one", encoder="plain")
    with pytest.raises(CollectionExists, match="'it' is an alias"):
        b.create_collection("it", n_bits=8)
    a.drop_collection("one")
    eventually(lambda: "one" not in b.collections())
    assert dict(b.aliases()) == {}
    with pytest.raises(UnknownCollection):
        b.collection("one")


def test_two_services_cannot_create_the_same_collection(open_folder: Open) -> None:
    a, b = open_folder("a"), open_folder("b")
    assert b._follower is not None
    b._follower.stop()  # it does not know the collection of the other yet
    a.create_collection("one", n_bits=8)
    with pytest.raises(CollectionExists, match="'one' already exists"):
        b.create_collection("one", n_bits=8)


def test_no_write_by_an_alias_reaches_the_collection_that_it_left(open_folder: Open) -> None:
    a, b = open_folder("a"), open_folder("b")
    for name in ("old", "new"):
        a.create_collection(name, n_bits=8)
    a.change_aliases([AddAlias("it", "old")])
    b.follow()
    assert b._follower is not None
    b._follower.stop()
    known = b.collection("it")
    known.upsert([Document(id="x", code="00")])
    refused: list[StoreUnavailable] = []

    def write() -> None:
        try:
            known.upsert([Document(id="y", code="01")])
        except StoreUnavailable as error:
            refused.append(error)

    waiting = threading.Thread(target=write)
    with a.collection("old").holding_writes():
        waiting.start()
        waiting.join(0.2)
        a.change_aliases([AddAlias("it", "new")])
    waiting.join()
    assert "the alias 'it' has just moved" in str(refused[0])
    assert a.collection("old").get("y") is None
    b.follow()
    b.collection("it").upsert([Document(id="y", code="01")])
    assert a.collection("new").get("y") is not None
    b.collection("old").upsert([Document(id="z", code="02")])  # by its own name


def test_writes_of_others_wait_while_they_are_held(open_folder: Open) -> None:
    a, b = open_folder("a"), open_folder("b")
    here = a.create_collection("c", n_bits=8)
    b.follow()
    there = b.collection("c")
    there.upsert([Document(id="x", code="00")])
    waiting = threading.Thread(target=there.upsert, args=([Document(id="y", code="01")],))
    with here.holding_writes():
        assert here.generation == 1
        waiting.start()
        waiting.join(0.2)
        assert waiting.is_alive()
        assert {document.id for document in here.all_documents()} == {"x"}
    waiting.join()
    assert {document.id for document in here.all_documents()} == {"x", "y"}


def test_a_draft_belongs_to_its_service(open_folder: Open, tmp_path: Path) -> None:
    write_artifact(tmp_path / "a" / "encoders" / "plain", text_encoder(), random_texts(50))
    a = open_folder("a")
    draft = a.draft_collection("one", encoder="plain")
    draft.collection.upsert([Document(id="x", text="garlic bread")])
    b = open_folder("b")  # a writer deletes drafts that nobody holds
    assert [*b.collections()] == []
    draft.publish()
    b.follow()
    assert len(b.collection("one")) == 1
    a._catalogue.add(None, lambda connection, id_: None)  # noqa: ARG005 - whose service crashed
    assert len(b._catalogue.hidden()) == 1
    open_folder("c")
    assert b._catalogue.hidden() == []


def test_a_reader_writes_nothing(open_folder: Open, tmp_path: Path) -> None:
    (tmp_path / "reader").mkdir()
    with pytest.raises(StoreError, match="has no collections"):
        open_folder("reader", writable=False)
    open_folder("a").create_collection("c", n_bits=8)
    reader = open_folder("reader", writable=False, follow=True)
    with pytest.raises(StoreError, match="for reading only"):
        reader.collection("c").upsert([Document(id="x", code="00")])
    with pytest.raises(DataFolderError, match="not open for writing"):
        reader.create_collection("d", n_bits=8)


def test_a_text_that_postgres_cannot_store_is_refused(open_folder: Open, tmp_path: Path) -> None:
    write_artifact(tmp_path / "a" / "encoders" / "plain", text_encoder(), random_texts(50))
    collection = open_folder("a").create_collection("c", encoder="plain")
    with pytest.raises(InputError, match="NUL, which PostgreSQL does not store"):
        collection.upsert([Document(id="y", text="bread"), Document(id="x", text="a\0b")])
    assert len(collection) == collection.generation == 0
    assert collection.get("a\0b") is None
    assert collection.delete(["a\0b"]).deleted == 0


@pytest.mark.skipif(reason_unavailable() is not None, reason="there is no PostgreSQL server here")
@pytest.mark.long
def test_a_server_that_is_killed_loses_nothing_acknowledged(tmp_path: Path) -> None:
    from hummingbit.index.postgres.folder import PostgresFolder  # noqa: PLC0415 - psycopg may be missing

    with ExitStack() as stack:
        server = stack.enter_context(own_server())
        a, b = (
            stack.enter_context(PostgresFolder(tmp_path / name, server.uri, writable=True))
            for name in "ab"
        )
        a.create_collection("c", n_bits=16)
        b.follow()
        acknowledged: set[str] = set()
        failed = threading.Event()

        def write(folder: PostgresFolder, name: str) -> None:
            collection = folder.collection("c")
            for at in range(100_000):
                try:
                    collection.upsert([Document(id=f"{name}{at}", code=f"{at % 65536:04x}")])
                except StoreError:
                    failed.set()
                    return
                acknowledged.add(f"{name}{at}")

        threads = [threading.Thread(target=write, args=pair) for pair in ((a, "a"), (b, "b"))]
        for thread in threads:
            thread.start()
        eventually(lambda: len(acknowledged) > 100)
        server.kill()
        for thread in threads:
            thread.join()
        assert failed.is_set()
        assert "cannot be reached" in (a.engine_problem() or "")
        with pytest.raises(StoreUnavailable):
            a.collection("c").get("a0")
        server.start()
        eventually(lambda: a.engine_problem() is None)
        for folder in (a, b):
            eventually(partial(follows, folder))
            collection = folder.collection("c")
            stored = {document.id for document in collection.all_documents()}
            assert acknowledged <= stored
            assert len(stored - acknowledged) <= 2  # whose acknowledgement was lost
            assert collection.verify().problems == []
            collection.upsert([Document(id="after", code="0000")])


def follows(folder: DataFolder) -> bool:
    try:
        folder.follow()
    except StoreUnavailable:
        return False
    return True


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        (None, "set --postgres-uri or HUMMINGBIT_POSTGRES_URI"),
        ("http://here:1", "must look like postgresql://USER@HOST:5432/DATABASE"),
        ("postgresql://me:secret@here/db", "must not hold a password"),
        ("postgresql://me@127.0.0.1:1/db", "127.0.0.1:1/db cannot be reached"),
    ],
)
def test_what_is_wrong_with_an_address_is_said(
    tmp_path: Path, uri: str | None, message: str
) -> None:
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    location = DataFolderLocation(tmp_path, "postgres", postgres_uri=uri)
    with pytest.raises((DataFolderError, StoreError), match=message):
        location.open(writable=True)
