from __future__ import annotations

import json
from pathlib import Path

import pytest

from experiments.ssb_vae.ablation import CHANGES
from experiments.ssb_vae.variants import VariantRecipe
from hummingbit.cli import main
from hummingbit.corpus.document import Document
from tests.support.corpora import topic_documents, write_snippets


def test_each_change_is_judged_beside_the_default(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Queries that no judgement may look at.
    write_snippets(
        tmp_path / "data", topic_documents(120), [Document("q", text="xyz", labels=("food",))]
    )
    places = ["--data-root", str(tmp_path / "data"), "--work-dir", str(tmp_path / "work")]
    chosen = ["--supervision", "0.2", "1.0", "--bits", "16", "--seeds", "2"]
    changes = ["no-noise", "no-soft-labels", "authors"]
    assert main(["reproduce", "ssb-vae", *places, *chosen, "--ablate", *changes]) == 0
    lines = [line.split("|")[1:-1] for line in capsys.readouterr().out.splitlines()]
    # Noise is for vectors; texts have none to do without.
    assert [line[0].strip() for line in lines[2:]] == ["default", "no-soft-labels", "authors"]
    trials = json.loads((tmp_path / "work" / "held-out-snippets-ssb-vae.json").read_text())
    runs = [(trial["recipe"]["label_fraction"], trial["recipe"]["seed"]) for trial in trials]
    assert runs == [(0.2, 0), (0.2, 1), (1.0, 0), (1.0, 1)] * 3
    for position, line in enumerate(lines[2:]):
        for column in range(2):
            start = 4 * position + 2 * column
            mean = sum(trial["score"] for trial in trials[start : start + 2]) / 2
            assert line[1 + column].split("±")[0].strip() == f"{mean:.3f}"
    command = ["reproduce", "ssb-vae", *places, *chosen, "--json"]
    assert main([*command, "--ablate", *changes]) == 0
    records = json.loads(capsys.readouterr().out)["records"]
    assert [record["change"] for record in records] == ["default", "no-soft-labels", "authors"]
    assert [score for record in records for score in record["scores"]] == [
        trial["score"] for trial in trials
    ]


def test_a_run_searches_settings_or_judges_changes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["reproduce", "ssb-vae", "--tune", "--ablate"])
    assert "--ablate: not allowed with argument --tune" in capsys.readouterr().err


@pytest.mark.parametrize("name", CHANGES)
def test_each_change_is_one(name: str) -> None:
    assert VariantRecipe(**CHANGES[name]) != VariantRecipe()
