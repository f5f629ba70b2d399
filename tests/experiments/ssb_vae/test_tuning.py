from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from experiments.ssb_vae import experiment, tuning
from experiments.ssb_vae.held_out import hold_out_grouped_fold, idle_settings
from experiments.ssb_vae.presets import read_preset, read_presets, write_preset
from experiments.ssb_vae.variants import VariantRecipe, train_variant, variant_recipe
from hummingbit.cli import main
from hummingbit.corpus.document import Document
from hummingbit.encoder.artifact import load_encoder
from hummingbit.training.data import TrainingDataError, gather
from hummingbit.training.pipeline import split
from tests.support.corpora import topic_documents, write_snippets

GRID = {"learning_rate": (1e-6, 4e-3), "epochs": (4, 15), "code_class_weight": (0.5, 1.0)}


@pytest.fixture
def options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    for module in (tuning, experiment):
        monkeypatch.setattr(module, "GRID", GRID)
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
    assert [record["method"] for record in records] == ["psh-gs"] * 3
    assert [score for record in records for score in record["scores"]] == [
        trial["score"] for trial in trials
    ]


def test_the_score_is_that_of_the_clusters_held_out(options: list[str], tmp_path: Path) -> None:
    assert main([*options, "--tune", "--tuned", "epochs"]) == 0
    trials = json.loads((tmp_path / "work" / "held-out-snippets-ssb-vae.json").read_text())
    data = gather(topic_documents(200))
    recipe = VariantRecipe(**trials[1]["recipe"])
    assert recipe.label_fraction == 1.0
    trial = hold_out_grouped_fold(data, recipe)
    trained = train_variant(
        trial.training, replace(recipe, validation_share=0.0), tmp_path / "encoder", progress=False
    )
    queries, documents = (
        np.unpackbits(trained.encoder.encode(part.inputs), axis=1)
        for part in (trial.queries, trial.database)
    )
    distances = (queries[:, None] != documents[None]).sum(axis=2)
    k = int(trial.metric.removeprefix("P@"))
    by_class: dict[str, list[float]] = {}
    for row, (label,) in zip(distances, trial.queries.labels, strict=True):
        relevant = np.array([label in labels for labels in trial.database.labels])
        # Documents below the k-th distance are in the list, and of those at it, a share.
        edge = np.sort(row)[k - 1]
        tied = (k - (row < edge).sum()) / (row == edge).sum()
        hits = relevant[row < edge].sum() + tied * relevant[row == edge].sum()
        by_class.setdefault(label, []).append(hits / k)
    expected = np.mean([np.mean(values) for values in by_class.values()])
    assert trials[1]["score"] == pytest.approx(expected)


@pytest.mark.parametrize("seed", [0, 3, 8])
def test_a_run_holds_out_labels_that_it_is_shown(seed: int) -> None:
    data = gather(topic_documents(200))
    recipe = VariantRecipe(label_fraction=0.4, seed=seed)
    trial = hold_out_grouped_fold(data, recipe)
    ids = {str(text): name for name, text in zip(data.ids, data.inputs, strict=True)}
    queries = {ids[str(text)] for text in trial.queries.inputs}
    searched = {ids[str(text)] for text in trial.database.inputs}
    shown = split(data, replace(recipe, validation_share=0.0)).labelled
    assert queries | searched == {data.ids[row] for row in shown}
    assert queries
    assert not queries & searched
    # Nothing is trained on a query, and what is searched is what has a label in training.
    assert set(trial.training.ids) == set(data.ids) - queries
    labelled = np.flatnonzero(trial.training.tags.any(axis=1))
    assert {trial.training.ids[row] for row in labelled} == searched
    assert trial.training.classes == data.classes
    assert {trial.queries.labels[0][0]} <= set(data.classes)


def test_seeds_go_through_the_folds() -> None:
    data = gather(topic_documents(200))
    trials = [hold_out_grouped_fold(data, VariantRecipe(seed=seed)) for seed in (1, 2)]
    assert trials[0].metric == trials[1].metric
    assert set(trials[0].queries.inputs) != set(trials[1].queries.inputs)


def test_labels_to_hold_out_are_needed() -> None:
    with pytest.raises(TrainingDataError, match=r"0\.005 shows the labels of fewer than 2"):
        hold_out_grouped_fold(gather(topic_documents(200)), VariantRecipe(label_fraction=0.005))


def test_other_methods_have_nothing_to_choose_here(
    options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*options, "--tune", "--methods", "itq", "class-codes"]) == 0
    printed = capsys.readouterr().out
    assert "itq has no settings to tune" in printed
    assert "class-codes chooses its settings on held-out clusters" in printed
    assert not (tmp_path / "presets.toml").exists()


@pytest.mark.parametrize(
    ("method", "is_text", "without"),
    [
        ("ssb-vae", True, {"vector_noise"}),
        ("ssb-vae", False, {"word_dropout", "hidden_dropout"}),
        ("psh-gs", True, {"vector_noise", "code_class_weight", "hidden_dropout"}),
        (
            "vdsh-s",
            False,
            {"word_dropout", "code_class_weight", "hidden_dropout", "pairwise_weight"},
        ),
    ],
)
def test_only_settings_that_a_method_has_are_tried(
    method: str, is_text: bool, without: set[str]
) -> None:
    tried = dict(tuning._steps(method, idle_settings(is_text=is_text), only=None))
    assert tried.keys() == tuning.GRID.keys() - without
    for name, values in tried.items():
        assert getattr(variant_recipe(method), name) in values


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
