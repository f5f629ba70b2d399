from __future__ import annotations

import json
from pathlib import Path

import pytest

from experiments.cells import Cell, run_cell
from hummingbit.cli import main
from hummingbit.encoder.recipes import LinearRecipe
from tests.support.corpora import topic_documents, write_snippets


def test_queries_that_are_in_the_training_data_count_too(tmp_path: Path) -> None:
    documents = topic_documents(60)
    # Two thirds of the queries are texts of the training data, as 26 of Snippets are.
    queries = [*documents[:20], *topic_documents(10, seed=1, prefix="test")]
    write_snippets(tmp_path, documents, queries)
    recipe = LinearRecipe("itq", n_bits=8, validation_share=0.0)
    result = run_cell(Cell("snippets", recipe, tmp_path / "cell", tmp_path))
    assert len(result.p100["itq"]) == 30


def test_the_table_is_made_of_saved_encoders(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_snippets(tmp_path, topic_documents(60), topic_documents(20, seed=1, prefix="test"))
    command = ["reproduce", "table1", "--datasets", "snippets", "--bits", "8"]
    command += ["--data-root", str(tmp_path), "--work-dir", str(tmp_path / "w")]
    command += ["--methods", "ssb-vae", "--supervision", "0.5", "1"]
    assert main(command) == 0
    assert capsys.readouterr().out == "snippets, 8 bits: not run\n"
    first, last = ([*command, "--json", str(tmp_path / f"{name}.json")] for name in "ab")
    assert main([*first, "--supervision", "1", "--train"]) == 0
    capsys.readouterr()
    # In a folder of the data set's own, and trained by another version of the code.
    (tmp_path / "w").rename(tmp_path / "moved")
    (tmp_path / "w").mkdir()
    (tmp_path / "moved").rename(tmp_path / "w" / "snippets")
    (tmp_path / "w" / "snippets" / "snippets-ssb-vae-paper-8-1-0.code").write_text("earlier")
    figures = ["--figures", str(tmp_path / "figures.json")]
    assert main([*last, *figures]) == 0
    out, progress = capsys.readouterr()
    assert "measuring snippets-ssb-vae-paper-8-1-0" in progress
    row = next(line for line in out.splitlines() if line.startswith("| 1 "))
    assert row.count("–") == 5  # two methods, and what the paper prints for 8 bits, are missing
    assert "0.5" not in row
    trained, read = (json.loads((tmp_path / f"{name}.json").read_text()) for name in "ab")
    assert [item["p100"] for item in trained] == [item["p100"] for item in read]
    assert main([*command, *figures]) == 0
    assert "measuring" not in capsys.readouterr().err
