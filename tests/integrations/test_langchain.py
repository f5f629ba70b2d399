"""LangChain's own standard suites, against real collections."""

from __future__ import annotations

import asyncio
import datetime
import operator
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.indexing import InMemoryRecordManager, index
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore
from langchain_tests.integration_tests import (
    EmbeddingsIntegrationTests,
    RetrieversIntegrationTests,
    VectorStoreIntegrationTests,
)
from langchain_tests.unit_tests import EmbeddingsUnitTests

from hummingbit import Client, Collection, SemanticHasher, ServedCollection
from hummingbit.errors import ServiceError, UnknownCollection
from hummingbit.foundation.errors import InputError
from hummingbit.integrations.langchain import (
    HummingbitEmbeddings,
    HummingbitRetriever,
    HummingbitVectorStore,
)
from hummingbit.served import exists
from hummingbit.service.http.keys import create_key

WORDS = ["foo", "bar", "baz", "new", "hello", "world"]
TEXTS = [f"{word} {other}" for word in WORDS for other in WORDS]


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


class TestVectorsAtService(TestVectors):
    """The same, at a service with keys and two workers."""

    @pytest.fixture
    def vectorstore(self, served: Any) -> VectorStore:
        seen = np.array(self.get_embeddings().embed_documents(TEXTS))
        hasher = SemanticHasher(n_bits=256, method="lsh").fit(seen)
        return HummingbitVectorStore(served.create(hasher), self.get_embeddings())


class TestTextsAtService(TestTexts):
    """The same, at a service with keys and two workers."""

    @pytest.fixture
    def vectorstore(self, served: Any, words: SemanticHasher) -> VectorStore:
        return HummingbitVectorStore(served.create(words))


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


class TestRetrieverAtService(TestRetriever):
    """The same, at a service with keys and two workers."""

    @pytest.fixture(autouse=True)
    def _store(self, served: Any, words: SemanticHasher) -> None:
        self.store = HummingbitVectorStore(served.create(words))
        self.store.add_texts(TEXTS, [{"first": text.split()[0]} for text in TEXTS])


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
    assert [item.page_content for item in found] == ["baz foo"]
    scored = store.similarity_search_with_relevance_scores("foo bar", k=3)
    assert all(0 <= relevance <= 1 for _, relevance in scored)


@pytest.mark.parametrize("ranking", [None, "hamming", "asymmetric", "bm25", "hybrid"])
def test_a_threshold_of_relevance_keeps_the_best_in_their_order(
    store: HummingbitVectorStore, ranking: str | None
) -> None:
    best = store.similarity_search("foo bar", k=36, ranking=ranking)
    scored = store.similarity_search_with_relevance_scores("foo bar", k=36, ranking=ranking)
    assert [item for item, _ in scored] == best
    assert best[0].page_content in ("foo bar", "bar foo")
    assert scored[0][1] > 0.5
    assert len({relevance for _, relevance in scored}) > 2
    for threshold in (0.1, 0.3, scored[0][1]):
        some = store.similarity_search_with_relevance_scores(
            "foo bar", k=36, ranking=ranking, score_threshold=threshold
        )
        n_kept = sum(relevance >= threshold for _, relevance in scored)
        assert some == scored[:n_kept]
        search = store.asimilarity_search_with_relevance_scores(
            "foo bar", k=36, ranking=ranking, score_threshold=threshold
        )
        assert asyncio.run(search) == some
    only = {"field": "first", "eq": "baz"}
    filtered = store.similarity_search_with_relevance_scores("foo bar", k=36, filter=only)
    assert {item.metadata["first"] for item, _ in filtered} == {"baz"}


def test_diverse_documents_differ_more_than_the_best(store: HummingbitVectorStore) -> None:
    best = store.similarity_search("foo bar", k=3)
    diverse = store.max_marginal_relevance_search("foo bar", k=3, fetch_k=20, lambda_mult=0.1)
    assert diverse[0].page_content.split() in (["foo", "bar"], ["bar", "foo"])
    assert {document.id for document in diverse} != {document.id for document in best}


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


