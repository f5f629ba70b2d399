# ruff: noqa: S608 - queries are made of fixed parts
"""Facets, groups and sorted listings against SQLite and a plain sort as independent answers."""

from __future__ import annotations

import json
import random
import sqlite3
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hummingbit.index.facets as facets_module
from hummingbit.corpus.document import Document
from hummingbit.foundation.errors import InputError
from hummingbit.index.collection import Collection, pages_of
from hummingbit.index.facets import parse_facets, parse_sort
from hummingbit.index.filters import parse_filter
from hummingbit.index.operations import count_values
from hummingbit.index.options import Rescore
from hummingbit.index.payloads import PayloadUpdate
from hummingbit.index.records import Query
from hummingbit.index.schema import Description
from hummingbit.index.store.store import Store
from tests.support.oracles.filters import passes

WORDS = ["moon", "tide", "sea", "wind", "bird", "sand", "ship", "rope"]
TIMES = [
    *("2024-05-01", "2024-05-01T00:00:00Z", "2024-04-30T23:30:00-02:00", "2024-05-02T00:00:00Z"),
    "2023-12-31T23:59:59Z",
]


def opened(path: Path, fields: list[str] | None = None) -> Collection:
    if not path.exists():
        Store.create(path, Description("c", 16), indexed_fields=fields or [])
    return Collection(Store(path, writable=True))


def made(number: int, rng: random.Random) -> Document:
    payload: dict[str, Any] = {"doc": f"d{rng.randrange(1 + number // 3)}", "n": number}
    if rng.random() < 0.9:
        payload["label"] = rng.choice(["a", "b", "c", 1, 1.0, True, None])
    if rng.random() < 0.8:
        payload["price"] = rng.choice([rng.randrange(50), rng.randrange(500) / 10])
        payload["sent"] = rng.choice(TIMES)
    text = " ".join(rng.choices(WORDS, k=3))
    return Document(id=str(number), code=f"{rng.randrange(64):04x}", text=text, payload=payload)


