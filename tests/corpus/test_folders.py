"""Folders of text files, and those that the library ``datasets`` saves."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow
import pyarrow.ipc
import pytest

from hummingbit.corpus.layout import Layout
from hummingbit.corpus.readers import ReadError, read_documents


def test_a_folder_of_texts_is_labelled_by_the_folders_in_it(tmp_path: Path) -> None:
    for place, text in (("sport/b.txt", "goal"), ("sport/a.txt", "match"), ("readme.md", "all")):
        (tmp_path / place).parent.mkdir(exist_ok=True)
        (tmp_path / place).write_text(text)
    documents = list(read_documents(tmp_path))
    assert [(document.id, document.text, document.labels) for document in documents] == [
        ("readme.md", "all", ()),
        ("sport/a.txt", "match", ("sport",)),
        ("sport/b.txt", "goal", ("sport",)),
    ]


def test_suffixes_of_texts_may_be_in_capitals(tmp_path: Path) -> None:
    (tmp_path / "A.TXT").write_text("goal")
    (tmp_path / "B.MD").write_text("---\nyear: 1998\n---\nmatch")
    documents = list(read_documents(tmp_path))
    assert [(document.id, document.text) for document in documents] == [
        ("A.TXT", "goal"),
        ("B.MD", "match"),
    ]
    assert documents[1].payload == {"year": 1998}


def test_hidden_files_and_folders_are_left_out(tmp_path: Path) -> None:
    for place in (".hidden.md", ".git/a.txt", "sport/.ipynb_checkpoints/b.txt", "sport/b.txt"):
        (tmp_path / place).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / place).write_text("goal")
    assert [document.id for document in read_documents(tmp_path)] == ["sport/b.txt"]


def test_a_folder_in_a_hidden_one_is_read(tmp_path: Path) -> None:
    folder = tmp_path / ".cache" / "posts"
    folder.mkdir(parents=True)
    (folder / "a.txt").write_text("goal")
    assert [document.id for document in read_documents(folder)] == ["a.txt"]


def test_text_files_may_be_in_another_encoding(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("café".encode("cp1252"))
    notices: list[str] = []
    (document,) = read_documents(tmp_path, notice=notices.append)
    assert document.text == "café"
    assert notices == [f"{tmp_path}: a.txt is not UTF-8; it is read as cp1252"]


def test_a_folder_without_texts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReadError, match=r"is a folder without \.txt or \.md files"):
        list(read_documents(tmp_path))


def save_to_disk(folder: Path, texts: list[str]) -> None:
    """Write a data set of one file a text, as ``datasets.Dataset.save_to_disk`` lays it out."""
    folder.mkdir(parents=True)
    names = [f"data-{i:05}-of-{len(texts):05}.arrow" for i in range(len(texts))]
    for name, text in zip(names, texts, strict=True):
        table = pyarrow.table({"text": [text], "label": [1]})
        with pyarrow.ipc.new_stream(folder / name, table.schema) as writer:
            writer.write_table(table)
    state = {"_data_files": [{"filename": name} for name in names], "_split": "train"}
    (folder / "state.json").write_text(json.dumps(state))


def test_a_saved_data_set_is_read_file_by_file(tmp_path: Path) -> None:
    save_to_disk(tmp_path / "d", ["one", "two"])
    documents = list(read_documents(tmp_path / "d"))
    assert [(document.id, document.text, document.labels) for document in documents] == [
        ("d:1", "one", ("1",)),
        ("d:2", "two", ("1",)),
    ]
    with pytest.raises(ReadError, match=r"has no field 'body'; it has 'text', 'label'"):
        list(read_documents(tmp_path / "d", layout=Layout(text_fields=("body",))))


def test_of_several_splits_one_must_be_named(tmp_path: Path) -> None:
    save_to_disk(tmp_path / "d" / "train", ["one"])
    (tmp_path / "d" / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    with pytest.raises(ReadError, match=f"holds several splits; name one: {tmp_path}/d/train, "):
        list(read_documents(tmp_path / "d"))


def test_a_damaged_state_is_an_error_and_leads_nowhere_else(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text("{}")
    with pytest.raises(
        ReadError, match=r"state\.json: is not a file that the library datasets wrote"
    ):
        list(read_documents(tmp_path))
    state = {"_data_files": [{"filename": "../../etc/passwd"}]}
    (tmp_path / "state.json").write_text(json.dumps(state))
    with pytest.raises(ReadError, match=f"^{tmp_path}/passwd: cannot be read as Arrow"):
        list(read_documents(tmp_path))


def test_runs_of_spaces_in_the_fields_of_markdown_are_read_once(tmp_path: Path) -> None:
    spaces = " " * 300_000  # with a square of steps, this would take an hour
    (tmp_path / "a.md").write_text(f"---\nkind:{spaces}a{spaces}b{spaces}\r\n---\nBoil.\n")
    (document,) = read_documents(tmp_path)
    assert document.payload == {"kind": f"a{spaces}b"}


def test_what_markdown_says_at_its_top_is_the_payload(tmp_path: Path) -> None:
    front = """---
