"""Indexes of fields: the same documents as without, whatever was written and lost."""

from __future__ import annotations

import json
import sqlite3
import zlib
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
from hummingbit.index.filters import (
    MAX_STRING_LENGTH,
    AnyOf,
    Filter,
    InRange,
    check_indexed_fields,
    implied_filter,
    parse_filter,
)
from hummingbit.index.records import Query
from hummingbit.index.schema import Description, payload_to_json
from hummingbit.index.store import fields as field_indexes
from hummingbit.index.store import store
from hummingbit.index.store.connections import in_chunks
from hummingbit.index.store.fields import cost_of_list, pack_field
from hummingbit.index.store.store import Store
from tests.support.oracles.filters import FILTERS, PAYLOADS

RUN = 4
FIELDS = ["a", "b", "é", "a.b", 'a"', "b.a.b.a"]
FILTER = parse_filter({"field": "n", "gte": 3})


@pytest.fixture(autouse=True)
def _short_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(field_indexes, "RUN_ROWS", RUN)


def opened(path: Path, fields: list[str] | None = None) -> Collection:
    if not path.exists():
        Store.create(path, Description("c", 8), indexed_fields=fields or [])
    return Collection(Store(path, writable=True))


def document(number: int, **payload: Any) -> Document:
    return Document(id=str(number), code="00", payload={"n": number, **payload})


@pytest.fixture
def collection(tmp_path: Path) -> Iterator[Collection]:
    collection = opened(tmp_path / "store.sqlite", ["n"])
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
    tmp_path_factory: pytest.TempPathFactory, writes: list[Any], asked: list[Any], fields: set[str]
) -> None:
    path = tmp_path_factory.mktemp("c") / "store.sqlite"
    collection = opened(path, sorted(fields))
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


def test_most_of_a_filter_is_found_by_the_fields_that_are_indexed() -> None:
    both = parse_filter({"and": [{"field": "n", "eq": 1}, {"field": "m", "eq": 2}]})
    assert implied_filter(both, {"n"}) == parse_filter({"and": [{"field": "n", "eq": 1}]})
    assert implied_filter(both, {"n", "m"}) is both
    either = parse_filter({"or": [{"field": "n", "eq": 1}, {"field": "m", "eq": 2}]})
    assert implied_filter(either, {"n"}) is None
    assert implied_filter(parse_filter({"not": {"field": "m", "eq": 2}}), {"n"}) is None


def test_what_is_damaged_is_told_and_passed_over(collection: Collection, tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE field_runs SET packed = x'00' WHERE first_row = 5")
    right = {str(number) for number in range(3, 30)}
    assert found(collection, FILTER) == (right, right, len(right))
    problem = "the index of the field 'n' is damaged from row 5"
    assert collection.verify().problems == [problem]
    collection.compact()
    assert collection.verify().problems == []
    assert found(collection, FILTER) == (right, right, len(right))


def test_what_a_version_without_indexes_wrote_is_found_and_indexed_later(
    collection: Collection,
) -> None:
    with collection.store.writing() as changes:
        changes._connection.execute("UPDATE fields SET covered = 8")
        changes.commit_bookmark()
    right = {str(number) for number in range(3, 30)}
    assert not collection.store.is_covered(FILTER)
    assert found(collection, FILTER) == (right, right, len(right))
    for number in range(30, 60):
        collection.upsert([document(number)])
    assert collection.store.indexed_fields()["n"] == 60
    assert found(collection, FILTER)[2] == 57
    assert collection.verify().problems == []


def test_runs_of_deleted_documents_are_given_back(collection: Collection) -> None:
    for _ in range(40):
        collection.upsert([document(number) for number in range(30)])
    with collection.store.read_transaction() as connection:
        (runs,) = connection.execute("SELECT count(*) FROM field_runs").fetchone()
        covered = field_indexes.indexed_fields(connection)["n"]
    assert covered // RUN > 300
    assert runs < 100
    assert found(collection, FILTER)[2] == 27


def test_a_reader_uses_the_indexes_of_the_writer(collection: Collection, tmp_path: Path) -> None:
    reader = Collection(Store(tmp_path / "store.sqlite", writable=False))
    try:
        assert reader.indexed_fields == ("n",)
        assert reader.knows_filter(FILTER)
        assert found(reader, FILTER) == found(collection, FILTER)
        collection.upsert([document(number) for number in range(30, 50)])
        reader.follow()
        assert found(reader, FILTER)[2] == 47
    finally:
        reader.close()


def test_a_page_reads_no_more_documents_than_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(field_indexes, "RUN_ROWS", 50)
    asked: list[int] = []

    def counting(connection: sqlite3.Connection, query: str, rows: list[int]) -> list[Any]:
        asked.append(len(rows))
        return in_chunks(connection, query, rows)

    monkeypatch.setattr(store, "in_chunks", counting)
    with closing(opened(tmp_path / "store.sqlite", ["n"])) as collection:
        collection.upsert([document(number) for number in range(100)])
        collection.delete(["4"])
        asked.clear()
        page = collection.scroll(2, None, FILTER)
        assert [document.id for document in page.documents] == ["3", "5"]
        # One more tells whether there is another page; of the first three one was deleted.
        assert asked == [3, 3]


def test_what_an_earlier_version_packed_of_a_dotted_field_is_not_trusted(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    payloads: list[dict[str, Any]] = [{"a.b": 1}, {"a": {"b": 1}}, {"a": [{"b": 1}]}, {}] * 10
    filter_ = parse_filter({"field": "a.b", "eq": 1})
    right = {str(number) for number in range(40) if number % 4 < 3}
    with closing(opened(path, ["a.b"])) as collection:
        collection.upsert([document(number, **payload) for number, payload in enumerate(payloads)])
    with closing(sqlite3.connect(path)) as connection, connection:
        # It knew nested objects only.
        for first in range(1, 41, RUN):
            packed = pack_field([*range(RUN)], [None, 1, None, None])
            query = "UPDATE field_runs SET packed = ?, checksum = ? WHERE first_row = ?"
            connection.execute(query, (packed, zlib.crc32(packed), first))
    with closing(Collection(Store(path, writable=False))) as reader:
        assert found(reader, filter_) == (right, right, len(right))
        assert reader.verify().problems == []
    with closing(opened(path)) as collection:
        assert not collection.store.is_covered(filter_)
        assert found(collection, filter_) == (right, right, len(right))
        collection.compact()
        assert collection.store.is_covered(filter_)
        assert found(collection, filter_) == (right, right, len(right))
        assert collection.verify().problems == []


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (["a\0b"], "indexed_fields: is 'a\\x00b'; it must not contain NUL"),
        ([""], "indexed_fields: is ''; it must be 1 to 256 characters long"),
        ([f"f{n}" for n in range(17)], "indexed_fields: has 17 fields; it must have at most 16"),
    ],
)
def test_fields_that_no_filter_could_name_are_refused(fields: list[str], message: str) -> None:
    with pytest.raises(InputError, match="indexed_fields") as caught:
        check_indexed_fields(fields)
    assert message in str(caught.value)