def filled(collection: Collection, size: int, seed: int = 0) -> list[Document]:
    rng = random.Random(seed)  # noqa: S311 - documents
    documents = [made(number, rng) for number in range(size)]
    collection.upsert(documents)
    gone = {str(rng.randrange(size)) for _ in range(size // 10)}
    collection.delete(sorted(gone))
    collection.update_payloads([PayloadUpdate(ids=("1", "2"), set={"label": "b", "price": 7})])
    return [
        Document(id=document.id, code=document.code, text=document.text, payload=document.payload)
        for document in collection.all_documents()
    ]


@pytest.fixture(params=[[], ["label", "price", "sent", "doc"]], ids=["payloads", "indexed"])
def collection(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Collection]:
    collection = opened(tmp_path / "store.sqlite", request.param)
    yield collection
    collection.close()


def in_sqlite(documents: list[Document], query: str) -> list[tuple[Any, ...]]:
    with sqlite3.connect(":memory:") as connection:
        connection.execute("CREATE TABLE d (id TEXT, p TEXT)")
        rows = [(document.id, json.dumps(dict(document.payload))) for document in documents]
        connection.executemany("INSERT INTO d VALUES (?, ?)", rows)
        return connection.execute(query).fetchall()


def test_counts_of_ten_thousand_documents_are_those_of_sqlite(collection: Collection) -> None:
    documents = filled(collection, 10_000)
    condition = {"field": "n", "gte": 2000}
    labels, prices, cheap = count_values(
        collection,
        parse_facets(
            [
                {"field": "label", "limit": 100},
                {"field": "price", "interval": 5},
                {"field": "price", "ranges": [{"lt": 10}, {"gte": 10, "lte": 20.5}]},
            ]
        ),
        parse_filter(condition),
    ).facets
    where = "json_extract(p, '$.n') >= 2000"
    by_label = in_sqlite(
        documents,
        "SELECT json_type(p, '$.label') IN ('true', 'false'), json_extract(p, '$.label') AS v,"
        f" count(*) FROM d WHERE v IS NOT NULL AND {where} GROUP BY 1, v ORDER BY 3 DESC",
    )
    expected = [(bool(value) if truth else value, count) for truth, value, count in by_label]
    assert [(bucket["value"], bucket["count"]) for bucket in labels.buckets] == expected
    assert labels.documents == sum(count for _, count in expected)
    assert labels.documents + labels.missing == collection.count(parse_filter(condition))
    by_price = in_sqlite(
        documents,
        "SELECT CAST(json_extract(p, '$.price') / 5.0 AS INTEGER) * 5 AS b, count(*) FROM d"
        f" WHERE b IS NOT NULL AND {where} GROUP BY b ORDER BY b",
    )
    assert [(bucket["from"], bucket["count"]) for bucket in prices.buckets] == by_price
    ranges = in_sqlite(
        documents,
        f"SELECT sum(v < 10), sum(v BETWEEN 10 AND 20.5) FROM (SELECT json_extract(p, '$.price')"
        f" AS v FROM d WHERE {where})",
    )
    assert tuple(bucket["count"] for bucket in cheap.buckets) == ranges[0]


def test_dates_are_counted_by_the_month_of_their_instant(collection: Collection) -> None:
    documents = [
        Document(id=str(n), code="0000", payload={"sent": value, "tags": [value, "x", "x"]})
        for n, value in enumerate([*TIMES, "no date", 7])
    ]
    collection.upsert(documents)
    (months,) = count_values(
        collection, parse_facets({"field": "sent", "calendar_interval": "month"})
    )[0]
    assert months.buckets == [
        {"from": "2023-12-01T00:00:00Z", "to": "2024-01-01T00:00:00Z", "count": 1},
        {"from": "2024-05-01T00:00:00Z", "to": "2024-06-01T00:00:00Z", "count": 4},
    ]
    tags = count_values(collection, parse_facets("tags")).facets[0]
    assert (tags.buckets[0], tags.documents) == ({"value": "x", "count": 7}, 7)


@pytest.mark.parametrize("ranking", ["hamming", "asymmetric", "bm25", "hybrid"])
@pytest.mark.parametrize("filtered", [False, True])
def test_groups_are_those_of_the_whole_ranking(
    collection: Collection, ranking: str, filtered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(facets_module, "MIN_RANKED", 4)
    filled(collection, 600)
    query = Query(code="0007", text="moon tide" if ranking in {"bm25", "hybrid"} else None)
    condition = parse_filter({"field": "n", "gte": 200}) if filtered else None
    options: dict[str, Any] = {"ranking": ranking, "filter": condition, "with_payload": True}
    for field, limit, size in (("doc", 5, 3), ("label", 2, 4), ("label", 9, 90), ("none", 3, 3)):
        whole = collection.search([query], 1000, **options).hits[0]
        expected: dict[Any, list[Any]] = {}
        for hit in whole:
            value = (hit.payload or {}).get(field)
            if value is None:
                continue
            key = (isinstance(value, bool), value)
            if key in expected or len(expected) < limit:
                expected.setdefault(key, []).append((hit.id, hit.score))
        result = collection.search([query], limit, group_by=field, group_size=size, **options)
        assert result.hits == [[]]
        assert result.groups is not None
        found = [
            ((isinstance(group.id, bool), group.id), [(hit.id, hit.score) for hit in group.hits])
            for group in result.groups[0]
        ]
        assert found == [(key, hits[:size]) for key, hits in expected.items()]


SEARCHES: dict[str, tuple[Query, dict[str, Any]]] = {
    "near a code": (Query(code="0007"), {"ranking": "hamming"}),
    "within a radius": (Query(code="0007"), {"ranking": "hamming", "radius": 3}),
    "bm25": (Query(text="moon"), {"ranking": "bm25"}),
    "hybrid": (Query(code="0007", text="moon tide"), {"ranking": "hybrid"}),
    "hybrid, unknown words": (Query(code="0007", text="zzzq"), {"ranking": "hybrid"}),
    "bm25, unknown words": (Query(text="zzzq"), {"ranking": "bm25"}),
    "collapsed": (Query(text="moon"), {"ranking": "bm25", "collapse_duplicates": 2}),
    "rescored": (
        Query(code="0007", text="moon"),
        {"ranking": "hamming", "rescore": Rescore("bm25"), "diversity": 0.5},
    ),
    "filtered": (
        Query(code="0007", text="moon"),
        {"ranking": "hybrid", "filter": parse_filter({"field": "n", "lt": 100})},
    ),
}
OVER = {
    "near a code": "best",
    "within a radius": "found",
    "hybrid, unknown words": "best",
    "rescored": "best",
}


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("depth", [None, 20])
def test_facets_of_a_search_say_what_they_count(
    collection: Collection, monkeypatch: pytest.MonkeyPatch, search: str, depth: int | None
) -> None:
    monkeypatch.setattr("hummingbit.index.collection.FACET_DEPTH", 30)
    documents = filled(collection, 300)
    query, options = SEARCHES[search]
    over = "best" if depth else OVER.get(search, "words")
    if over == "words":
        words, condition = set((query.text or "").split()), options.get("filter")
        counted = [
            document.payload
            for document in documents
            if words & set((document.text or "").split())
            and (condition is None or condition.matches(document.payload))
        ]
    else:
        limit = (depth or 30) if over == "best" else 1000
        options_of_all = options | {"rescore": None, "diversity": None}
        whole = collection.search([query], limit, with_payload=True, **options_of_all).hits[0]
        counted = [hit.payload or {} for hit in whole]
    asked = parse_facets({"field": "label", "limit": 100})
    result = collection.search([query], 1, facets=asked, facet_depth=depth, **options)
    assert result.facets is not None
    assert [*result.facets_over] == [over]
    ((labels,),) = result.facets
    # To Python, True equals 1.
    values = [repr(payload["label"]) for payload in counted if payload.get("label") is not None]
    expected = Counter(value.replace("1.0", "1") for value in values)
    assert Counter({repr(b["value"]): b["count"] for b in labels.buckets}) == expected
    assert (labels.documents, labels.missing) == (len(values), len(counted) - len(values))


def test_facets_of_a_query_of_conditions_alone_count_all_that_match(collection: Collection) -> None:
    documents = filled(collection, 100)
    query = Query(text='label:"b"')
    result = collection.search([query], 1, ranking="bm25", facets=parse_facets("label"))
    n_matching = sum(document.payload.get("label") == "b" for document in documents)
    assert result.facets is not None
    assert result.facets[0][0].buckets == [{"value": "b", "count": n_matching}]
    assert result.facets[0][0].missing == 0
    assert [*result.facets_over] == ["found"]


def place(value: Any) -> tuple[Any, ...]:
    """Return the key by which values are sorted, written anew."""
    if isinstance(value, bool):
        return (0, value)
    if isinstance(value, int | float):
        return (1, value)
    try:
        time = datetime.fromisoformat(value)
    except ValueError:
        return (3, value)
    return (2, time if time.tzinfo else time.replace(tzinfo=UTC))


SORTS = st.lists(
    st.tuples(st.sampled_from(["label", "price", "sent", "doc"]), st.sampled_from(["asc", "desc"])),
    min_size=1,
    max_size=3,
    unique_by=lambda item: item[0],
)


@pytest.mark.parametrize(
    ("given_as", "right"),
    [
        ("-price", "price:desc"),
        ("+price", "price:asc"),
        ("price desc", "price:desc"),
        ("price:DESC", "price:desc"),
        ("price:ascending", "price:asc"),
        ({"field": "-price"}, "price:desc"),
    ],
)
def test_an_order_in_the_form_of_others_is_refused_and_the_error_has_ours(
    collection: Collection, given_as: Any, right: str
) -> None:
    filled(collection, 30)
    with pytest.raises(InputError, match=rf"no document has; .*'{right}'"):
        collection.scroll(10, sort=parse_sort([given_as]))


def test_a_field_that_begins_with_a_sign_can_be_sorted_by(collection: Collection) -> None:
    collection.upsert([Document(str(n), code="0000", payload={"-n": -n}) for n in range(3)])
    listed = collection.scroll(10, sort=parse_sort(["-n"])).documents
    assert [document.id for document in listed] == ["2", "1", "0"]


def test_a_listing_by_a_field_of_no_document_is_in_the_order_of_insertion(
    collection: Collection,
) -> None:
    documents = filled(collection, 30)
    listed = collection.scroll(100, sort=parse_sort(["none:desc"])).documents
    assert [document.id for document in listed] == [document.id for document in documents]


@given(SORTS, st.integers(1, 40), st.integers(0, 99))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
def test_a_sorted_listing_is_a_stable_sort_with_missing_values_last(
    tmp_path_factory: pytest.TempPathFactory, sort: list[Any], limit: int, seed: int
) -> None:
    collection = opened(tmp_path_factory.mktemp("c") / "store.sqlite", ["label", "price"])
    try:
        expected = filled(collection, 80, seed)
        for field, order in reversed(sort):
            present = [document for document in expected if document.payload.get(field) is not None]
            missing = [document for document in expected if document.payload.get(field) is None]
            present.sort(key=lambda one: place(one.payload[field]), reverse=order == "desc")
            expected = present + missing
        fields = parse_sort([f"{field}:{order}" for field, order in sort])
        found: list[str] = []
        cursor = None
        while True:
            page = collection.scroll(limit, cursor, None, fields)
            found += [document.id for document in page.documents]
            collection.upsert([Document(id=f"late{len(found)}", code="0000", payload={"label": 0})])
            cursor = page.next_cursor
            if cursor is None:
                break
        assert found == [document.id for document in expected]
    finally:
        collection.close()


def test_a_column_follows_writes(tmp_path: Path) -> None:
    collection = opened(tmp_path / "store.sqlite", ["label"])
    reader = Collection(Store(tmp_path / "store.sqlite", writable=False))
    try:
        rng = random.Random(1)  # noqa: S311 - documents
        for number in range(40):
            collection.upsert([made(rng.randrange(20), rng) for _ in range(3)])
            change = {"label": rng.choice(["z", ["y", "z"], None])}
            collection.update_payloads([PayloadUpdate(ids=(str(rng.randrange(20)),), set=change)])
            if number % 5 == 0:
                collection.delete([str(rng.randrange(20))])
            reader.follow()
            stored = collection.all_documents()
            for item in (collection, reader):
                (labels,) = count_values(item, parse_facets({"field": "label", "limit": 50})).facets
                held = [doc.payload.get("label") for doc in stored]
                held = [value for value in held if value is not None]
                assert labels.documents == len(held)
                zs = sum(
                    value == "z" or (isinstance(value, list) and "z" in value) for value in held
                )
                assert {"value": "z", "count": zs} in labels.buckets or zs == 0
    finally:
        reader.close()
        collection.close()


def test_pages_list_everything_once(collection: Collection) -> None:
    filled(collection, 50)
    pages = pages_of(collection, None, parse_sort("price:desc"))
    listed = [document.id for page in pages for document in page]
    assert sorted(listed) == sorted(document.id for document in collection.all_documents())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"group_by": ""}, "group_by: field is ''"),
        ({"group_by": "a", "group_size": 0}, "group_size: is 0; it must be from 1 to 100"),
        ({"group_by": "a", "offset": 1}, "offset: cannot be combined with group_by"),
        ({"group_by": "a", "rerank": True}, "rerank: cannot be combined with group_by"),
        ({"facets": parse_facets("a"), "facet_depth": 0}, "facet_depth: is 0; it must be from 1"),
    ],
)
def test_what_cannot_be_grouped_is_refused(
    collection: Collection, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError) as caught:
        collection.search([Query(code="0000")], 10, **options)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("facets", "message"),
    [
        ([], "facets: has 0 facets; it must have 1 to 16"),
        ({"limit": 3}, "facets: has {'limit': 3}; a facet must have a field"),
        ({"field": "a", "interval": 0}, "facets: interval is 0; it must be above 0"),
        ({"field": "a", "calendar_interval": "era"}, "facets: calendar_interval is 'era'; it must"),
        ({"field": "a", "ranges": [{}]}, "facets: ranges has {}; a range must have some of gt"),
        ({"field": "a", "interval": 1, "ranges": [{"lt": 1}]}, "facets: have several of interval"),
    ],
)
def test_what_is_no_facet_is_refused(facets: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_facets(facets)
    assert str(caught.value).startswith(message)


def test_groups_follow_payload_updates_of_their_own_field_and_of_others(
    collection: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(collection, 400)
    query = Query(code="0007")

    def groups() -> list[tuple[Any, list[str]]]:
        (found,) = collection.search([query], 5, group_by="doc", group_size=3).groups or [[]]
        return [(one.id, [hit.id for hit in one.hits]) for one in found]

    def expected() -> list[tuple[Any, list[str]]]:
        whole = collection.search([query], 1000, with_payload=True).hits[0]
        by_value: dict[Any, list[str]] = {}
        for hit in whole:
            value = (hit.payload or {}).get("doc")
            if value is not None and (value in by_value or len(by_value) < 5):
                by_value.setdefault(value, []).append(hit.id)
        return [(value, ids[:3]) for value, ids in by_value.items()]

    assert groups() == expected()
    best = tuple(ids[0] for _, ids in groups())
    for update in (
        PayloadUpdate(ids=best, set={"seen": 1}),
        PayloadUpdate(ids=best[:2], set={"doc": "other"}),
        PayloadUpdate(ids=best[2:3], remove=("doc",)),
        PayloadUpdate(filter=parse_filter({"field": "n", "lt": 300}), set={"doc": "many"}),
    ):
        collection.update_payloads([update])
        assert groups() == expected()
    collection.delete(best)
    rng = random.Random(1)  # noqa: S311 - documents
    collection.upsert([made(number, rng) for number in range(400, 420)])
    assert groups() == expected()


KEYS = ["a", "a b", "é", 'q"x', "b\\c", "n\n", "$", "[0]"]
SCALARS = st.one_of(
    st.booleans(),
    st.integers(-(2**53), 2**53),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["", "null", "a,b", 'say "x"', "\x00", "\u2028", "ü", "1", "true"]),
)
VALUES = st.one_of(st.none(), SCALARS, st.lists(SCALARS, max_size=3), st.just({"a": 1}))


@given(st.lists(st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=4), max_size=12))
@settings(max_examples=60, deadline=None)
def test_values_of_any_field_are_those_of_the_payloads(payloads: list[dict[str, Any]]) -> None:
    with TemporaryDirectory() as folder:
        collection = opened(Path(folder) / "store.sqlite")
        collection.upsert(
            Document(id=str(n), code="0000", payload=payload) for n, payload in enumerate(payloads)
        )
        for key in KEYS:
            expected: Counter[tuple[bool, Any]] = Counter()
            for payload in payloads:
                value = payload.get(key)
                held = value if isinstance(value, list) else [value]
                scalars = [x for x in held if x is not None and not isinstance(x, dict)]
                expected.update({(isinstance(x, bool), x) for x in scalars})
            (counted,) = count_values(
                collection, parse_facets({"field": key, "limit": 1000})
            ).facets
            found = {
                (isinstance(bucket["value"], bool), bucket["value"]): bucket["count"]
                for bucket in counted.buckets
            }
            assert found == dict(expected)
        collection.close()


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_filters_on_fields_without_an_index_follow_updates(data: st.DataObject) -> None:
    scalars = st.sampled_from([0, 1, 1.0, 2.5, True, False, "a", "b", "2024-05-01", "2024-05-02"])
    values = st.one_of(scalars, st.lists(scalars, max_size=2), st.none())
    conditions = st.one_of(
        st.builds(lambda x: {"field": "a", "eq": x}, scalars),
        st.builds(lambda x: {"field": "a", "in": x}, st.lists(scalars, min_size=1, max_size=3)),
        st.sampled_from(
            [
                {"field": "a", "gte": 1},
                {"field": "a", "lt": "b"},
                {"field": "a", "gt": "2024-05-01T12:00:00Z"},
            ]
        ),
        st.just({"or": [{"field": "a", "eq": 1}, {"field": "b", "eq": 2}]}),
        st.just({"and": [{"field": "a", "gt": 0}, {"field": "b", "lte": 2}]}),
        st.just({"not": {"field": "a", "eq": 1}}),
    )
    with TemporaryDirectory() as folder:
        collection = opened(Path(folder) / "store.sqlite")
        payloads = {
            str(n): {"a": data.draw(values), "b": n % 4}
            for n in range(data.draw(st.integers(1, 9)))
        }
        collection.upsert(
            Document(id=i, code="0000", payload=payload) for i, payload in payloads.items()
        )
        for _ in range(data.draw(st.integers(1, 6))):
            record, marked = data.draw(conditions), data.draw(values)
            filter_ = parse_filter(record)
            expected = {i for i, payload in payloads.items() if passes(payload, record)}
            (hits,) = collection.search([Query(code="0000")], 100, filter=filter_).hits
            assert {hit.id for hit in hits} == expected
            update = PayloadUpdate(filter=filter_, set={"a": marked})
            assert collection.update_payloads([update]).matched == len(expected)
            for i in expected:
                payloads[i] = {**payloads[i], "a": marked}
        collection.close()


