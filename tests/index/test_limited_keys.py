"""A key with a filter: nothing that it is told depends on the documents of other tenants."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hummingbit.corpus.document import Document
from hummingbit.encoder.artifact import write_artifact
from hummingbit.foundation.errors import HummingbitError
from hummingbit.index.answers import answer_to
from hummingbit.index.collection import Collection
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.errors import StoreError, UnknownDocument
from hummingbit.index.facets import parse_facets, parse_sort
from hummingbit.index.filtered import FilteredCollection, owned_by
from hummingbit.index.filters import parse_filter
from hummingbit.index.operations import count_values
from hummingbit.index.options import SearchOptions
from hummingbit.index.passages import Passages
from hummingbit.index.payloads import PayloadUpdate
from hummingbit.index.records import Query
from hummingbit.index.search import SearchResult
from tests.support.encoders import random_texts, text_encoder

if TYPE_CHECKING:
    from hummingbit.index.backend import CollectionBackend

# A fifth of what other properties have: each writes and searches two collections.
EXAMPLES = settings().max_examples // 5
OWN = parse_filter({"field": "tenant", "eq": "own"})
TEXTS = [
    "amber and basalt are found in copper mines, bread and cheese in the kitchen",
    "copper wires carry current; basalt does not",
    "The dunes of amber sand\n\nA long walk. Basalt columns stand in the sea. A matrix has a rank.",
    "granite quarry, apple dough",
    "copper copper copper cheese",
    "a garden of ferns and the old granite wall; a vector and a matrix",
]
WORDS = ["amber", "basalt", "copper", "granite", "xylem", "yarrow", "zinnia", "zqxsecret", "dunes"]
WORDS += ["bread", "matrix", "cheese", "dough", "jam"]
FOREIGN = st.lists(
    st.builds(
        lambda words, payload: {"text": " ".join(words), "payload": payload},
        st.lists(
            st.sampled_from([*WORDS, "copper wires", "und der die das nicht", "ambre", "graniet"]),
            max_size=30,
        ),
        st.fixed_dictionaries({}, optional={"colour": st.sampled_from(["red", "blue", "amber"])}),
    ),
    max_size=25,
)
PHRASES = st.sampled_from(
    [
        '"amber and basalt"',
        '"zqxsecret" copper',
        'copper "xylem yarrow"',
        "copper zqx*",
        "zqx*",
        "cop* -granite",
        "ambr bsalt",
        "xylm copper",
        "zqxsecrt",
        "colour:red copper",
        "year:3 copper",
        "-copper",
        "copper -zqxsecret",
    ]
)
TEXTS_OF_QUERIES = PHRASES | st.lists(
    st.sampled_from([*WORDS, "the", "and", "quarries"]), min_size=1, max_size=4
).map(" ".join)
CONDITIONS = st.sampled_from(
    [
        None,
        {"field": "year", "gte": 2},
        {"field": "tenant", "eq": "other"},
        {"field": "colour", "exists": True},
        {"not": {"field": "year", "eq": 1}},
    ]
)
OPTIONS = st.fixed_dictionaries(
    {"limit": st.integers(1, 8), "with_payload": st.just(True)},
    optional={
        "filter": CONDITIONS,
        "ranking": st.sampled_from(["hamming", "asymmetric", "bm25", "hybrid"]),
        "with_confidence": st.just(True),
        "score_threshold": st.sampled_from([0.2, 0.5]),
        "highlight": st.just(True),
        "with_text": st.just(True),
        "facets": st.just([{"field": "year"}, {"field": "colour"}, {"field": "tenant"}]),
        "facet_depth": st.integers(1, 5),
        "group_by": st.sampled_from(["year", "colour"]),
        "collapse_duplicates": st.integers(0, 8),
        "diversity": st.just(0.5),
        "offset": st.integers(0, 3),
        "hybrid": st.sampled_from([{"codes": 0.1}, {"codes": 2.0}]),
        "rescore": st.sampled_from([{"by": "bm25"}, {"by": "logits"}]),
        "rerank": st.just(True),
        "syntax": st.sampled_from(["query", "plain"]),
    },
)
CALLS: st.SearchStrategy[Callable[[FilteredCollection], Any]] = st.one_of(
    st.builds(lambda text, fields: ("search", text, fields), TEXTS_OF_QUERIES, OPTIONS),
    st.builds(lambda text, fields: ("search", text, fields), TEXTS_OF_QUERIES, OPTIONS),
    st.builds(lambda text: ("encode", text), TEXTS_OF_QUERIES),
    st.builds(lambda text: ("complete", text), st.sampled_from(["zq", "cop", "xy", "amber gr"])),
    st.builds(lambda texts: ("recommend", texts), st.lists(TEXTS_OF_QUERIES, min_size=1)),
    st.builds(lambda condition: ("count", condition), CONDITIONS),
    st.builds(lambda condition: ("facets", condition), CONDITIONS),
    st.builds(lambda condition, by: ("scroll", condition, by), CONDITIONS, st.booleans()),
)


def ask(collection: FilteredCollection, call: Any) -> Any:
    """Return what a call returns, less what says how many writes there were, or its error."""
    kind, *arguments = call
    try:
        return ASKED[kind](collection, *arguments)
    except HummingbitError as error:
        return str(error).replace(repr(collection.name), "it")


def ask_search(collection: FilteredCollection, text: str, fields: dict[str, Any]) -> Any:
    options = SearchOptions.of_request({**fields, "with_cursor": True})

    def search() -> SearchResult:
        return collection.find([Query(text=text)], options)

    answer = answer_to(cast("CollectionBackend", collection), options, search)
    return {**answer, "generation": 0, "took_ms": 0, "next_cursor": None}


def ask_code(collection: FilteredCollection, text: str) -> Any:
    encoded = collection.encode_queries([Query(text=text)])
    return encoded.codes.tolist(), encoded.weights.tolist()


def ask_recommendation(collection: FilteredCollection, texts: list[str]) -> Any:
    examples = [Query(text=text) for text in texts]
    found = collection.recommend(examples, [], SearchOptions(5), "average_vector")
    return [(hit.id, hit.score) for hit in found.hits[0]]


def ask_count(collection: FilteredCollection, condition: Any) -> Any:
    filter_ = condition and parse_filter(condition)
    return collection.count(filter_), collection.explain_no_hits(filter_)


def ask_facets(collection: FilteredCollection, condition: Any) -> Any:
    fields = parse_facets([{"field": name} for name in ("year", "colour", "tenant")])
    return count_values(collection, fields, condition and parse_filter(condition))._replace(
        generation=0
    )


def ask_page(collection: FilteredCollection, condition: Any, is_sorted: bool) -> Any:
    sort = parse_sort([{"field": "year", "order": "desc"}]) if is_sorted else ()
    page = collection.scroll(4, None, condition and parse_filter(condition), sort)
    return [document.id for document in page.documents], page.next_cursor is None


ASKED: dict[str, Callable[..., Any]] = {
    "search": ask_search,
    "encode": ask_code,
    "complete": lambda collection, text: collection.complete(text, 5),
    "recommend": ask_recommendation,
    "count": ask_count,
    "facets": ask_facets,
    "scroll": ask_page,
}


def own_documents() -> list[Document]:
    return [
        Document(id=f"own-{at}", text=text, payload={"tenant": "own", "year": at % 4})
        for at, text in enumerate(TEXTS)
    ]


def other_documents(foreign: list[dict[str, Any]]) -> list[Document]:
    return [
        Document(
            id=f"other-{at}",
            text=fields["text"],
            payload={
                "tenant": "other",
                **({"colour": fields["colour"]} if "colour" in fields else {}),
            },
        )
        for at, fields in enumerate(foreign)
    ]


class Tenants(NamedTuple):
    """The same documents alone in a collection, and among those of another tenant."""

    alone: Collection
    among: Collection


@pytest.fixture(scope="module", params=["words", "passages", "no encoder", "english"])
def tenants(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Tenants]:
    path, kind = tmp_path_factory.mktemp("tenants"), request.param
    write_artifact(path / "encoders" / "words", text_encoder(), random_texts(40))
    made: dict[str, Any] = {"encoder": "words"}
    if kind == "passages":
        made["passages"] = Passages(words=8)
    if kind == "no encoder":
        made = {"n_bits": 0}
    if kind == "english":
        pytest.importorskip("hummingbit_models")
        made = {}
    with DataFolder(path, writable=True) as folder:
        collections = [folder.create_collection(name, **made) for name in ("alone", "among")]
        alone, among = collections
        for collection in (alone, among):
            if kind != "no encoder":
                collection.set_ranking("hybrid")
        alone.upsert(own_documents())
        yield Tenants(alone, among)


@settings(max_examples=EXAMPLES, suppress_health_check=[*HealthCheck])
@given(
    foreign=FOREIGN,
    later=FOREIGN,
    calls=st.lists(CALLS, min_size=1, max_size=6),
    order=st.randoms(use_true_random=False),
)
def test_a_limited_key_sees_a_collection_of_its_own(
    tenants: Tenants, foreign: list[Any], later: list[Any], calls: list[Any], order: Random
) -> None:
    alone, among = (FilteredCollection(collection, OWN) for collection in tenants)
    expected = [ask(alone, call) for call in calls]
    for others in (foreign, later):
        documents = own_documents() + other_documents(others)
        if others is foreign:
            # Those of both tenants are written in turns, the own ones in their order.
            places = sorted(order.sample(range(len(documents)), len(TEXTS)))
            own = iter(documents[: len(TEXTS)])
            rest = iter(documents[len(TEXTS) :])
            documents = [next(own if at in places else rest) for at in range(len(documents))]
            tenants.among.delete_where(parse_filter({"field": "tenant", "exists": True}))
        else:
            tenants.among.delete_where(parse_filter({"field": "tenant", "eq": "other"}))
            documents = documents[len(TEXTS) :]
        for start in range(0, len(documents), 7):
            tenants.among.upsert(documents[start : start + 7])
        assert [ask(among, call) for call in calls] == expected


def test_it_is_what_a_collection_without_others_answers(tenants: Tenants) -> None:
    within = tenants.alone.within(owned_by(OWN))
    for text in ("amber", '"amber and basalt"', "cop*", "ambr bsalt", "copper -granite"):
        for ranking in ("hybrid", "bm25") if tenants.alone.n_bits else ("bm25",):
            options = SearchOptions(5, ranking=ranking, with_confidence=True)
            results = [c.find([Query(text=text)], options) for c in (tenants.alone, within)]
            assert results[0].hits == results[1].hits


def test_documents_of_others_are_never_read(tmp_path: Path) -> None:
    """So an answer takes as long for the id of a large document of theirs as for an unknown one."""
    with DataFolder(tmp_path, writable=True) as folder:
        collection = folder.create_collection("notes", n_bits=16)
        documents = [
            Document(id=f"{tenant}-{at}", code="0f0f", payload={"tenant": tenant, "at": at})
            for tenant in ("own", "other")
            for at in range(3)
        ]
        collection.upsert(documents)
        own = FilteredCollection(collection, OWN)
        assert own.count() == 3
        (path,) = tmp_path.glob("collections/*/*.sqlite")
        # Whoever reads them finds that they are damaged.
        with closing(sqlite3.connect(path)) as database, database:
            damage = "UPDATE documents SET payload = '{damaged' WHERE id LIKE 'other%'"
            assert database.execute(damage).rowcount == 3
        ids, named = ["other-1", "own-1", "none"], parse_filter({"has_id": ["other-1", "own-2"]})
        with pytest.raises(StoreError):
            collection.get("other-1")
        assert [own.get("other-1"), own.get("none")] == [None, None]
        assert [found and found.id for found in own.get_many(ids)] == [None, "own-1", None]
        assert own.existing_ids(["own-1", "none"]) == {"own-1"}
        assert own.count(named) == 1
        assert [found.id for found in own.scroll(5, filter=named).documents] == ["own-2"]
        with pytest.raises(UnknownDocument):
            own.find([Query(id="other-1")], SearchOptions(5))
        found = own.find([Query(code="0f0f")], SearchOptions(5, filter=named))
        assert [hit.id for hit in found.hits[0]] == ["own-2"]
        update = PayloadUpdate.of({"ids": ["other-1", "own-1"], "set": {"seen": True}})
        assert own.update_payloads([update]).updated == 1
        assert own.delete(["other-1", "own-1", "none"]).deleted == 1
        assert own.delete_where(named).deleted == 1