def test_of_long_strings_only_what_filters_look_at_is_packed(collection: Collection) -> None:
    longest = "x" * MAX_STRING_LENGTH
    strings = [longest[:-1], longest, longest + "\0", longest + "a", longest + "b" * 10**6, "y"]
    documents = [
        document(n, t=string) for n, string in enumerate([*strings, strings, [strings[4]], [7]])
    ]
    collection.upsert(documents)
    collection.set_indexed_fields(["t"])
    with collection.store.read_transaction() as connection:
        packed = connection.execute("SELECT max(length(packed)) FROM field_runs").fetchone()[0]
    assert packed < 20 * MAX_STRING_LENGTH
    conditions = [{name: longest} for name in ("eq", "gt", "gte", "lt", "lte")]
    filters = [parse_filter({"field": "t", **condition}) for condition in conditions]
    # Which no request may name, but a caller of the library can.
    filters += [AnyOf("t", (strings[4],)), InRange("t", gt=strings[3])]
    for filter_ in filters:
        wanted = {document.id for document in documents if filter_.matches(document.payload)}
        assert found(collection, filter_)[0] == wanted
    assert collection.verify().problems == []


def test_a_run_with_too_much_in_lists_is_left_to_the_payloads(
    collection: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(field_indexes, "MAX_COST", cost_of_list([0] * 20))
    lists: list[list[Any]] = [[n] if n < 8 else [*range(n)] if n % 2 else ["x"] for n in range(30)]
    documents = [document(number, t=list_) for number, list_ in enumerate(lists)]
    collection.upsert(documents)
    collection.set_indexed_fields(["n", "t"])

    def packed() -> list[int]:
        query = "SELECT length(packed) FROM field_runs WHERE field = 't' ORDER BY first_row"
        with collection.store.read_transaction() as connection:
            return [length for (length,) in connection.execute(query)]

    assert {length > 0 for length in packed()} == {True, False}
    assert max(packed()) < 400
    filters = [{"field": "t", "eq": 5}, {"field": "t", "eq": "x"}, {"not": {"field": "t", "gt": 9}}]
    for filter_ in map(parse_filter, filters):
        wanted = {document.id for document in documents if filter_.matches(document.payload)}
        assert found(collection, filter_) == (wanted, wanted, len(wanted))
    assert collection.verify().problems == []
    collection.delete([str(number) for number in range(1, 30, 2)])
    assert collection.verify().problems == []
    # What was packed without a bound stays right.
    monkeypatch.setattr(field_indexes, "MAX_COST", 1 << 27)
    collection.compact()
    collection.upsert(documents)
    assert 0 not in packed()
    monkeypatch.setattr(field_indexes, "MAX_COST", 0)
    assert collection.verify().problems == []
