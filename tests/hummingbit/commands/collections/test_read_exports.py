"""An exported collection is read as a file of documents."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hummingbit.cli import main
from hummingbit.corpus.readers import read_documents
from hummingbit.index.data_folder import DataFolder
from tests.hummingbit.commands.collections.test_files_of_users import records


@pytest.fixture
def export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    lines = "".join(json.dumps(record) + "\n" for record in records())
    (tmp_path / "tickets.jsonl").write_text(lines)
    assert main(["index", "build", "tickets", "tickets.jsonl", "--no-encoder"]) == 0
    assert main(["index", "export", "tickets", "export.jsonl"]) == 0
    return tmp_path / "export.jsonl"


def test_an_export_has_the_documents_with_their_labels(export: Path) -> None:
    read = list(read_documents(export))
    with DataFolder(export.parent, writable=False) as folder:
        stored = folder.collection("tickets").all_documents()
    assert [document.id for document in read] == [document.id for document in stored]
    assert [document.text for document in read] == [document.text for document in stored]
    assert [document.labels for document in read] == [(record["Topic"],) for record in records()]
    assert all(document.code is None for document in read)


def test_quickstart_finds_what_an_export_holds(
    export: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["quickstart", export.name, "--inspect"]) == 0
    printed = capsys.readouterr().out
    assert "export.jsonl: 64 documents, 0 lines skipped" in printed
    assert "label: 4 labels, the rarest of 16 documents" in printed


def test_codes_are_kept_where_there_is_nothing_else(tmp_path: Path) -> None:
    lines = (
        {"format": "hummingbit export", "version": 1, "name": "a", "n_bits": 16},
        {"id": "x", "text": "a b", "code": "00ff", "payload": {"labels": ["p", "q"]}},
        {"id": "y", "code": "0f0f", "payload": {}},
        {"labelled": {"id": "x", "labels": ["z"]}},
        {"end": True, "documents": 2},
    )
    file = tmp_path / "export.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    x, y = read_documents(file)
    assert (x.id, x.text, x.code, x.labels) == ("x", "a b", None, ("p", "q"))
    assert (y.id, y.text, y.labels) == ("y", None, ())
    assert y.code is not None
