"""Trials of a recipe on held-out clusters of the documents whose labels it is shown.

A run has the labels that it is shown, and no others.
:func:`training.trials.held_out_clusters.cluster_folds` divides the documents with these labels into
five folds, and the run with seed s holds out fold s mod 5, so five seeds hold out every fold once.
The documents of the fold are the queries. They are removed before training, and the other
documents with shown labels are searched.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt

from encoder.recipes import Recipe
from evaluation.relevance import Labelled
from evaluation.retrieval import evaluate_encoder
from training.data import TrainingData, TrainingDataError
from training.pipeline import choose_features, split
from training.semi_supervised import train
from training.trials.held_out_clusters import cluster_folds, list_length, split_folds


@dataclass(frozen=True)
class Trial:
    """The documents that a run trains on, those that are searched, and the queries."""

    training: TrainingData
    database: Labelled
    queries: Labelled
    query_classes: npt.NDArray[np.int64]
    metric: str


def hold_out_clusters(data: TrainingData, recipe: Recipe) -> Trial:
    """Hold out one cluster of each class of the documents whose labels `recipe` shows.

    A document of several classes counts to the first. The metric is P@k with the k of
    :func:`training.trials.held_out_clusters.list_length`.

    Raises:
        TrainingDataError: if fewer than two documents have labels that are shown.
    """
    shown = split(data, replace(recipe, validation_share=0.0))
    labelled = shown.labelled
    if len(labelled) < 2:
        found = f"{recipe.label_fraction:g} shows the labels of fewer than 2 documents"
        raise TrainingDataError(
            f"label_fraction (--supervision): {found}; show more, since a part is held out"
        )
    everything = np.arange(len(data))
    features = choose_features(data, everything, recipe.max_terms, analyzer=recipe.analyzer)
    rows: Any = features.transform(data.inputs)  # type: ignore[arg-type]
    classes = data.tags[labelled].argmax(axis=1)
    folds = list(split_folds(cluster_folds(rows, labelled, classes, recipe.seed)))
    known, held_out = folds[recipe.seed % len(folds)]
    kept = np.setdiff1d(everything, labelled[held_out])
    return Trial(
        data.select(kept, shown.visible_tags[kept]),
        data.labelled(labelled[known]),
        data.labelled(labelled[held_out]),
        classes[held_out],
        f"P@{list_length(classes)}",
    )


def score(trial: Trial, recipe: Recipe) -> float:
    """Train with `recipe` and return the tie-averaged P@k.

    It is the mean over the held-out clusters, which weigh the same.
    """
    # The labels of the other documents are hidden already.
    inner = replace(recipe, label_fraction=1.0, validation_share=0.0)
    with TemporaryDirectory() as folder:
        encoder = train(trial.training, inner, Path(folder, "encoder"), progress=False).encoder
    evaluation = evaluate_encoder(encoder, trial.database, trial.queries, [trial.metric])
    values = evaluation.expected_per_query[trial.metric]
    clusters = [values[trial.query_classes == number] for number in np.unique(trial.query_classes)]
    return float(np.mean([cluster.mean() for cluster in clusters]))
