"""Documents in Parquet files and NumPy archives."""

from __future__ import annotations

import datetime
import math
import re
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow
import pyarrow.parquet
import pytest

from hummingbit.corpus.layout import Layout
from hummingbit.corpus.readers import ReadError, read_documents
from hummingbit.foundation.errors import install_command
from tests.support.corpora import read_skipping, write_source


def test_parquet_columns_become_fields_and_the_rest_payload(tmp_path: Path) -> None:
    table = pyarrow.table(
        {
            "id": ["a", "b"],
            "vector": pyarrow.array([[1.0, 2.0], [3.0, 4.0]], pyarrow.list_(pyarrow.float32(), 2)),
            "labels": [["x", "y"], None],
            "year": [1999, None],
            "day": pyarrow.array([0, 1], pyarrow.date32()),
        }
    )
    pyarrow.parquet.write_table(table, tmp_path / "d.parquet")
    first, second = read_documents(tmp_path / "d.parquet")
    assert first.vector is not None
    assert second.vector is not None
    assert (first.vector.tolist(), second.vector.tolist()) == ([1.0, 2.0], [3.0, 4.0])
    assert (first.labels, second.labels) == (("x", "y"), ())
    assert first.payload == {"year": 1999, "day": "1970-01-01"}
    assert second.payload == {"day": "1970-01-02"}


def test_values_of_parquet_that_json_lacks_become_the_nearest_that_it_has(tmp_path: Path) -> None:
    day = datetime.date(2020, 1, 2)
    columns = {
        "text": ["jam"],
        "category": pyarrow.array(["spread"]).dictionary_encode(),
        "day": [day],
        "at": [datetime.datetime(2020, 1, 2, 3, 4, tzinfo=datetime.UTC)],
        "hour": [datetime.time(3, 4)],
        "lasts": [datetime.timedelta(minutes=1.5)],
        "price": [Decimal("1.25")],
        "amount": [Decimal("3.00")],
        "name": [b"jam"],
        "raw": [b"\xff\x00"],
        "missing": [math.nan],
        "null": pyarrow.nulls(1),
        "nested": [{"day": day, "numbers": [1.5, math.nan]}],
        "pairs": pyarrow.array([[("a", day)]], pyarrow.map_(pyarrow.string(), pyarrow.date32())),
    }
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "d.parquet")
    (document,) = read_documents(tmp_path / "d.parquet", layout=Layout(label_field="category"))
    assert document.labels == ("spread",)
    assert document.payload == {
        "category": "spread",
        "day": "2020-01-02",
        "at": "2020-01-02T03:04:00+00:00",
        "hour": "03:04:00",
        "lasts": 90.0,
        "price": 1.25,
        "amount": 3,
        "name": "jam",
        "raw": "/wA=",
        "nested": {"day": "2020-01-02", "numbers": [1.5, None]},
        "pairs": [["a", "2020-01-02"]],
    }


def test_a_parquet_payload_wins_over_a_column_of_the_same_name(tmp_path: Path) -> None:
    table = pyarrow.table({"id": ["a"], "text": ["t"], "payload": [{"x": 1}], "x": [2], "y": [3]})
    pyarrow.parquet.write_table(table, tmp_path / "d.parquet")
    (document,) = read_documents(tmp_path / "d.parquet")
    assert document.payload == {"x": 1, "y": 3}


def test_bad_parquet_rows_are_reported_by_number_across_batches(tmp_path: Path) -> None:
    count = 2500
    vectors: list[list[float | None] | None] = [[1.0, 2.0] for _ in range(count)]
    vectors[0], vectors[1200], vectors[2400] = None, [1.0, None], [float("nan"), 1.0]
    names = [str(row) for row in range(count)]
    names[1300] = "1299"
    table = pyarrow.table({"id": names, "vector": vectors})
    pyarrow.parquet.write_table(table, tmp_path / "d.parquet")
    found, bad = read_skipping(tmp_path / "d.parquet")
    assert [item.line for item in bad] == [1, 1201, 1301, 2401]
    assert bad[2].reason == "id: is '1299', as on line 1300; ids must be unique"
    assert len(found) == count - 4


def test_broken_utf8_in_parquet_is_a_bad_row(tmp_path: Path) -> None:
    raw = pyarrow.array([b"good", b"\xff", b"fine"], pyarrow.binary())
    table = pyarrow.table({"id": ["a", "b", "c"], "text": raw.view(pyarrow.string())})
    pyarrow.parquet.write_table(table, tmp_path / "d.parquet")
    found, bad = read_skipping(tmp_path / "d.parquet")
    assert found == ["a", "c"]
    assert [item.line for item in bad] == [2]
    assert bad[0].reason.startswith("is not UTF-8")


