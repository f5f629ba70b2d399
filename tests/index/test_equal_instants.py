"""Dates and times are equal if they are the same instant, wherever payload values are compared."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hummingbit.corpus.document import Document
from hummingbit.index.collection import Collection
from hummingbit.index.facets import parse_facets, parse_sort
from hummingbit.index.filtered import visible
from hummingbit.index.filters import parse_filter
from hummingbit.index.operations import count_values
from hummingbit.index.options import SearchOptions
from hummingbit.index.payloads import PayloadUpdate
from hummingbit.index.records import Query
from hummingbit.index.schema import Description
from hummingbit.index.store.store import Store

NOON = ["2024-05-01T12:00:00Z", "2024-05-01T12:00:00+00:00", "2024-05-01T14:00+02:00"]
NOON += ["2024-05-01 12:00:00.000"]
LATER = ["2024-05-02", "2024-05-02T00:00:00Z"]
OTHER = ["2024-05-01T12:00:00.000001Z", "noon", ""]
IDS = {f"noon{at}" for at in range(len(NOON))}
QUERY = Query(code="0000")


@pytest.fixture(params=[[], ["sent"]], ids=["payloads", "indexed"])
def collection(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Collection]:
    Store.create(tmp_path / "store.sqlite", Description("c", 16), indexed_fields=request.param)
    collection = Collection(Store(tmp_path / "store.sqlite", writable=True))
    values = {f"noon{at}": time for at, time in enumerate(NOON)}
    values |= {f"later{at}": time for at, time in enumerate(LATER)}
    values |= {f"other{at}": time for at, time in enumerate(OTHER)}
    collection.upsert(
        Document(id=id_, code="0000", payload={"sent": value, "n": n})
        for n, (id_, value) in enumerate(values.items())
    )
    yield collection
    collection.close()


def found(collection: Any, condition: dict[str, Any]) -> set[str]:
    filter_ = parse_filter({"field": "sent", **condition})
    (hits,) = collection.find([QUERY], SearchOptions(100, filter=filter_)).hits
    ids = {hit.id for hit in hits}
    assert collection.count(filter_) == len(ids)
    return ids


@pytest.mark.parametrize("time", [*NOON, "2024-05-01T11:00:00-01:00"])
def test_conditions_compare_instants(collection: Collection, time: str) -> None:
    assert found(collection, {"eq": time}) == IDS
    assert found(collection, {"in": ["noon", time]}) == IDS | {"other1"}
    assert found(collection, {"gte": time, "lte": time}) == IDS


def test_dates_stand_for_their_first_instant(collection: Collection) -> None:
    assert found(collection, {"eq": "2024-05-02"}) == {"later0", "later1"}
    assert found(collection, {"eq": "2024-05-01T22:00:00-02:00"}) == {"later0", "later1"}


def test_facets_count_an_instant_once(collection: Collection) -> None:
    collection.update_payloads([PayloadUpdate(ids=("other2",), set={"sent": [NOON[1], NOON[0]]})])
    (sent,) = count_values(collection, parse_facets("sent")).facets
    assert [bucket["count"] for bucket in sent.buckets] == [5, 2, 1, 1]
    assert sent.buckets[0]["value"] in NOON
    assert sent.distinct == 4
    only = parse_filter({"field": "n", "eq": 2})
    (sent,) = count_values(collection, parse_facets("sent"), only).facets
    # The value is one that a counted document has.
    assert sent.buckets == [{"value": NOON[2], "count": 1}]


def test_groups_have_an_instant_once(collection: Collection) -> None:
    (groups,) = collection.search([QUERY], 10, group_by="sent", group_size=10).groups or [[]]
    assert [{hit.id for hit in group.hits} for group in groups][:2] == [IDS, {"later0", "later1"}]
    assert groups[0].id == NOON[0]


def test_equal_instants_are_listed_in_the_order_of_insertion(collection: Collection) -> None:
    ids = [document.id for document in collection.scroll(6, sort=parse_sort("sent:desc")).documents]
    assert ids[2:5] == ["later0", "later1", "other0"]
    page = collection.scroll(2, sort=parse_sort(["sent", "n:desc"]))
    rest = collection.scroll(3, page.next_cursor, sort=parse_sort(["sent", "n:desc"])).documents
    assert [document.id for document in [*page.documents, *rest]] == [
        *("noon3", "noon2", "noon1", "noon0", "other0")
    ]


def test_a_key_of_an_instant_owns_all_documents_of_it(collection: Collection) -> None:
    own = visible(collection, parse_filter({"field": "sent", "eq": NOON[2]}))
    assert own.count() == len(IDS)
    assert own.get("noon0") is not None
    assert own.get("later0") is None
    assert own.delete(["noon1", "later1"]).deleted == 1


def test_an_update_and_a_deletion_find_equal_instants(collection: Collection) -> None:
    filter_ = parse_filter({"field": "sent", "eq": NOON[3]})
    assert collection.update_payloads([PayloadUpdate(filter=filter_, set={"x": 1})]).matched == 4
    assert collection.delete_where(filter_).deleted == 4
