"""Payload fields, indexed or not: the documents that match, whatever was written and lost."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hummingbit.corpus.document import Document
from hummingbit.foundation.errors import InputError
from hummingbit.index.collection import Collection
from hummingbit.index.facets import parse_facets
from hummingbit.index.filters import Filter, check_indexed_fields, parse_filter
from hummingbit.index.operations import count_values
from hummingbit.index.payloads import PayloadUpdate
from hummingbit.index.records import Query
from hummingbit.index.schema import Description, payload_to_json
from hummingbit.index.store import columns, fields, store
from hummingbit.index.store.connections import in_chunks
from hummingbit.index.store.fields import PayloadFields, make_earlier_tables
from hummingbit.index.store.store import Store
from tests.support.oracles.filters import FILTERS, PAYLOADS

FIELDS = ["a", "b", "é", "a.b", 'a"', "b.a.b.a"]
FILTER = parse_filter({"field": "n", "gte": 3})
SECONDS = 120.0


@pytest.fixture(autouse=True)
def _columns_of_few_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fields, "MOST_BEHIND", 4)
    monkeypatch.setattr(fields, "DOCUMENTS_AT_ONCE", 3)
    monkeypatch.setattr(columns, "FEW_ENTRIES", 20)


def opened(path: Path, indexed: list[str] | None = None) -> Collection:
    if not path.exists():
        Store.create(path, Description("c", 8), indexed_fields=indexed or [])
    return Collection(Store(path, writable=True))


def document(number: int, **payload: Any) -> Document:
    return Document(id=str(number), code="00", payload={"n": number, **payload})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.sqlite"


@pytest.fixture
def collection(path: Path) -> Iterator[Collection]:
    collection = opened(path, ["n"])
    for start in range(0, 30, 3):
        collection.upsert([document(number) for number in range(start, start + 3)])
    yield collection
    collection.close()


def found(collection: Collection, filter_: Filter) -> tuple[set[str], set[str], int]:
    """Return what a search, a scroll and a count find."""
    hits = collection.search([Query(code="00")], 1000, filter=filter_).hits[0]
    scrolled: set[str] = set()
    cursor: str | None = None
    while True:
        page = collection.scroll(3, cursor, filter_)
        scrolled |= {document.id for document in page.documents}
        cursor = page.next_cursor
        if cursor is None:
            break
    return {hit.id for hit in hits}, scrolled, collection.count(filter_)


def expected(payloads: dict[str, dict[str, Any]], filter_: Filter) -> set[str]:
    return {id_ for id_, payload in payloads.items() if filter_.matches(payload)}


def saved(path: Path) -> dict[str, int | None]:
    """Return the size of the saved column of each indexed field."""
    with closing(sqlite3.connect(path)) as connection:
        return dict(connection.execute("SELECT field, length(packed) FROM columns"))


WRITES = st.lists(
    st.one_of(
        st.dictionaries(st.sampled_from("0123456789abcdef"), PAYLOADS, min_size=1, max_size=6),
        st.sets(st.sampled_from("0123456789abcdef"), min_size=1, max_size=4),
        st.sets(st.sampled_from(FIELDS)),
        FILTERS,
        st.sampled_from(["compact", "open"]),
    ),
    max_size=12,
)


@given(WRITES, st.lists(FILTERS, min_size=1, max_size=4), st.sets(st.sampled_from(FIELDS)))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
def test_indexes_change_no_answer(
    tmp_path_factory: pytest.TempPathFactory, writes: list[Any], asked: list[Any], indexed: set[str]
) -> None:
    path = tmp_path_factory.mktemp("c") / "store.sqlite"
    collection = opened(path, sorted(indexed))
    payloads: dict[str, dict[str, Any]] = {}
    try:
        for write in writes:
            if write == "compact":
                collection.compact()
            elif write == "open":
                collection.close()
                collection = opened(path)
            elif isinstance(write, set) and write <= set(FIELDS) - {"a", "b"}:
                collection.set_indexed_fields(sorted(write))
            elif isinstance(write, set):
                collection.delete(sorted(write))
                for id_ in write:
                    payloads.pop(id_, None)
            elif write.keys() & {"field", "and", "or", "not"} and "0" not in write:
                filter_ = parse_filter(write)
                gone = expected(payloads, filter_)
                assert collection.delete_where(filter_).deleted == len(gone)
                payloads = {id_: payload for id_, payload in payloads.items() if id_ not in gone}
            else:
                given_ = [Document(id=id_, code="00", payload=item) for id_, item in write.items()]
                collection.upsert(given_)
                payloads |= {document.id: _read_back(document.payload) for document in given_}
            for record in asked:
                filter_ = parse_filter(record)
                right = expected(payloads, filter_)
                assert found(collection, filter_) == (right, right, len(right))
        assert collection.verify().problems == []
    finally:
        collection.close()


def _read_back(payload: Mapping[str, Any]) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(payload_to_json(payload))
    return read


def test_the_columns_of_indexed_fields_are_saved_once_they_are_far_ahead(
    collection: Collection, path: Path
) -> None:
    assert found(collection, FILTER)[2] == 27
    assert saved(path) == {"n": None}
    collection.close()
    size = saved(path)["n"]
    assert size
    with closing(opened(path)) as again:
        again.upsert([document(number) for number in range(30, 33)])
        assert found(again, FILTER)[2] == 30
    assert saved(path)["n"] == size
    with closing(opened(path)) as again:
        again.upsert([document(number) for number in range(33, 40)])
        again.set_indexed_fields(["n", "m"])
        assert found(again, FILTER)[2] == 37
    assert (saved(path)["n"] or 0) > size
    assert saved(path)["m"]
    with closing(opened(path)) as again:
        again.set_indexed_fields([])
        assert again.indexed_fields == ()
        assert found(again, FILTER)[2] == 37
    assert saved(path) == {}


def test_a_saved_column_is_read_in_place_of_the_payloads(
    collection: Collection, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collection.set_indexed_fields(["n"])
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("""UPDATE documents SET payload = '{"n": -1}' WHERE id < '9'""")
    reader = Collection(Store(path, writable=False))
    try:
        assert reader.count(FILTER) == 27
        assert [problem for problem in reader.verify().problems if "column" in problem] == [
            "the saved column of the field 'n' is damaged"
        ]
    finally:
        reader.close()


def test_what_is_damaged_is_told_and_passed_over(collection: Collection, path: Path) -> None:
    collection.set_indexed_fields(["n"])
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE columns SET packed = x'00'")
    right = {str(number) for number in range(3, 30)}
    with closing(opened(path)) as again:
        assert found(again, FILTER) == (right, right, len(right))
        assert again.verify().problems == ["the saved column of the field 'n' is damaged"]
        again.compact()
        assert again.verify().problems == []
        assert found(again, FILTER) == (right, right, len(right))


def test_the_indexes_of_an_earlier_version_are_replaced(collection: Collection, path: Path) -> None:
    right = {str(number) for number in range(3, 30)}
    collection.close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DROP TABLE columns")
        make_earlier_tables(connection)
        connection.execute("INSERT INTO fields VALUES ('n', 8, 0), ('m', 0, 0)")
        connection.execute("INSERT INTO field_runs VALUES (1, 'n', 4, x'00', 7)")
    with closing(Collection(Store(path, writable=False))) as reader:
        assert reader.indexed_fields == ("m", "n")
        assert found(reader, FILTER) == (right, right, len(right))
        assert reader.verify().problems == []
    with closing(opened(path)) as writer:
        assert writer.indexed_fields == ("m", "n")
        assert found(writer, FILTER) == (right, right, len(right))
        assert writer.verify().problems == []
    assert saved(path).keys() == {"m", "n"}
    with closing(sqlite3.connect(path)) as connection:
        query = "SELECT count(*) FROM sqlite_master WHERE name IN ('fields', 'field_runs')"
        assert connection.execute(query).fetchone() == (0,)


def test_a_reader_uses_the_columns_of_the_writer(collection: Collection, path: Path) -> None:
    collection.set_indexed_fields(["n"])
    reader = Collection(Store(path, writable=False))
    try:
        assert reader.indexed_fields == ("n",)
        assert not reader.knows_filter(FILTER)
        assert found(reader, FILTER) == found(collection, FILTER)
        assert reader.knows_filter(FILTER)
        collection.upsert([document(number) for number in range(30, 50)])
        collection.update_payloads([PayloadUpdate(ids=("4", "5"), set={"n": 0})])
        reader.follow()
        assert found(reader, FILTER)[2] == 45
    finally:
        reader.close()


def test_a_column_does_not_grow_with_every_replaced_document(collection: Collection) -> None:
    payload_fields = collection._payload_fields
    for turn in range(40):
        collection.upsert([document(number, text=f"{turn}-{number}") for number in range(30)])
        assert found(collection, FILTER)[2] == 27
        assert collection.count(parse_filter({"field": "text", "eq": f"{turn}-7"})) == 1
    assert len(payload_fields.column("text").values.strings) < 150


def test_a_page_reads_no_more_documents_than_it_shows(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def counting(connection: sqlite3.Connection, query: str, rows: list[int]) -> list[Any]:
        asked.append(len(rows))
        return in_chunks(connection, query, rows)

    with closing(opened(path, ["n"])) as collection:
        collection.upsert([document(number) for number in range(100)])
        collection.count(FILTER)
        collection.delete(["4"])
        monkeypatch.setattr(store, "in_chunks", counting)
        page = collection.scroll(2, None, FILTER)
        assert [document.id for document in page.documents] == ["3", "5"]
        # One more tells whether there is another page; of the first three one was deleted.
        assert asked == [3, 3]


def test_a_field_of_too_many_long_values_is_filtered_by_its_payloads(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fields, "MAX_BYTES", 4000)
    monkeypatch.setattr(fields, "BYTES_A_DOCUMENT", 1)
    with closing(opened(path, ["text"])) as collection:
        collection.upsert([document(n, text=f"{n} " * 200) for n in range(40)])
        filter_ = parse_filter({"and": [{"field": "text", "prefix": "1"}, FILTER_JSON]})
        right = {str(number) for number in range(10, 20)}
        assert found(collection, filter_) == (right, right, len(right))
        with pytest.raises(InputError, match="'text' holds too many different long values"):
            count_values(collection, parse_facets("text"))
        collection.set_indexed_fields(["text", "n"])
        assert collection.verify().problems == []


FILTER_JSON = {"field": "n", "gte": 3}


@pytest.mark.parametrize(
    ("indexed", "message"),
    [
        (["a\0b"], "indexed_fields: is 'a\\x00b'; it must not contain NUL"),
        ([""], "indexed_fields: is ''; it must be 1 to 256 characters long"),
        ([f"f{n}" for n in range(17)], "indexed_fields: has 17 fields; it must have at most 16"),
    ],
)
def test_fields_that_no_filter_could_name_are_refused(indexed: list[str], message: str) -> None:
    with pytest.raises(InputError, match="indexed_fields") as caught:
        check_indexed_fields(indexed)
    assert message in str(caught.value)


def test_filters_that_are_asked_for_at_the_same_time_are_answered_each_by_its_rows(
    path: Path,
) -> None:
    def payload(number: int) -> dict[str, Any]:
        return {"n": number, "tags": [f"t{number % 3}", number % 5], "half": number / 2}

    given_: list[dict[str, Any]] = [
        *({"field": "n", "gte": at, "lt": 3 * at} for at in range(1, 20)),
        *({"field": "tags", "in": ["t1", at]} for at in range(5)),
        *({"field": "half", "lte": 0.5 * at} for at in range(5)),
        {"not": {"field": "n", "eq": 7}},
        {"field": "none", "exists": True},
        {"and": [{"field": "none", "is_missing": True}, {"field": "half", "gt": 20}]},
    ]
    asked = [parse_filter(item) for item in given_] * 2
    with closing(opened(path)) as collection:
        collection.upsert([document(number, **payload(number)) for number in range(300)])
        payload_fields, answers = PayloadFields(collection.store), dict[int, list[int]]()

        def ask(place: int) -> None:
            answers[place] = payload_fields.rows(asked[place], 1).rows.tolist()

        threads = [threading.Thread(target=ask, args=(place,)) for place in range(len(asked))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SECONDS)
        assert answers == {
            place: [n + 1 for n in range(300) if filter_.matches(payload(n))]
            for place, filter_ in enumerate(asked)
        }
        assert all(map(payload_fields.knows_filter, asked))