PATHS = ["a", "a.b", "a.b.c", "b", "b.c", "x.a"]
OBJECTS = st.recursive(
    st.sampled_from([1, 2, "u", None]),
    lambda inner: st.one_of(
        st.dictionaries(st.sampled_from(["a", "b", "c", "a.b", "b.c"]), inner, max_size=2),
        st.lists(inner, max_size=2),
    ),
    max_leaves=5,
)
PATCHES = st.dictionaries(st.sampled_from(["a", "b", "a.b", "x"]), OBJECTS, max_size=2)


@given(
    st.lists(PATCHES, min_size=1, max_size=4),
    st.lists(
        st.one_of(
            st.builds(lambda x: {"set": x}, PATCHES),
            st.builds(lambda x: {"merge": x}, PATCHES),
            st.builds(lambda x: {"remove": (x,)}, st.sampled_from(PATHS)),
            st.builds(lambda x: {"overwrite": x}, PATCHES),
        ),
        min_size=1,
        max_size=3,
    ),
)
@settings(max_examples=60, deadline=None)
def test_indexes_of_fields_follow_any_update(
    payloads: list[dict[str, Any]], updates: list[dict[str, Any]]
) -> None:
    with TemporaryDirectory() as folder:
        collection = opened(Path(folder) / "store.sqlite", PATHS)
        ids = tuple(str(n) for n in range(len(payloads)))
        collection.upsert(
            Document(id=i, code="0000", payload=payload)
            for i, payload in zip(ids, payloads, strict=True)
        )
        for update in updates:
            collection.update_payloads([PayloadUpdate(ids=ids, **update)])
            stored = {document.id: document.payload for document in collection.all_documents()}
            for record in [{"field": path, "in": [1, "u"]} for path in PATHS]:
                expected = {i for i, item in stored.items() if passes(item, record)}
                hits = collection.search([Query(code="0000")], 9, filter=parse_filter(record)).hits
                assert {hit.id for hit in hits[0]} == expected
        collection.close()
