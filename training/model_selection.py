"""Settings chosen by short runs on grouped folds: held-out clusters of documents.

Queries often come from another part of a class than the labelled documents: from other searches,
authors or months. A random held-out share does not show the effect, since each of its documents has
near neighbours in the training set. Therefore the labelled documents of each class are divided into
five clusters, and one cluster of each class is held out at a time. With more and smaller clusters,
of which a fold has several, the queries are nearer to the other documents.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hummingbit.encoder.recipes import METHODS, Recipe
from hummingbit.evaluation.baselines import LOW_WORD_DROPOUT
from hummingbit.evaluation.evaluate import evaluate_encoder
from hummingbit.evaluation.relevance import Labelled
from hummingbit.foundation.arrays import unit_rows
from hummingbit.foundation.slices import part_of_stages
from hummingbit.training.data import Rows, TrainingData, TrainingDataError
from hummingbit.training.pipeline import check_labels, choose_features, split
from hummingbit.training.text_features import PrincipalDirections

# Grouped folds


FOLDS = 5
_DIRECTIONS = 100


def grouped_folds(
    rows: Any,
    labelled: Rows,
    classes: npt.NDArray[np.int64],
    seed: int,
    clusters: int = FOLDS,
) -> npt.NDArray[np.int64]:
    """Return the number of the fold of each of L labelled documents, int64[L], from 0 to 4.

    `rows` are the features of all N documents, a scipy matrix ``(N, V)`` or vectors ``(N, D)``. The
    rows `labelled` have the `classes`, int64[L]. A fold has a fifth of the `clusters` of each
    class, by k-means on unit vectors; texts are first projected on the principal directions of all
    documents. A class of fewer than two labelled documents a cluster is divided at random.
    """
    if isinstance(rows, np.ndarray):
        vectors = rows[labelled]
    else:
        vectors = PrincipalDirections(rows, seed, _DIRECTIONS).coordinates(labelled)
    unit = unit_rows(vectors)
    rng = np.random.default_rng(seed)
    folds = np.empty(len(classes), dtype=np.int64)
    for number in np.unique(classes):
        members = np.flatnonzero(classes == number)
        if len(members) < 2 * clusters:
            folds[members] = rng.permutation(len(members)) % FOLDS
        else:
            folds[members] = _cluster(unit[members], clusters, seed) % FOLDS
    return folds


def split_folds(folds: npt.NDArray[np.int64]) -> Iterator[tuple[Rows, Rows]]:
    """Yield the positions outside and inside each fold that has documents."""
    for fold in np.unique(folds):
        yield np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)


def list_length(classes: npt.NDArray[np.int64]) -> int:
    """Return the k of the P@k that compares settings: 100, or half the median class size if less.

    `classes`, int64[L], are those of the labelled documents. A longer list than a class has
    documents would reward codes for finding other classes' documents late.
    """
    return max(1, min(100, int(median_class_size(classes)) // 2))


def median_class_size(classes: npt.NDArray[np.int64]) -> float:
    """Return the median number of documents in a class that has any; `classes`, int64[L]."""
    sizes = np.bincount(classes)
    return float(np.median(sizes[sizes > 0]))


def _cluster(unit: npt.NDArray[Any], clusters: int, seed: int) -> npt.NDArray[np.int64]:
    from sklearn.cluster import KMeans  # noqa: PLC0415 - takes a second
    from sklearn.exceptions import ConvergenceWarning  # noqa: PLC0415

    with warnings.catch_warnings():
        # Documents of few different texts form fewer clusters.
        warnings.simplefilter("ignore", ConvergenceWarning)
        numbers = KMeans(clusters, n_init=3, random_state=seed).fit_predict(unit)
    return np.asarray(numbers, dtype=np.int64)


# Trials of a recipe
#
# A run has the labels that it is shown, and no others. The run with seed s holds out fold s mod
# 5, so five seeds hold out every fold once. The documents of the fold are the queries. They are
# removed before training, and the other documents with shown labels are searched.


@dataclass(frozen=True)
class Trial:
    """The documents that a run trains on, those that are searched, and the queries."""

    training: TrainingData
    database: Labelled
    queries: Labelled
    query_classes: npt.NDArray[np.int64]
    metric: str


def hold_out_grouped_fold(data: TrainingData, recipe: Recipe) -> Trial:
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


def score(trial: Trial, recipe: Recipe) -> float:
    """Train with `recipe` and return the tie-averaged P@k.

    It is the mean over the held-out clusters, which weigh the same.
    """
    from hummingbit.training.semi_supervised import train  # noqa: PLC0415 - it needs torch

    # The labels of the other documents are hidden already.
    inner = replace(recipe, label_fraction=1.0, validation_share=0.0)
    with TemporaryDirectory() as folder:
        encoder = train(trial.training, inner, Path(folder, "encoder"), progress=False).encoder
    # A query may have the text of a document that was learned from.
    evaluation = evaluate_encoder(
        encoder, trial.database, trial.queries, [trial.metric], keep_learned=True
    )
    values = evaluation.expected_per_query[trial.metric]
    clusters = [values[trial.query_classes == number] for number in np.unique(trial.query_classes)]
    return float(np.mean([cluster.mean() for cluster in clusters]))


# The word dropout of ``train ssb-vae``
#
# Half of the words of a text of six are too few to name its class, and half of those of a page
# are more than enough. Word dropout makes the codes of long texts fit for short queries.


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
    (:mod:`hummingbit.training.model_selection`), with a third of the epochs, and with 20,000 random
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
        trial = hold_out_grouped_fold(shown, short)
        metric = trial.metric
        for position, value in enumerate(values):
            which = f"trial {len(values) * number + position + 1} of {_TRIALS * len(values)}"
            with part_of_stages(f"{which}, word dropout {value:g}"):
                scores[value].append(score(trial, replace(short, word_dropout=value)))
    means = {value: float(np.mean(of_value)) for value, of_value in scores.items()}
    for value, mean in means.items():
        progress(trial_result(f"word dropout {value:g}", metric, mean))
    default, low = values
    chosen = low if means[low] > means[default] + _MIN_GAIN else default
    progress(f"chosen: word dropout {chosen:g}")
    trials = tuple({"word_dropout": value, metric: mean} for value, mean in means.items())
    return WordDropoutChoice(replace(recipe, word_dropout=chosen), trials)


def trial_result(settings: str, metric: str, value: float) -> str:
    """Return what a trial says of settings, whose `metric` is tie-averaged P@k."""
    k = metric.partition("@")[2]
    found = f"{value:.4f} of the nearest {k} documents have the label of their query"
    return f"trial: {settings}: {found} ({metric} of held-out documents)"
