"""Scores of settings on held-out clusters of training documents, without any test document.

A run has the labels that it is shown, and no others. The run with seed s holds out fold s mod 5
(:mod:`hummingbit.training.model_selection`), so five seeds hold out every fold once. The documents
of the fold are the queries. They are removed before training, and the other documents with shown
labels are searched.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt

from experiments.cells import documents_name
from experiments.code_version import code_version
from experiments.processes import map_runs
from experiments.result_tables import Record, read_records, write_records
from experiments.splits import read_split
from experiments.ssb_vae.variants import VariantRecipe, train_variant, variant_recipe
from hummingbit.encoder.recipes import AutoencoderRecipe
from hummingbit.evaluation.evaluate import evaluate_encoder
from hummingbit.evaluation.relevance import Labelled
from hummingbit.training.data import TrainingData, TrainingDataError
from hummingbit.training.model_selection import grouped_folds, list_length, split_folds
from hummingbit.training.pipeline import choose_features, split


def idle_settings(*, is_text: bool) -> frozenset[str]:
    """Return the names of settings that have no effect on texts, or on vectors."""
    if is_text:
        return frozenset({"vector_noise", "scale_vectors"})
    return frozenset({"terms", "word_dropout", "hidden_dropout", "features", "idf_target"})


class HeldOutScores:
    """Trains with settings and scores them on the clusters held out.

    The data set, widths, shares of labels and seeds come from the options of the experiment. Every
    run is saved in ``--work-dir`` and reused by the same code.
    """

    def __init__(self, args: argparse.Namespace, method: str) -> None:
        self.method = method
        self._args = args
        documents = documents_name(args.dataset, args.vectors)
        data, _ = read_split(args.dataset, args.data_root, args.vectors)
        self.idle_settings = idle_settings(is_text=data.is_text)
        self._provenance = {"sha256": data.sha256, "method": method, "code": code_version()}
        self._path: Path = args.work_dir / f"held-out-{documents}-{method}.json"
        self._records = read_records(self._path) if self._path.exists() else []

    def __call__(self, settings: Mapping[str, Any]) -> Record:
        """Return `settings` with their tie-averaged P@k, a figure for each run.

        The runs are ordered by width, then by share of labels, then by seed.
        """
        args = self._args
        recipes = [
            variant_recipe(
                self.method,
                n_bits=n_bits,
                label_fraction=supervision,
                seed=seed,
                **settings,
            )
            for n_bits in args.bits
            for supervision in args.supervision
            for seed in range(args.seeds)
        ]
        missing = [recipe for recipe in recipes if self._saved_score(recipe) is None]
        run = partial(_train_and_score, args.dataset, args.data_root, args.vectors)
        for recipe, figure in zip(missing, map_runs(run, missing, args.jobs), strict=True):
            self._records.append({**self._provenance, "recipe": asdict(recipe), "score": figure})
            write_records(self._path, self._records)
        return {
            "settings": dict(settings),
            "scores": [self._saved_score(recipe) for recipe in recipes],
        }

    def _saved_score(self, recipe: VariantRecipe) -> float | None:
        key = {**self._provenance, "recipe": asdict(recipe)}
        for record in self._records:
            if key.items() <= record.items():
                return float(record["score"])
        return None


def _train_and_score(
    dataset: str, data_root: Path | None, vectors: Path | None, recipe: VariantRecipe
) -> float:
    """Return the tie-averaged P@k, the mean over the held-out clusters, which weigh the same."""
    data, _ = read_split(dataset, data_root, vectors)
    return score(hold_out_grouped_fold(data, recipe), recipe)


@dataclass(frozen=True)
class Trial:
    """The documents that a run trains on, those that are searched, and the queries."""

    training: TrainingData
    database: Labelled
    queries: Labelled
    query_classes: npt.NDArray[np.int64]
    metric: str


def hold_out_grouped_fold(data: TrainingData, recipe: AutoencoderRecipe) -> Trial:
    """Hold out one cluster of each class of the documents whose labels `recipe` shows.

    A document of several classes counts to the first. The metric is P@k with the k of
    :func:`hummingbit.training.model_selection.list_length`.

    Raises:
        TrainingDataError: if fewer than two documents have labels that are shown.
    """
    shown = split(data, replace(recipe, validation_share=0.0))
    labelled = shown.labelled
    if len(labelled) < 2:
        found = f"{recipe.label_fraction:g} shows the labels of fewer than 2 documents"
        raise TrainingDataError(f"label_fraction: {found}; show more, since a part is held out")
    everything = np.arange(len(data))
    features = choose_features(data, everything, recipe.max_terms, analyzer=recipe.analyzer)
    rows: Any = features.transform(data.inputs)  # type: ignore[arg-type]
    classes = data.tags[labelled].argmax(axis=1)
    folds = list(split_folds(grouped_folds(rows, labelled, classes, recipe.seed)))
    known, held_out = folds[recipe.seed % len(folds)]
    kept = np.setdiff1d(everything, labelled[held_out])
    return Trial(
        data.select(kept, shown.visible_tags[kept]),
        data.labelled(labelled[known]),
        data.labelled(labelled[held_out]),
        classes[held_out],
        f"P@{list_length(classes)}",
    )


def score(trial: Trial, recipe: AutoencoderRecipe) -> float:
    """Train with `recipe` and return the tie-averaged P@k.

    It is the mean over the held-out clusters, which weigh the same.
    """
    # The labels of the other documents are hidden already.
    inner = replace(recipe, label_fraction=1.0, validation_share=0.0)
    with TemporaryDirectory() as folder:
        encoder = train_variant(
            trial.training, inner, Path(folder, "encoder"), progress=False
        ).encoder
    # A query may have the text of a document that was learned from.
    evaluation = evaluate_encoder(
        encoder, trial.database, trial.queries, [trial.metric], keep_learned=True
    )
    values = evaluation.expected_per_query[trial.metric]
    clusters = [values[trial.query_classes == number] for number in np.unique(trial.query_classes)]
    return float(np.mean([cluster.mean() for cluster in clusters]))
