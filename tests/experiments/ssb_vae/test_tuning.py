from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from corpus.document import Document
from encoder.artifact import load_encoder
from experiments.ssb_vae import tuning
from experiments.ssb_vae.held_out import idle_settings
from experiments.ssb_vae.presets import read_preset, read_presets, write_preset
from hummingbit.cli import main
from tests.support.corpora import topic_documents, write_snippets
from training.data import gather
from training.pipeline import split
from training.recipe import Recipe
from training.semi_supervised import train

GRID = {"learning_rate": (1e-6, 4e-3), "epochs": (4, 15), "code_class_weight": (0.5, 1.0)}


@pytest.fixture
def options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(tuning, "GRID", GRID)
    # Queries that no search may look at.
    queries = [Document("q", text="xyz", labels=("food",))]
    write_snippets(tmp_path / "data", topic_documents(200), queries)
    places = {"data-root": "data", "work-dir": "work", "presets": "presets.toml"}
    given = [part for name, place in places.items() for part in (f"--{name}", tmp_path / place)]
    chosen = ["--supervision", "0.2", "1.0", "--bits", "16", "--seeds", "1"]
    return ["reproduce", "ssb-vae", *chosen, *map(str, given)]


def test_the_best_of_each_setting_is_kept_and_written_down(
    options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_preset(tmp_path / "presets.toml", "tmc", "ssb-vae", {"epochs": 3})
    tune = [*options, "--tune", "--methods", "psh-gs"]
    assert main(tune) == 0
    first = capsys.readouterr().out
    presets = read_presets(tmp_path / "presets.toml")
    # psh-gs has no class head on its code, so that there is nothing to search.
    assert presets["snippets"]["psh-gs"].keys() == {"learning_rate", "epochs"}
    # Codes of steps that are all but none are random.
    assert presets["snippets"]["psh-gs"]["learning_rate"] == 4e-3
    assert presets["tmc"] == {"ssb-vae": {"epochs": 3}}
    trials = json.loads((tmp_path / "work" / "held-out-snippets-psh-gs.json").read_text())
    assert len(trials) == 3 * 2
    assert first.count("| psh-gs") == 3
    assert "| psh-gs *" in first

    written = (tmp_path / "work" / "held-out-snippets-psh-gs.json").stat().st_mtime_ns
    assert main(tune) == 0
    assert capsys.readouterr().out == first
    assert (tmp_path / "work" / "held-out-snippets-psh-gs.json").stat().st_mtime_ns == written

    assert main([*tune, "--json"]) == 0
    records = json.loads(capsys.readouterr().out)["records"]
    assert [one["method"] for one in records] == ["psh-gs"] * 3
    assert [one for record in records for one in record["p100"]] == [one["p100"] for one in trials]


def test_the_figure_is_that_of_the_documents_held_out(options: list[str], tmp_path: Path) -> None:
    assert main([*options, "--tune", "--tuned", "epochs"]) == 0
    trials = json.loads((tmp_path / "work" / "held-out-snippets-ssb-vae.json").read_text())
    data = gather(topic_documents(200))
    recipe = Recipe(**trials[0]["recipe"])
    trained = train(data, recipe, tmp_path / "encoder", progress=False)
    parts = split(data, recipe)
    codes = load_encoder(tmp_path / "encoder").encode
    bits = [
        np.unpackbits(codes(data.take(rows)), axis=1) for rows in (parts.validation, parts.training)
    ]
    labels = [data.tags[rows].argmax(axis=1) for rows in (parts.validation, parts.training)]
    distances = (bits[0][:, None] != bits[1][None]).sum(axis=2)
    nearest = np.argsort(distances, axis=1, kind="stable")[:, :100]
    served = (labels[1][nearest] == labels[0][:, None]).mean()
    assert trained.validation["metrics"]["P@100"] == pytest.approx(served)
    assert trials[0]["p100"] == trained.validation["expected"]["P@100"]


def test_a_linear_method_has_nothing_to_choose(
    options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*options, "--tune", "--methods", "itq"]) == 0
    assert "itq has no settings to tune" in capsys.readouterr().out
    assert not (tmp_path / "presets.toml").exists()


@pytest.mark.parametrize(
    ("pairs", "is_text", "without"),
    [
        ("all", True, {"vector_noise"}),
        ("all", False, {"word_dropout", "hidden_dropout"}),
        ("labelled", True, {"vector_noise", "code_class_weight", "hidden_dropout"}),
        (
            "none",
            False,
            {"word_dropout", "code_class_weight", "hidden_dropout", "pairwise_weight"},
        ),
    ],
)
def test_only_settings_that_a_method_has_are_tried(
    pairs: str, is_text: bool, without: set[str]
) -> None:
    tried = dict(tuning._steps(pairs, idle_settings(is_text=is_text), only=None))
    assert tried.keys() == tuning.GRID.keys() - without
    for name, values in tried.items():
        assert getattr(Recipe(), name) in values


def test_a_rerun_takes_the_preset_and_searches_nothing(
    options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_preset(tmp_path / "presets.toml", "snippets", "ssb-vae", {"epochs": 2})
    assert main(options) == 0
    encoder = load_encoder(tmp_path / "work" / "snippets-ssb-vae-16-0.2-0")
    assert encoder.metadata["recipe"]["epochs"] == 2
    assert main([*options, "--paper"]) == 0
    encoder = load_encoder(tmp_path / "work" / "snippets-ssb-vae-paper-16-0.2-0")
    assert encoder.metadata["recipe"]["epochs"] == 30
    assert not list((tmp_path / "work").glob("held-out-*"))


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "presets.toml"
    settings = {"epochs": 30, "kl_weight": 0.015625, "batch_norm": True, "features": "log-tf"}
    write_preset(path, "20news", "vdsh-s", settings)
    write_preset(path, "20news", "ssb-vae", {})
    assert read_preset(path, "20news", "vdsh-s") == settings
    assert read_presets(path) == {"20news": {"ssb-vae": {}, "vdsh-s": settings}}
    assert read_preset(path, "snippets", "ssb-vae") == {}
    assert read_preset(tmp_path / "absent.toml", "snippets", "ssb-vae") == {}
