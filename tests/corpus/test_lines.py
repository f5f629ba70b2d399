"""JSON in objects and arrays, JSON in wide encodings, and sections of Markdown."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest

from hummingbit.corpus import lines
from hummingbit.corpus.layout import Layout
from hummingbit.corpus.lines import open_source, read_all
from hummingbit.corpus.readers import ReadError, read_documents


@pytest.mark.parametrize(
    "written",
    [
        '{"data": [{"id": "a", "text": "one"}, {"id": "b", "text": "two"}]}',
        '{\n "count": 2,\n "next": null,\n "hits": [\n  {"id": "a", "text": "one"},\n'
        '  {"id": "b", "text": "two"}],\n "took": 0.1}\n',
        '{"meta": {"version": 3, "tags": []} , "data": [{"id": "a", "text": "one"},'
        ' {"id": "b", "text": "two"}]}',
        '{"took": 1, "_shards": {"total": 2}, "hits": {"total": {"value": 2}, "hits": '
        '[{"id": "a", "text": "one"}, {"id": "b", "text": "two"}]}}',
        '{\n "data": {"errors": null, "page": {"nodes": [{"id": "a", "text": "one"},'
        ' {"id": "b", "text": "two"}]}}}',
    ],
)
def test_the_list_in_one_object_holds_the_documents(tmp_path: Path, written: str) -> None:
    path = tmp_path / "answer.json"
    path.write_text(written)
    said: list[str] = []
    read = list(read_documents(path, notice=said.append))
    assert [(document.id, document.text) for document in read] == [("a", "one"), ("b", "two")]
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
    assert [(document.id, document.text, document.payload) for document in found] == [
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


def test_two_lists_of_documents_in_an_object_are_named(tmp_path: Path) -> None:
    path = tmp_path / "documents.json"
    path.write_text(json.dumps({"all": {"old": [{"text": "one"}], "current": [{"text": "two"}]}}))
    with pytest.raises(ReadError, match=r"could be those of 'all\.old' or 'all\.current'"):
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
    assert [document.text for document in read_documents(path, notice=notices.append)] == [
        "Käse",
        "Öl",
    ]
    assert notices == [f"{path}: is not UTF-8; it is read as {encoding}"]


def test_json_may_be_in_an_encoding_that_is_named(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    path.write_bytes('{"id": "a", "text": "标题"}\n'.encode("gb18030"))
    (document,) = read_documents(path, layout=Layout(encoding="gb18030"))
    assert document.text == "标题"


@pytest.mark.parametrize(
    ("content", "is_table"),
    [
        ("good\tpay day\n\nbad\tlost card\n", True),
        ("good\tpay day\nbad, lost card\n", False),
        ("one\tline\n", False),
        ("no tab\nat all\n", False),
    ],
)
def test_a_text_file_with_tabs_in_each_line_may_be_a_table(
    tmp_path: Path, content: str, is_table: bool
) -> None:
    path = tmp_path / "d.txt"
    path.write_text(content)
    notices: list[str] = []
    texts = [document.text for document in read_documents(path, notice=notices.append)]
    assert texts == [line for line in content.splitlines() if line]
    hint = f"{path}: each line has tabs and is one document; to read it as a table, name it .tsv"
    assert (hint in notices) is is_table


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, bz2.compress])
def test_what_unpacks_to_far_more_than_texts_do_is_refused(
    tmp_path: Path, pack: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    size = 1 << 20
    monkeypatch.setattr(lines, "MAX_UNPACKED_BYTES", size)
    suffix = {gzip.compress: ".gz", lzma.compress: ".xz", bz2.compress: ".bz2"}[pack]
    path = tmp_path / f"a.json{suffix}"
    path.write_bytes(pack(b"[" + b" " * size + b"]"))
    with open_source(path) as stream, pytest.raises(ReadError, match="more than 1,048,576 bytes"):
        read_all(stream, "a")
    whole = b"[" + b" " * (size - 2) + b"]"
    path.write_bytes(pack(whole))
    with open_source(path) as stream:
        assert read_all(stream, "a") == whole