@pytest.fixture
def animals(tmp_path: Path, words: SemanticHasher) -> Iterator[HummingbitVectorStore]:
    with Collection.create(tmp_path, "animals", encoder=words) as collection:
        store = HummingbitVectorStore(collection)
        store.add_texts(WORDS, [{"n": n} for n in range(6)], ids=[*"abcdef"])
        yield store


def test_deletion_takes_ids_a_filter_or_both(animals: HummingbitVectorStore) -> None:
    assert animals.delete(filter={"field": "n", "gte": 5})
    assert animals.delete(["a", "b", "unknown"], filter={"field": "n", "lt": 1})
    assert asyncio.run(animals.adelete(filter={"field": "n", "eq": 4}))
    assert animals.delete([])
    assert animals.delete(["c"])
    assert {
        document.id for document in animals.similarity_search("foo", k=9, ranking="hamming")
    } == {*"bd"}
    assert animals.delete()
    assert len(animals.collection) == 0


@pytest.mark.parametrize("name", ["where", "id", "filters", "namespace"])
def test_a_condition_that_a_method_does_not_know_is_refused(
    animals: HummingbitVectorStore, name: str
) -> None:
    condition: dict[str, Any] = {name: {"field": "n", "eq": 0}}
    calls: list[Any] = [
        lambda: animals.delete(**condition),
        lambda: animals.delete(["a"], **condition),
        lambda: asyncio.run(animals.adelete(**condition)),
        lambda: animals.add_texts(["foo"], **condition),
        lambda: animals.add_documents([Document("foo")], **condition),
        lambda: animals.similarity_search("foo", **condition),
        lambda: animals.similarity_search_with_score("foo", **condition),
        lambda: animals.similarity_search_with_relevance_scores("foo", **condition),
        lambda: animals.max_marginal_relevance_search("foo", **condition),
        lambda: HummingbitRetriever(store=animals, **condition),
        lambda: HummingbitRetriever(store=animals).invoke("foo", **condition),
    ]
    for call in calls:
        with pytest.raises((TypeError, ValueError), match=name):
            call()
    assert len(animals.collection) == 6


def test_what_is_no_filter_deletes_nothing(animals: HummingbitVectorStore) -> None:
    for condition in ({}, {"field": "n"}):
        with pytest.raises(ValueError, match="filter"):
            animals.delete(filter=condition)
    assert len(animals.collection) == 6


def test_langchain_can_index_into_the_store(animals: HummingbitVectorStore) -> None:
    records = InMemoryRecordManager("animals")
    records.create_schema()
    documents = [Document(text, metadata={"source": text}) for text in TEXTS[:5]]
    arguments: dict[str, Any] = {"cleanup": "full", "source_id_key": "source"}
    arguments |= {"key_encoder": "sha256"}
    assert index(documents, records, animals, **arguments)["num_added"] == 5
    assert index(documents[:2], records, animals, **arguments)["num_deleted"] == 3
    assert len(animals.collection) == 8


def test_metadata_does_not_lose_a_field_to_the_text(tmp_path: Path) -> None:
    store = HummingbitVectorStore.from_texts(
        TEXTS, DeterministicFakeEmbedding(size=8), folder=tmp_path, n_bits=64
    )
    with pytest.raises(ValueError, match="'page_content', which holds the text"):
        store.add_texts(["foo"], [{"page_content": "another"}])
    store.collection.close()


SCALARS = st.sampled_from([0, 1, 2, -1, 0.5, 1.0, True, False, "", "a", "b", "1", "é"])
METADATA = st.dictionaries(
    st.sampled_from(["a", "b"]),
    st.none() | SCALARS | st.lists(SCALARS, max_size=3) | st.just({"x": "a"}),
)
NAMES = st.sampled_from(["a", "b", "none"])
BOUNDS = {"gt": operator.gt, "gte": operator.ge, "lt": operator.lt, "lte": operator.le}
FILTERS = st.recursive(
    st.one_of(
        st.fixed_dictionaries({"field": NAMES, "eq": SCALARS}),
        st.fixed_dictionaries({"field": NAMES, "in": st.lists(SCALARS, min_size=1, max_size=3)}),
        st.fixed_dictionaries({"field": NAMES, "exists": st.booleans()}),
        *(
            st.fixed_dictionaries({"field": NAMES, name: st.sampled_from([0, 1.0, "a", "b"])})
            for name in BOUNDS
        ),
    ),
    lambda inner: st.one_of(
        st.fixed_dictionaries({"and": st.lists(inner, min_size=1, max_size=3)}),
        st.fixed_dictionaries({"or": st.lists(inner, min_size=1, max_size=3)}),
        st.fixed_dictionaries({"not": inner}),
    ),
    max_leaves=5,
)


