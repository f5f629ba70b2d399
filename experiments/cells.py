"""One cell of a retrieval table: a method trained on a data set, and what it scores."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from encoder.artifact import read_classifier, read_labelled_ids
from encoder.codes import unpack_codes
from encoder.encoder import Encoder
from evaluation.baselines import tfidf_cosine
from evaluation.classifier_baseline import ClassifierReference, classifier_baseline
from evaluation.result import Evaluation
from evaluation.retrieval import evaluate_encoder
from experiments.kept_encoders import kept_encoder
from experiments.result_tables import Record
from experiments.splits import read_split
from training.class_codes.class_recipe import ClassCodeRecipe
from training.class_codes.run import train_class_codes
from training.data import TrainingData
from training.linear_codes import train_linear
from training.recipe import LinearRecipe, Recipe
from training.semi_supervised import train

AnyRecipe = Recipe | LinearRecipe | ClassCodeRecipe

CLASSIFIER_BASELINE = "classifier baseline"
CLASSIFIER_OF = {
    "ssb-vae": CLASSIFIER_BASELINE,
    "class-codes": "class code alone",
}
"""What the classifier beside a method is called; that of class-codes is part of its codes."""
TFIDF = "tf-idf cosine"


@dataclass(frozen=True)
class Cell:
    """A method's recipe on a data set; its encoder is kept in `folder`.

    With `vectors`, a file of them by id, the documents are these instead of what the data set has.
    """

    dataset: str
    recipe: AnyRecipe
    folder: Path
    data_root: Path | None
    vectors: Path | None = None


def kind_of(dataset: str, vectors: Path | None) -> str:
    """Name the documents of a cell, as records, folders and presets do."""
    return f"{dataset}-vectors" if vectors else dataset


@dataclass(frozen=True)
class Result:
    """The records of a cell and, by method, each query's p@100 tie-averaged."""

    records: list[Record]
    p100: dict[str, Any]


def run_cell(cell: Cell) -> Result:
    """Train the encoder, unless it is there already, and measure it beside the classifier."""
    data, queries = read_split(cell.dataset, cell.data_root, cell.vectors)
    encoder = trained_encoder(data, cell.recipe, cell.folder)
    shown = data.rows_of(read_labelled_ids(cell.folder, encoder))
    found = {cell.recipe.method: evaluate_encoder(encoder, data.labelled(), queries.labelled())}
    bits = unpack_codes(encoder.encode(data.inputs)).mean(axis=0)
    # Other methods learn from fewer soft labels or none; these have the strongest classifiers.
    if cell.recipe.method in CLASSIFIER_OF:
        reference = ClassifierReference(encoder, read_classifier(cell.folder, encoder))
        found[CLASSIFIER_OF[cell.recipe.method]] = classifier_baseline(
            reference, data.labelled(shown), data.labelled(), queries.labelled()
        )
    records = [_record(cell, method, one) for method, one in found.items()]
    records[0]["bit_balance_least"] = float(bits.min())
    records[0]["bit_balance_most"] = float(bits.max())
    return Result(
        records, {method: one.expected_per_query["P@100"] for method, one in found.items()}
    )


def run_tfidf(dataset: str, data_root: Path | None) -> Record | None:
    """Measure TF-IDF cosine, which has neither bits nor labels; None where there are no texts."""
    data, queries = read_split(dataset, data_root)
    if not data.is_text:
        return None
    found = tfidf_cosine(data.labelled(), queries.labelled())
    return {"dataset": dataset, "method": TFIDF, **_UNTRAINED, **_figures(found)}


def trained_encoder(data: TrainingData, recipe: AnyRecipe, folder: Path) -> Encoder:
    """Train an encoder to `folder`, unless one made by all the same is there."""

    def trained() -> Encoder:
        if isinstance(recipe, Recipe):
            return train(data, recipe, folder, overwrite=True).encoder
        if isinstance(recipe, ClassCodeRecipe):
            return train_class_codes(
                data, recipe, folder, overwrite=True, progress=partial(print, flush=True)
            ).encoder
        return train_linear(data, recipe, folder, overwrite=True).encoder

    return kept_encoder(folder, data, recipe, trained)


_UNTRAINED = {"n_bits": None, "supervision": None, "seed": None}


def _record(cell: Cell, method: str, found: Evaluation) -> Record:
    recipe = cell.recipe
    return {
        "dataset": kind_of(cell.dataset, cell.vectors),
        "method": method,
        "n_bits": recipe.n_bits,
        "supervision": recipe.supervision,
        "seed": recipe.seed,
        **_figures(found),
    }


def _figures(found: Evaluation) -> Record:
    return {
        "p100": found.metrics["P@100"],
        "map100": found.metrics["mAP@100"],
        "p100_expected": found.expected["P@100"],
        "map100_expected": found.expected["mAP@100"],
        "distinct_codes": found.distinct_codes,
    }


def per_run(results: list[Result], method: str) -> Any:
    """Return the precision of each run at each query, ``float64[R, Q]``."""
    return np.array([one.p100[method] for one in results if method in one.p100])
