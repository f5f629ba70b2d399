"""Haystack's own tests of document stores, against a real collection."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from haystack import Pipeline
from haystack.core.serialization import allow_deserialization_module
from haystack.dataclasses import ByteStream, Document
from haystack.document_stores.errors import DuplicateDocumentError
from haystack.document_stores.types import DuplicatePolicy
from haystack.testing.document_store import DocumentStoreBaseExtendedTests

from hummingbit import Collection, SemanticHasher
from hummingbit.integrations.haystack import (
    HummingbitDocumentEmbedder,
    HummingbitDocumentStore,
    HummingbitRetriever,
    HummingbitTextEmbedder,
)

TEXTS = ["a cat and a dog", "dogs and cats", "stocks and bonds", "a bond or a stock"]


@pytest.fixture(scope="module")
def hasher() -> SemanticHasher:
    return SemanticHasher(n_bits=64, method="lsh").fit(TEXTS * 5)


@pytest.fixture
def store(tmp_path: Path, hasher: SemanticHasher) -> Iterator[HummingbitDocumentStore]:
    Collection.create(tmp_path, "notes", encoder=hasher).close()
    store = HummingbitDocumentStore(str(tmp_path), "notes")
    yield store
    store.collection.close()


class TestStore(DocumentStoreBaseExtendedTests):
    """Every test of the protocol, and those of what goes beyond it."""

    @pytest.fixture
    def document_store(self, store: HummingbitDocumentStore) -> HummingbitDocumentStore:
        return store

    def test_write_documents(self, document_store: HummingbitDocumentStore) -> None:
        document = Document(content="a cat")
        assert document_store.write_documents([document]) == 1
        with pytest.raises(DuplicateDocumentError):
            document_store.write_documents([document])
        self.assert_documents_are_equal(document_store.filter_documents(), [document])


def test_a_document_comes_back_whole(store: HummingbitDocumentStore) -> None:
    document = Document(
        blob=ByteStream(b"\x00\x01", mime_type="image/png"), meta={"a": {"b": [1, None]}}
    )
    store.write_documents([document], DuplicatePolicy.OVERWRITE)
    assert store.filter_documents() == [document]


def test_a_pipeline_finds_documents_and_can_be_saved(
    store: HummingbitDocumentStore,
) -> None:
    store.write_documents(
        [Document(content=text, meta={"row": row}) for row, text in enumerate(TEXTS)]
    )
    pipeline = Pipeline()
    pipeline.add_component("retriever", HummingbitRetriever(store, top_k=2))
    allow_deserialization_module("hummingbit.integrations.haystack")
    again = Pipeline.from_dict(pipeline.to_dict())
    found = again.run({"retriever": {"query": "bond"}})["retriever"]["documents"]
    assert found[0].content == "a bond or a stock"
    assert found[0].score is not None
    only = {"field": "meta.row", "operator": "<", "value": 2}
    some = again.run({"retriever": {"query": "bond", "filters": only}})["retriever"]["documents"]
    assert {document.meta["row"] for document in some} <= {0, 1}


def test_embedders_give_the_signs_of_the_code(tmp_path: Path, hasher: SemanticHasher) -> None:
    folder = str(hasher.save(tmp_path / "encoder"))
    documents = HummingbitDocumentEmbedder(folder).run([Document(content=TEXTS[0])])["documents"]
    query = HummingbitTextEmbedder(folder).run(TEXTS[0])["embedding"]
    bits = hasher.set_params(output="bits").transform(TEXTS[:1])[0]
    assert [number > 0 for number in documents[0].embedding] == [bool(bit) for bit in bits]
    assert [number > 0 for number in query] == [bool(bit) for bit in bits]
