"""What searches, filters and payload updates do on Milvus as in the data folder, or refuse."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hummingbit.corpus.document import Document
from hummingbit.foundation.errors import InputError
from hummingbit.index.collection import Collection
from hummingbit.index.facets import parse_facets, parse_sort
from hummingbit.index.filters import parse_filter
from hummingbit.index.options import SearchOptions
from hummingbit.index.payloads import PayloadUpdate
from hummingbit.index.records import Query
from hummingbit.index.schema import Description
from hummingbit.index.store.store import Store

pytest.importorskip("pymilvus", reason="pymilvus is not installed")

if TYPE_CHECKING:
    from hummingbit.index.backend import CollectionBackend
    from hummingbit.index.milvus.folder import MilvusFolder

PAYLOADS: list[dict[str, Any]] = [
    {"name": "numpy", "tags": ["array", "math"], "seen": "2024-05-01T10:00:00+02:00"},
    {"name": "numba", "tags": ["compiler"], "seen": "2024-05-01T09:00:00Z"},
    {"name": "scipy", "tags": [], "by": {"name": "Ann"}, "seen": "2024-06-30"},
    {"name": None, "tags": ["array"]},
    {"tags": None, "by": {"name": "Bob", "age": 7}},
    {"name": "num%py", "by": {"age": 8}},
]
DOCUMENTS = [
    Document(id=f"d{at}", code=f"{at:04x}", payload=payload) for at, payload in enumerate(PAYLOADS)
]
FILTERS: list[dict[str, Any]] = [
    {"field": "name", "prefix": "num"},
    {"field": "name", "prefix": "num%"},
    {"field": "tags", "prefix": "arr"},
    {"field": "name", "contains": "p"},
    {"field": "by.name", "contains": "nn"},
    {"field": "name", "is_null": True},
    {"field": "name", "is_null": False},
    {"field": "name", "is_missing": True},
    {"field": "tags", "is_missing": False},
    {"field": "name", "exists": True},
    {"field": "seen", "gte": "2024-05-01T08:30:00Z", "lt": "2024-06-01"},
    {"field": "by.age", "gt": 7},
    {"has_id": ["d1", "d5", "none"]},
    {"and": [{"has_id": ["d0", "d1", "d2"]}, {"not": {"field": "name", "prefix": "numb"}}]},
]


@pytest.fixture
def on_milvus(milvus_folder: MilvusFolder) -> CollectionBackend:
    known = milvus_folder.collections()
    if "compared" not in known:
        milvus_folder.create_collection("compared", n_bits=16)
    collection = milvus_folder.collection("compared")
    collection.delete([document.id for document in collection.all_documents()])
    collection.upsert(DOCUMENTS)
    return collection


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Collection]:
    path = tmp_path / "store.sqlite"
    Store.create(path, Description("compared", 16))
    collection = Collection(Store(path, writable=True))
    collection.upsert(DOCUMENTS)
    yield collection
    collection.close()


def test_filters_find_the_same_documents(on_milvus: CollectionBackend, local: Collection) -> None:
    for item in FILTERS:
        filter_ = parse_filter(item)
        pairs = [
            (
                [hit.id for hit in some.search([Query(code="0000")], 10, filter=filter_).hits[0]],
                [document.id for document in some.scroll(10, filter=filter_).documents],
                some.count(filter_),
            )
            for some in (on_milvus, local)
        ]
        assert pairs[0] == pairs[1], item
        assert 0 < pairs[0][2] < len(DOCUMENTS), item


@pytest.mark.parametrize("where", [{"ids": ["d0", "d4", "none"]}, *FILTERS], ids=str)
def test_payload_updates_leave_the_same_payloads(
    on_milvus: CollectionBackend, local: Collection, where: dict[str, Any]
) -> None:
    selected = where if "ids" in where else {"filter": where}
    updates = [
        PayloadUpdate.of({**selected, "set": {"checked": True, "name": "new"}}),
        PayloadUpdate.of({"filter": {"field": "checked", "eq": True}, "merge": {"by": {"age": 9}}}),
        PayloadUpdate.of({"filter": {"field": "by.age", "eq": 9}, "remove": ["tags", "by.name"]}),
        PayloadUpdate.of({"ids": ["d3"], "overwrite": {"only": [1]}}),
    ]
    results = [some.update_payloads(updates)[:2] for some in (on_milvus, local)]
    assert results[0] == results[1]
    payloads = [
        {document.id: dict(document.payload) for document in some.all_documents()}
        for some in (on_milvus, local)
    ]
    assert payloads[0] == payloads[1]
    assert payloads[0]["d3"] == {"only": [1]}


SEARCH = [Query(code="0000")]
REFUSED: dict[str, Callable[[Any], object]] = {
    "facets": lambda on: on.ask("facets", {"facets": ["name"]}),
    "facets ": lambda on: on.search(SEARCH, 3, facets=tuple(parse_facets(["name"]))),
    "group_by": lambda on: on.search(SEARCH, 3, group_by="name"),
    "sort": lambda on: on.scroll(3, sort=parse_sort(["name"])),
    "diversity": lambda on: on.search(SEARCH, 3, diversity=0.5),
    "collapse_duplicates": lambda on: on.search(SEARCH, 3, collapse_duplicates=1),
    "collection": lambda on: on.recommend(SEARCH, [], SearchOptions(3), "best_score"),
    "ranking": lambda on: on.search(SEARCH, 3, ranking="asymmetric"),
    "text": lambda on: on.complete("num", 3),
    "indexed_fields": lambda on: on.set_indexed_fields(["name"]),
}


@pytest.mark.parametrize("field", REFUSED)
def test_what_milvus_does_not_have_is_refused_by_name(
    on_milvus: CollectionBackend, local: Collection, field: str
) -> None:
    with pytest.raises(InputError, match="Milvus") as refused:
        REFUSED[field](on_milvus)
    assert refused.value.field == field.strip()
    if field != "text":  # the documents here have no texts, whose words complete a text
        REFUSED[field](local)
