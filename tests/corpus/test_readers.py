import datetime
import gzip
import io
import json
import lzma
import math
import sys
import tracemalloc
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpus.document import MAX_TEXT_LENGTH, Document
from corpus.layout import Layout
from corpus.lines import MAX_LINE_BYTES
from corpus.readers import BadLine, ReadError, read_documents

GOOD = b'{"id": "a", "text": "one"}\n'
OTHER = b'{"id": "b", "text": "two"}\n'

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
ids = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=9
)
record_fields: dict[str, st.SearchStrategy[Any]] = {"id": ids, "text": text}
record_extras: dict[str, st.SearchStrategy[Any]] = {
    "label": text.filter(bool),
    "payload": st.dictionaries(text, text, max_size=3),
}
records = st.lists(
    st.fixed_dictionaries(record_fields, optional=record_extras),
    max_size=6,
    unique_by=lambda record: str(record["id"]),
)


def write(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    if path.suffix == ".gz":
        content = gzip.compress(content)
    elif path.suffix == ".xz":
        content = lzma.compress(content, preset=0)  # other presets take megabytes to read
    path.write_bytes(content)
    return path


def read_skipping(path: Path) -> tuple[list[str], list[BadLine]]:
    bad: list[BadLine] = []
    documents = read_documents(path, on_error="skip", report=bad.append)
    return [document.id for document in documents], bad


def as_record(document: Document) -> dict[str, Any]:
    record: dict[str, Any] = {"id": document.id, "text": document.text}
    if document.labels:
        record["label"] = document.labels[0]
    if document.payload:
        record["payload"] = document.payload
    return record


def without_empty_payload(record: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if value != {}}


@given(records, st.booleans())
def test_json_lines_come_back_as_written(
    tmp_path_factory: pytest.TempPathFactory, written: list[dict[str, Any]], escaped: bool
) -> None:
    folder = tmp_path_factory.mktemp("lines")
    lines = "".join(json.dumps(record, ensure_ascii=escaped) + "\n" for record in written)
    path = write(folder, "documents.jsonl", lines.encode())
    read = [as_record(document) for document in read_documents(path)]
    assert read == [without_empty_payload(record) for record in written]


@pytest.mark.parametrize("name", ["d.jsonl", "d.json", "D.JSONL", "d.jsonl.gz", "d.json.xz"])
def test_json_lines_are_read_under_every_suffix(tmp_path: Path, name: str) -> None:
    path = write(tmp_path, name, GOOD + b"\n  \r\n" + OTHER.rstrip())
    assert [document.text for document in read_documents(str(path))] == ["one", "two"]


def test_every_content_field_is_read(tmp_path: Path) -> None:
    lines = (
        b'\xef\xbb\xbf{"id": "v", "vector": [1, 2.5], "labels": ["x", "y"]}\n'
        b'{"id": "c", "code": "00ff", "payload": {"n": [1, null]}}\n'
    )
    first, second = read_documents(write(tmp_path, "d.jsonl", lines))
    assert first.vector is not None
    assert first.vector.tolist() == [1.0, 2.5]
    assert first.labels == ("x", "y")
    assert (second.code, second.payload) == ("00ff", {"n": [1, None]})


def test_standard_input_is_json_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(GOOD + b"[]\n")))
    documents = read_documents("-")
    assert next(documents).id == "a"
    with pytest.raises(ReadError, match=r"^standard input:2: document: is \[\]"):
        next(documents)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"id": "x", "text": }', "is not valid JSON: Expecting value at character 21"),
        (b"hello", "is not valid JSON"),
        (b'{"id": "x", "text": "", "id": "y"}', "the key 'id' is given twice in one object"),
        (b'{"id": "x", "vector": [NaN]}', "is not valid JSON: NaN is not a JSON number"),
        (b'{"id": "x", "vector": [Infinity]}', "is not valid JSON: Infinity is not a JSON number"),
        (
            b'{"id": "x", "text": "", "payload": {"s": -Infinity}}',
            "is not valid JSON: -Infinity is not",
        ),
        (b'{"id": "x", "vector": [1e999]}', "vector: is inf at position 0"),
        (b'{"id": "x", "text": "", "payload": {"s": 1e999}}', "payload: cannot be written"),
        (b'{"id": "x", "text": "\xff"}', "is not UTF-8: byte 0xff at character 22"),
        (b'{"id": "x", "text": "\xed\xa0\x80"}', "is not UTF-8: byte 0xed"),
        (b'{"id": "x", "text": "\\ud800"}', "text: is '\\ud800', which holds a lone surrogate"),
        (b'{"text": "no id"}', "id: is None; it must be a string"),
        (b'{"id": true, "text": "t"}', "id: is True; it must be a string"),
        (b'{"id": 1.5, "text": "t"}', "id: is 1.5; it must be a string"),
        (
            b'{"id": "x", "question": "t"}',
            "document: must have exactly one of text, vector, code; has none of them. Its fields"
            " are 'id', 'question'; name the field of the text with --text-field",
        ),
        (
            b'{"id": "x", "text": null}',
            "text: is null; a document must have a text, a vector or a code",
        ),
        (b'["id"]', "document: is ['id']; it must be an object"),
        (b"7", "document: is 7; it must be an object"),
        (b'{"id": "a", "text": "again"}', "id: is 'a', as on line 1; ids must be unique"),
        (b"[" * 100_000, "cannot be read as JSON"),
        (b'{"id": "x", "vector": [' + b"9" * 5000 + b"]}", "cannot be read as JSON"),
        (b'{"id": "x", "text": "' + b"t" * MAX_LINE_BYTES + b'"}', "is longer than 16,777,216 b"),
        (b'{"id": "x", "text": "' + b"t" * (MAX_TEXT_LENGTH + 1) + b'"}', "text: has 1,000,001 ch"),
    ],
)
def test_a_bad_line_stops_or_is_reported_with_its_place(
    tmp_path: Path, line: bytes, reason: str
) -> None:
    path = write(tmp_path, "d.jsonl", GOOD + b"\n" + line + b"\n" + OTHER)
    documents = read_documents(path)
    assert next(documents).id == "a"
    with pytest.raises(ReadError) as caught:
        next(documents)
    assert str(caught.value).startswith(f"{path}:3: {reason}")
    found, bad = read_skipping(path)
    assert found == ["a", "b"]
    assert [(one.source, one.line) for one in bad] == [(str(path), 3)]
    assert str(bad[0]) == str(caught.value)