def holds(condition: dict[str, Any], metadata: dict[str, Any]) -> bool:
    """Tell what a condition means, as the documentation says it."""
    if "and" in condition:
        return all(holds(part, metadata) for part in condition["and"])
    if "or" in condition:
        return any(holds(part, metadata) for part in condition["or"])
    if "not" in condition:
        return not holds(condition["not"], metadata)
    value = metadata.get(condition["field"])
    if "exists" in condition:
        return (value is not None) == condition["exists"]
    elements: list[Any] = value if isinstance(value, list) else [value]
    wanted = [condition["eq"]] if "eq" in condition else condition.get("in", [])
    if wanted:
        return any(
            kind(element) == kind(each) and element == each
            for element in elements
            for each in wanted
        )
    ((name, bound),) = ((name, condition[name]) for name in BOUNDS if name in condition)
    return any(
        kind(element) == kind(bound) and BOUNDS[name](element, bound) for element in elements
    )


def kind(value: object) -> object:
    return float if type(value) is int else type(value)


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HummingbitVectorStore]:
    vectors = DeterministicFakeEmbedding(size=8)
    hasher = SemanticHasher(n_bits=64, method="lsh").fit(np.array(vectors.embed_documents(TEXTS)))
    folder = tmp_path_factory.mktemp("data")
    with Collection.create(folder, "vectors", encoder=hasher) as collection:
        yield HummingbitVectorStore(collection, vectors)


def in_both(store: HummingbitVectorStore, many: list[dict[str, Any]]) -> InMemoryVectorStore:
    """Add a document for each of the metadata to `store`, which is emptied, and one in memory."""
    store.delete()
    memory = InMemoryVectorStore(DeterministicFakeEmbedding(size=8))
    documents = [
        Document(TEXTS[row], metadata=metadata, id=f"d{row}") for row, metadata in enumerate(many)
    ]
    for item in (store, memory):
        item.add_documents(documents)
    return memory


def ids_in_memory(memory: InMemoryVectorStore, condition: dict[str, Any]) -> set[str | None]:
    found = memory.similarity_search(
        "foo bar", k=40, filter=lambda document: holds(condition, document.metadata)
    )
    return {hit.id for hit in found}


@settings(max_examples=150)
@given(metadata=st.lists(METADATA, max_size=6), many=st.lists(FILTERS, min_size=20, max_size=20))
def test_filters_hold_for_what_the_store_in_memory_finds(
    lasting: HummingbitVectorStore, metadata: list[dict[str, Any]], many: list[dict[str, Any]]
) -> None:
    memory = in_both(lasting, metadata)
    for condition in many:
        found = lasting.similarity_search("foo bar", k=40, filter=condition)
        assert {hit.id for hit in found} == ids_in_memory(memory, condition)


@settings(max_examples=200)
@given(
    metadata=st.lists(METADATA, max_size=6),
    condition=FILTERS,
    ids=st.none() | st.lists(st.sampled_from(["d0", "d1", "d2", "x"]), max_size=3),
)
def test_what_is_deleted_is_what_matches_in_memory(
    lasting: HummingbitVectorStore,
    metadata: list[dict[str, Any]],
    condition: dict[str, Any],
    ids: list[str] | None,
) -> None:
    memory = in_both(lasting, metadata)
    matching = ids_in_memory(memory, condition)
    memory.delete([id_ for id_ in matching if id_ and (ids is None or id_ in ids)])
    lasting.delete(ids, filter=condition)
    left = lasting.similarity_search("foo bar", k=40)
    assert {document.id for document in left} == {*memory.store}


