"""The choice of the word dropout of ``train ssb-vae``, by short runs on held-out clusters.

Half of the words of a text of six are too few to name its class, and half of those of a page are
more than enough. Word dropout makes the codes of long texts fit for short queries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from encoder.recipes import METHODS, Recipe
from evaluation.classifier_baseline import LOW_WORD_DROPOUT
from training.data import TrainingData
from training.pipeline import check_labels, split
from training.trials.cluster_trials import hold_out_clusters, score
from training.trials.held_out_clusters import median_class_size

_TRIALS = 2
# A third of the epochs of a run shows which value is better.
_EPOCHS_PER_TRIAL_EPOCH = 3
# The gain of P@k that is needed to leave out fewer words. Trials that differ by less may differ
# the other way on other clusters, and short queries gain from the recipe's own value.
_MIN_GAIN = 0.02
_MAX_DOCUMENTS = 20_000


class WordDropoutChoice(NamedTuple):
    """A recipe with the chosen word dropout, and the mean P@k of each value that was tried."""

    recipe: Recipe
    trials: Sequence[Mapping[str, Any]] = ()


def choose_word_dropout(
    data: TrainingData, recipe: Recipe, *, progress: Callable[[str], None]
) -> WordDropoutChoice:
    """Return `recipe` with its own word dropout or .1, by trials on held-out clusters.

    The two values are tried on the same two folds of the documents with shown labels
    (:mod:`training.trials.cluster_trials`), with a third of the epochs, and with 20,000 random
    documents if there are more. The lower value is chosen if its mean P@k is higher by more than
    .02. There are no trials for vectors, for methods other than ssb-vae, if the recipe's value is
    .1 or less, and if the median class has fewer than two documents with shown labels.

    Raises:
        TrainingDataError: if there are too few labels to train.
    """
    has_choice = METHODS[recipe.method].pairs == "all" and recipe.word_dropout > LOW_WORD_DROPOUT
    if not has_choice or not data.is_text:
        return WordDropoutChoice(recipe)
    parts = split(data, recipe)
    check_labels(data, parts, recipe.validation_share)
    if median_class_size(data.tags[parts.labelled].argmax(axis=1)) < 2:
        return WordDropoutChoice(recipe)
    rows = parts.training
    if len(rows) > _MAX_DOCUMENTS:
        rng = np.random.default_rng(recipe.seed)
        rows = np.sort(rng.permutation(rows)[:_MAX_DOCUMENTS])
    shown = data.select(rows, parts.visible_tags[rows])
    values = (recipe.word_dropout, LOW_WORD_DROPOUT)
    scores: dict[float, list[float]] = {value: [] for value in values}
    metric = ""
    for number in range(_TRIALS):
        short = replace(
            recipe,
            label_fraction=1.0,
            seed=recipe.seed + number,
            epochs=max(1, recipe.epochs // _EPOCHS_PER_TRIAL_EPOCH),
        )
        trial = hold_out_clusters(shown, short)
        metric = trial.metric
        for value in values:
            scores[value].append(score(trial, replace(short, word_dropout=value)))
    means = {value: float(np.mean(of_value)) for value, of_value in scores.items()}
    for value, mean in means.items():
        progress(f"held-out clusters: word dropout {value:g}: {metric} {mean:.4f}")
    default, low = values
    chosen = low if means[low] > means[default] + _MIN_GAIN else default
    progress(f"chosen: word dropout {chosen:g}")
    trials = tuple({"word_dropout": value, metric: mean} for value, mean in means.items())
    return WordDropoutChoice(replace(recipe, word_dropout=chosen), trials)
