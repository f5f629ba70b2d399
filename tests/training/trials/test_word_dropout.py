from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hummingbit.cli import main
from hummingbit.corpus.document import Document
from hummingbit.encoder.artifact import load_encoder
from hummingbit.encoder.recipes import Recipe
from hummingbit.evaluation.relevance import Labelled
from hummingbit.training import model_selection
from hummingbit.training.data import TrainingDataError, gather
from hummingbit.training.model_selection import (
    Trial,
    choose_word_dropout,
    hold_out_grouped_fold,
    score,
)
from hummingbit.training.pipeline import split
from tests.support.corpora import topic_documents, topic_vectors, write_xz

RECIPE = Recipe(
    n_bits=8, label_fraction=0.5, epochs=6, batch_size=32, hidden=16, max_terms=100, seed=3
)


def test_the_trials_are_short_runs_on_two_folds_of_the_shown_labels() -> None:
    data = gather(topic_documents(120))
    lines: list[str] = []
    chosen, trials = choose_word_dropout(data, RECIPE, progress=lines.append)
    parts = split(data, RECIPE)
    shown = replace(
        data,
        ids=tuple(data.ids[row] for row in parts.training),
        inputs=data.take(parts.training),
        tags=parts.visible_tags[parts.training],
    )
    for item, value in zip(trials, (0.5, 0.1), strict=True):
        figures = []
        for seed in (3, 4):
            short = replace(RECIPE, label_fraction=1.0, seed=seed, epochs=2)
            trial = hold_out_grouped_fold(shown, short)
            figures.append(score(trial, replace(short, word_dropout=value)))
        assert item == {"word_dropout": value, trial.metric: pytest.approx(np.mean(figures))}
    assert replace(chosen, word_dropout=0.5) == RECIPE
    assert [line.split(":")[0] for line in lines] == ["trial"] * 2 + ["chosen"]
    assert lines[-1] == f"chosen: word dropout {chosen.word_dropout:g}"


def test_texts_that_repeat_are_queries_of_trials_all_the_same() -> None:
    trial = hold_out_grouped_fold(gather(topic_documents(120)), RECIPE)
    learned, new = trial.database.take([0, 1, 2]), trial.queries
    queries = Labelled([*learned.inputs, *new.inputs], [*learned.labels, *new.labels])
    classes = np.concatenate([np.zeros(3, dtype=np.int64), trial.query_classes])
    repeated = replace(trial, queries=queries, query_classes=classes)
    assert 0 < score(repeated, replace(RECIPE, epochs=1)) <= 1


@pytest.mark.parametrize(
    ("gain", "own", "chosen"), [(0.03, 0.5, 0.1), (0.01, 0.5, 0.5), (-0.1, 0.5, 0.5), (0, 0.3, 0.3)]
)
def test_fewer_words_are_left_out_only_if_that_gains_two_hundredths(
    gain: float, own: float, chosen: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    def known_score(_trial: Trial, recipe: Recipe) -> float:
        return 0.5 + 0.1 * recipe.seed + (gain if recipe.word_dropout == 0.1 else 0)

    monkeypatch.setattr(model_selection, "score", known_score)
    data, recipe = gather(topic_documents(60)), replace(RECIPE, word_dropout=own)
    found = choose_word_dropout(data, recipe, progress=lambda _: None).recipe
    assert found.word_dropout == chosen


@pytest.mark.parametrize(
    ("documents", "settings"),
    [
        (topic_vectors(60), {}),
        (topic_documents(60), {"method": "ict"}),
        (topic_documents(60), {"method": "psh-gs"}),
        (topic_documents(60), {"label_fraction": 0.05}),
        (topic_documents(60), {"word_dropout": 0.1}),
    ],
)
def test_without_a_choice_there_are_no_trials(
    documents: list[Document], settings: dict[str, Any]
) -> None:
    lines: list[str] = []
    recipe = replace(RECIPE, **settings)
    assert choose_word_dropout(gather(documents), recipe, progress=lines.append) == (recipe, ())
    assert lines == []


def test_labels_of_two_classes_are_needed() -> None:
    data = gather([replace(document, labels=("one",)) for document in topic_documents(60)])
    with pytest.raises(TrainingDataError, match="at least two"):
        choose_word_dropout(data, RECIPE, progress=lambda _: None)


@pytest.mark.parametrize("fixed", [["--no-search"], ["--word-dropout", "0.25"], []])
def test_the_command_searches_unless_it_is_told_not_to(
    fixed: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = [
        {"id": document.id, "text": document.text or "", "label": document.labels[0]}
        for document in topic_documents(80)
    ]
    write_xz(tmp_path / "topics.jsonl.xz", records)
    out = tmp_path / "e"
    few = ["--bits", "8", "--epochs", "3", "--hidden", "8"]
    data = ["--data", str(tmp_path / "topics.jsonl.xz"), "--out", str(out)]
    assert main(["train", "ssb-vae", *data, *few, *fixed]) == 0
    said = capsys.readouterr().err
    metadata = load_encoder(out).metadata
    assert said.count("trial: word dropout") == (0 if fixed else 2)
    assert len(metadata.get("trials", [])) == (0 if fixed else 2)
    if fixed:
        expected = 0.5 if fixed == ["--no-search"] else 0.25
        assert metadata["recipe"]["word_dropout"] == expected
