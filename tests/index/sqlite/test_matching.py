"""Filters that are asked for at the same time, against what they mean."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hummingbit.corpus.document import Document
from hummingbit.foundation.slices import Cancelled, FairSemaphore, Slices, in_slices
from hummingbit.index.collection import Collection
from hummingbit.index.filters import Filter, parse_filter
from hummingbit.index.schema import Description, payload_to_json
from hummingbit.index.store import matching
from hummingbit.index.store.columns import FieldColumns
from hummingbit.index.store.fields import matching_between
from hummingbit.index.store.matching import MatchingRows
from hummingbit.index.store.store import Store
from tests.support.oracles.filters import FILTERS, LEAVES, PAYLOADS, passes

SECONDS = 120.0
COUNT = 300


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setattr(matching, "ROWS_OF_A_SLICE", 20)
    monkeypatch.setattr(matching, "MIN_ROWS_OF_A_SLICE", 7)
    Store.create(tmp_path / "store.sqlite", Description("c", 8))
    opened = Store(tmp_path / "store.sqlite", writable=True)
    collection = Collection(opened)
    collection.upsert([document(number) for number in range(COUNT)])
    yield opened
    collection.close()


def document(number: int) -> Document:
    payload = {"n": number, "tags": [f"t{number % 3}", number % 5], "half": number / 2}
    return Document(id=str(number), code="00", payload=payload)


def filters() -> list[Filter]:
    given = [{"field": "n", "gte": at, "lt": 3 * at} for at in range(1, 20)]
    given += [{"field": "tags", "in": ["t1", at]} for at in range(5)]
    given += [{"field": "half", "lte": 0.5 * at} for at in range(5)]
    given += [{"not": {"field": "n", "eq": 7}}, {"field": "none", "exists": True}]
    return [parse_filter(item) for item in given]


def expected(filter_: Filter) -> list[int]:
    return [n + 1 for n in range(COUNT) if filter_.matches(document(n).payload_with_labels)]


def test_filters_that_wait_at_the_same_time_are_answered_each_by_its_rows(store: Store) -> None:
    rows, found = MatchingRows(store), dict[int, list[int]]()
    asked = filters() * 2

    def ask(place: int) -> None:
        found[place] = rows.find(asked[place], 1).rows.tolist()

    threads = [threading.Thread(target=ask, args=(position,)) for position in range(len(asked))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    assert found == {position: expected(item) for position, item in enumerate(asked)}
    assert all(rows.knows_filter(item) for item in asked)


def test_where_one_request_ends_another_goes_on_with_the_pass(store: Store) -> None:
    rows, checks = MatchingRows(store), iter([False] * 6 + [True] * 1000)
    one, other = filters()[:2]
    ended = threading.Event()

    def ask() -> None:
        with pytest.raises(Cancelled), in_slices(Slices(FairSemaphore(1), lambda: next(checks))):
            rows.find(one, 1)
        ended.set()

    thread = threading.Thread(target=ask)
    thread.start()
    assert rows.find(other, 1).rows.tolist() == expected(other)
    assert ended.wait(SECONDS)
    assert rows.find(one, 1).rows.tolist() == expected(one)
    thread.join(SECONDS)


def test_a_pass_that_fails_tells_everybody_who_waits(store: Store) -> None:
    rows = MatchingRows(store)
    store.close()
    with pytest.raises(Exception, match="closed"):
        rows.find(filters()[0], 1)


@given(st.lists(PAYLOADS, min_size=1, max_size=6), st.lists(FILTERS, min_size=2, max_size=5))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_filters_of_one_statement_mean_what_each_means_alone(
    payloads: list[dict[str, Any]], given_filters: list[dict[str, Any]]
) -> None:
    asked = [parse_filter(filter_) for filter_ in given_filters]
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(
            "CREATE TABLE documents (row INTEGER PRIMARY KEY, id TEXT, payload TEXT)"
        )
        rows = [(at + 1, payload_to_json(payload)) for at, payload in enumerate(payloads)]
        connection.executemany("INSERT INTO documents (row, payload) VALUES (?, ?)", rows)
        found = matching_between(connection, asked, 0, len(payloads))
    expected = [
        [at + 1 for at, payload in enumerate(payloads) if filter_.matches(payload)]
        for filter_ in asked
    ]
    assert [item.tolist() for item in found] == expected


@given(st.lists(PAYLOADS, min_size=1, max_size=6), st.lists(LEAVES | FILTERS, max_size=8))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_columns_find_the_rows_that_pass_a_filter(
    payloads: list[dict[str, Any]], given_filters: list[dict[str, Any]]
) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "store.sqlite"
        Store.create(path, Description("c", 8))
        opened = Store(path, writable=True)
        collection = Collection(opened)
        documents = [
            Document(id=str(at), code="00", payload=payload) for at, payload in enumerate(payloads)
        ]
        collection.upsert(documents)
        columns = FieldColumns(opened)
        for filter_ in given_filters:
            expected = [
                at + 1 for at, document in enumerate(documents) if passes(document.payload, filter_)
            ]
            for _ in range(3):  # a column is read for the second filter of a field
                found = columns.matching(parse_filter(filter_))
                assert found is None or found.rows.tolist() == expected
        collection.close()


def test_many_different_values_of_a_field_are_filtered_by_its_column(tmp_path: Path) -> None:
    Store.create(tmp_path / "store.sqlite", Description("c", 8))
    opened = Store(tmp_path / "store.sqlite", writable=True)
    collection = Collection(opened)
    values: list[Any] = [f"value {n}" for n in range(12_000)]
    values += [n / 4 for n in range(12_000)]
    collection.upsert(
        [Document(id=str(n), code="00", payload={"a": value}) for n, value in enumerate(values)]
    )
    columns = FieldColumns(opened)
    asked: list[dict[str, Any]] = [
        {"eq": "value 77"},
        {"in": ["value 11999", "value 12000", 2.25, True]},
        {"gte": "value 9", "lt": "value 91"},
        {"gt": 100, "lte": 200.5},
        {"lt": 2**60},
    ]
    assert columns.matching(parse_filter({"field": "a", **asked[0]})) is None
    for condition in asked:
        filter_ = {"field": "a", **condition}
        found = columns.matching(parse_filter(filter_))
        assert found is not None
        expected = [n + 1 for n, value in enumerate(values) if passes({"a": value}, filter_)]
        assert found.rows.tolist() == expected
    collection.close()
