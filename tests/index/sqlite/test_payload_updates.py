"""Changes of payloads beside searches, filters and indexes, against a model of dictionaries."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hummingbit.index.store.fields as field_indexes
from hummingbit.corpus.document import Document
from hummingbit.foundation.errors import InputError
from hummingbit.index.collection import Collection
from hummingbit.index.errors import GenerationChanged
from hummingbit.index.filters import parse_filter
from hummingbit.index.payloads import PayloadUpdate, select_fields
from hummingbit.index.records import Query
from hummingbit.index.schema import Description
from hummingbit.index.store.store import Store
from tests.support.oracles.filters import FILTERS, PAYLOADS, passes

IDS = [str(number) for number in range(12)]
FIELDS = ["a", "b", "a.b"]


@pytest.fixture(autouse=True)
def _short_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(field_indexes, "DOCUMENTS_AT_ONCE", 4)
    monkeypatch.setattr(field_indexes, "MAX_CHANGES", 4)


def opened(path: Path, fields: list[str]) -> Collection:
    if not path.exists():
        Store.create(path, Description("c", 8), indexed_fields=fields)
    return Collection(Store(path, writable=True))


@pytest.fixture
def collection(tmp_path: Path) -> Iterator[Collection]:
    collection = opened(tmp_path / "store.sqlite", ["year", "tags"])
    payloads = [
        {"year": 2000 + n, "tags": ["x"], "by": {"name": "Ann", "age": n}} for n in range(9)
    ]
    documents = [
        Document(id=str(n), code="00", payload=payload) for n, payload in enumerate(payloads)
    ]
    collection.upsert(documents)
    yield collection
    collection.close()


def ids(collection: Collection, condition: dict[str, Any]) -> list[str]:
    hits = collection.search([Query(code="00")], 100, filter=parse_filter(condition)).hits[0]
    return [hit.id for hit in hits]


def update(collection: Collection, **fields: Any) -> tuple[int, int, int]:
    return collection.update_payloads([PayloadUpdate.of(fields)])


def test_what_is_set_is_found_by_filters_and_what_it_replaced_is_not(
    collection: Collection,
) -> None:
    before = collection.get("3")
    assert ids(collection, {"field": "year", "eq": 2003}) == ["3"]
    assert update(collection, ids=["3", "none"], set={"year": 1066, "seen": True}) == (1, 1, 2)
    assert ids(collection, {"field": "year", "eq": 2003}) == []
    assert ids(collection, {"field": "year", "eq": 1066}) == ["3"]
    assert ids(collection, {"field": "seen", "eq": True}) == ["3"]
    after = collection.get("3")
    assert before is not None
    assert after is not None
    assert (after.row, after.code, after.text) == (before.row, before.code, before.text)
    assert after.payload == {**before.payload, "year": 1066, "seen": True}
    assert collection.verify().problems == []


def test_an_update_by_a_filter_changes_all_that_match_and_counts_what_changed(
    collection: Collection,
) -> None:
    condition = {"field": "year", "gte": 2005}
    assert update(collection, filter=condition, set={"tags": ["new"]}).updated == 4  # type: ignore[attr-defined]
    assert ids(collection, {"field": "tags", "eq": "new"}) == ["5", "6", "7", "8"]
    again = update(collection, filter=condition, set={"tags": ["new"]})
    assert again == (4, 0, 2)


@pytest.mark.parametrize("searched", [False, True], ids=["", "after a search with the filter"])
def test_later_updates_see_what_earlier_ones_changed_and_count_no_deleted_document(
    collection: Collection, *, searched: bool
) -> None:
    collection.delete(["1", "2"])
    late, early = ({"field": "year", name: 2004} for name in ("gte", "lt"))
    if searched:
        assert ids(collection, early) == ["0", "3"]
    updates = [
        PayloadUpdate.of({"filter": late, "set": {"year": 1990}}),
        PayloadUpdate.of({"filter": early, "set": {"old": True}}),
    ]
    assert collection.update_payloads(updates[:1]).matched == 5
    collection.update_payloads([PayloadUpdate.of({"ids": ["4"], "set": {"year": 2020}})])
    result = collection.update_payloads([*updates, *updates[:1]])
    assert (result.matched, result.updated) == (7, 7)
    assert ids(collection, {"field": "old", "eq": True}) == ["0", "3", "4", "5", "6", "7", "8"]
    assert ids(collection, late) == []
    assert collection.verify().problems == []


def test_merge_goes_into_objects_and_null_removes(collection: Collection) -> None:
    update(collection, ids=["1"], merge={"by": {"age": None, "town": "Brno"}, "tags": None})
    stored = collection.get("1")
    assert stored is not None
    assert stored.payload == {"year": 2001, "by": {"name": "Ann", "town": "Brno"}}
    update(collection, ids=["1"], remove=["by.name", "absent"])
    update(collection, ids=["2"], overwrite={"only": 1})
    kept = [document.payload for document in collection.get_many(["1", "2"]) if document]
    assert kept == [{"year": 2001, "by": {"town": "Brno"}}, {"only": 1}]


def test_several_updates_are_one_generation_or_none(collection: Collection) -> None:
    first = PayloadUpdate(ids=("0",), set={"year": 1})
    second = PayloadUpdate(filter=parse_filter({"field": "year", "eq": 1}), set={"found": True})
    assert collection.update_payloads([first, second], if_generation=1) == (1, 1, 2)
    with pytest.raises(GenerationChanged, match="is at generation 2, not 1; nothing was written"):
        collection.update_payloads([first], if_generation=1)
    assert collection.generation == 2


def test_a_reader_in_another_process_finds_what_was_changed(
    collection: Collection, tmp_path: Path
) -> None:
    reader = Collection(Store(tmp_path / "store.sqlite", writable=False))
    try:
        unindexed = {"field": "by.name", "eq": "Bo"}
        assert ids(reader, unindexed) == []
        for number in range(7):  # more than the list of changes reaches back
            update(collection, ids=[str(number)], merge={"by": {"name": "Bo"}})
            if number % 3 == 0:
                reader.follow()
                assert ids(reader, unindexed) == IDS[: number + 1]
        reader.follow()
        assert ids(reader, unindexed) == IDS[:7]
        hits = reader.search([Query(code="00")], 9, with_payload=True).hits[0]
        assert [(hit.payload or {})["by"]["name"] for hit in hits] == ["Bo"] * 7 + ["Ann"] * 2
    finally:
        reader.close()


def test_a_hit_never_shows_a_payload_of_another_generation(collection: Collection) -> None:
    reader = Collection(Store(collection.store.path, writable=False))
    try:
        assert ids(reader, {"field": "year", "lt": 2003}) == ["0", "1", "2"]
        update(collection, ids=["1"], set={"year": 2050})
        condition = parse_filter({"field": "year", "lt": 2003})
        result = reader.search([Query(code="00")], 9, with_payload=True, filter=condition)
        assert [(hit.payload or {})["year"] for hit in result.hits[0]] == [2000, 2002]
        assert result.generation == 2
    finally:
        reader.close()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"set": {"a": 1}}, "ids: is missing; give ids or a filter"),
        (
            {"ids": ["a"], "filter": {"has_id": ["a"]}, "set": {"a": 1}},
            "ids: cannot be combined with filter; give one of the two",
        ),
        ({"ids": ["a"]}, "set: is missing; give set, merge, remove, overwrite or expires_at"),
        ({"ids": ["a"], "set": {"a": float("nan")}}, "set: cannot be written as JSON"),
        ({"ids": ["a"], "merge": [1]}, "merge: is [1]; it must be an object"),
        ({"ids": ["a"], "remove": [""]}, "remove: has ''; a field must be 1 to 256"),
        ({"ids": ["a"], "put": 1}, "updates: has no field 'put'"),
    ],
)
def test_what_is_no_update_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        PayloadUpdate.of(fields)
    assert str(caught.value).startswith(message)


def test_fields_of_a_payload_come_with_what_holds_them() -> None:
    payload = {"a": 1, "b": {"c": 2, "d": 3}, "b.c": 4, "e": [{"f": 1, "g": 2}, {"f": 3}, 7]}
    assert select_fields(payload, ["a", "absent"]) == {"a": 1}
    assert select_fields(payload, ["b.c"]) == {"b.c": 4, "b": {"c": 2}}
    assert select_fields(payload, ["e.f", "e.g"]) == {"e": [{"f": 1, "g": 2}, {"f": 3}, {}]}


CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "set": PAYLOADS,
        "merge": PAYLOADS,
        "remove": st.lists(st.sampled_from(["a", "b", "a.b", "é"]), min_size=1, max_size=2),
        "overwrite": PAYLOADS,
    },
).filter(bool)
WHICH = st.one_of(
    st.fixed_dictionaries({"ids": st.lists(st.sampled_from(IDS), max_size=5)}),
    st.fixed_dictionaries({"filter": FILTERS}),
)
STEPS = st.lists(
    st.one_of(
        st.builds(lambda which, change: ("update", {**which, **change}), WHICH, CHANGES),
        st.tuples(st.just("upsert"), st.dictionaries(st.sampled_from(IDS), PAYLOADS, max_size=4)),
        st.tuples(st.just("delete"), st.sets(st.sampled_from(IDS), max_size=2)),
    ),
    max_size=8,
)


@given(STEPS, st.lists(FILTERS, min_size=1, max_size=3))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
def test_filters_find_what_the_payloads_say_after_any_changes(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Any], asked: list[Any]
) -> None:
    path = tmp_path_factory.mktemp("c") / "store.sqlite"
    collection = opened(path, FIELDS)
    reader = Collection(Store(path, writable=False))
    try:
        documents = [Document(id=id_, code="00", payload={"a": id_}) for id_ in IDS[:9]]
        collection.upsert(documents)
        model: dict[str, Any] = {document.id: dict(document.payload) for document in documents}
        for kind, step in steps:
            if kind == "upsert":
                collection.upsert([Document(id=i, code="00", payload=p) for i, p in step.items()])
            elif kind == "delete":
                collection.delete(sorted(step))
            else:
                change = PayloadUpdate.of(step)
                wanted = [
                    document.id
                    for document in collection.all_documents()
                    if document.id in step.get("ids", ())
                    or ("filter" in step and passes(document.payload, step["filter"]))
                ]
                assert collection.update_payloads([change]).matched == len(wanted)
                for id_ in wanted:
                    model[id_] = change.apply(model[id_])
            stored = {document.id: document.payload for document in collection.all_documents()}
            if kind == "update":
                assert stored == model
            model = {id_: dict(payload) for id_, payload in stored.items()}
            reader.follow()
            for condition in asked:
                right = {id_ for id_, item in model.items() if passes(item, condition)}
                assert set(ids(collection, condition)) == right
                assert set(ids(reader, condition)) == right
                assert collection.count(parse_filter(condition)) == len(right)
        assert collection.verify().problems == []
    finally:
        reader.close()
        collection.close()
