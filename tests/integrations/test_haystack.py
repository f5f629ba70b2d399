"""Haystack's own tests of document stores, against a real collection."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from haystack import Pipeline
from haystack.components.retrievers import AutoMergingRetriever
from haystack.components.writers import DocumentWriter
from haystack.core.serialization import allow_deserialization_module
from haystack.dataclasses import ByteStream, Document
from haystack.document_stores.errors import DuplicateDocumentError
from haystack.document_stores.in_memory import InMemoryDocumentStore
from haystack.document_stores.types import DuplicatePolicy
from haystack.errors import FilterError
from haystack.testing.document_store import DocumentStoreBaseExtendedTests
from haystack.testing.document_store_async import (
    CountDocumentsAsyncTest,
    DeleteAllAsyncTest,
    DeleteByFilterAsyncTest,
    DeleteDocumentsAsyncTest,
    FilterDocumentsAsyncTest,
    UpdateByFilterAsyncTest,
    WriteDocumentsAsyncTest,
)
from haystack.utils import Secret
from hypothesis import given, settings
from hypothesis import strategies as st

from hummingbit import Collection, SemanticHasher, ServiceError
from hummingbit.foundation.errors import InputError
from hummingbit.integrations.haystack import (
    HummingbitDocumentEmbedder,
    HummingbitDocumentStore,
    HummingbitRetriever,
    HummingbitTextEmbedder,
    narrowing,
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


@pytest.fixture
def served_store(served: Any, hasher: SemanticHasher) -> HummingbitDocumentStore:
    name = served.create(hasher).name
    return HummingbitDocumentStore(
        collection=name, url=served.url, key=Secret.from_token(served.key)
    )


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


DATES = [
    "2024-01-01",
    "2024-01-01T00:00:00",
    "2024-01-01T00:00:00Z",
    "2024-01-01T00:00:00+00:00",
    "2024-01-01T01:00:00+01:00",
    "2024-02-30",
    "2025-06-01T12:00:00",
]
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 3),
    st.sampled_from([0.5, 1.0, 2**53, 2**53 + 1, -1e300]),
    st.sampled_from(["", "a", "b", "1", "1.0", "true", "é", "d0", "a text", 'q"x', "\\"]),
    st.sampled_from(DATES),
)
VALUES = st.one_of(
    SCALARS,
    st.lists(SCALARS, max_size=2),
    st.dictionaries(st.sampled_from(["b", "x"]), SCALARS, max_size=2),
    st.lists(st.dictionaries(st.just("x"), SCALARS, max_size=1), min_size=1, max_size=2),
)
DOCUMENTS = st.lists(
    st.builds(
        Document,
        id=st.sampled_from([f"d{number}" for number in range(6)]),
        content=st.sampled_from([None, "", "a text", "1", DATES[0]]),
        meta=st.dictionaries(
            st.sampled_from(["a", "b", "a.b", 'q"x', "x y", "id", "content"]), VALUES, max_size=4
        ),
        score=st.sampled_from([None, 0.5, 1.0]),
        embedding=st.sampled_from([None, [1.0, 0.0]]),
    ),
    max_size=6,
    unique_by=lambda document: document.id,
)
FIELDS = st.sampled_from(
    [
        *("id", "content", "score", "embedding", "blob", "meta", "a", "b", "x", "x y", 'q"x'),
        *("meta.a", "meta.b", "meta.a.b", "meta.a.x", "meta.b.x", "meta.x y", 'meta.q"x'),
        *("meta.id", "meta.content", "content.x", "unknown.x", "meta.", ".", ""),
    ]
)
COMPARISONS = st.one_of(
    st.fixed_dictionaries(
        {
            "field": FIELDS,
            "operator": st.sampled_from(["==", "!=", ">", ">=", "<", "<="]),
            "value": VALUES,
        }
    ),
    st.fixed_dictionaries(
        {
            "field": FIELDS,
            "operator": st.sampled_from(["in", "not in"]),
            "value": st.lists(VALUES, max_size=3),
        }
    ),
)
FILTERS = st.recursive(
    COMPARISONS,
    lambda inner: st.fixed_dictionaries(
        {
            "operator": st.sampled_from(["AND", "OR", "NOT"]),
            "conditions": st.lists(inner, max_size=3),
        }
    ),
    max_leaves=5,
)
Filters = dict[str, Any]


@pytest.fixture(scope="module")
def lasting(
    tmp_path_factory: pytest.TempPathFactory, hasher: SemanticHasher
) -> Iterator[HummingbitDocumentStore]:
    folder = tmp_path_factory.mktemp("data")
    Collection.create(folder, "notes", encoder=hasher).close()
    store = HummingbitDocumentStore(str(folder), "notes")
    yield store
    store.collection.close()


def in_both(store: HummingbitDocumentStore, documents: list[Document]) -> InMemoryDocumentStore:
    """Write the documents to `store`, which is emptied first, and to a store in memory."""
    store.delete_all_documents()
    memory = InMemoryDocumentStore()
    for item in (store, memory):
        item.write_documents([replace(document) for document in documents])
    return memory


def found_in_memory(memory: InMemoryDocumentStore, filters: Filters) -> tuple[list[str], bool]:
    """Return the ids of what matches, and whether no document makes the filters an error.

    If one does, the filters are asked about each document alone, and match none that does.
    """
    try:
        return sorted(document.id for document in memory.filter_documents(filters)), True
    except Exception:  # noqa: BLE001 - it raises whatever a comparison raises
        found = []
        for document in memory.filter_documents():
            alone = InMemoryDocumentStore()
            alone.write_documents([document])
            if memory.count_documents() > 1:
                found += found_in_memory(alone, filters)[0]
        return sorted(found), False


@settings(max_examples=150)
@given(documents=DOCUMENTS, many=st.lists(FILTERS, min_size=20, max_size=20))
def test_filters_hold_for_what_the_store_in_memory_finds(
    lasting: HummingbitDocumentStore, documents: list[Document], many: list[Filters]
) -> None:
    memory = in_both(lasting, documents)
    assert lasting.filter_documents() == memory.filter_documents()
    for filters in many:
        expected, compares = found_in_memory(memory, filters)
        try:
            found = sorted(document.id for document in lasting.filter_documents(filters))
        except FilterError:
            assert not compares, filters
        else:
            assert found == expected, filters


EACH = [None, True, False, 0, 1, 2, 0.5, 1.0, 2**53 + 1, "", "a", "1", [], [1], ["a"], {"x": 1}]


@pytest.mark.parametrize("name", ["==", "!=", ">", ">=", "<", "<=", "in", "not in"])
def test_every_value_is_compared_with_every_other_as_in_memory(
    lasting: HummingbitDocumentStore, name: str
) -> None:
    documents = [
        Document(id=f"d{row}", meta={"a": value}) for row, value in enumerate([*EACH, *DATES])
    ]
    memory = in_both(lasting, [*documents, Document(id="none")])
    for value in [*EACH, *DATES]:
        values = [value] if "in" in name else value
        filters = {"field": "meta.a", "operator": name, "value": values}
        expected, compares = found_in_memory(memory, filters)
        try:
            found = sorted(document.id for document in lasting.filter_documents(filters))
        except FilterError:
            assert not compares, filters
        else:
            assert found == expected, filters


@settings(max_examples=200)
@given(documents=DOCUMENTS, filters=FILTERS)
def test_what_is_deleted_is_what_the_store_in_memory_deletes(
    lasting: HummingbitDocumentStore, documents: list[Document], filters: Filters
) -> None:
    memory = in_both(lasting, documents)
    expected, compares = found_in_memory(memory, filters)
    left = {document.id for document in documents} - set(expected)
    try:
        assert lasting.delete_by_filter(filters) == len(expected)
    except FilterError:
        assert not compares
        left = {document.id for document in documents}
    assert {document.id for document in lasting.filter_documents()} == left


@settings(max_examples=100)
@given(documents=DOCUMENTS, filters=FILTERS, top_k=st.integers(1, 7))
def test_a_search_finds_the_best_of_what_matches(
    lasting: HummingbitDocumentStore, documents: list[Document], filters: Filters, top_k: int
) -> None:
    memory = in_both(lasting, documents)
    expected, compares = found_in_memory(memory, filters)
    everything = [document.id for document in lasting.search("a cat", top_k=9, ranking="hamming")]
    assert sorted(everything) == sorted(document.id for document in documents)
    if compares:
        found = lasting.search("a cat", top_k=top_k, filters=filters, ranking="hamming")
        assert [hit.id for hit in found] == [id_ for id_ in everything if id_ in expected][:top_k]


@settings(max_examples=150)
@given(
    first=DOCUMENTS,
    second=st.lists(DOCUMENTS, max_size=2).map(
        lambda lists: [item for some in lists for item in some]
    ),
    policy=st.sampled_from(DuplicatePolicy),
)
def test_documents_with_one_id_are_written_as_in_memory(
    lasting: HummingbitDocumentStore,
    first: list[Document],
    second: list[Document],
    policy: DuplicatePolicy,
) -> None:
    memory = in_both(lasting, first)
    try:
        expected = memory.write_documents([replace(item) for item in second], policy)
    except DuplicateDocumentError:
        with pytest.raises(DuplicateDocumentError):
            lasting.write_documents(second, policy)
        assert lasting.filter_documents() == first  # all or none
    else:
        assert lasting.write_documents(second, policy) == expected
        assert lasting.filter_documents() == memory.filter_documents()


def test_what_is_not_in_the_list_is_deleted_and_nothing_else(
    store: HummingbitDocumentStore,
) -> None:
    documents = [Document(id=f"d{row}", content=text) for row, text in enumerate(TEXTS[:3])]
    for field, kept in (("id", "d1"), ("content", TEXTS[2])):
        store.write_documents(documents, DuplicatePolicy.OVERWRITE)
        filters = {"field": field, "operator": "not in", "value": [kept]}
        assert store.delete_by_filter(filters) == 2
        (left,) = store.filter_documents()
        assert kept in (left.id, left.content)


def test_filters_may_be_larger_than_a_condition_of_a_collection(
    store: HummingbitDocumentStore,
) -> None:
    documents = [Document(id=f"d{n}", content="a", meta={"n": n, "s": f"s{n}"}) for n in range(20)]
    store.write_documents(documents)
    for values in ([*range(10, 3000)], [f"s{n}" for n in range(10, 3000)]):
        name = "meta.n" if isinstance(values[0], int) else "meta.s"
        some = {"field": name, "operator": "in", "value": values}
        each = [{"field": name, "operator": "==", "value": value} for value in values[:300]]
        for filters in (some, {"operator": "OR", "conditions": each}):
            assert {document.meta["n"] for document in store.filter_documents(filters)} == {
                *range(10, 20)
            }
        either = {"operator": "OR", "conditions": [each[0], some]}
        both = {"operator": "AND", "conditions": [either] * 300}
        assert len(store.filter_documents(both)) == 10


@pytest.mark.parametrize("filters", [{"field": "meta.a"}, {"operator": "AND"}, {"a": 1}, {}])
def test_what_is_no_filter_deletes_nothing(
    store: HummingbitDocumentStore, filters: Filters
) -> None:
    store.write_documents([Document(content="a cat", meta={"a": 1})])
    with pytest.raises(FilterError):
        store.delete_by_filter(filters)
    with pytest.raises(FilterError):
        store.update_by_filter(filters, {"a": 2})
    assert store.count_documents() == 1


class TestStoreAtService(TestStore):
    """The same, at a service with keys and two workers."""

    @pytest.fixture
    def document_store(self, served_store: HummingbitDocumentStore) -> HummingbitDocumentStore:
        return served_store


@pytest.mark.parametrize("fixture", ["store", "served_store"])
def test_a_script_reads_documents_that_others_wrote(
    request: pytest.FixtureRequest, fixture: str
) -> None:
    store: HummingbitDocumentStore = request.getfixturevalue(fixture)
    store.collection.add(TEXTS, ids=["a", "b", "c", "d"], payloads=[{"n": n} for n in range(4)])

    assert [document.content for document in store.filter_documents()] == TEXTS
    only = {"field": "meta.n", "operator": ">=", "value": 2}
    assert [document.id for document in store.filter_documents(only)] == ["c", "d"]
    (first,) = HummingbitRetriever(store).run("bonds", top_k=1, filters=only)["documents"]
    assert first.content in TEXTS[2:]
    assert first.meta["n"] >= 2
    assert first.score is not None


def test_a_store_of_a_service_is_described_without_its_key(
    served: Any, hasher: SemanticHasher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTES_KEY", served.key)
    name = served.create(hasher).name
    store = HummingbitDocumentStore(
        collection=name, url=served.url, key=Secret.from_env_var("NOTES_KEY")
    )
    described = store.to_dict()
    assert served.key not in str(described)
    assert HummingbitDocumentStore.from_dict(described).count_documents() == 0


@pytest.mark.filterwarnings("error:Mutating attribute")
def test_a_pipeline_mutates_no_document(store: HummingbitDocumentStore) -> None:
    store.write_documents([Document(content=text) for text in TEXTS])
    pipeline = Pipeline()
    pipeline.add_component("retriever", HummingbitRetriever(store))
    assert pipeline.run({"retriever": {"query": "cats"}})["retriever"]["documents"]


def test_a_pipeline_searches_by_words_alone(tmp_path: Path, served: Any) -> None:
    with Collection.create(tmp_path / "data", "notes", encoder=None):
        pass
    served.client.create_collection("haystack-words", encoder=None)
    key = Secret.from_token(served.key)
    for store in (
        HummingbitDocumentStore(str(tmp_path / "data"), "notes"),
        HummingbitDocumentStore(collection="haystack-words", url=served.url, key=key),
    ):
        with closing(store):
            assert store.write_documents([Document(content=text) for text in TEXTS]) == len(TEXTS)
            found = HummingbitRetriever(store).run("bonds", top_k=1)["documents"]
            assert found[0].content in TEXTS[2:]
            with pytest.raises((InputError, ServiceError)) as refused:
                HummingbitRetriever(store, ranking="hybrid").run("bonds")
            assert "words alone" in str(refused.value)


class TestStoreAwaited(
    CountDocumentsAsyncTest,
    WriteDocumentsAsyncTest,
    DeleteDocumentsAsyncTest,
    DeleteAllAsyncTest,
    DeleteByFilterAsyncTest,
    UpdateByFilterAsyncTest,
    FilterDocumentsAsyncTest,
):
    """The same protocol, awaited."""

    @pytest.fixture
    def document_store(self, store: HummingbitDocumentStore) -> HummingbitDocumentStore:
        return store

    async def test_write_documents_async(self, document_store: HummingbitDocumentStore) -> None:
        document = Document(content="a cat")
        assert await document_store.write_documents_async([document]) == 1
        with pytest.raises(DuplicateDocumentError):
            await document_store.write_documents_async([document])


async def test_pipelines_run_asynchronously(store: HummingbitDocumentStore) -> None:
    whole = Document(id="whole", content="one two three four")
    parts = [
        Document(
            id=f"part{n}",
            content=word,
            meta={"__parent_id": "whole", "__level": 1, "__block_size": 1},
        )
        for n, word in enumerate(["one", "two", "three", "four"])
    ]
    whole.meta |= {"__level": 0, "__block_size": 4, "__children_ids": [part.id for part in parts]}
    writing = Pipeline()
    writing.add_component("writer", DocumentWriter(store))
    written = await writing.run_async({"writer": {"documents": [whole, *parts]}})
    assert written["writer"]["documents_written"] == 5
    asking = Pipeline()
    asking.add_component("retriever", HummingbitRetriever(store, top_k=3, ranking="bm25"))
    asking.add_component("merging", AutoMergingRetriever(store, threshold=0.1))
    asking.connect("retriever.documents", "merging.documents")
    found = await asking.run_async(
        {
            "retriever": {
                "query": "three",
                "filters": {"field": "meta.__level", "operator": "==", "value": 1},
            }
        }
    )
    assert [document.id for document in found["merging"]["documents"]] == ["whole"]
    assert found == asking.run(
        {
            "retriever": {
                "query": "three",
                "filters": {"field": "meta.__level", "operator": "==", "value": 1},
            }
        }
    )


async def test_embedders_run_asynchronously(tmp_path: Path, hasher: SemanticHasher) -> None:
    folder = str(hasher.save(tmp_path / "encoder"))
    by_text, by_document = HummingbitTextEmbedder(folder), HummingbitDocumentEmbedder(folder)
    assert await by_text.run_async(TEXTS[0]) == by_text.run(TEXTS[0])
    documents = [Document(content=text) for text in TEXTS]
    assert await by_document.run_async(documents) == by_document.run(documents)


def test_a_filter_on_ids_reads_these_documents_only() -> None:
    one = {"field": "id", "operator": "==", "value": "d1"}
    some = {"field": "id", "operator": "in", "value": ["d1", "d2"]}
    both = {"operator": "AND", "conditions": [one, some]}
    either = {"operator": "OR", "conditions": [one, some]}
    for filters, ids in ((one, ["d1"]), (some, ["d1", "d2"]), (both, ["d1"]), (either, ["d1"])):
        condition = narrowing(filters)
        assert condition is not None
        assert all(condition.matches({}, id_) for id_ in ids)
        assert not condition.matches({}, "d3")


def test_a_search_for_none_finds_none(store: HummingbitDocumentStore) -> None:
    store.write_documents([Document(content=text) for text in TEXTS])
    assert HummingbitRetriever(store, top_k=2).run("cats", top_k=0) == {"documents": []}
    assert len(HummingbitRetriever(store, top_k=2).run("cats")["documents"]) == 2
    with pytest.raises(InputError, match="limit"):
        HummingbitRetriever(store).run("cats", top_k=-1)


def test_what_became_of_written_documents_is_logged(
    store: HummingbitDocumentStore, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    document = Document(content="a cat")
    for policy in (DuplicatePolicy.OVERWRITE, DuplicatePolicy.OVERWRITE):
        store.write_documents([document, document], policy)
    assert "dropped 1 document, because a later one has the same id" in caplog.text
    assert "replaced 1 document" in caplog.text
