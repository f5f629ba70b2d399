"""LlamaIndex's contract of vector stores, beside its own store in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
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
from hummingbit.errors import ServiceError
from hummingbit.foundation.errors import InputError
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


@pytest.fixture(params=["folder", "service"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[HummingbitVectorStore]:
    hasher = SemanticHasher(n_bits=256, method="lsh").fit(VECTORS)
    if request.param == "service":
        yield HummingbitVectorStore(request.getfixturevalue("served").create(hasher))
        return
    with Collection.create(tmp_path, "vectors", encoder=hasher) as collection:
        yield HummingbitVectorStore(collection)


@pytest.fixture(params=["folder", "service"])
def texts(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[HummingbitVectorStore]:
    hasher = SemanticHasher(n_bits=64, method="lsh").fit(TEXTS * 5)
    if request.param == "service":
        served = request.getfixturevalue("served")
        collection = served.create(hasher)
        store = HummingbitVectorStore(served.limited[-1], collection.name)
        store.add(make_nodes())
        yield store
        return
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
    store.add(make_nodes())
    with pytest.raises(ValueError, match="'row' text_match 'pets' cannot be compared with 0"):
        store.get_nodes(filters=one("row", "pets", FilterOperator.TEXT_MATCH))


def test_what_a_method_does_not_know_is_refused(store: HummingbitVectorStore) -> None:
    nodes, where = make_nodes(), {"filter": one("topic", "pets")}
    store.add(nodes)
    calls: list[Any] = [
        lambda: store.add(nodes, **where),
        lambda: store.delete("d0", **where),
        lambda: store.delete_nodes(**where),
        lambda: asyncio.run(store.adelete("d0", **where)),
        lambda: asyncio.run(store.adelete_nodes(["n1"], **where)),
        lambda: store.query(VectorStoreQuery(query_embedding=VECTORS[0].tolist()), **where),
    ]
    for call in calls:
        with pytest.raises(TypeError, match="'filter'"):
            call()
    assert len(store.client) == 40


@pytest.mark.parametrize(("alpha", "ranking"), [(0, "bm25"), (0.0, "bm25"), (1, "asymmetric")])
def test_the_ends_of_alpha_are_words_alone_and_codes_alone(
    texts: HummingbitVectorStore, alpha: float, ranking: str
) -> None:
    query = VectorStoreQuery(
        query_str="a cat", similarity_top_k=40, mode=VectorStoreQueryMode.HYBRID, alpha=alpha
    )
    assert texts.query(query).ids == texts.client.search("a cat", limit=40, ranking=ranking).ids


@pytest.mark.parametrize("alpha", [1e-9, 0.5, 1 - 1e-9])
def test_alpha_may_be_near_its_ends(texts: HummingbitVectorStore, alpha: float) -> None:
    hybrid = VectorStoreQueryMode.HYBRID
    query = VectorStoreQuery(query_str="a cat", similarity_top_k=40, mode=hybrid, alpha=alpha)
    assert len(texts.query(query).ids or []) == 40


@pytest.mark.parametrize("alpha", [-0.1, 1.1, float("nan")])
def test_alpha_is_a_share(texts: HummingbitVectorStore, alpha: float) -> None:
    query = VectorStoreQuery(query_str="cat", mode=VectorStoreQueryMode.HYBRID, alpha=alpha)
    with pytest.raises(ValueError, match=r"alpha is .*; it must be from 0 to 1"):
        texts.query(query)


def test_ids_may_be_thousands(store: HummingbitVectorStore) -> None:
    store.add(make_nodes())
    unknown = [f"x{number}" for number in range(3000)]
    assert [node.node_id for node in store.get_nodes([*unknown, "n7", "n2"])] == ["n7", "n2"]
    embedding = VECTORS[0].tolist()
    by_document = VectorStoreQuery(
        query_embedding=embedding, similarity_top_k=40, doc_ids=[*unknown, "d1"]
    )
    assert set(store.query(by_document).ids or []) == {f"n{row}" for row in range(1, 40, 3)}
    by_node = VectorStoreQuery(
        query_embedding=embedding, similarity_top_k=3, node_ids=[*unknown, "n9", "n0"]
    )
    assert store.query(by_node).ids == ["n0", "n9"]
    store.delete_nodes([*unknown, "n7", "n2"])
    assert len(store.client) == 38
    store.delete_nodes(unknown)
    assert len(store.client) == 38


SCALARS = [0, 1, 2, -1, 0.5, 1.0, 2**53 + 1, "", "a", "b", "ab", "A", "1", "n0", 'q"x']
METADATA = st.dictionaries(
    st.sampled_from(["a", "b", "a.b", 'q"x', "node_id", "ref_doc_id"]),
    st.one_of(
        st.sampled_from(SCALARS),
        st.sampled_from([None, True, False, [], {}, {"b": "a"}, ["a"], [{"b": "a"}]]),
        st.lists(st.sampled_from(SCALARS), max_size=3),
    ),
    max_size=4,
)
FILTER = st.builds(
    MetadataFilter,
    key=st.sampled_from(["a", "b", "a.b", 'q"x', "none", "ref_doc_id", "_node_type", ""]),
    operator=st.sampled_from(FilterOperator),
    value=st.one_of(
        st.none(),
        st.sampled_from(SCALARS),
        st.lists(
            st.sampled_from([scalar for scalar in SCALARS if isinstance(scalar, str)]), max_size=3
        ),
        st.lists(st.sampled_from([0, 1, 2]), max_size=3),
    ),
)
FILTERS_OF_MANY = st.builds(
    MetadataFilters,
    filters=st.lists(FILTER, max_size=3),
    condition=st.sampled_from(FilterCondition),
)


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HummingbitVectorStore]:
    hasher = SemanticHasher(n_bits=64, method="lsh").fit(VECTORS)
    folder = tmp_path_factory.mktemp("data")
    with Collection.create(folder, "vectors", encoder=hasher) as collection:
        yield HummingbitVectorStore(collection)


def in_both(store: HummingbitVectorStore, many: list[dict[str, Any]]) -> SimpleVectorStore:
    """Add a node for each of the metadata to `store`, which is emptied, and to one in memory."""
    nodes = [
        TextNode(
            id_=f"n{row}",
            metadata=metadata,
            embedding=VECTORS[row].tolist(),
            relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=f"d{row % 2}")}
            if row % 3
            else {},
        )
        for row, metadata in enumerate(many)
    ]
    store.clear()
    simple = SimpleVectorStore()
    for one_store in (store, simple):
        one_store.add(nodes)
    return simple


def ids_in_memory(simple: SimpleVectorStore, filters: MetadataFilters) -> set[str]:
    if not simple.data.embedding_dict:
        return set()
    query = VectorStoreQuery(
        query_embedding=VECTORS[0].tolist(), similarity_top_k=40, filters=filters
    )
    return set(simple.query(query).ids or [])


def found_in_memory(simple: SimpleVectorStore, filters: MetadataFilters) -> tuple[set[str], bool]:
    """Return the ids of what matches, and whether no node makes the filters an error.

    If one does, the filters are asked about each node alone, and match none that does.
    """
    try:
        return ids_in_memory(simple, filters), True
    except (TypeError, ValueError):
        found = set()
        for id_, metadata in simple.data.metadata_dict.items():
            alone = SimpleVectorStore()
            alone.data.embedding_dict[id_] = simple.data.embedding_dict[id_]
            alone.data.metadata_dict[id_] = metadata
            with suppress(TypeError, ValueError):
                found |= ids_in_memory(alone, filters)
        return found, False


@settings(max_examples=150)
@given(
    metadata=st.lists(METADATA, max_size=6),
    many=st.lists(FILTERS_OF_MANY, min_size=20, max_size=20),
)
def test_random_filters_hold_for_the_nodes_that_the_store_in_memory_finds(
    lasting: HummingbitVectorStore, metadata: list[dict[str, Any]], many: list[MetadataFilters]
) -> None:
    simple = in_both(lasting, metadata)
    for filters in many:
        expected, compares = found_in_memory(simple, filters)
        try:
            found = {node.node_id for node in lasting.get_nodes(filters=filters)}
        except ValueError:
            assert not compares, filters
        else:
            assert found == expected, filters
        if compares:
            query = VectorStoreQuery(
                query_embedding=VECTORS[0].tolist(), similarity_top_k=2, filters=filters
            )
            everything = lasting.client.search(VECTORS[0], limit=9, ranking="asymmetric").ids
            best = [id_ for id_ in everything if id_ in expected][:2]
            assert lasting.query(query).ids == best


@pytest.mark.parametrize("name", FilterOperator)
def test_every_value_is_compared_with_every_other_as_in_memory(
    lasting: HummingbitVectorStore, name: FilterOperator
) -> None:
    stored = [*SCALARS, None, True, False, [], ["a"], ["ab", "a"], [1], {"b": "a"}]
    simple = in_both(lasting, [{"a": value} for value in stored] + [{}])
    for value in [*SCALARS, None, [], ["a"], ["a", "b"], [0, 1]]:
        filters = one("a", value, name)
        expected, compares = found_in_memory(simple, filters)
        try:
            found = {node.node_id for node in lasting.get_nodes(filters=filters)}
        except ValueError:
            assert not compares, filters
        else:
            assert found == expected, filters


@settings(max_examples=200)
@given(
    metadata=st.lists(METADATA, max_size=6),
    filters=st.none() | FILTERS_OF_MANY,
    node_ids=st.none() | st.lists(st.sampled_from(["n0", "n1", "n2", "n3", "x"]), max_size=4),
    ref_doc_id=st.sampled_from(["d0", "d1", "None", "x"]),
)
def test_what_is_deleted_is_what_the_store_in_memory_deletes(
    lasting: HummingbitVectorStore,
    metadata: list[dict[str, Any]],
    filters: MetadataFilters | None,
    node_ids: list[str] | None,
    ref_doc_id: str,
) -> None:
    simple = in_both(lasting, metadata)
    lasting.delete(ref_doc_id)
    simple.delete(ref_doc_id)
    assert {node.node_id for node in lasting.get_nodes()} == {*simple.data.embedding_dict}
    before = len(lasting.client)
    try:
        simple.delete_nodes(node_ids, filters)
    except (TypeError, ValueError):
        return
    lasting.delete_nodes(node_ids, filters)
    assert {node.node_id for node in lasting.get_nodes()} == {*simple.data.embedding_dict}
    assert len(lasting.client) <= before


@settings(max_examples=100)
@given(
    metadata=st.lists(METADATA, max_size=6),
    parts=st.lists(FILTERS_OF_MANY, min_size=1, max_size=3),
    condition=st.sampled_from(FilterCondition),
)
def test_nested_filters_combine_their_parts(
    lasting: HummingbitVectorStore,
    metadata: list[dict[str, Any]],
    parts: list[MetadataFilters],
    condition: FilterCondition,
) -> None:
    simple = in_both(lasting, metadata)
    everything = {*simple.data.embedding_dict}
    matches = [found_in_memory(simple, part) for part in parts]
    if all(compares for _, compares in matches):
        some = set[str]().union(*(found for found, _ in matches))
        combined = {
            FilterCondition.AND: everything.intersection(*(found for found, _ in matches)),
            FilterCondition.OR: some,
            FilterCondition.NOT: everything - some,
        }
        nested = MetadataFilters(filters=[*parts], condition=condition)
        found = {node.node_id for node in lasting.get_nodes(filters=nested)}
        assert found == combined[condition]


def test_a_script_reads_documents_that_others_wrote(texts: HummingbitVectorStore) -> None:
    texts.clear()
    texts.client.add(TEXTS, ids=["a", "b", "c", "d"], payloads=[{"n": n} for n in range(4)])

    answer = texts.query(VectorStoreQuery(query_str="dogs and cats", similarity_top_k=2))

    assert answer.nodes is not None
    assert answer.nodes[0].node_id in ("a", "b")
    assert answer.nodes[0].get_content() in TEXTS[:2]
    assert [node.node_id for node in texts.get_nodes(filters=one("n", 2))] == ["c"]
    assert [node.metadata for node in texts.get_nodes(["d"])] == [{"n": 3}]
    default = VectorStoreQuery(query_str="dogs and cats", similarity_top_k=4)
    ranked = texts.client.search("dogs and cats", limit=4)
    assert texts.query(default).ids == ranked.ids


async def test_an_index_is_built_over_words_alone(by_words: Any) -> None:
    store = HummingbitVectorStore(by_words)
    assert not store.is_embedding_query
    store.add(make_nodes()[:4])
    index = VectorStoreIndex.from_vector_store(store, embed_model=MockEmbedding(embed_dim=2))
    found = index.as_retriever(similarity_top_k=2).retrieve("bonds")
    assert [node.node_id for node in found] == ["n2", "n3"]
    assert found[0].metadata["topic"] == "money"
    query = VectorStoreQuery(query_str="dogs", similarity_top_k=4, filters=one("topic", "pets"))
    assert sorted(store.query(query).ids or []) == ["n0", "n1"]
    mode = VectorStoreQueryMode.TEXT_SEARCH
    text = VectorStoreQuery(query_str="dogs", similarity_top_k=4, mode=mode)
    assert sorted(store.query(text).ids or []) == ["n0", "n1"]
    with pytest.raises((InputError, ServiceError), match="words alone"):
        store.query(VectorStoreQuery(query_str="dogs", mode=VectorStoreQueryMode.HYBRID))
    store.delete("d0")
    assert sorted(node.node_id for node in store.get_nodes()) == ["n1", "n2"]


def test_a_collection_of_vectors_is_searched_by_words_too(store: HummingbitVectorStore) -> None:
    store.add(make_nodes())
    far = (-VECTORS[3]).tolist()
    for mode, alpha in (("text_search", None), ("sparse", None), ("hybrid", 0.0)):
        query = VectorStoreQuery(
            query_str="stocks", query_embedding=far, mode=VectorStoreQueryMode(mode), alpha=alpha
        )
        assert {node.get_content() for node in store.query(query).nodes or []} == {TEXTS[2]}
    both = VectorStoreQuery(
        query_str="stocks",
        query_embedding=VECTORS[6].tolist(),
        similarity_top_k=40,
        mode=VectorStoreQueryMode.HYBRID,
    )
    found = store.query(both)
    assert (found.ids or [])[0] == "n6"  # it has the word and the vector
    assert len(found.ids or []) == 40
    by_codes = VectorStoreQuery(
        query_str="stocks",
        query_embedding=VECTORS[5].tolist(),
        mode=VectorStoreQueryMode.HYBRID,
        alpha=1,
    )
    assert (store.query(by_codes).ids or [])[0] == "n5"


def test_what_a_mode_lacks_is_named(store: HummingbitVectorStore) -> None:
    store.add(make_nodes()[:2])
    hybrid = VectorStoreQueryMode.HYBRID
    with pytest.raises(ValueError, match="query_str is None; the mode 'hybrid' of a collection of"):
        store.query(VectorStoreQuery(query_embedding=VECTORS[0].tolist(), mode=hybrid))
    with pytest.raises(ValueError, match="query_embedding is None; the mode 'hybrid' of a coll"):
        store.query(VectorStoreQuery(query_str="cats", mode=hybrid))


def test_an_index_of_vectors_is_asked_by_both(store: HummingbitVectorStore) -> None:
    index = VectorStoreIndex(
        nodes=[TextNode(id_=f"t{n}", text=text) for n, text in enumerate(TEXTS)],
        storage_context=StorageContext.from_defaults(vector_store=store),
        embed_model=MockEmbedding(embed_dim=12),
    )
    retriever = index.as_retriever(similarity_top_k=1, vector_store_query_mode="hybrid")
    assert retriever.retrieve("stocks")[0].node.node_id == "t2"


def test_what_became_of_added_nodes_is_logged(store: HummingbitVectorStore, caplog: Any) -> None:
    node = make_nodes()[0]
    store.add([node, node])
    assert "dropped 1 document, because a later one has the same id" in caplog.text