def test_skipping_without_a_report_goes_on(tmp_path: Path) -> None:
    path = write(tmp_path, "d.jsonl", b"bad\n" + GOOD + b"bad")
    assert [document.id for document in read_documents(path, on_error="skip")] == ["a"]


def test_the_longest_text_is_read_however_it_is_escaped(tmp_path: Path) -> None:
    line = json.dumps({"id": "a", "text": "😀" * MAX_TEXT_LENGTH}) + "\n"
    (document,) = read_documents(write(tmp_path, "d.jsonl.gz", line.encode()))
    assert document.text == "😀" * MAX_TEXT_LENGTH


@pytest.mark.parametrize("name", ["d.jsonl.gz", "d.csv.xz"])
def test_memory_does_not_grow_with_the_length_of_the_file(tmp_path: Path, name: str) -> None:
    header = b"id,text\n" if ".csv" in name else b""
    form = b'%d,"%s"\n' if header else b'{"id": "%d", "text": "%s"}\n'
    content = header + b"".join(form % (row, b"word " * 2000) for row in range(2000))
    path = write(tmp_path, name, content)
    size = len(content)
    del content
    tracemalloc.start()
    count = sum(1 for _ in read_documents(path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 2000
    assert peak < size / 8


@pytest.mark.parametrize("name", ["d.jsonl.gz", "d.jsonl.xz", "d.csv.gz", "d.tsv.xz"])
@pytest.mark.parametrize("on_error", ["stop", "skip"])
def test_a_truncated_file_is_an_error_even_where_lines_are_skipped(
    tmp_path: Path, name: str, on_error: Any
) -> None:
    noise = np.random.default_rng(0).integers(0, 16, (3000, 40))
    rows = "".join(f"{place}\t{''.join(map(str, row))}\n" for place, row in enumerate(noise))
    if ".csv" in name:
        rows = rows.replace("\t", ",")
    header = "id,text\n" if ".csv" in name else "id\ttext\n"
    if ".jsonl" in name:
        lines = (line.split("\t") for line in rows.splitlines())
        rows = "".join(f'{{"id": "{id_}", "text": "{text}"}}\n' for id_, text in lines)
        header = ""
    path = write(tmp_path, name, (header + rows).encode())
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(ReadError, match=f"^{path}:[0-9]+: cannot be read: "):
        list(read_documents(path, on_error=on_error))


@pytest.mark.parametrize("suffix", ["jsonl.gz", "jsonl.xz", "npz", "parquet"])
@pytest.mark.parametrize("content", [b"", b"this is something else entirely\n" * 9])
def test_a_file_that_is_not_what_its_suffix_says_is_an_error(
    tmp_path: Path, suffix: str, content: bytes
) -> None:
    path = tmp_path / f"d.{suffix}"
    path.write_bytes(content)
    if suffix == "jsonl.gz" and not content:
        assert list(read_documents(path)) == []  # gzip takes an empty file for an empty stream
        return
    with pytest.raises(ReadError, match=f"^{path}(:1)?: cannot be read"):
        list(read_documents(path))


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("missing.jsonl", "No such file or directory; it is not a named data set either"),
        (
            "nonsense",
            "No such file or directory; it is not a named data set either; those are docstrings",
        ),
        ("nul\0.jsonl", "embedded null"),
        ("x" * 300 + ".jsonl", "File name too long"),
        (
            "d.doc",
            "the suffix '.doc' is not one of .jsonl, .ndjson, .json, .csv, .tsv, .txt, .md, ",
        ),
        ("d.gz", "its name must end with one of .jsonl"),
        ("bare", "its name must end with one of .jsonl"),
        ("d.npz.gz", "a compressed .npz file cannot be read; decompress it first"),
        ("d.parquet.xz", "a compressed .parquet file cannot be read; decompress it first"),
    ],
)
def test_a_source_that_cannot_be_read_is_refused_at_once(
    tmp_path: Path, name: str, reason: str
) -> None:
    for present in ("d.doc", "d.gz", "bare", "d.npz.gz", "d.parquet.xz"):
        (tmp_path / present).touch()
    with pytest.raises(ReadError) as caught:
        read_documents(tmp_path / name)
    assert str(caught.value).startswith(f"{tmp_path / name}: {reason}")