def test_a_parquet_file_cut_short_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "d.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"id": ["a"], "text": ["t"]}), path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ReadError, match=f"^{path}: cannot be read as Parquet"):
        list(read_documents(path))


def test_without_pyarrow_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(ReadError, match=re.escape(install_command("parquet"))):
        list(read_documents(write_source(tmp_path, "d.parquet", b"PAR1")))


def test_npz_vectors_take_row_numbers_for_ids(tmp_path: Path) -> None:
    vectors = np.arange(6, dtype=np.float16).reshape(3, 2)
    np.savez(tmp_path / "d.npz", vectors=vectors, labels=np.array([3, 1, 3], dtype=np.uint8))
    documents = list(read_documents(tmp_path / "d.npz"))
    assert [document.id for document in documents] == ["0", "1", "2"]
    assert [document.labels for document in documents] == [("3",), ("1",), ("3",)]
    read = np.stack([document.vector for document in documents if document.vector is not None])
    np.testing.assert_array_equal(read, vectors.astype(np.float32))


def test_npz_texts_and_codes_take_the_ids_given(tmp_path: Path) -> None:
    ids_given = np.array(["x", "y"])
    np.savez_compressed(tmp_path / "text.npz", text=np.array(["one", ""]), ids=ids_given)
    read = [(document.id, document.text) for document in read_documents(tmp_path / "text.npz")]
    assert read == [("x", "one"), ("y", "")]
    codes = np.array([[0, 255], [1, 2]], dtype=np.uint8)
    np.savez(tmp_path / "codes.npz", codes=codes, ids=np.array([7, 8]))
    coded = [(document.id, document.code) for document in read_documents(tmp_path / "codes.npz")]
    assert coded == [("7", "00ff"), ("8", "0102")]


def test_bad_npz_rows_are_reported_by_number(tmp_path: Path) -> None:
    vectors = np.array([[1.0], [np.nan], [2.0], [1e300]])
    np.savez(tmp_path / "d.npz", vectors=vectors, ids=np.array(["a", "b", "a", "c"]))
    found, bad = read_skipping(tmp_path / "d.npz")
    assert found == ["a"]
    assert [(item.line, item.reason.partition(";")[0]) for item in bad] == [
        (2, "vector: is nan at position 0"),
        (3, "id: is 'a', as on line 1"),
        (4, "vector: is 1e+300 at position 0"),
    ]


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        (
            {"x": np.zeros(2)},
            "has the arrays x; it must have exactly one of vectors, matrices, text",
        ),
        ({}, "has no arrays; it must have"),
        ({"vectors": np.zeros((2, 2)), "text": np.array(["a"])}, "has the arrays text, vectors"),
        ({"vectors": np.zeros(2)}, r"vectors is float64 of shape \[2\]; it must be numbers of"),
        ({"vectors": np.array([["a"]])}, "vectors is <U1 of shape"),
        ({"text": np.array([b"a"])}, r"text is \|S1 of shape"),
        ({"codes": np.zeros((2, 2), np.uint16)}, "codes is uint16 of shape"),
        ({"vectors": np.zeros((2, 2)), "ids": np.array(["a"])}, r"ids is <U1 of shape \[1\]"),
        (
            {"vectors": np.zeros((2, 2)), "labels": np.zeros(2, complex)},
            "labels is complex128 of shape",
        ),
        (
            {"vectors": np.array([[None]], dtype=object)},
            "cannot be read as an .npz archive: it is not one, or it holds",
        ),
    ],
)
def test_an_archive_of_other_arrays_is_an_error(
    tmp_path: Path, arrays: dict[str, npt.NDArray[Any]], reason: str
) -> None:
    np.savez(tmp_path / "d.npz", allow_pickle=True, **arrays)
    with pytest.raises(ReadError, match=f"^{tmp_path / 'd.npz'}: {reason}"):
        list(read_documents(tmp_path / "d.npz", on_error="skip"))


@pytest.mark.parametrize("cut", [lambda size: size // 2, lambda size: size - 5])
def test_a_truncated_archive_is_an_error(tmp_path: Path, cut: Callable[[int], int]) -> None:
    path = tmp_path / "d.npz"
    np.savez(path, vectors=np.ones((100, 10)))
    path.write_bytes(path.read_bytes()[: cut(path.stat().st_size)])
    with pytest.raises(ReadError, match=r"cannot be read as an .npz archive"):
        list(read_documents(path))


def test_a_single_array_under_the_name_of_an_archive_is_an_error(tmp_path: Path) -> None:
    with (tmp_path / "d.npz").open("wb") as file:
        np.save(file, np.ones((2, 2)))
    with pytest.raises(ReadError, match=r"is a single array; it must be an .npz archive"):
        list(read_documents(tmp_path / "d.npz"))
