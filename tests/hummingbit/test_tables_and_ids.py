"""Tables of polars and Arrow, ids that are numbers, and columns that are generators."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from hummingbit import Collection, SemanticHasher
from hummingbit.foundation.errors import InputError

ROWS = {
    "key": [7, 8, 9],
    "text": ["an apple", "a pear", "a drill"],
    "kind": ["fruit", None, "tool"],
    "price": [1.5, float("nan"), 80.0],
    "since": [date(2024, 5, 1), None, date(2023, 1, 2)],
    "tags": [["red", "sweet"], [], ["steel"]],
}


def reader(rows: dict[str, Any]) -> pa.RecordBatchReader:
    return pa.table(rows).to_reader()


def batch(rows: dict[str, Any]) -> pa.RecordBatch:
    return pa.table(rows).to_batches()[0]


TABLES = [pl.DataFrame, pa.table, batch, reader]


@pytest.fixture
def notes(tmp_path: Path) -> Iterator[Collection]:
    with Collection.create(tmp_path, "notes", encoder=None) as notes:
        yield notes


@pytest.mark.parametrize("table", TABLES)
def test_the_rows_of_a_table_are_documents(
    notes: Collection, table: Callable[[dict[str, Any]], Any]
) -> None:
    assert notes.add(table(ROWS), id_field="key", label_field="kind") == 3
    stored = {document.id: document for document in notes.documents()}
    assert [document.text for document in stored.values()] == ROWS["text"]
    assert stored["7"].payload == {
        "kind": "fruit",
        "label": "fruit",
        "price": 1.5,
        "since": "2024-05-01",
        "tags": ["red", "sweet"],
    }
    assert stored["8"].payload == {"tags": []}


@pytest.mark.parametrize("table", [pl.DataFrame, pa.table])
def test_a_table_of_vectors_and_codes(
    tmp_path: Path, table: Callable[[dict[str, Any]], Any]
) -> None:
    rows = {"id": ["a", "b"], "vector": [[1.0] * 8, [-1.0] * 8]}
    with Collection.create(tmp_path, "signs", encoder="sign", dimensions=8) as signs:
        signs.add(table(rows))
        assert [hit.id for hit in signs.search(np.ones(8), limit=1)] == ["a"]


@pytest.mark.parametrize("table", [pl.DataFrame, pa.table])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"id_field": "kex", "text_field": "title"},
            "id_field: is 'kex'; the table has 'key', 'title'",
        ),
        ({}, "text_field: is missing; the table has 'key', 'title'"),
    ],
)
def test_a_column_that_a_table_lacks(
    notes: Collection,
    table: Callable[[dict[str, Any]], Any],
    options: dict[str, Any],
    message: str,
) -> None:
    with pytest.raises(InputError, match=message):
        notes.add(table({"key": [1], "title": ["a"]}), **options)
    assert len(notes) == 0


def test_a_table_with_two_columns_of_one_name(notes: Collection) -> None:
    table = pa.table([pa.array(["a"]), pa.array(["b"])], names=["text", "text"])
    with pytest.raises(InputError, match="documents: has the column 'text' twice"):
        notes.add(table)


@pytest.mark.parametrize("column", [pl.Series, pa.array, pd.Series, np.array, iter])
def test_columns_of_every_kind(notes: Collection, column: Callable[[list[Any]], Any]) -> None:
    texts = column(["an apple", "a pear"])
    notes.add(texts, ids=column([1, 2]), labels=column(["x", "y"]))
    assert notes.existing_ids(column([1, 2, 3])) == {"1", "2"}
    assert [stored.id for stored in notes.get_many(column([2, 1]))] == ["2", "1"]
    queries = column(["apple", "pear"])
    assert [hits.ids for hits in notes.search_many(queries)] == [["1"], ["2"]]
    assert notes.update_payload(ids=column([1]), set={"seen": True}) == 1
    assert notes.delete(column([1, 2])) == 2


def test_generators_give_ids_labels_and_payloads(notes: Collection) -> None:
    notes.add(
        (f"word {n}" for n in range(3)),
        ids=(n * 10 for n in range(3)),
        labels=(n % 2 for n in range(3)),
        payloads=({"n": n} for n in range(3)),
    )
    stored = notes.get_many(["0", 10, "20"])
    assert [document.payload for document in stored] == [
        {"n": 0, "label": "0"},
        {"n": 1, "label": "1"},
        {"n": 2, "label": "0"},
    ]
    with pytest.raises(InputError, match="ids: there are 2 for 1 document"):
        notes.add(["a"], ids=(n for n in range(2)))


@pytest.mark.parametrize("field", ["ids", "labels"])
def test_a_set_has_no_order(notes: Collection, field: str) -> None:
    columns: Any = {field: {"x", "y"}}
    with pytest.raises(InputError, match=f"{field}: is a set, which has no order; pass a list"):
        notes.add(["a", "b"], **columns)


@pytest.mark.parametrize("number", [7, 7.0, np.int64(7), np.float32(7.0)])
def test_a_number_is_an_id_in_every_method(notes: Collection, number: Any) -> None:
    notes.add(["an apple", "an apple pie"], ids=[number, "8"])
    stored = notes.get(number)
    assert stored is not None
    assert stored.id == "7"
    assert [document.text for document in notes.get_many([number])] == ["an apple"]
    assert notes.existing_ids([number, 6]) == {"7"}
    assert notes.search("apple", filter={"has_id": ["7"]}).ids == ["7"]
    assert notes.update_payload(ids=[number], set={"a": 1}) == 1
    assert notes.delete([number]) == 1


def test_a_number_is_the_id_of_a_query_and_an_example(tmp_path: Path) -> None:
    with Collection.create(tmp_path, "signs", encoder="sign", dimensions=8) as signs:
        signs.add(np.eye(8) - 0.5, ids=range(8))
        assert signs.search(id=3, limit=1).ids == signs.search(id="3", limit=1).ids
        assert signs.recommend([3, {"id": 4}]).ids == signs.recommend(["3", "4"]).ids


@pytest.mark.parametrize("id_", [None, float("nan"), True, 1.5, {"a": 1}, b"a"])
def test_what_is_no_id_is_refused(notes: Collection, id_: Any) -> None:
    with pytest.raises(InputError, match=r"^id: is "):
        notes.get(id_)
    for call in (notes.get_many, notes.existing_ids, notes.delete):
        with pytest.raises(InputError, match=r"^ids\[1\]: is .*; it must be a text"):
            call(["a", id_])


@pytest.mark.parametrize("column", [pl.Series, pa.array, pa.chunked_array])
def test_an_estimator_takes_columns(column: Callable[[list[Any]], Any]) -> None:
    texts = ["a cat and a dog", "dogs and cats", "stocks and bonds", "a bond or a stock"] * 3
    given = column([texts]) if column is pa.chunked_array else column(texts)
    hasher = SemanticHasher(n_bits=8, method="lsh")
    expected = hasher.fit_transform(texts)
    assert np.array_equal(hasher.fit_transform(given), expected)


@pytest.mark.parametrize("table", [pl.DataFrame, pa.table, pd.DataFrame])
def test_an_estimator_takes_tables_of_numbers(table: Callable[[dict[str, Any]], Any]) -> None:
    vectors = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
    columns = table({f"x{n}": vectors[:, n] for n in range(4)})
    hasher = SemanticHasher(n_bits=8, method="lsh")
    expected = hasher.fit_transform(vectors)
    assert np.array_equal(hasher.fit_transform(columns), expected)
    with pytest.raises(ValueError, match=r"X is a table with the columns 'a', 'text'"):
        hasher.fit(table({"a": [1], "text": ["words"]}))
