import io
import json
import sys
import tracemalloc
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hummingbit.corpus.document import MAX_TEXT_LENGTH, Document
from hummingbit.corpus.layout import Layout
from hummingbit.corpus.lines import MAX_LINE_BYTES
from hummingbit.corpus.readers import FORMATS, ReadError, read_documents
from tests.support.corpora import read_skipping, write_source

GOOD = b'{"id": "a", "text": "one"}\n'
OTHER = b'{"id": "b", "text": "two"}\n'

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
ids = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=9
)
record_fields: dict[str, st.SearchStrategy[Any]] = {"id": ids, "text": text}
record_extras: dict[str, st.SearchStrategy[Any]] = {
    "label": text.filter(str.strip),
    "payload": st.dictionaries(text, text, max_size=3),
}
records = st.lists(
    st.fixed_dictionaries(record_fields, optional=record_extras),
    max_size=6,
    unique_by=lambda record: str(record["id"]),
)


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
    path = write_source(folder, "documents.jsonl", lines.encode())
    read = [as_record(document) for document in read_documents(path)]
    assert read == [without_empty_payload(record) for record in written]


@pytest.mark.parametrize("name", ["d.jsonl", "d.json", "D.JSONL", "d.jsonl.gz", "d.json.xz"])
def test_json_lines_are_read_under_every_suffix(tmp_path: Path, name: str) -> None:
    path = write_source(tmp_path, name, GOOD + b"\n  \r\n" + OTHER.rstrip())
    assert [document.text for document in read_documents(str(path))] == ["one", "two"]


def test_every_content_field_is_read(tmp_path: Path) -> None:
    lines = (
        b'\xef\xbb\xbf{"id": "v", "vector": [1, 2.5], "labels": ["x", "y"]}\n'
        b'{"id": "c", "code": "00ff", "payload": {"n": [1, null]}}\n'
    )
    first, second = read_documents(write_source(tmp_path, "d.jsonl", lines))
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
        (b'{"text": "no id"}', "id: is missing; it must hold the id. Its fields are 'text'"),
        (b'{"id": true, "text": "t"}', "id: is True; it must be a string"),
        (b'{"id": 1.5, "text": "t"}', "id: is 1.5; it must be a string"),
        (
            b'{"id": "x", "question": "t"}',
            "document: must have at least one of text, vector, code; it has none. Its fields"
            " are 'id', 'question'",
        ),
        (
            b'{"id": "x", "text": null}',
            "text: is null; a document must have a text, a vector or a code",
        ),
        (b'["id"]', "document: is ['id']; it must be an object"),
        (b"7", "document: is 7; it must be an object"),
        (b'{"id": "a", "text": "again"}', "id: is 'a', as on line 1; ids must be unique"),
        (b"[" * 100_000 + b"1", "cannot be read as JSON"),
        (b"{", "is only the beginning of a JSON value; JSON lines have one document a line"),
        (b" [ {", "is only the beginning of a JSON value; JSON lines have one document a line"),
        (b'{"id": "x", "vector": [' + b"9" * 5000 + b"]}", "cannot be read as JSON"),
        (b'{"id": "x", "text": "' + b"t" * MAX_LINE_BYTES + b'"}', "is longer than 16,777,216 b"),
        (b'{"id": "x", "text": "' + b"t" * (MAX_TEXT_LENGTH + 1) + b'"}', "text: has 1,000,001 ch"),
    ],
)
def test_a_bad_line_stops_or_is_reported_with_its_place(
    tmp_path: Path, line: bytes, reason: str
) -> None:
    path = write_source(tmp_path, "d.jsonl", GOOD + b"\n" + line + b"\n" + OTHER)
    documents = read_documents(path)
    assert next(documents).id == "a"
    with pytest.raises(ReadError) as caught:
        next(documents)
    assert str(caught.value).startswith(f"{path}:3: {reason}")
    found, bad = read_skipping(path)
    assert found == ["a", "b"]
    assert [(item.source, item.line) for item in bad] == [(str(path), 3)]
    assert str(bad[0]) == str(caught.value)


def test_skipping_without_a_report_goes_on(tmp_path: Path) -> None:
    path = write_source(tmp_path, "d.jsonl", b"bad\n" + GOOD + b"bad")
    assert [document.id for document in read_documents(path, on_error="skip")] == ["a"]


def test_the_longest_text_is_read_however_it_is_escaped(tmp_path: Path) -> None:
    line = json.dumps({"id": "a", "text": "😀" * MAX_TEXT_LENGTH}) + "\n"
    (document,) = read_documents(write_source(tmp_path, "d.jsonl.gz", line.encode()))
    assert document.text == "😀" * MAX_TEXT_LENGTH