def test_an_unknown_way_with_errors_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"on_error is 'ignore'; it must be 'stop' or 'skip'"):
        read_documents(write(tmp_path, "d.jsonl", GOOD), on_error="ignore")  # type: ignore[arg-type]


def test_a_path_is_never_taken_for_a_data_set(tmp_path: Path) -> None:
    with pytest.raises(ReadError, match=r"^snippets: No such file"):
        read_documents(Path("snippets"))


def test_csv_columns_become_fields_and_the_rest_payload(tmp_path: Path) -> None:
    content = (
        "\ufeffid,text,labels,vector,lang,year\r\n"
        'a,"He said ""no"",\r\nthen left",x|y|x,,en,1999\r\n'
        "\r\n"
        'b,,z,"[1, -2.5]",,2001\r\n'
    )
    first, second = read_documents(write(tmp_path, "d.csv", content.encode()))
    assert first.text == 'He said "no",\r\nthen left'
    assert first.labels == ("x", "y")
    assert first.payload == {"lang": "en", "year": "1999"}
    assert second.vector is not None
    assert second.vector.tolist() == [1.0, -2.5]
    assert second.payload == {"year": "2001"}


def test_tsv_reads_labels_codes_and_empty_texts(tmp_path: Path) -> None:
    path = write(tmp_path, "d.tsv.gz", b"id\tlabel\ttext\na\tx, y\t\n")
    (document,) = read_documents(path)
    assert (document.labels, document.text) == (("x, y",), "")
    path = write(tmp_path, "codes.tsv", b"id\tcode\na\t00ff\n")
    assert [document.code for document in read_documents(path)] == ["00ff"]