ARTICLES = [
    ("arrays of numbers with strides", {"label": "numpy", "year": 2024}),
    ("frames of rows and columns", {"label": "pandas", "year": 2023}),
    ("plots of lines and bars", {"label": "matplotlib", "year": 2024}),
]


@pytest.fixture(params=["folder", "service"])
def articles(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[Collection | ServedCollection]:
    """Yield a collection that was filled without LangChain, in process and at a service."""
    hasher = SemanticHasher(n_bits=64, method="lsh").fit([text for text, _ in ARTICLES] * 5)
    if request.param == "service":
        collection = request.getfixturevalue("served").create(hasher)
    else:
        collection = Collection.create(tmp_path, "articles", encoder=hasher)
    with collection:
        ids = [payload["label"] for _, payload in ARTICLES]
        texts, payloads = zip(*ARTICLES, strict=True)
        collection.add(texts, ids=ids, payloads=payloads)
        yield collection


def test_a_script_searches_what_others_wrote(articles: Collection | ServedCollection) -> None:
    store = HummingbitVectorStore(articles)

    (first, *_) = store.similarity_search("rows and columns", k=3)
    assert first.page_content == "frames of rows and columns"
    assert first.metadata == {"label": "pandas", "year": 2023}
    only = store.similarity_search("lines", k=3, filter={"label": "numpy"})
    assert [document.id for document in only] == ["numpy"]
    of_year = store.similarity_search("lines", k=3, filter={"year": 2024})
    assert {document.id for document in of_year} == {"numpy", "matplotlib"}
    either = {"label": ["numpy", "pandas"], "year": 2024}
    assert [document.id for document in store.similarity_search("lines", k=3, filter=either)] == [
        "numpy"
    ]
    scored = store.similarity_search_with_relevance_scores("rows and columns", k=3)
    relevances = [relevance for _, relevance in scored]
    assert relevances == sorted(relevances, reverse=True)
    retriever = store.as_retriever(search_type="mmr", search_kwargs={"k": 2})
    assert len(retriever.invoke("lines and rows")) == 2


def test_a_vector_with_a_number_for_each_bit_searches_a_collection_of_texts(
    articles: Collection | ServedCollection, words: SemanticHasher
) -> None:
    store = HummingbitVectorStore(articles)
    code = articles.get("pandas").code  # type: ignore[union-attr]
    bits = np.unpackbits(np.frombuffer(bytes.fromhex(code), dtype=np.uint8)).astype(float)

    (nearest,) = store.similarity_search_by_vector((bits * 2 - 1).tolist(), k=1)

    assert nearest.id == "pandas"
    with pytest.raises(ValueError, match="must be \\[64\\]"):
        store.similarity_search_by_vector([0.5] * 12)


def test_dates_in_metadata_come_back_as_iso_8601(articles: Collection | ServedCollection) -> None:
    store = HummingbitVectorStore(articles)
    when = datetime.datetime(2024, 5, 3, 9, 30, tzinfo=datetime.UTC)
    store.add_texts(["news of the day"], [{"when": when, "day": when.date()}], ids=["news"])

    (news,) = store.get_by_ids(["news"])

    assert news.metadata == {"when": "2024-05-03T09:30:00+00:00", "day": "2024-05-03"}
    assert [
        document.id for document in store.similarity_search("rows", filter={"day": when.date()})
    ] == ["news"]


def test_an_empty_filter_deletes_nothing(articles: Collection | ServedCollection) -> None:
    store = HummingbitVectorStore(articles)
    with pytest.raises(ValueError, match="filter is empty"):
        store.delete(filter={})
    assert len(articles) == 3


def test_a_script_that_runs_twice_opens_what_is_there(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    documents = [Document(text, metadata=metadata) for text, metadata in ARTICLES * 10]
    for _ in range(2):
        store = HummingbitVectorStore.from_documents(
            documents[:3] + [Document(f"text {n}") for n in range(9)],
            None,
            folder=tmp_path / "data",
            name="articles",
            method="lsh",
        )
        assert len(store.collection) == 12
        assert str(tmp_path / "data") in store.location
        assert str(tmp_path / "data") in caplog.text
        store.collection.close()


def test_documents_are_written_to_a_service_by_name(served: Any, words: SemanticHasher) -> None:
    collection = served.create(words)
    store = HummingbitVectorStore.from_texts(
        ["foo bar", "baz new"], None, client=served.client, name=collection.name
    )
    # Another client may reach the worker that has not read the write yet.
    assert len(ServedCollection(served.client, collection.name)) == 2
    assert served.url in store.location
    with pytest.raises(UnknownCollection, match="nowhere"):
        HummingbitVectorStore(served.client, collection_name="nowhere")
    served.create(words)
    with pytest.raises(ValueError, match="collection"):
        HummingbitVectorStore(served.client)


def test_a_missing_collection_of_a_service_is_created(served: Any, words: SemanticHasher) -> None:
    encoder = served.create(words).name
    documents = [Document("foo bar"), Document("baz new")]
    vectors = DeterministicFakeEmbedding(size=16)
    for _ in range(2):
        store = HummingbitVectorStore.from_documents(
            documents, None, client=served.client, name="made-of-texts", encoder=encoder
        )
        assert len(store.collection) == 2
        assert store.similarity_search("baz", k=1)[0].page_content == "baz new"
        store = HummingbitVectorStore.from_documents(
            documents, vectors, client=served.client, name="made-of-vectors"
        )
        assert len(store.collection) == 2
        assert store.similarity_search("foo bar", k=1)[0].page_content == "foo bar"
    with pytest.raises(ValueError, match="n_bits are of a collection in a folder"):
        HummingbitVectorStore.from_documents(
            documents, None, client=served.client, name="unmade", n_bits=64
        )


def test_a_key_that_may_not_create_a_collection_is_told_what_to_do(served: Any) -> None:
    key = create_key(served.data / "keys.json", "langchain-writer", "write")
    with Client(served.url, key) as client, pytest.raises(ServiceError, match="role admin") as no:
        HummingbitVectorStore.from_texts(["foo"], None, client=client, name="absent")
    assert no.value.status == 403
    assert "absent" in str(no.value)
    assert not exists(served.client, "absent")


def test_a_collection_by_words_alone_is_a_store(by_words: Collection | ServedCollection) -> None:
    store = HummingbitVectorStore(by_words)
    store.add_documents(
        [Document(text, metadata=payload, id=payload["label"]) for text, payload in ARTICLES]
    )

    (first, *_) = store.similarity_search("rows and columns", k=3)
    assert (first.id, first.metadata["year"]) == ("pandas", 2023)
    only = store.similarity_search("rows lines", k=3, filter={"year": 2023})
    assert [document.id for document in only] == ["pandas"]
    relevances = [
        relevance for _, relevance in store.similarity_search_with_relevance_scores("rows", k=3)
    ]
    assert all(0 < relevance <= 1 for relevance in relevances)
    assert store.as_retriever(search_kwargs={"k": 1}).invoke("columns")[0].id == "pandas"
    store.delete(["pandas"])
    assert store.similarity_search("columns", k=1) == []
    with pytest.raises(
        ValueError, match=r"max_marginal_relevance_search: needs codes; .* words alone"
    ):
        store.as_retriever(search_type="mmr").invoke("lines")
    with pytest.raises(ValueError, match=r"embedding: needs codes; .* words alone"):
        store.similarity_search_by_vector([0.5] * 12)
    with pytest.raises((InputError, ServiceError), match="words alone"):
        store.similarity_search("lines", ranking="hybrid")


def test_a_store_by_words_alone_is_made_of_texts(tmp_path: Path, served: Any) -> None:
    for place in ({"folder": tmp_path / "data"}, {"client": served.client}):
        for _ in range(2):
            store = HummingbitVectorStore.from_texts(
                ["foo bar", "baz new"], None, name="made-of-words", encoder=None, **place
            )
            assert (store.collection.n_bits, len(store.collection)) == (0, 2)
            assert store.similarity_search("baz", k=1)[0].page_content == "baz new"


def test_dates_and_numbers_of_numpy_are_values_of_filters(
    articles: Collection | ServedCollection,
) -> None:
    store = HummingbitVectorStore(articles)
    noon = datetime.datetime(2024, 5, 1, 12, tzinfo=datetime.UTC)
    store.add_texts(["bread and jam"], [{"baked": noon, "loaves": np.int64(3)}], ids=["jam"])
    tokyo = datetime.timezone(datetime.timedelta(hours=9))
    for filter_ in (
        {"baked": noon},
        {"baked": noon.astimezone(tokyo)},
        {"field": "baked", "in": [noon.astimezone(tokyo), "2024-05-03"]},
        {"baked": "2024-05-01T12:00:00Z"},
        {"loaves": np.int64(3)},
        {"field": "baked", "gte": noon, "lt": datetime.date(2024, 5, 2)},
    ):
        assert [document.id for document in store.similarity_search("bread", filter=filter_)] == [
            "jam"
        ]


def test_documents_need_no_embedding(tmp_path: Path) -> None:
    documents = [Document(page_content="bread and jam"), Document(page_content="a violin sonata")]
    store = HummingbitVectorStore.from_documents(documents, folder=tmp_path / "d", encoder=None)
    assert store.similarity_search("violin", k=1)[0].page_content == "a violin sonata"


@pytest.mark.parametrize("at_service", [False, True])
def test_equal_texts_of_different_documents_are_all_kept(
    tmp_path: Path, request: pytest.FixtureRequest, at_service: bool, caplog: Any
) -> None:
    place: dict[str, Any] = {"folder": tmp_path / "data"}
    if at_service:
        place = {"client": request.getfixturevalue("served").client}
    footers = [Document("Page footer.", metadata={"file": f"{n}.pdf", "page": 1}) for n in range(3)]
    documents = [*footers, Document("A text."), Document("A text."), footers[0]]
    ids = []
    for run in range(2):
        caplog.clear()
        store = HummingbitVectorStore.from_documents(
            documents, encoder=None, name="footers", **place
        )
        assert len(store.collection) == len(documents)
        found = store.similarity_search("footer", k=9, filter={"file": "1.pdf"})
        assert [document.metadata for document in found] == [{"file": "1.pdf", "page": 1}]
        assert f"wrote 6 texts into {store.location}" in caplog.text
        assert ("replaced 6 documents" in caplog.text) == (run == 1)
        ids.append([stored.id for stored in store.collection.documents()])
        store.collection.close()
    assert ids[0] == ids[1]
    # The order of the keys of metadata and of the documents makes no other ids.
    again = [Document(d.page_content, metadata=dict(sorted(d.metadata.items()))) for d in documents]
    store = HummingbitVectorStore.from_documents(again[::-1], encoder=None, name="footers", **place)
    assert {stored.id for stored in store.collection.documents()} == {*ids[0]}
    store.collection.close()


def test_ids_that_some_documents_lack_are_those_of_their_texts(tmp_path: Path) -> None:
    documents = [Document("a cat", id="a"), Document("a dog")]
    for _ in range(2):
        store = HummingbitVectorStore.from_documents(documents, encoder=None, folder=tmp_path / "d")
        assert len(store.collection) == 2
        assert store.get_by_ids(["a"])[0].page_content == "a cat"
        store.collection.close()
    with pytest.raises(InputError, match="ids: there are 1 for 2 texts"):
        HummingbitVectorStore.from_texts(["a", "b"], ids=["a"], encoder=None, folder=tmp_path / "e")


def test_what_became_of_added_texts_is_logged(tmp_path: Path, caplog: Any) -> None:
    with Collection.create(tmp_path, "notes", encoder=None) as notes:
        store = HummingbitVectorStore(notes)
        caplog.set_level("INFO")
        assert store.add_texts(["a cat", "a dog", "a cow"], ids=["1", "2", "2"]) == ["1", "2", "2"]
        dropped = "dropped 1 document, because a later one has the same id"
        assert f"wrote 2 documents into {store.location}; {dropped}" in caplog.text
        assert [record.levelname for record in caplog.records] == ["WARNING"]
        caplog.clear()
        store.add_texts(["a cat"], ids=["1"])
        assert "replaced 1 document" in caplog.text
        assert [record.levelname for record in caplog.records] == ["INFO"]
