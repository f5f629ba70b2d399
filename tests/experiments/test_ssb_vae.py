from __future__ import annotations

import json
import lzma
from collections.abc import Sequence
from pathlib import Path

import pytest

from corpus.document import Document
from hummingbit.cli import main
from tests.support.corpora import topic_documents


def write_split(path: Path, documents: Sequence[Document]) -> None:
    with lzma.open(path, "wt") as file:
        for document in documents:
            record = {"id": document.id, "text": document.text, "label": document.labels[0]}
            file.write(json.dumps(record) + "\n")


@pytest.fixture
def data_root(tmp_path: Path) -> Path:
    (tmp_path / "snippets").mkdir()
    write_split(tmp_path / "snippets" / "train.jsonl.xz", topic_documents(400))
    write_split(tmp_path / "snippets" / "test.jsonl.xz", topic_documents(60, seed=1, prefix="test"))
    return tmp_path


def test_the_table_and_the_records_hold_every_method_and_seed(
    data_root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = data_root / "records.json"
    command = ["reproduce", "ssb-vae", "--dataset", "snippets", "--supervision", "0.1", "1.0"]
    options = [
        "--seeds",
        "2",
        "--data-root",
        data_root,
        "--json",
        out,
        "--work-dir",
        data_root / "w",
    ]
    assert main([*command, *map(str, options)]) == 0
    first = capsys.readouterr()
    records = json.loads(out.read_text())
    cells = [(one["method"], one["supervision"], one["seed"]) for one in records]
    assert cells == [
        *(
            (method, supervision, seed)
            for supervision in (0.1, 1.0)
            for seed in (0, 1)
            for method in ("class code", "ssb-vae")
        ),
        ("tf-idf cosine", None, None),
    ]
    assert all(0 <= one["p100"] <= 1 and 0 <= one["map100"] <= 1 for one in records)
    trained = [one["p100"] for one in records if one["method"] == "ssb-vae"]
    assert min(trained[2:]) > 0.9
    assert "| snippets | 32   | 0.1 | ssb-vae" in first.out
    assert "| 0.565 |" in first.out
    assert first.err.count("training ") == 4

    assert main([*command, *map(str, options)]) == 0
    again = capsys.readouterr()
    assert again.out == first.out
    assert "training " not in again.err


def test_a_missing_data_set_is_explained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reproduce", "ssb-vae", "--data-root", str(tmp_path)]) == 2
    assert "snippets" in capsys.readouterr().err