def test_a_csv_cell_may_be_as_long_as_a_text(tmp_path: Path) -> None:
    path = write(tmp_path, "d.csv", b"id,text\na," + b"t" * MAX_TEXT_LENGTH)
    assert [len(document.text or "") for document in read_documents(path)] == [MAX_TEXT_LENGTH]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (b"x", "has 1 cells; the header has 3"),
        (b"x,y,,z", "has 4 cells; the header has 3"),
        (b",y,", "id: is None"),
        (b"x,,", "document: must have exactly one of text, vector, code; has none"),
        (b"x,,[1", "vector: is not valid JSON"),
        (b"x,,[NaN]", "vector: is not valid JSON: NaN is not"),
        (b"x,\xff,", "is not UTF-8: byte 0xff"),
        (b'x,"y"z,', "is not valid CSV: "),
        (b"a,y,", "id: is 'a', as on line 2; ids must be unique"),
    ],
)
def test_a_bad_csv_row_is_reported_where_it_starts(tmp_path: Path, row: bytes, reason: str) -> None:
    content = 'id,text,vector\na,"one\nand a ½",\n'.encode() + row + b"\nb,two \xc3\xa9,\n"
    path = write(tmp_path, "d.csv", content)
    with pytest.raises(ReadError) as caught:
        list(read_documents(path))
    assert str(caught.value).startswith(f"{path}:4: {reason}")
    found, bad = read_skipping(path)
    assert found == ["a", "b"]
    assert [str(one) for one in bad] == [str(caught.value)]