title: "Jam: a guide"
date: 2024-01-31
tags: [fruit, 'sugar']
authors:
  - Ann
  - Bob
draft: true
weight: 12
text: not this
cover:
  image: a.png
---
"""
    (tmp_path / "a.md").write_text(f"{front}\nBoil the fruit.\n\n---\n\nThen wait.\n")
    (tmp_path / "b.md").write_text("---\ntitle: Tea\n---\n# Tea\n\nPour.\n")
    (tmp_path / "c.md").write_text("---\nA rule above, and no fields\n")
    (tmp_path / "d.txt").write_text("---\ntitle: Tea\n---\nPour.\n")
    first, *others = read_documents(tmp_path)
    assert first.text == "Jam: a guide\n\nBoil the fruit.\n\n---\n\nThen wait."
    assert first.payload == {
        "date": "2024-01-31",
        "tags": ["fruit", "sugar"],
        "authors": ["Ann", "Bob"],
        "draft": True,
        "weight": 12,
    }
    assert [other.text for other in others] == [
        "# Tea\n\nPour.",
        "---\nA rule above, and no fields\n",
        "---\ntitle: Tea\n---\nPour.\n",
    ]


def test_toml_at_the_top_of_markdown_is_the_payload_too(tmp_path: Path) -> None:
    front = """+++
title = "Jam: a guide"
date = 2024-01-31T10:00:00Z
tags = ["fruit", "sugar"]
weight = 12
text = "not this"
heat = nan
[cover]
image = "a.png"
+++
"""
    (tmp_path / "a.md").write_text(f"{front}\nBoil the fruit.\n\n+++\n\nThen wait.\n")
    (tmp_path / "b.md").write_bytes(b"+++\r\ntitle = 'Tea'\r\n+++\r\nPour.\r\n")
    (tmp_path / "c.md").write_text("+++\nno TOML\n+++\nPour.\n")
    first, *others = read_documents(tmp_path)
    assert first.text == "Jam: a guide\n\nBoil the fruit.\n\n+++\n\nThen wait."
    assert first.payload == {
        "date": "2024-01-31T10:00:00+00:00",
        "tags": ["fruit", "sugar"],
        "weight": 12,
    }
    assert [other.text for other in others] == ["Tea\n\nPour.", "+++\nno TOML\n+++\nPour.\n"]


@pytest.mark.parametrize("mark", ["---", "+++"])
def test_what_one_file_of_markdown_says_at_its_top_is_no_section(tmp_path: Path, mark: str) -> None:
    path = tmp_path / "a.md"
    path.write_text(f"{mark}\n# kind\n{mark}\n# Tea\nPour.\n{mark}\nDrink.\n")
    assert [document.text for document in read_documents(path)] == [f"Tea\nPour.\n{mark}\nDrink."]