@pytest.mark.parametrize("name", ["d.jsonl.gz", "d.csv.xz"])
def test_memory_does_not_grow_with_the_length_of_the_file(tmp_path: Path, name: str) -> None:
    header = b"id,text\n" if ".csv" in name else b""
    form = b'%d,"%s"\n' if header else b'{"id": "%d", "text": "%s"}\n'
    content = header + b"".join(form % (row, b"word " * 2000) for row in range(2000))
    path = write_source(tmp_path, name, content)
    size = len(content)
    del content
    list(islice(read_documents(path), 1))  # imports what it needs
    tracemalloc.start()
    count = sum(1 for _ in read_documents(path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 2000
    assert peak < size / 4


@pytest.mark.parametrize("name", ["d.jsonl.gz", "d.jsonl.xz", "d.csv.gz", "d.tsv.xz"])
@pytest.mark.parametrize("on_error", ["stop", "skip"])
def test_a_truncated_file_is_an_error_even_where_lines_are_skipped(
    tmp_path: Path, name: str, on_error: Any
) -> None:
    noise = np.random.default_rng(0).integers(0, 16, (3000, 40))
    rows = "".join(f"{position}\t{''.join(map(str, row))}\n" for position, row in enumerate(noise))
    if ".csv" in name:
        rows = rows.replace("\t", ",")
    header = "id,text\n" if ".csv" in name else "id\ttext\n"
    if ".jsonl" in name:
        lines = (line.split("\t") for line in rows.splitlines())
        rows = "".join(f'{{"id": "{id_}", "text": "{text}"}}\n' for id_, text in lines)
        header = ""
    path = write_source(tmp_path, name, (header + rows).encode())
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
        ("missing.jsonl", "No such file or directory"),
        (
            "nonsense",
            "No such file or directory; it is not a named data set either; those are docstrings",
        ),
        ("hwu64:train", "No such file or directory; a named data set is not read here"),
        ("nul\0.jsonl", "embedded null"),
        ("x" * 300 + ".jsonl", "File name too long"),
        (
            "d.doc",
            f"the suffix '.doc' is not one of {', '.join(FORMATS)}",
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
        read_documents(write_source(tmp_path, "d.jsonl", GOOD), on_error="ignore")  # type: ignore[arg-type]


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
    first, second = read_documents(write_source(tmp_path, "d.csv", content.encode()))
    assert first.text == 'He said "no",\r\nthen left'
    assert first.labels == ("x", "y")
    assert first.payload == {"lang": "en", "year": 1999}
    assert second.vector is not None
    assert second.vector.tolist() == [1.0, -2.5]
    assert second.payload == {"year": 2001}


def test_tsv_reads_labels_codes_and_empty_texts(tmp_path: Path) -> None:
    path = write_source(tmp_path, "d.tsv.gz", b"id\tlabel\ttext\na\tx, y\t\n")
    (document,) = read_documents(path)
    assert (document.labels, document.text) == (("x, y",), "")
    path = write_source(tmp_path, "codes.tsv", b"id\tcode\na\t00ff\n")
    assert [document.code for document in read_documents(path)] == ["00ff"]


def test_a_csv_cell_may_be_as_long_as_a_text(tmp_path: Path) -> None:
    path = write_source(tmp_path, "d.csv", b"id,text\na," + b"t" * MAX_TEXT_LENGTH)
    assert [len(document.text or "") for document in read_documents(path)] == [MAX_TEXT_LENGTH]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (b"x", "has 1 cell; the header has 3"),
        (b"x,y,,z", "has 4 cells; the header has 3"),
        (b",y,", "id: is missing; it must hold the id"),
        (b"x,,", "document: must have at least one of text, vector, code; it has none"),
        (b"x,,[1", "vector: is not valid JSON"),
        (b"x,,[NaN]", "vector: is not valid JSON: NaN is not"),
        (b"x,\xff,", "is not UTF-8: byte 0xff"),
        (b'x,"y"z,', "is not valid CSV: "),
        (b"a,y,", "id: is 'a', as on line 2; ids must be unique"),
    ],
)
def test_a_bad_csv_row_is_reported_where_it_starts(tmp_path: Path, row: bytes, reason: str) -> None:
    content = 'id,text,vector\na,"one\nand a ½",\n'.encode() + row + b"\nb,two \xc3\xa9,\n"
    path = write_source(tmp_path, "d.csv", content)
    with pytest.raises(ReadError) as caught:
        list(read_documents(path))
    assert str(caught.value).startswith(f"{path}:4: {reason}")
    found, bad = read_skipping(path)
    assert found == ["a", "b"]
    assert [str(item) for item in bad] == [str(caught.value)]


def test_a_quote_that_never_closes_is_reported_where_it_opens(tmp_path: Path) -> None:
    path = write_source(tmp_path, "d.csv", b'id,text\na,one\nb,"two\nc,three\n')
    found, bad = read_skipping(path)
    assert found == ["a"]
    assert [(item.line, item.n_lines) for item in bad] == [(3, 2)]
    assert bad[0].reason.startswith("is not valid CSV: unexpected end of data; it takes in the")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", ": is empty; it must begin with a header row"),
        (
            b"id,title\n",
            ": has none of the fields text, vector, code; it has 'id', 'title'. Name the field"
            " of the text with --text-field",
        ),
        ("id,te\udcffxt,½,⅓\n".encode("utf-8", "surrogateescape"), ":1: is not UTF-8: byte 0xff"),
    ],
)
def test_a_bad_header_is_an_error_even_where_lines_are_skipped(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    path = write_source(tmp_path, "d.csv", content)
    with pytest.raises(ReadError) as caught:
        list(read_documents(path, on_error="skip"))
    assert str(caught.value).startswith(f"{path}{reason}")


def test_html_is_read_as_its_text(tmp_path: Path) -> None:
    rows = b'{"text": "<p>one</p><p>two</p>", "note": "<b>bold</b>"}\n{"text": "A &amp; B"}\n'
    path = write_source(tmp_path, "d.jsonl", rows)
    first, second = read_documents(path, layout=Layout(html=True))
    assert (first.text, second.text) == ("one\ntwo", "A & B")
    assert first.payload == {"note": "<b>bold</b>"}
