from __future__ import annotations

import json
from pathlib import Path

import pytest

from experiments.hierarchy_codes.experiment import METHODS
from hummingbit.cli import main
from tests.support.corpora import dotted_topic_documents, write_snippets


@pytest.fixture
def data_root(tmp_path: Path) -> Path:
    queries = dotted_topic_documents(40, 1, prefix="test")
    write_snippets(tmp_path, dotted_topic_documents(200, prefix="train"), queries)
    return tmp_path


def test_every_method_is_measured_by_grades(
    data_root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = data_root / "records.json"
    options = ["--dataset", "snippets", "--seeds", 1, "--epochs", 40, "--bits", 16, "--hidden", 64]
    places = ["--data-root", data_root, "--work-dir", data_root / "w", "--json", out]
    command = ["reproduce", "hierarchy-codes", *options, *places]
    assert main(list(map(str, command))) == 0
    first = capsys.readouterr()
    records = json.loads(out.read_text())
    assert [record["method"] for record in records] == list(METHODS)
    for record in records:
        # A third of the 200 documents have the label of a query, so two thirds are the most.
        assert 0.5 < record["p100_expected"] < 0.7
        assert 0.75 < record["ndcg100_expected"] <= 1
    assert "difference from ssb-vae in tie-averaged nDCG@100" in first.out
    assert first.err.count("training ") == len(METHODS)
    assert main(list(map(str, command))) == 0
    again = capsys.readouterr()
    assert again.out == first.out
    assert "training " not in again.err