def test_a_quote_that_never_closes_is_reported_where_it_opens(tmp_path: Path) -> None:
    path = write(tmp_path, "d.csv", b'id,text\na,one\nb,"two\nc,three\n')
    found, bad = read_skipping(path)
    assert found == ["a"]
    assert [(one.line, one.reason) for one in bad] == [
        (3, "is not valid CSV: unexpected end of data")
    ]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", ": is empty; it must begin with a header row"),
        (
            b"id,title\n",
            ": has none of the fields text, vector, code; it has 'id', 'title'. Name the field"
            " of the text with --text-field",
        ),
        (b"id,text,text\n", ":1: the header has the column 'text' twice"),
        ("id,te\udcffxt,½,⅓\n".encode("utf-8", "surrogateescape"), ":1: is not UTF-8: byte 0xff"),
    ],
)
def test_a_bad_header_is_an_error_even_where_lines_are_skipped(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    path = write(tmp_path, "d.csv", content)
    with pytest.raises(ReadError) as caught:
        list(read_documents(path, on_error="skip"))
    assert str(caught.value).startswith(f"{path}{reason}")


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
    assert [one.line for one in bad] == [1, 1201, 1301, 2401]
    assert bad[2].reason == "id: is '1299', as on line 1300; ids must be unique"
    assert len(found) == count - 4


def test_broken_utf8_in_parquet_is_a_bad_row(tmp_path: Path) -> None:
    raw = pyarrow.array([b"good", b"\xff", b"fine"], pyarrow.binary())
    table = pyarrow.table({"id": ["a", "b", "c"], "text": raw.view(pyarrow.string())})
    pyarrow.parquet.write_table(table, tmp_path / "d.parquet")
    found, bad = read_skipping(tmp_path / "d.parquet")
    assert found == ["a", "c"]
    assert [one.line for one in bad] == [2]
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
    with pytest.raises(ReadError, match=r"pip install 'hummingbit\[parquet\]'"):
        list(read_documents(write(tmp_path, "d.parquet", b"PAR1")))


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
    assert [(one.line, one.reason.partition(";")[0]) for one in bad] == [
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
        ({"vectors": np.zeros((2, 2)), "labels": np.zeros(2)}, "labels is float64 of shape"),
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


@pytest.mark.parametrize(
    "written",
    [
        '{"data": [{"id": "a", "text": "one"}, {"id": "b", "text": "two"}]}',
        '{\n "count": 2,\n "next": null,\n "hits": [\n  {"id": "a", "text": "one"},\n'
        '  {"id": "b", "text": "two"}],\n "took": 0.1}\n',
        '{"meta": {"version": 3, "tags": []} , "data": [{"id": "a", "text": "one"},'
        ' {"id": "b", "text": "two"}]}',
    ],
)
def test_the_list_in_one_object_holds_the_documents(tmp_path: Path, written: str) -> None:
    path = tmp_path / "answer.json"
    path.write_text(written)
    said: list[str] = []
    read = list(read_documents(path, notice=said.append))
    assert [(one.id, one.text) for one in read] == [("a", "one"), ("b", "two")]
    assert len(said) == 1
    assert "its documents are the list" in said[0]


@pytest.mark.parametrize(
    "written",
    [
        '{"replies": [{"by": "x"}], "id": "a", "text": "one"}\n',
        '{"replies": [{"by": "x"}], "id": "a", "text": "one"}\n{"id": "b", "text": "two"}\n',
        '{"replies": [{"by": "x"}], "id": "a", "body": "one"}\n',
    ],
)
def test_an_object_with_a_text_of_its_own_is_a_document(tmp_path: Path, written: str) -> None:
    path = tmp_path / "documents.json"
    path.write_text(written)
    layout = Layout(text_fields=("body",)) if "body" in written else Layout()
    first = next(iter(read_documents(path, layout=layout)))
    assert (first.id, first.text) == ("a", "one")
    assert first.payload == {"replies": [{"by": "x"}]}


def test_a_document_of_many_numbers_is_read_at_once(tmp_path: Path) -> None:
    numbers = {f"n{i}": i for i in range(200)}
    path = tmp_path / "documents.json"
    path.write_text(json.dumps({"id": "a", **numbers, "text": "one"}) + "\n")
    (read,) = read_documents(path)
    assert read.payload == numbers


MARKDOWN = """---
title: left out
---
Before the first heading.

# Fruit

## Jam

Boil it.

```sh
# no heading
```

## Empty

### Deep ##
Deeper text,
two lines.

#hashtag is no heading
"""


def test_sections_of_a_markdown_file_are_documents(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text(MARKDOWN)
    found = list(read_documents(tmp_path / "notes.md"))
    assert [(one.id, one.text, one.payload) for one in found] == [
        ("notes:1", "Before the first heading.", {}),
        ("notes:8", "Jam\nBoil it.\n\n```sh\n# no heading\n```", {"heading": "Fruit › Jam"}),
        (
            "notes:18",
            "Deep\nDeeper text,\ntwo lines.\n\n#hashtag is no heading",
            {"heading": "Fruit › Empty › Deep"},
        ),
    ]


def test_a_markdown_file_that_is_not_utf8_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_bytes(b"# A\ntext\n# B\n\xff\xfe\x00 bad\n")
    with pytest.raises(ReadError, match=r"notes.md"):
        list(read_documents(tmp_path / "notes.md", layout=Layout(encoding="utf-8")))


@pytest.mark.parametrize(
    "content",
    [
        json.dumps({"a": {"text": "one"}, "b": {"text": "two"}}, indent=1),
        "\n".join(json.dumps({"text": text}, indent=1) for text in ("one", "two")),
        json.dumps({"a": [{"text": "one"}], "b": [{"text": "two"}]}),
    ],
)
def test_json_that_is_no_list_of_documents_is_refused_with_what_it_must_be(
    tmp_path: Path, content: str
) -> None:
    path = tmp_path / "documents.json"
    path.write_text(content)
    with pytest.raises(ReadError, match="must hold an array of documents, or a document on each"):
        list(read_documents(path))


def test_one_document_may_extend_over_several_lines(tmp_path: Path) -> None:
    path = tmp_path / "document.json"
    path.write_text(json.dumps({"id": "a", "text": "one"}, indent=2))
    (document,) = read_documents(path)
    assert (document.id, document.text) == ("a", "one")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
@pytest.mark.parametrize("suffix", ["jsonl", "json"])
def test_json_may_be_in_a_wide_encoding(tmp_path: Path, encoding: str, suffix: str) -> None:
    records = [{"id": "a", "text": "Käse"}, {"id": "b", "text": "Öl"}]
    lines = [json.dumps(record, ensure_ascii=False) for record in records]
    content = "\n".join(lines) if suffix == "jsonl" else f"[{','.join(lines)}]"
    path = tmp_path / f"d.{suffix}"
    path.write_bytes(content.encode(encoding))
    notices: list[str] = []
    assert [one.text for one in read_documents(path, notice=notices.append)] == ["Käse", "Öl"]
    assert notices == [f"{path}: is not UTF-8; it is read as {encoding}"]


def test_json_may_be_in_an_encoding_that_is_named(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    path.write_bytes('{"id": "a", "text": "标题"}\n'.encode("gb18030"))
    (document,) = read_documents(path, layout=Layout(encoding="gb18030"))
    assert document.text == "标题"
