"""Sources of other shapes: other names, integer or missing ids, several text fields."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.ipc
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hummingbit.corpus.document import parse_document
from hummingbit.corpus.layout import Layout
from hummingbit.corpus.readers import ReadError, read_documents

BANK = "text,category\nwhere is my card?,card_arrival\nI lost my card,lost_card\n"


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_documents_without_ids_are_numbered_by_line_and_it_is_said(tmp_path: Path) -> None:
    notices: list[str] = []
    path = write(tmp_path, "bank.train.csv", BANK)
    documents = list(read_documents(path, notice=notices.append))
    assert [document.id for document in documents] == ["bank:2", "bank:3"]
    expected = f"{path}: documents have no id; they are numbered by line, from bank:2"
    assert notices == [expected]


def test_a_label_of_another_name_is_a_label_and_stays_in_the_payload(tmp_path: Path) -> None:
    layout = Layout(label_field="category")
    first, _ = read_documents(write(tmp_path, "bank.csv", BANK), layout=layout)
    assert first.labels == ("card_arrival",)
    assert first.payload_with_labels == {"category": "card_arrival", "label": "card_arrival"}


def test_a_label_beside_the_one_that_was_asked_for_is_left_out(tmp_path: Path) -> None:
    path = write(tmp_path, "d.csv", "id,text,label,topic\na,one,wrong,right\n")
    (document,) = read_documents(path, layout=Layout(label_field="topic"))
    assert document.payload_with_labels == {"topic": "right", "label": "right"}


def test_integers_are_ids_and_labels(tmp_path: Path) -> None:
    lines = '{"id": 7, "text": "a", "label": 3}\n{"id": 8, "text": "b", "labels": [1, 2]}\n'
    documents = list(read_documents(write(tmp_path, "d.jsonl", lines)))
    assert [(document.id, document.labels) for document in documents] == [
        ("7", ("3",)),
        ("8", ("1", "2")),
    ]


def test_a_label_that_is_a_list_is_several(tmp_path: Path) -> None:
    path = write(tmp_path, "d.jsonl", '{"id": "a", "text": "t", "label": ["x", 2]}')
    (document,) = read_documents(path)
    assert document.labels == ("x", "2")


def test_text_fields_are_joined_and_payload_fields_kept(tmp_path: Path) -> None:
    record = {"uid": 1, "title": "Tides", "body": "The moon pulls.", "year": 1999, "note": None}
    layout = Layout(
        id_field="uid", text_fields=("title", "body"), payload_fields=("title", "year", "note")
    )
    path = write(tmp_path, "d.jsonl", json.dumps(record))
    (document,) = read_documents(path, layout=layout)
    assert (document.id, document.text) == ("1", "Tides\nThe moon pulls.")
    # Filters tell a null and a missing field apart.
    assert document.payload == {"title": "Tides", "year": 1999, "note": None}


def test_a_part_that_is_missing_leaves_no_empty_line(tmp_path: Path) -> None:
    layout = Layout(text_fields=("title", "body"))
    path = write(tmp_path, "d.csv", "title,body\nTides,\n,Moon\n,\n")
    assert [document.text for document in read_documents(path, layout=layout)] == [
        "Tides",
        "Moon",
        "",
    ]


def test_fields_of_json_lines_that_hold_no_part_join_the_payload(tmp_path: Path) -> None:
    path = write(tmp_path, "d.jsonl", '{"id": "a", "text": "t", "lang": "en", "payload": {"n": 1}}')
    (document,) = read_documents(path)
    assert document.payload == {"lang": "en", "n": 1}


@pytest.mark.parametrize(
    ("layout", "reason"),
    [
        (Layout(id_field="key"), "has no field 'key'; it has 'text', 'category'"),
        (Layout(text_fields=("body",)), "has no field 'body'; it has 'text', 'category'"),
        (Layout(label_field="topic"), "has no field 'topic'; it has 'text', 'category'"),
        (Layout(payload_fields=("year",)), "has no field 'year'; it has 'text', 'category'"),
        (Layout(encoding="klingon"), "there is no encoding 'klingon'; try utf-8"),
    ],
)
def test_a_field_that_is_not_there_is_refused(tmp_path: Path, layout: Layout, reason: str) -> None:
    path = write(tmp_path, "bank.csv", BANK)
    with pytest.raises(ReadError) as caught:
        list(read_documents(path, layout=layout, on_error="skip"))
    assert str(caught.value) == f"{path}: {reason}"


def test_a_label_that_no_line_has_is_refused_at_the_end(tmp_path: Path) -> None:
    path = write(tmp_path, "d.jsonl", '{"id": "a", "text": "t", "topik": "x"}')
    with pytest.raises(ReadError, match=r"no document has the field 'topic'$"):
        list(read_documents(path, layout=Layout(label_field="topic")))


@pytest.mark.parametrize(
    ("line", "layout", "reason"),
    [
        (
            '{"id": "a", "question": "t"}',
            Layout(),
            "document: must have at least one of text, vector, code; it has none. Its fields are"
            " 'id', 'question'; name the field of the text with --text-field",
        ),
        (
            '{"no": 7, "text": "t"}',
            Layout(id_field="nro"),
            "nro: is missing; it must hold the id. Its fields are 'no', 'text'",
        ),
        (
            '{"no": 1.5, "text": "t"}',
            Layout(id_field="no"),
            "no: is 1.5; it must be a string of 1 to 512 characters",
        ),
        (
            '{"id": "a", "body": "\\ud800"}',
            Layout(text_fields=("body",)),
            "body: is '\\ud800', which holds a lone surrogate",
        ),
        (
            '{"id": "a", "text": "t", "topic": {"of": 1}}',
            Layout(label_field="topic"),
            "topic: is {'of': 1}; it must be a text, a number, true or false",
        ),
    ],
)
def test_errors_name_the_fields_of_the_source(
    tmp_path: Path, line: str, layout: Layout, reason: str
) -> None:
    path = write(tmp_path, "d.jsonl", line)
    with pytest.raises(ReadError) as caught:
        list(read_documents(path, layout=layout))
    assert str(caught.value) == f"{path}:1: {reason}"


def test_an_empty_file_lacks_no_label(tmp_path: Path) -> None:
    layout = Layout(label_field="topic", text_fields=("body",))
    assert list(read_documents(write(tmp_path, "d.jsonl", ""), layout=layout)) == []


def test_one_of_several_text_fields_that_no_line_has_is_said_at_the_end(tmp_path: Path) -> None:
    path, notices = write(tmp_path, "d.jsonl", '{"id": "a", "meta": {"body": "t"}}'), list[str]()
    layout = Layout(text_fields=("meta.body", "tilte"))
    (document,) = read_documents(path, layout=layout, notice=notices.append)
    assert document.text == "t"
    assert notices == [f"{path}: no document has the field 'tilte'"]


def test_a_payload_field_that_no_line_has_is_said_at_the_end(tmp_path: Path) -> None:
    lines = '{"id": "a", "text": "t", "year": 1}\n{"id": "b", "text": "u", "lang": "en"}\n'
    path, notices = write(tmp_path, "d.jsonl", lines), list[str]()
    layout = Layout(payload_fields=("yaer", "lang", "langs"))
    documents = list(read_documents(path, layout=layout, notice=notices.append))
    assert [document.payload for document in documents] == [{}, {"lang": "en"}]
    assert notices == [f"{path}: no document has the field 'langs', 'yaer'"]
    notices.clear()
    for fields in (None, ("year", "lang")):
        list(read_documents(path, layout=Layout(payload_fields=fields), notice=notices.append))
    assert notices == []


@pytest.mark.parametrize(
    ("fields", "labels"),
    [
        ({"label": ""}, ()),
        ({"label": " "}, ()),
        ({"labels": []}, ()),
        ({"labels": ["", "x"]}, ("x",)),
        ({"label": ["", " "]}, ()),
        ({"label": None, "labels": ["x"]}, ("x",)),
    ],
)
def test_a_blank_label_is_none(
    tmp_path: Path, fields: dict[str, Any], labels: tuple[str, ...]
) -> None:
    others = [{"id": "b", "text": "u", "label": "y"}, {"id": "c", "text": "v"}]
    records = [{"id": "a", "text": "t", **fields}, *others]
    path = write(tmp_path, "d.jsonl", "\n".join(map(json.dumps, records)))
    assert [document.labels for document in read_documents(path)] == [labels, ("y",), ()]


def test_a_blank_label_of_another_name_is_none(tmp_path: Path) -> None:
    lines = '{"id": "a", "text": "t", "topic": ""}\n{"id": "b", "text": "u", "topic": "x"}\n'
    path = write(tmp_path, "d.jsonl", lines)
    documents = list(read_documents(path, layout=Layout(label_field="topic")))
    assert [document.labels for document in documents] == [(), ("x",)]


def test_a_line_without_an_id_among_lines_with_ids_is_bad(tmp_path: Path) -> None:
    path = write(tmp_path, "d.jsonl", '{"id": "a", "text": "t"}\n{"text": "u"}\n')
    with pytest.raises(ReadError, match=r":2: id: is missing; it must hold the id\. Its fields"):
        list(read_documents(path))


def test_a_text_that_is_a_list_is_a_bad_line(tmp_path: Path) -> None:
    path = write(tmp_path, "d.jsonl", '{"id": "a", "body": ["t"]}')
    with pytest.raises(ReadError, match=r":1: body: is \['t'\]; it must be a string"):
        list(read_documents(path, layout=Layout(text_fields=("body",))))


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "feather"])
def test_columns_are_named_the_same_way(tmp_path: Path, suffix: str) -> None:
    table = pyarrow.table({"qid": [5, 6], "question": ["a", "b"], "topic": ["x", None]})
    path = tmp_path / f"d.{suffix}"
    if suffix == "parquet":
        pyarrow.parquet.write_table(table, path)
    else:
        make = pyarrow.ipc.new_stream if suffix == "arrow" else pyarrow.ipc.new_file
        with make(path, table.schema) as writer:
            writer.write_table(table)
    layout = Layout(id_field="qid", text_fields=("question",), label_field="topic")
    documents = list(read_documents(path, layout=layout))
    assert [(document.id, document.text, document.labels) for document in documents] == [
        ("5", "a", ("x",)),
        ("6", "b", ()),
    ]


def test_a_json_array_is_read_and_its_entries_are_counted(tmp_path: Path) -> None:
    path = write(tmp_path, "d.json", '\ufeff [{"text": "a"},\n {"text": "b"}, 7]')
    documents = read_documents(path)
    assert [next(documents).id, next(documents).id] == ["d:1", "d:2"]
    with pytest.raises(ReadError, match=r":3: document: is 7; it must be an object"):
        next(documents)


@pytest.mark.parametrize(
    ("content", "reason"),
    [("[1, 2", "is not valid JSON"), ("[NaN]", "NaN is not a JSON number")],
)
def test_a_broken_json_array_is_an_error(tmp_path: Path, content: str, reason: str) -> None:
    with pytest.raises(ReadError, match=reason):
        list(read_documents(write(tmp_path, "d.json", content)))


def test_lines_of_a_text_file_are_documents(tmp_path: Path) -> None:
    path = write(tmp_path, "titles.txt", "First title\n\n  Second title \n")
    assert [(document.id, document.text) for document in read_documents(path)] == [
        ("titles:1", "First title"),
        ("titles:3", "Second title"),
    ]


values = st.none() | st.integers() | st.text(max_size=5) | st.booleans() | st.lists(st.integers())
raw_records = st.dictionaries(
    st.sampled_from(["id", "text", "label", "labels", "payload", "a", "b"]), values
)
layouts = st.builds(
    Layout,
    id_field=st.none() | st.sampled_from(["id", "a"]),
    text_fields=st.sampled_from([(), ("a",), ("b", "a"), ("text", "b")]),
    label_field=st.none() | st.sampled_from(["label", "labels", "b"]),
    payload_fields=st.none() | st.just(("a", "label")),
)


@given(raw_records, layouts)
def test_any_record_is_laid_out_with_the_fields_of_a_document_alone(
    raw: dict[str, Any], layout: Layout
) -> None:
    before = json.dumps(raw)
    record = layout.document_record(raw, "numbered")
    assert set(record) <= {"id", "text", "vector", "code", "label", "labels", "payload"}
    assert json.dumps(raw) == before
    if layout == Layout() and isinstance(raw.get("id"), str) and set(raw) <= {"id", "text"}:
        assert record == raw


def test_what_is_laid_out_already_stays_as_it_is() -> None:
    record = {"id": "a", "text": "t", "label": "x", "payload": {"n": 1}}
    assert Layout().document_record(record, None) == record
    assert parse_document(record).labels == ("x",)
