"""A label has one name, whichever way it comes; the payload keeps the value."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hummingbit import Collection, SemanticHasher
from hummingbit.corpus.document import DocumentError
from hummingbit.corpus.labels import name_of, names_of
from hummingbit.corpus.layout import Layout
from hummingbit.corpus.readers import read_documents
from hummingbit.foundation.errors import InputError
from hummingbit.hasher import label_sets
from hummingbit.index.records import labels_of
from hummingbit.index.store.annotations import parse_label

NAN = float("nan")
Labels = list[tuple[str, ...]]
Way = Callable[[Sequence[Any], Path], Labels]


def by_argument(values: Sequence[Any], folder: Path) -> Labels:
    return by_add(folder, [f"word {i}" for i in range(len(values))], labels=values)


def by_series(values: Sequence[Any], folder: Path) -> Labels:
    return by_add(folder, [f"word {i}" for i in range(len(values))], labels=pd.Series(values))


def by_array(values: Sequence[Any], folder: Path) -> Labels:
    array = pd.Series(values).to_numpy()
    return by_add(folder, [f"word {i}" for i in range(len(values))], labels=array)


def by_mappings(values: Sequence[Any], folder: Path) -> Labels:
    return by_add(folder, [{"text": "word", "label": value} for value in values])


def by_frame(values: Sequence[Any], folder: Path) -> Labels:
    return by_add(folder, frame_of(values), label_field="topic")


def by_y(values: Sequence[Any], folder: Path) -> Labels:
    return label_sets(pd.Series(values), len(values))


def by_payload(values: Sequence[Any], folder: Path) -> Labels:
    return [labels_of({} if pd.isna(value) else {"topic": value}, "topic") for value in values]


def by_records(values: Sequence[Any], folder: Path) -> Labels:
    return [
        () if pd.isna(value) else parse_label({"id": "a", "label": value}).labels
        for value in values
    ]


def by_csv(values: Sequence[Any], folder: Path) -> Labels:
    frame_of(values).to_csv(folder / "d.csv")
    return by_file(folder / "d.csv")


def by_csv_of_queries(values: Sequence[Any], folder: Path) -> Labels:
    frame_of(values).rename(columns={"topic": "label"}).to_csv(folder / "d.csv")
    return [document.labels for document in read_documents(folder / "d.csv", uses_payload=False)]


def by_json_lines(values: Sequence[Any], folder: Path) -> Labels:
    rows = [{"text": "word", **({} if pd.isna(v) else {"topic": v})} for v in values]
    (folder / "d.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return by_file(folder / "d.jsonl")


def by_parquet(values: Sequence[Any], folder: Path) -> Labels:
    frame_of(values).to_parquet(folder / "d.parquet")
    return by_file(folder / "d.parquet")


def by_feather(values: Sequence[Any], folder: Path) -> Labels:
    frame_of(values).to_feather(folder / "d.feather")
    return by_file(folder / "d.feather")


def by_npz(values: Sequence[Any], folder: Path) -> Labels:
    np.savez(folder / "d.npz", text=np.array(["word"] * len(values)), labels=np.array(values))
    return [document.labels for document in read_documents(folder / "d.npz")]


def frame_of(values: Sequence[Any]) -> pd.DataFrame:
    return pd.DataFrame({"text": ["word"] * len(values), "topic": values})


def by_file(path: Path) -> Labels:
    documents = read_documents(path, layout=Layout(label_field="topic"))
    return [document.labels for document in documents]


def by_add(folder: Path, documents: Any, **options: Any) -> Labels:
    with Collection.create(folder / "data", "notes", encoder=None) as notes:
        notes.add(documents, **options)
        return [labels_of(stored.payload) for stored in notes.documents()]


WAYS = [
    *(by_argument, by_series, by_array, by_mappings, by_frame, by_y, by_payload, by_records),
    *(by_csv, by_csv_of_queries, by_json_lines, by_parquet, by_feather, by_npz),
]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("values", "names"),
    [
        ([1.0, NAN, 2.0], ["1", "", "2"]),
        ([1, 2, 300], ["1", "2", "300"]),
        ([True, False, True], ["true", "false", "true"]),
        (["a", "1.0", "True"], ["a", "1.0", "True"]),
        ([2.0, 1e6, 7.0], ["2", "1000000", "7"]),
    ],
    ids=["gap", "whole", "boolean", "text", "float"],
)
def test_a_label_has_the_same_name_by_every_way(
    tmp_path: Path, way: Way, values: list[Any], names: list[str]
) -> None:
    assert way(values, tmp_path) == [(name,) if name else () for name in names]


@pytest.mark.parametrize("way", [way for way in WAYS if way is not by_y])
def test_a_fraction_is_a_label(tmp_path: Path, way: Way) -> None:
    assert way([1.5, 2.0], tmp_path) == [("1.5",), ("2",)]


def test_an_estimator_refuses_a_target_of_fractions() -> None:
    with pytest.raises(ValueError, match=r"y\[1\] is 1.5; a label must be a string or an integer"):
        SemanticHasher(n_bits=8, method="lsh").fit(["a", "b"], [1.0, 1.5])


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (np.float32(3.0), "3"),
        (np.int8(-4), "-4"),
        (np.bool_(False), "false"),
        (np.str_("x"), "x"),
        (Decimal("5.0"), "5"),
        (date(2024, 5, 1), "2024-05-01"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (pd.NA, None),
        (pd.NaT, None),
        (np.float32("nan"), None),
        (Decimal("nan"), None),
        (" ", None),
        (2**70, str(2**70)),
    ],
)
def test_names_of_other_values(value: Any, name: str | None) -> None:
    assert name_of(value) == name


@given(st.integers(-(2**53), 2**53))
def test_a_whole_number_has_one_name_by_every_type(number: int) -> None:
    assert {name_of(number), name_of(float(number)), name_of(np.float64(number))} == {str(number)}


def test_several_labels_are_named_alike() -> None:
    assert names_of([1.0, None, "a", "1", NAN, True]) == ("1", "a", "true")
    assert names_of(np.array([2.0, NAN])) == ("2",)
    assert names_of({"b", "a", "c"}) == ("a", "b", "c")


@pytest.mark.parametrize("value", [{"a": 1}, float("inf"), b"a", [["a"]], object()])
def test_what_has_no_name_is_refused(value: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^is .*; it must be a text, a number, true or false$"):
        names_of(value)
    with pytest.raises(InputError, match=r"label_field: 'topic' is "):
        labels_of({"topic": value}, "topic")
    with (
        Collection.create(tmp_path, "notes", encoder=None) as notes,
        pytest.raises(DocumentError, match=r"documents\[1\]\.label: is "),
    ):
        notes.add(["a", "b"], labels=["x", value])


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_the_payload_keeps_the_type_of_a_label_field(tmp_path: Path, suffix: str) -> None:
    frame = pd.DataFrame({"text": ["old", "new"], "year": [1999, 2024]})
    path = tmp_path / f"films.{suffix}"
    if suffix == "csv":
        frame.to_csv(path, index=False)
    elif suffix == "jsonl":
        frame.to_json(path, orient="records", lines=True)
    else:
        frame.to_parquet(path)
    documents = list(read_documents(path, layout=Layout(label_field="year")))
    assert [document.labels for document in documents] == [("1999",), ("2024",)]
    assert [document.payload["year"] for document in documents] == [1999, 2024]
    with Collection.create(tmp_path / "data", "films", encoder=None) as films:
        films.add(frame, label_field="year")
        (film,) = films.documents({"field": "year", "gte": 2002})
    assert film.payload == {"year": 2024, "label": "2024"}


def test_a_table_may_hold_several_labels_and_numbers_of_another_column(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("text,topic,n\na,1|2,1.0\nb,3,\nc,,2.5\n")
    documents = list(read_documents(tmp_path / "d.csv", layout=Layout(label_field="topic")))
    assert [document.labels for document in documents] == [("1", "2"), ("3",), ()]
    assert [document.payload.get("n") for document in documents] == [1.0, None, 2.5]


@pytest.mark.parametrize("suffix", ["frame", "jsonl", "parquet", "npz", "ids"])
def test_a_float_is_an_id_as_the_whole_number_that_it_was(tmp_path: Path, suffix: str) -> None:
    frame = pd.DataFrame({"id": [1.0, 2.0], "text": ["a", "b"]})
    path = tmp_path / f"d.{suffix}"
    if suffix in ("frame", "ids"):
        with Collection.create(tmp_path / "data", "notes", encoder=None) as notes:
            if suffix == "ids":
                notes.add(["a", "b"], ids=frame["id"])
            else:
                notes.add(frame)
            assert [stored.id for stored in notes.documents()] == ["1", "2"]
        return
    if suffix == "jsonl":
        frame.to_json(path, orient="records", lines=True, double_precision=1)
        path.write_text('{"id": 1.0, "text": "a"}\n{"id": 2.0, "text": "b"}\n')
    elif suffix == "parquet":
        pa.parquet.write_table(pa.table({"id": [1.0, 2.0], "text": ["a", "b"]}), path)
    else:
        np.savez(path, ids=np.array([1.0, 2.0]), text=np.array(["a", "b"]))
    assert [document.id for document in read_documents(path)] == ["1", "2"]
