"""LangChain's own standard suites, against real collections."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.vectorstores import VectorStore
from langchain_tests.integration_tests import (
    EmbeddingsIntegrationTests,
    RetrieversIntegrationTests,
    VectorStoreIntegrationTests,
)
from langchain_tests.unit_tests import EmbeddingsUnitTests

from hummingbit import Collection, SemanticHasher
from hummingbit.integrations.langchain import (
    HummingbitEmbeddings,
    HummingbitRetriever,
    HummingbitVectorStore,
)

WORDS = ["foo", "bar", "baz", "new", "hello", "world"]
TEXTS = [f"{one} {other}" for one in WORDS for other in WORDS]


@pytest.fixture(scope="module")
def words() -> SemanticHasher:
    return SemanticHasher(n_bits=64, method="lsh").fit(TEXTS)


class TestVectors(VectorStoreIntegrationTests):
    """A collection of codes of another model's vectors."""

    @pytest.fixture
    def vectorstore(self, tmp_path: Path) -> Iterator[VectorStore]:
        seen = np.array(self.get_embeddings().embed_documents(TEXTS))
        hasher = SemanticHasher(n_bits=256, method="lsh").fit(seen)
        with Collection.create(tmp_path, "vectors", encoder=hasher) as collection:
            yield HummingbitVectorStore(collection, self.get_embeddings())


class TestTexts(VectorStoreIntegrationTests):
    """A collection whose own encoder takes the texts."""

    @pytest.fixture
    def vectorstore(self, tmp_path: Path, words: SemanticHasher) -> Iterator[VectorStore]:
        with Collection.create(tmp_path, "texts", encoder=words) as collection:
            yield HummingbitVectorStore(collection)


@pytest.fixture(scope="module")
def store(
    tmp_path_factory: pytest.TempPathFactory, words: SemanticHasher
) -> Iterator[HummingbitVectorStore]:
    with Collection.create(tmp_path_factory.mktemp("data"), "texts", encoder=words) as collection:
        store = HummingbitVectorStore(collection)
        store.add_texts(TEXTS, [{"first": text.split()[0]} for text in TEXTS])
        yield store


class TestRetriever(RetrieversIntegrationTests):
    """The retriever of a store."""

    @pytest.fixture(autouse=True)
    def _store(self, store: HummingbitVectorStore) -> None:
        self.store = store

    @property
    def retriever_constructor(self) -> type[HummingbitRetriever]:
        return HummingbitRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"store": self.store}

    @property
    def retriever_query_example(self) -> str:
        return "foo bar"


class _Encoder:
    """What both suites of embeddings are given."""

    @pytest.fixture(autouse=True)
    def _words(self, words: SemanticHasher) -> None:
        self.encoder = words.encoder_

    @property
    def embeddings_class(self) -> type[HummingbitEmbeddings]:
        return HummingbitEmbeddings

    @property
    def embedding_model_params(self) -> dict[str, Any]:
        return {"encoder": self.encoder}


class TestEmbeddings(_Encoder, EmbeddingsIntegrationTests):
    """The real-valued embeddings of an encoder."""


class TestEmbeddingsUnit(_Encoder, EmbeddingsUnitTests):
    """That embeddings can be made at all."""


def test_filters_and_rankings_reach_the_collection(store: HummingbitVectorStore) -> None:
    only = {"field": "first", "eq": "baz"}
    found = store.similarity_search("foo", k=10, filter=only, ranking="bm25")
    assert [one.page_content for one in found] == ["baz foo"]
    scored = store.similarity_search_with_relevance_scores("foo bar", k=3)
    assert all(0 <= relevance <= 1 for _, relevance in scored)


def test_diverse_documents_differ_more_than_the_best(store: HummingbitVectorStore) -> None:
    best = store.similarity_search("foo bar", k=3)
    diverse = store.max_marginal_relevance_search("foo bar", k=3, fetch_k=20, lambda_mult=0.1)
    assert diverse[0].page_content.split() in (["foo", "bar"], ["bar", "foo"])
    assert {one.id for one in diverse} != {one.id for one in best}


def test_a_store_is_made_of_texts_alone(tmp_path: Path) -> None:
    vectors = DeterministicFakeEmbedding(size=8)
    made = HummingbitVectorStore.from_texts(
        TEXTS, vectors, folder=tmp_path, name="made", n_bits=64, ids=[str(i) for i in range(36)]
    )
    assert made.get_by_ids(["7"]) == [Document(page_content="bar bar", id="7")]
    assert made.similarity_search("bar bar", k=1)[0].id == "7"
    made.collection.close()


def test_an_embedding_and_a_collection_of_texts_do_not_go_together(
    store: HummingbitVectorStore,
) -> None:
    with pytest.raises(ValueError, match="takes texts; embedding must be None"):
        HummingbitVectorStore(store.collection, DeterministicFakeEmbedding(size=8))
