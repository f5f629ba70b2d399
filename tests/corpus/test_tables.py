"""CSV as programs write it: other encodings, other delimiters, no header."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import re
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hummingbit.corpus.field_types import (
    FieldType,
    FieldTypes,
)
from hummingbit.corpus.layout import Layout
from hummingbit.corpus.readers import BadLine, ReadError, read_documents

CHINESE = "".join(f"{i},中国经济新闻第{i}条今天开始\n" for i in range(30))
FRENCH = "".join(f"{i},L'élève français va à l'école {i} fois\n" for i in range(30))
GERMAN_NAMES = "".join(
    f"{i},please call Mr Müller at number {i} for order {i}\n" for i in range(300)
)
LITHUANIAN = "".join(
    f"{i},Lietuvos ekonomika praėjusiais metais augo sparčiai pranešė ministerija\n"
    f"{i}0,Žmonės tikisi kad kainos mažės o atlyginimai didės\n"
    f"{i}1,Vyriausybė žada daugiau lėšų švietimui ir sveikatos apsaugai\n"
    for i in range(1, 9)
)
RUSSIAN = "".join(f"{i},Новости экономики и спорта номер {i}\n" for i in range(30))
SEARCHES_IN_RUSSIAN = "".join(f"{i},купить билет на поезд {i}\n" for i in range(30))
FINNISH = "".join(f"{i},näytä tämän päivän sää Jyväskylässä {i}\n" for i in range(30))
CZECH = "".join(f"{i},Příliš žluťoučký kůň úpěl ďábelské ódy {i}\n" for i in range(30))
ENGLISH = "".join(f"{i},“It’s a “test” of quotes”–and—more… {i}\n" for i in range(30))
PRICES = "".join(f"{i},“now £{i}” – was €{i + 1}…\n" for i in range(30))
POLISH = "".join(f"{i},Zażółć gęślą jaźń i wróć źdźbło {i}\n" for i in range(30))


@pytest.mark.parametrize(
    ("rows", "encoding"),
    [
        (CHINESE, "gb18030"),
        (FRENCH, "cp1252"),
        ("1,one café\n", "cp1252"),
        (GERMAN_NAMES, "cp1252"),
        (LITHUANIAN, "cp1257"),
        (RUSSIAN, "cp1251"),
        (RUSSIAN, "koi8_r"),
        (SEARCHES_IN_RUSSIAN, "koi8_r"),
        (FINNISH, "cp1252"),
        (FINNISH, "cp850"),
        (FRENCH, "cp850"),
        (POLISH, "cp1250"),
        (CZECH, "cp1250"),
        (CZECH, "iso8859_2"),
        (ENGLISH, "cp1252"),
        (PRICES, "cp1252"),
        (FRENCH, "utf-16"),
        (CHINESE, "utf-8"),
        (FRENCH, "utf-8-sig"),
    ],
)
def test_the_encoding_is_found_out_and_said(tmp_path: Path, rows: str, encoding: str) -> None:
    path = tmp_path / "d.csv"
    path.write_bytes(("id,text\n" + rows).encode(encoding))
    notices: list[str] = []
    found = [document.text for document in read_documents(path, notice=notices.append)]
    assert found == [line.partition(",")[2] for line in rows.splitlines()]
    assert len(notices) == (0 if encoding.startswith("utf-8") else 1)
    assert all("is not UTF-8; it is read as " in notice for notice in notices)


def test_western_text_is_not_taken_for_an_encoding_of_other_languages(tmp_path: Path) -> None:
    text = "Als der König stirbt, müssen seine Söhne entscheiden, wer das Reich führen soll"
    rows = "".join(f"{i}|{text}|{i}.50|{100 + i}\n" for i in range(20))
    path = tmp_path / "d.csv"
    path.write_bytes(f"código|sinopse|preço|páginas\n{rows}".encode("cp1252"))
    layout = Layout(id_field="código", text_fields=("sinopse",))
    first, *_ = read_documents(path, layout=layout)
    assert first.text == text
    assert first.payload == {"preço": 0.5, "páginas": 100}


def test_an_encoding_that_is_given_is_not_guessed(tmp_path: Path) -> None:
    path = tmp_path / "d.csv.gz"
    path.write_bytes(gzip.compress(("id,text\n" + POLISH).encode("iso8859-2")))
    notices: list[str] = []
    layout = Layout(encoding="iso8859-2")
    found = [
        document.text for document in read_documents(path, layout=layout, notice=notices.append)
    ]
    assert found == [line.partition(",")[2] for line in POLISH.splitlines()]
    assert notices == []


@pytest.mark.parametrize(
    ("cell", "labels"),
    [
        ("['a', \"b c\"]", ("a", "b c")),
        ('["a","b"]', ("a", "b")),
        ("[ 'a' , ]", ("a",)),
        ("[]", ()),
        ("['a' 'b']", ("['a' 'b']",)),
        ("['a', b]", ("['a', b]",)),
        ("[a]", ("[a]",)),
        ("['a\\n']", ("['a\\n']",)),
        ("a|['b']", ("a", "['b']")),
        ("a | b c|d", ("a", "b c", "d")),
    ],
)
def test_a_cell_may_hold_a_list_of_labels(
    tmp_path: Path, cell: str, labels: tuple[str, ...]
) -> None:
    with (tmp_path / "d.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["text", "genre"], ["one", cell]])
    (document,) = read_documents(tmp_path / "d.csv", layout=Layout(label_field="genre"))
    assert document.labels == labels
    with (tmp_path / "d.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["text", "label"], ["one", cell]])
    (document,) = read_documents(tmp_path / "d.csv")
    assert document.labels == ((cell,) if "|" in cell else labels)


def test_bytes_that_are_not_of_the_encoding_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "d.csv"
    path.write_bytes(b"id,text\na,\xff\xff\n")
    with pytest.raises(ReadError, match=r"cannot be read: is not ascii"):
        list(read_documents(path, layout=Layout(encoding="ascii")))


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_found_out_and_said(tmp_path: Path, delimiter: str) -> None:
    path = tmp_path / "d.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(["id", "text", "label"])
        for number in range(20):
            writer.writerow([number, "one, two; three | four", "x"])
    notices: list[str] = []
    documents = list(read_documents(path, notice=notices.append))
    assert {document.text for document in documents} == {"one, two; three | four"}
    assert len(notices) == (delimiter != ",")


@given(
    st.lists(
        st.tuples(st.text("ab,;|\t\"' \né", max_size=8), st.text("xyz,;|", max_size=6)), min_size=1
    )
)
def test_commas_are_never_mistaken_where_every_cell_is_quoted(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]]
) -> None:
    written = io.StringIO()
    writer = csv.writer(written, quoting=csv.QUOTE_ALL)
    writer.writerow(["text", "note"])
    writer.writerows(rows)
    path = tmp_path_factory.mktemp("csv") / "d.csv"
    path.write_bytes(written.getvalue().encode())
    found = [(document.text, document.payload.get("note", "")) for document in read_documents(path)]
    assert found == rows


def test_without_a_header_columns_are_numbered(tmp_path: Path) -> None:
    path = tmp_path / "d.csv"
    path.write_text("sport,the match was won\nmoney,shares fell\n")
    layout = Layout(text_fields=("column2",), label_field="column1", has_header=False)
    documents = list(read_documents(path, layout=layout))
    assert [(document.id, document.labels, document.text) for document in documents] == [
        ("d:1", ("sport",), "the match was won"),
        ("d:2", ("money",), "shares fell"),
    ]


def test_a_label_field_may_hold_several_labels(tmp_path: Path) -> None:
    path = tmp_path / "d.csv"
    path.write_text("text,genre,label\none,a|b,c|d\ntwo,a,c\n")
    documents = list(read_documents(path, layout=Layout(label_field="genre")))
    assert [document.labels for document in documents] == [("a", "b"), ("a",)]
    assert [document.payload["genre"] for document in documents] == [["a", "b"], "a"]
    # What is named label is one label, whatever is in it.
    assert [document.labels for document in read_documents(path)] == [("c|d",), ("c",)]


def test_quotation_marks_that_quote_no_cells_are_part_of_a_tsv(tmp_path: Path) -> None:
    path = tmp_path / "d.tsv"
    path.write_text('text\tlabel\n"Yes" and no\ta\na 5" disk\tb\n"never closed\tc\n"x"\td\n')
    notices: list[str] = []
    documents = list(read_documents(path, notice=notices.append))
    assert [document.text for document in documents] == [
        '"Yes" and no',
        'a 5" disk',
        '"never closed',
        '"x"',
    ]
    assert [document.labels for document in documents] == [("a",), ("b",), ("c",), ("d",)]
    assert f"{path}: its cells are not quoted; quotation marks are part of the texts" in notices


@given(st.lists(st.text("ab\t\"' \né", min_size=1, max_size=8), min_size=1))
def test_the_cells_of_a_tsv_that_are_quoted_lose_their_quotes(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str]
) -> None:
    written = io.StringIO()
    writer = csv.writer(written, delimiter="\t")
    writer.writerow(["text", "label"])
    writer.writerows((text, "x") for text in texts)
    path = tmp_path_factory.mktemp("tsv") / "d.tsv"
    path.write_bytes(written.getvalue().encode())
    assert [document.text for document in read_documents(path)] == texts


@pytest.mark.parametrize("ends", [["\r"], ["\n", "\r\n", "\r"]])
def test_lines_may_end_as_on_any_system(tmp_path: Path, ends: list[str]) -> None:
    lines = ["text,label", *(f'"jäm, {at}",x' for at in range(30))]
    ended = "".join(line + ends[at % len(ends)] for at, line in enumerate(lines))
    (tmp_path / "d.csv").write_bytes(ended.encode() + b'"\xff",x\n')
    said: list[str] = []
    bad: list[BadLine] = []
    found = read_documents(
        tmp_path / "d.csv", on_error="skip", report=bad.append, notice=said.append
    )
    assert [document.text for document in found] == [f"jäm, {at}" for at in range(30)]
    assert "lines end with a carriage return" in said[0]
    assert [(item.line, "is not UTF-8" in item.reason) for item in bad] == [(32, True)]


def test_a_carriage_return_inside_quotes_stays(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_bytes(b'text,label\r\n"a\rb",x\r\n')
    (document,) = read_documents(tmp_path / "d.csv")
    assert document.text == "a\rb"


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32"])
def test_wide_encodings_need_no_mark(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "d.csv").write_bytes("text,label\nKäse,x\n".encode(encoding))
    (document,) = read_documents(tmp_path / "d.csv")
    assert (document.text, document.labels) == ("Käse", ("x",))


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("d.csv", b'{"text": "jam", "label": "x"}\n', "looks like JSON; name it .jsonl or .json"),
        (
            "d.csv",
            b"<!DOCTYPE html>\n<html>",
            "is HTML or XML, perhaps a web page saved in its place",
        ),
        ("d.csv", b'<?xml version="1.0"?>\n', "is HTML or XML"),
        ("d", b"a\n", "its name must end with one of .jsonl"),
        ("d.gz", b"\x1f\x8b\x08", ".npz, then .gz"),
        ("d.csv", b"\n\n", "is empty; it must begin with a header row"),
        ("d.csv", b"   \n", "is empty; it must begin with a header row"),
        ("d.csv", b"PK\x03\x04\x14", "is a ZIP archive, perhaps a spreadsheet"),
        ("d.tsv", b"\x1f\x8b\x08", "is compressed by gzip; name it .csv.gz"),
        ("d.txt", b"%PDF-1.4", "is a PDF; save its text as .txt"),
        ("d.xlsx", b"PK\x03\x04", "the suffix '.xlsx' is not one of"),
        ("d.xlsx", b"PK\x03\x04", "; save the sheet as CSV"),
        ("d.log", b"ERROR", "; name it .txt, of which each line is a document"),
        ("d.csv", bytes(range(256)) * 10, "is no text; if it is, name its encoding"),
        ("d.faiss", b"IBxF", "; hummingbit index import NAME --faiss FILE reads it"),
        ("d.mbox", b"From a", "; save the text of each message as .txt"),
        ("d.zip", b"PK\x03\x04", "; decompress it first"),
        ("d.pkl", b"\x80\x04.", "; save it as Parquet or JSON lines"),
    ],
)
def test_a_file_that_is_no_table_is_refused_with_what_to_do(
    tmp_path: Path, name: str, content: bytes, reason: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ReadError, match=re.escape(reason)):
        list(read_documents(tmp_path / name))


@pytest.mark.parametrize(
    ("before", "begins"),
    [
        ("sep=;\r\n", 2),
        ('"sep=;"\n', 2),
        ("SEP=;\n", 2),
        ("\n\n", 3),
        ("# exported, by hand\n#\n", 3),
        ("## of 3 documents\n", 2),
    ],
)
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_lines_before_the_header_are_passed_over(
    tmp_path: Path, before: str, begins: int, mark: str
) -> None:
    path = tmp_path / "d.csv"
    path.write_bytes(f"{mark}{before}id;text\na;one, two\nbad\nb;three\n".encode())
    notices: list[str] = []
    bad: list[BadLine] = []
    found = list(read_documents(path, on_error="skip", report=bad.append, notice=notices.append))
    assert [(document.id, document.text) for document in found] == [
        ("a", "one, two"),
        ("b", "three"),
    ]
    assert [item.line for item in bad] == [begins + 2]
    assert f"{path}: the table begins on line {begins}" in notices


def test_a_line_of_excel_names_the_delimiter_whatever_the_cells_hold(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("sep=|\nid|text\na,a|one;two\n")
    (document,) = read_documents(tmp_path / "d.csv")
    assert (document.id, document.text) == ("a,a", "one;two")


def test_a_header_may_begin_with_a_number_sign(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("## made by hand\n#id,text\na,one\n")
    (document,) = read_documents(tmp_path / "d.csv", layout=Layout(id_field="#id"))
    assert (document.id, document.text) == ("a", "one")


def test_without_a_header_a_number_sign_begins_a_document(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("\n#one\na;two\n")
    layout = Layout(has_header=False, text_fields=("column1",))
    found = list(read_documents(tmp_path / "d.csv", layout=layout))
    assert [(document.id, document.text) for document in found] == [
        ("d:2", "#one"),
        ("d:3", "a;two"),
    ]


def test_spaces_after_the_delimiters_of_the_header_are_none_of_the_cells(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text('id, text, label\n1, "one, two", x\n2,  three, y\n')
    found = list(read_documents(tmp_path / "d.csv"))
    assert [(document.id, document.text, document.labels) for document in found] == [
        ("1", "one, two", ("x",)),
        ("2", "three", ("y",)),
    ]
    (tmp_path / "d.csv").write_text("id,text\n1, one\n")
    (document,) = read_documents(tmp_path / "d.csv")
    assert document.text == " one"


def test_columns_without_a_name_are_numbered_if_there_are_several(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("id,text,,\na,one,,\nb,two,x,\n")
    found = list(read_documents(tmp_path / "d.csv"))
    assert [document.payload for document in found] == [{}, {"column3": "x"}]


CELLS = st.one_of(
    st.integers(-(10**17), 10**17).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.sampled_from(
        ["", "0", "-0", "007", "+1", "1.", ".5", "-12.50", "1e5", "٣", "six", "none so"]
    ),
    st.sampled_from(["NA", "n/a", "N/A", "-", "null", "NaN", " NA "]),
)
MISSING = ("", "NA", "n/a", "N/A", "-", "null", "NaN", " NA ")


def is_short_number(cell: str) -> bool:
    """Tell by the JSON parser whether a cell is a number of 15 digits or fewer, no power of ten."""
    try:
        value = json.loads(cell)
    except ValueError:
        return False
    plain = set(cell) <= set("-.0123456789")
    return type(value) in (int, float) and plain and len(cell.strip("-").replace(".", "")) <= 15


@given(st.lists(CELLS, min_size=1, max_size=5))
def test_a_column_of_the_payload_holds_numbers_if_all_of_its_cells_do(
    tmp_path_factory: pytest.TempPathFactory, cells: list[str]
) -> None:
    path = tmp_path_factory.mktemp("table") / "d.csv"
    rows = "".join(f"{position},word,{cell}\n" for position, cell in enumerate(cells))
    path.write_text(f"id,text,size\n{rows}", encoding="utf-8")
    given_cells = [cell for cell in cells if cell not in MISSING]
    numbers = bool(given_cells) and all(map(is_short_number, given_cells))
    types = FieldTypes()
    found = [document.payload.get("size") for document in read_documents(path, field_types=types)]
    expected = [
        None if not cell or (numbers and cell in MISSING) else json.loads(cell) if numbers else cell
        for cell in cells
    ]
    assert found == expected
    assert list(map(type, found)) == list(map(type, expected))
    kind = "number" if numbers else "string"
    assert types.decided == ({"size": kind} if given_cells else {})


@given(
    st.lists(CELLS, min_size=1, max_size=6), st.sampled_from([{}, {"a": "number"}, {"a": "string"}])
)
def test_a_table_is_read_by_the_types_that_are_known(
    tmp_path_factory: pytest.TempPathFactory, cells: list[str], known: dict[str, FieldType]
) -> None:
    path = tmp_path_factory.mktemp("table") / "d.csv"
    rows = "".join(f"{position},word,{cell}\n" for position, cell in enumerate(cells))
    path.write_text(f"id,text,a\n{rows}", encoding="utf-8")
    types, notices = FieldTypes(known), list[str]()
    documents = read_documents(path, field_types=types, notice=notices.append)
    found = [document.payload.get("a") for document in documents]
    kind = types.decided.get("a", "string")
    assert known.items() <= types.decided.items()
    missing = [cell for cell in cells if cell and cell in MISSING]
    numbers = [cell for cell in cells if is_short_number(cell)]
    others = [cell for cell in cells if cell and cell not in (*missing, *numbers)]
    assert [item for item in found if isinstance(item, str)] == [
        cell for cell in cells if cell in others or (cell and kind == "string")
    ]
    if kind == "number":
        assert [item for item in found if not isinstance(item, str | None)] == [
            *map(json.loads, numbers)
        ]
    says = " ".join(notices)
    assert ("missing value" in says) == (kind == "number" and bool(missing))
    assert ("kept as" in says) == (kind == "number" and bool(others))
    assert ("read as" in says) == (known == {"a": "string"} and bool(numbers) and not others)


def test_what_is_not_of_its_fields_type_is_said_with_counts(tmp_path: Path) -> None:
    path = tmp_path / "d.csv"
    path.write_text(
        "id,text,year,zip,note\na,one,1990,10010,x\nb,two,n/a,10011,-\nc,three,soon,10012,y\n"
        "d,four,NA,10013,z\n"
    )
    notices: list[str] = []
    types = FieldTypes({"year": "number", "zip": "string"})
    found = list(read_documents(path, field_types=types, notice=notices.append))
    assert [document.payload for document in found] == [
        {"year": 1990, "zip": "10010", "note": "x"},
        {"zip": "10011", "note": "-"},
        {"year": "soon", "zip": "10012", "note": "y"},
        {"zip": "10013", "note": "z"},
    ]
    assert notices == [
        f"{path}: 'year' holds numbers; 2 cells such as 'n/a' are missing values",
        f"{path}: 'year' holds numbers; 1 cell such as 'soon' is none, and is kept as a string",
        f"{path}: 'zip' holds strings in the collection, so 4 numbers are read as strings",
    ]
    assert types.decided == {"year": "number", "zip": "string", "note": "string"}


def test_ids_and_texts_stay_strings(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("nr,text,stars,pages\n7,100,5,320\n8,200,4,\n")
    layout = Layout(id_field="nr", label_field="stars")
    first, second = read_documents(tmp_path / "d.csv", layout=layout)
    assert (first.id, first.text, first.labels) == ("7", "100", ("5",))
    assert first.payload == {"stars": 5, "pages": 320}
    assert second.payload == {"stars": 4}


def test_a_line_that_is_skipped_does_not_make_a_column_strings(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("id,text,pages\na,one,320\nb,two,many,more\nc,three,12\n")
    found = read_documents(tmp_path / "d.csv", on_error="skip")
    assert [document.payload for document in found] == [{"pages": 320}, {"pages": 12}]


def test_later_columns_of_one_name_are_numbered(tmp_path: Path) -> None:
    path = tmp_path / "d.tsv"
    path.write_text("id\ttext\tnote\tnote_2\tnote\ttext\na\tone\tx\ty\tz\ttwo\n")
    notices: list[str] = []
    (document,) = read_documents(path, notice=notices.append)
    assert document.text == "one"
    assert document.payload == {"note": "x", "note_2": "y", "note_3": "z", "text_2": "two"}
    assert notices == [
        f"{path}: its header has names twice; the later ones are read as note_3, text_2"
    ]


@pytest.mark.parametrize(
    ("before", "begins"),
    [
        ("Tickets,,\n", 2),
        ('"Tickets, all",,\n,,\nquarter 3,,\n\n', 5),
        ("Tickets,\n", 1),
        ("Tickets,,,\n", 1),
    ],
)
def test_titles_above_a_table_are_passed_over(tmp_path: Path, before: str, begins: int) -> None:
    path = tmp_path / "d.csv"
    path.write_text(f"{before}id,text,cost\na,one,1\nb,two,2\n")
    notices: list[str] = []
    layout = Layout(text_fields=("text",))
    if begins == 1:
        with pytest.raises(ReadError, match="has no field 'text'"):
            list(read_documents(path, layout=layout))
        return
    found = list(read_documents(path, layout=layout, notice=notices.append))
    assert [(document.id, document.text, document.payload["cost"]) for document in found] == [
        ("a", "one", 1),
        ("b", "two", 2),
    ]
    assert f"{path}: the table begins on line {begins}" in notices


def test_a_header_with_one_name_stays(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("text,,\nfirst,1,2\nsecond,3,4\n")
    assert [document.text for document in read_documents(tmp_path / "d.csv")] == ["first", "second"]


@pytest.mark.parametrize("uses_payload", [True, False])
def test_the_cells_of_a_pipe_are_strings(tmp_path: Path, uses_payload: bool) -> None:
    path = tmp_path / "d.csv"
    os.mkfifo(path)
    content = "id,text,cost,label\na,one,1,2.0\n"
    writer = threading.Thread(target=path.write_text, args=(content,), daemon=True)
    writer.start()
    (document,) = read_documents(path, uses_payload=uses_payload)
    writer.join()
    assert (document.payload, document.labels) == ({"cost": "1"}, ("2.0",))


@pytest.mark.parametrize(
    ("cell", "takes_in"),
    [
        # Until the end of the file, until the next quotation mark, and until one that closes.
        ('"open', 71),
        ('"open', 30),
        ('"a, "b",c', None),
    ],
)
def test_a_line_says_how_many_lines_an_open_quotation_mark_takes_in(
    tmp_path: Path, cell: str, takes_in: int | None
) -> None:
    lines = [f"{n},text {n}" for n in range(100)]
    lines[28] = f"28,{cell}"
    if takes_in == 30:
        lines[58] = '58,"text" 58'
    path = tmp_path / "d.csv"
    path.write_text("\n".join(["id,text", *lines]) + "\n")
    bad: list[BadLine] = []
    found = [document.id for document in read_documents(path, on_error="skip", report=bad.append)]
    assert [item.line for item in bad] == [30]
    assert len(found) + sum(item.n_lines for item in bad) == 100
    if takes_in is not None:
        assert bad[0].n_lines == takes_in + 1
        message = f"it takes in the {takes_in} lines after it, up to line {30 + takes_in}, perhaps"
        assert message in str(bad[0])
    with pytest.raises(ReadError) as caught:
        list(read_documents(path))
    assert str(caught.value) == str(bad[0])
