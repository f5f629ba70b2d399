"""What is particular to collections on Milvus."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from hummingbit.corpus.document import Document
from hummingbit.encoder.artifact import write_artifact
from hummingbit.encoder.codes import code_to_hex
from hummingbit.foundation.errors import InputError
from hummingbit.index.data_folder import DataFolderLocation
from hummingbit.index.errors import (
    CollectionExists,
    CollectionUnavailable,
    DataFolderError,
    EncoderMismatch,
    SnapshotError,
    StoreError,
    StoreUnavailable,
    UnknownCollection,
)
from hummingbit.index.options import Rescore
from hummingbit.index.payloads import PayloadUpdate
from hummingbit.index.records import Query
from tests.support.codes import random_codes
from tests.support.collections import code_documents
from tests.support.encoders import random_texts, text_encoder, vector_encoder

pytest.importorskip("pymilvus", reason="pymilvus is not installed")
from hummingbit.index.milvus.cluster import Cluster
from hummingbit.index.milvus.folder import MilvusFolder
from hummingbit.index.milvus.schema import name_on_milvus

if TYPE_CHECKING:
    from hummingbit.index.backend import CollectionBackend


@pytest.fixture
def other(milvus_uri: str, tmp_path: Path) -> Iterator[MilvusFolder]:
    """A second folder on the same Milvus, as another process would have it."""
    folder = MilvusFolder(tmp_path, milvus_uri, writable=True)
    with closing(folder):
        before = set(folder.collections())
        yield folder
        # Folders of other tests lack their encoders, and would not be ready.
        for name in set(folder.collections()) - before:
            folder.drop_collection(name)


@pytest.fixture
def collection(milvus_folder: MilvusFolder) -> CollectionBackend:
    collection = milvus_folder.create_collection("particular", n_bits=16)
    collection.delete([document.id for document in collection.all_documents()])
    return collection


def test_more_ties_than_milvus_returns(collection: CollectionBackend) -> None:
    # 16,384 hits are the most that Milvus returns.
    rng = np.random.default_rng(0)
    order = rng.permutation(18_000)
    documents = code_documents(["0000"] * 17_000 + ["0001"] * 1_000)
    documents = [documents[at] for at in order]
    collection.upsert_encoded(
        documents,
        np.array([[0, document.code == "0001"] for document in documents], dtype=np.uint8),
    )
    same = [document.id for document in documents if document.code == "0000"]
    others = [document.id for document in documents if document.code == "0001"]
    found = collection.search([Query(code="0000"), Query(code="0001")], 5)
    assert [[hit.id for hit in hits] for hits in found.hits] == [same[:5], others[:5]]
    assert found.ties_cut == [True, True]
    deep = collection.search([Query(code="0000")], 1_500, offset=16_000)
    assert [hit.id for hit in deep.hits[0]] == (same + others)[16_000:17_500]


def test_reading_only(collection: CollectionBackend, milvus_uri: str, tmp_path: Path) -> None:
    collection.upsert(code_documents(["0000", "0003"]))
    with MilvusFolder(tmp_path, milvus_uri, writable=False) as folder:
        reader = folder.collection("particular")
        assert [hit.id for hit in reader.search([Query(code="0001")], 1).hits[0]] == ["d0"]
        collection.upsert(code_documents(["0001"], prefix="later"))
        hits = reader.search([Query(code="0001")], 2, with_payload=True).hits[0]
        assert [(hit.id, hit.payload) for hit in hits] == [("later0", {"at": 0}), ("d0", {"at": 0})]
        assert reader.generation == collection.generation
        collection.delete(["d0"])
        assert reader.get("d0") is None
        with pytest.raises(StoreError, match="'particular' on Milvus is open for reading only"):
            reader.upsert(code_documents(["0000"]))
        with pytest.raises(StoreError, match="reading only"):
            reader.delete(["d1"])
        with pytest.raises(DataFolderError, match="not open for writing"):
            folder.create_collection("another", n_bits=8)


def test_a_second_writer_is_noticed(collection: CollectionBackend, other: MilvusFolder) -> None:
    theirs = other.collection("particular")
    theirs.upsert(code_documents(["0000"], prefix="theirs"))
    # A process that writes does not wait for what others write.
    time.sleep(0.5)
    with pytest.raises(StoreError, match="another process writes to collection 'particular'"):
        collection.upsert(code_documents(["0000"]))
    assert [document.id for document in theirs.all_documents()] == ["theirs0"]
    # The rest of the tests go on with a view that is up to date.
    collection._progress.__init__(collection._progress._catalogue, "particular", writable=True)  # type: ignore[attr-defined]


def test_an_interrupted_write_is_completed_by_doing_it_again(
    collection: CollectionBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(1)
    documents = code_documents(map(code_to_hex, random_codes(rng, 30, 16)))
    generation = collection.generation
    monkeypatch.setattr("hummingbit.index.milvus.store.BYTES_AT_ONCE", 10_000)
    call = Cluster.call
    calls = 0

    def break_off(self: Cluster, method: str, *args: object, **options: object) -> object:
        nonlocal calls
        calls += method == "upsert" and args[0] == name_on_milvus("particular")
        if calls == 3:
            raise StoreError("broken off")
        return call(self, method, *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Cluster, "call", break_off)
        with pytest.raises(StoreError, match="broken off"):
            collection.upsert(documents)
    assert 0 < len(collection) < 30
    assert collection.generation == generation
    assert collection.new_or_changed(documents) == documents[len(collection) :]
    assert collection.upsert(documents).generation == generation + 1
    assert [document.id for document in collection.all_documents()] == [
        document.id for document in documents
    ]


def test_answers_that_are_too_large_are_asked_for_in_parts(
    collection: CollectionBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = code_documents(["0000"] * 900)
    collection.upsert(documents)
    collection.delete([document.id for document in documents[100:150]])
    call = Cluster.call

    def refuse(self: Cluster, method: str, *args: object, **options: object) -> object:
        limit = options.get("limit", 0)
        if method == "query" and isinstance(limit, int) and limit > 300:
            raise StoreError("the answer is too large")
        return call(self, method, *args, **options)

    monkeypatch.setattr(Cluster, "call", refuse)
    kept = [document.id for document in documents[:100] + documents[150:]]
    assert [document.id for document in collection.all_documents()] == kept
    page = collection.scroll(500)
    rest = collection.scroll(500, page.next_cursor)
    assert [document.id for document in page.documents + rest.documents] == kept


def test_what_milvus_cannot_hold_is_refused(collection: CollectionBackend) -> None:
    generation = collection.generation
    large = Document(id="large", code="0000", payload={"x": "é" * 40_000})
    with pytest.raises(InputError, match=r"payload: is 80,009 bytes long; Milvus takes 65,535 \(d"):
        collection.upsert([Document(id="a", code="0000"), large])
    assert (len(collection), collection.generation) == (0, generation)


@pytest.mark.parametrize("text", ["a text; with a mark", ""])
def test_a_text_beside_a_code_and_a_vector_comes_back(
    collection: CollectionBackend, text: str
) -> None:
    vector = np.linspace(-1, 1, 6, dtype=np.float32)
    both = Document("both", text, vector, "ff00")
    collection.upsert([both, Document("text", text, code="00ff")])
    stored = {document.id: document for document in collection.documents_after(0, 10)}
    assert (stored["both"].text, stored["both"].code) == (text, "ff00")
    kept = stored["both"].vector
    assert kept is not None
    assert kept.tolist() == vector.tolist()
    assert (stored["text"].text, stored["text"].vector, stored["text"].code) == (text, None, "00ff")
    assert collection.new_or_changed([both]) == []
    assert not collection.verify().problems
    with pytest.raises(InputError, match="is ranked by 'hamming' only"):
        collection.search([Query(text="mark", code="ff00")], 1)
    (hits,) = collection.search([Query(text="mark", code="ff00")], 1, ranking="hamming").hits
    assert hits[0].id == "both"


def test_milvus_keeps_whole_vectors_and_does_not_rescore_by_them(other: MilvusFolder) -> None:
    with pytest.raises(InputError, match="is 'int8'; a collection on Milvus keeps vectors as 'fl"):
        other.create_collection("rounded", n_bits=16, keep_vectors="int8")
    assert "rounded" not in other.collections()
    whole = other.create_collection("whole", n_bits=16)
    assert whole.keep_vectors == "float32"
    with pytest.raises(InputError, match="rescore"):
        whole.search([Query(code="0000")], 1, rescore=Rescore("vectors"))


def test_texts_and_vectors_come_back(other: MilvusFolder, tmp_path: Path) -> None:
    write_artifact(tmp_path / "encoders" / "words", text_encoder(), random_texts(40))
    vectors = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)
    write_artifact(tmp_path / "encoders" / "numbers", vector_encoder(n_bits=16), vectors)
    texts = other.create_collection("texts-of-words", encoder="words")
    texts.upsert([Document(id=str(at), text=text) for at, text in enumerate(random_texts(5))])
    texts.upsert([Document(id="empty", text="")])
    assert [document.text for document in texts.all_documents()] == [*random_texts(5), ""]
    assert texts.search([Query(text=random_texts(5)[3])], 1).hits[0][0].distance == 0
    reranked = texts.search([Query(text=random_texts(5)[3])], 4, rerank=True)
    scores = [hit.rerank_score for hit in reranked.hits[0]]
    assert reranked.reranked
    assert None not in scores
    assert scores == sorted(scores, key=float)  # type: ignore[arg-type]
    numbers = other.create_collection("numbers", encoder="numbers")
    numbers.upsert([Document(id="v", vector=vectors[0])])
    stored = numbers.get("v")
    assert stored is not None
    assert stored.vector is not None
    assert stored.vector.tolist() == vectors[0].tolist()
    assert numbers.stats()["encoder"] == "numbers"
    assert other.create_collection("numbers", encoder="numbers") is numbers
    with pytest.raises(CollectionExists):
        other.create_collection("numbers", n_bits=16)


def test_another_encoder_of_the_name_is_refused(
    other: MilvusFolder, milvus_uri: str, tmp_path: Path
) -> None:
    path = tmp_path / "elsewhere"
    write_artifact(tmp_path / "encoders" / "mine", text_encoder(), random_texts(40))
    write_artifact(path / "encoders" / "mine", text_encoder(seed=9), random_texts(40))
    other.create_collection("of-mine", encoder="mine")
    with MilvusFolder(path, milvus_uri, writable=False) as folder:
        assert "of-mine" in folder.unavailable()
        with pytest.raises(EncoderMismatch, match="was made with encoder 'mine', fingerprint"):
            folder.collection("of-mine")
    other.drop_collection("of-mine")
    assert "of-mine" not in other.collections()
    with pytest.raises(UnknownCollection):
        other.drop_collection("of-mine")


def test_collections_of_others_are_left_alone(milvus_uri: str, tmp_path: Path) -> None:
    cluster = Cluster(milvus_uri)
    later = json.dumps({"hummingbit": 99})
    for name, about in (("theirs", ""), ("hummingbit_theirs", "theirs"), ("hummingbit_n", later)):
        schema = cluster.make_schema(about)
        schema.add_field("id", 21, is_primary=True, max_length=8)
        schema.add_field("code", 100, dim=8)
        cluster.call("create_collection", name, schema=schema)
    try:
        with MilvusFolder(tmp_path, milvus_uri, writable=True) as folder:
            assert {"theirs", "n"} & set(folder.collections()) == set()
            reasons = folder.unavailable()
            assert reasons["theirs"].endswith("is not a collection of hummingbit")
            assert "has format version 99; this hummingbit reads version 1" in reasons["n"]
            with pytest.raises(CollectionUnavailable):
                folder.create_collection("theirs", n_bits=8)
            with pytest.raises(SnapshotError, match="on Milvus"):
                folder.restore_snapshot(tmp_path / "x.tar", "x")
    finally:
        for name in ("theirs", "hummingbit_theirs", "hummingbit_n"):
            cluster.call("drop_collection", name)
        cluster.close()


def test_a_server_that_is_away(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match=r"Milvus at 127\.0\.0\.1:1 cannot be reached"):
        MilvusFolder(tmp_path, "http://127.0.0.1:1", writable=True)


@pytest.mark.parametrize("uri", ["", "localhost:19530", "http://", "http://root:pw@h:1", "x.db"])
def test_addresses_that_are_none(uri: str, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="must be like http://HOST:19530") as caught:
        MilvusFolder(tmp_path, uri, writable=True)
    assert "pw" not in str(caught.value)


def test_the_engine_needs_an_address(tmp_path: Path) -> None:
    with pytest.raises(DataFolderError, match="needs the address of a server; set --milvus-uri"):
        DataFolderLocation(tmp_path, "milvus").open(writable=True)
    assert "secret" not in repr(DataFolderLocation(tmp_path, "milvus", "http://h:1", "secret"))


def test_a_closed_collection_says_so(other: MilvusFolder) -> None:
    collection = other.create_collection("closing", n_bits=8)
    collection.close()
    with pytest.raises(StoreError, match="closed"):
        collection.search([Query(code="00")], 1)
    other.drop_collection("closing")


def test_documents_that_expire_are_refused(collection: CollectionBackend) -> None:
    document = Document("a", code="0f0f", payload={"_expires_at": "2999-01-01T00:00:00Z"})
    with pytest.raises(InputError, match="documents do not expire"):
        collection.upsert([document])
    collection.upsert([Document("a", code="0f0f")])
    with pytest.raises(InputError, match="documents do not expire"):
        collection.update_payloads([PayloadUpdate(ids=("a",), ttl_seconds=60)])
