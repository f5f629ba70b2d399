"""LlamaIndex's contract of vector stores, beside its own store in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from llama_index.core import StorageContext, VectorStoreIndex
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    SimpleVectorStore,
    VectorStoreQuery,
)
from llama_index.core.vector_stores.types import VectorStoreQueryMode

from hummingbit import Collection, SemanticHasher
from hummingbit.integrations.llama_index import HummingbitVectorStore

TEXTS = ["a cat and a dog", "dogs and cats", "stocks and bonds", "a bond or a stock"]
VECTORS = np.random.default_rng(0).normal(size=(40, 12))


def make_nodes() -> list[TextNode]:
    return [
        TextNode(
            id_=f"n{row}",
            text=TEXTS[row % 4],
            metadata={"row": row, "topic": "pets" if row % 4 < 2 else "money"},
            embedding=VECTORS[row].tolist(),
            relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=f"d{row % 3}")},
        )
        for row in range(40)
    ]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[HummingbitVectorStore]:
    hasher = SemanticHasher(n_bits=256, method="lsh").fit(VECTORS)
    with Collection.create(tmp_path, "vectors", encoder=hasher) as collection:
        yield HummingbitVectorStore(collection)


@pytest.fixture
def texts(tmp_path: Path) -> Iterator[HummingbitVectorStore]:
    hasher = SemanticHasher(n_bits=64, method="lsh").fit(TEXTS * 5)
    with Collection.create(tmp_path, "texts", encoder=hasher) as collection:
        store = HummingbitVectorStore(collection)
        store.add(make_nodes())
        yield store


def one(key: str, value: object, operator: FilterOperator = FilterOperator.EQ) -> MetadataFilters:
    return MetadataFilters(filters=[MetadataFilter(key=key, value=value, operator=operator)])


FILTERS = [
    one("topic", "pets"),
    one("topic", "pets", FilterOperator.NE),
    one("row", 7, FilterOperator.GT),
    one("row", 7, FilterOperator.GTE),
    one("row", 7, FilterOperator.LT),
    one("row", 7, FilterOperator.LTE),
    one("row", [1, 2, 99], FilterOperator.IN),
    one("row", [1, 2, 99], FilterOperator.NIN),
    one("none", None, FilterOperator.IS_EMPTY),
]


@pytest.mark.parametrize("filters", FILTERS)
def test_filters_hold_for_the_nodes_that_the_store_in_memory_finds(
    store: HummingbitVectorStore, filters: MetadataFilters
) -> None:
    simple = SimpleVectorStore()
    simple.add(make_nodes())
    store.add(make_nodes())
    query = VectorStoreQuery(
        query_embedding=VECTORS[5].tolist(), similarity_top_k=40, filters=filters
    )
    expected = simple.query(query)
    found = store.query(query)
    assert sorted(found.ids or []) == sorted(expected.ids or [])
    assert sorted(node.node_id for node in store.get_nodes(filters=filters)) == sorted(
        found.ids or []
    )


def test_filters_can_be_nested(store: HummingbitVectorStore) -> None:
    store.add(make_nodes())
    nested = MetadataFilters(
        filters=[
            MetadataFilter(key="topic", value="pets"),
            MetadataFilters(
                filters=[
                    MetadataFilter(key="row", value=3, operator=FilterOperator.LT),
                    MetadataFilter(key="row", value=30, operator=FilterOperator.GT),
                ],
                condition=FilterCondition.OR,
            ),
        ]
    )
    expected = [f"n{row}" for row in range(40) if row % 4 < 2 and (row < 3 or row > 30)]
    assert sorted(node.node_id for node in store.get_nodes(filters=nested)) == sorted(expected)


def test_the_nearest_node_comes_first_and_whole(store: HummingbitVectorStore) -> None:
    nodes = make_nodes()
    assert store.add(nodes) == [node.node_id for node in nodes]
    found = store.query(VectorStoreQuery(query_embedding=VECTORS[9].tolist(), similarity_top_k=3))
    assert found.nodes is not None
    first = found.nodes[0]
    assert first.node_id == "n9"
    assert first.metadata == nodes[9].metadata
    assert first.ref_doc_id == "d0"
    assert first.get_content() == nodes[9].get_content()
    assert found.similarities == sorted(found.similarities or [], reverse=True)


def test_nodes_are_deleted_by_document_by_id_and_by_filter(store: HummingbitVectorStore) -> None:
    store.add(make_nodes())
    store.delete("d0")
    assert len(store.client) == 26
    store.delete_nodes(["n1", "n2", "n0"])
    assert len(store.client) == 24
    store.delete_nodes([])
    assert len(store.client) == 24
    assert store.get_nodes([]) == []
    store.delete_nodes(filters=one("topic", "pets"))
    assert {node.metadata["topic"] for node in store.get_nodes()} == {"money"}
    store.clear()
    assert len(store.client) == 0
    assert store.get_nodes(["n1"]) == []


def test_documents_and_nodes_narrow_a_query(store: HummingbitVectorStore) -> None:
    store.add(make_nodes())
    narrow = VectorStoreQuery(
        query_embedding=VECTORS[0].tolist(), similarity_top_k=40, doc_ids=["d1"], node_ids=["n0"]
    )
    assert set(store.query(narrow).ids or []) == {"n0", *(f"n{row}" for row in range(1, 40, 3))}


@pytest.mark.parametrize("mode", ["default", "text_search", "hybrid"])
def test_texts_are_queried_by_text(texts: HummingbitVectorStore, mode: str) -> None:
    query = VectorStoreQuery(
        query_str="bond", similarity_top_k=1, mode=VectorStoreQueryMode(mode), alpha=0.3
    )
    found = texts.query(query)
    assert found.nodes is not None
    assert "bond" in found.nodes[0].get_content()


async def test_an_index_is_built_and_asked_over_the_store(texts: HummingbitVectorStore) -> None:
    texts.clear()
    index = VectorStoreIndex(
        nodes=make_nodes()[:4],
        storage_context=StorageContext.from_defaults(vector_store=texts),
        embed_model=MockEmbedding(embed_dim=12),
    )
    retriever = index.as_retriever(similarity_top_k=2, vector_store_query_mode="hybrid")
    assert retriever.retrieve("cats")[0].node.node_id == "n1"
    assert (await retriever.aretrieve("bond"))[0].node.node_id == "n3"


def test_what_cannot_be_is_named(store: HummingbitVectorStore) -> None:
    with pytest.raises(ValueError, match="mode is 'mmr'"):
        store.query(VectorStoreQuery(query_embedding=[0.0] * 12, mode=VectorStoreQueryMode.MMR))
    with pytest.raises(ValueError, match="query_embedding is None"):
        store.query(VectorStoreQuery(query_str="a cat"))
    with pytest.raises(ValueError, match="'text_match' is not supported"):
        store.get_nodes(filters=one("topic", "pets", FilterOperator.TEXT_MATCH))
