"""One cell of a retrieval table: a method trained on a data set, and its figures."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from experiments.result_tables import Record
from experiments.saved_encoders import load_or_train
from experiments.splits import read_split
from experiments.ssb_vae.variants import train_variant
from experiments.word_vectors import read_word_vectors
from hummingbit.encoder.artifact import read_classifier, read_labelled_ids
from hummingbit.encoder.codes import unpack_codes
from hummingbit.encoder.encoder import Encoder
from hummingbit.encoder.recipes import ClassCodeRecipe, LabelledRecipe, ModelRecipe
from hummingbit.encoder.text_model import ReadTexts
from hummingbit.evaluation.baselines import ClassifierReference, classifier_baseline, tfidf_cosine
from hummingbit.evaluation.evaluate import evaluate_encoder, unseen
from hummingbit.evaluation.result import Evaluation
from hummingbit.training.class_codes import train_class_codes
from hummingbit.training.data import TrainingData
from hummingbit.training_methods import print_trial, train_by

CLASSIFIER_BASELINE = "classifier baseline"
CLASSIFIER_OF = {
    "ssb-vae": CLASSIFIER_BASELINE,
    "class-codes": "class code alone",
    "model": "class code alone",
}
"""The record name of the classifier beside a method; that of class-codes is part of its codes."""
TFIDF = "tf-idf cosine"


@dataclass(frozen=True)
class Cell:
    """A method's recipe on a data set; its encoder is saved in `folder`.

    With `vectors`, a file of vectors by id, these are the inputs instead of the data set's own.
    `word_vectors`, a file of vectors of words, are for class codes of texts. `read`, for a recipe
    of a language model, are its vectors of the documents and of the queries.
    """

    dataset: str
    recipe: LabelledRecipe
    folder: Path
    data_root: Path | None
    vectors: Path | None = None
    word_vectors: Path | None = None
    read: ReadFiles | None = None


@dataclass(frozen=True)
class ReadFiles:
    """A language model's vectors by id, and those of the documents as training writes them."""

    by_id: Path
    of_documents: Path


def documents_name(dataset: str, vectors: Path | None) -> str:
    """Return the name of the documents of a cell in records, folders and presets."""
    return f"{dataset}-vectors" if vectors else dataset


@dataclass(frozen=True)
class Result:
    """The records of a cell and, by method, the tie-averaged p@100 of each query."""

    records: list[Record]
    p100: dict[str, Any]


def run_cell(cell: Cell) -> Result:
    """Train the encoder or load the saved one, and measure it beside its classifier."""
    data, queries = read_split(cell.dataset, cell.data_root, cell.vectors)
    if cell.read is None:
        return measure_cell(
            cell, trained_encoder(data, cell.recipe, cell.folder, cell.word_vectors)
        )
    encoder = _encoder_of_model(data, cell.recipe, cell.folder, cell.read)
    # The model has read all texts before.
    both = read_split(cell.dataset, cell.data_root, cell.read.by_id)
    read = ReadTexts(
        [str(text) for part in (data, queries) for text in part.inputs],
        np.vstack([np.asarray(part.inputs) for part in both]),
    )
    return measure_cell(cell, replace(encoder, features=read))


def _encoder_of_model(
    data: TrainingData, recipe: LabelledRecipe, folder: Path, read: ReadFiles
) -> Encoder:
    assert isinstance(recipe, ModelRecipe)  # noqa: S101 - only these have vectors that are read

    def train_anew() -> Encoder:
        # Training goes on where the documents were read before.
        folder.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(read.of_documents, folder.with_name(f"{folder.name}.vectors"))
        return train_by(data, recipe, folder, overwrite=True).encoder

    recorded = replace(recipe, model=Path(recipe.model).resolve().name)
    return load_or_train(folder, data, recorded, train_anew)


def measure_cell(cell: Cell, encoder: Encoder, *, only_unseen: bool = False) -> Result:
    """Measure the encoder of a cell, and its classifier, by all queries.

    Papers have all of them, with those whose content is in the training data too; `only_unseen`
    leaves these out.
    """
    data, query_data = read_split(cell.dataset, cell.data_root, cell.vectors)
    queries = query_data.labelled()
    if only_unseen:
        queries, _ = unseen(encoder, queries)
    labelled_rows = data.rows_of(read_labelled_ids(cell.folder, encoder))
    evaluation = evaluate_encoder(encoder, data.labelled(), queries, keep_learned=True)
    evaluations = {cell.recipe.method: evaluation}
    bit_means = unpack_codes(encoder.encode(data.inputs)).mean(axis=0)
    # Other methods learn from fewer soft labels or none, so their classifiers are weaker.
    if cell.recipe.method in CLASSIFIER_OF:
        reference = ClassifierReference(encoder, read_classifier(cell.folder, encoder))
        evaluations[CLASSIFIER_OF[cell.recipe.method]] = classifier_baseline(
            reference, data.labelled(labelled_rows), data.labelled(), queries
        )
    records = [_record(cell, method, each) for method, each in evaluations.items()]
    records[0]["bit_balance_least"] = float(bit_means.min())
    records[0]["bit_balance_most"] = float(bit_means.max())
    return Result(
        records,
        {method: each.expected_per_query["P@100"] for method, each in evaluations.items()},
    )


def run_tfidf(dataset: str, data_root: Path | None) -> Record | None:
    """Return the record of TF-IDF cosine, which has no bits and no labels; None without texts."""
    data, queries = read_split(dataset, data_root)
    if not data.is_text:
        return None
    evaluation = tfidf_cosine(data.labelled(), queries.labelled())
    return {"dataset": dataset, "method": TFIDF, **_UNTRAINED, **_figures(evaluation)}


def trained_encoder(
    data: TrainingData, recipe: LabelledRecipe, folder: Path, word_vectors: Path | None = None
) -> Encoder:
    """Return the encoder saved in `folder`; train it if it is missing or out of date.

    :func:`load_or_train` says when a saved encoder is reused.
    """

    words = read_word_vectors(word_vectors) if word_vectors else None

    def train_anew() -> Encoder:
        if words is not None and isinstance(recipe, ClassCodeRecipe):
            return train_class_codes(
                data, recipe, folder, word_vectors=words, overwrite=True, progress=print_trial
            ).encoder
        return train_variant(data, recipe, folder, overwrite=True).encoder

    about = {"word_vectors": words.about()} if words else None
    return load_or_train(folder, data, recipe, train_anew, about)


_UNTRAINED = {"n_bits": None, "supervision": None, "seed": None}


def _record(cell: Cell, method: str, evaluation: Evaluation) -> Record:
    recipe = cell.recipe
    return {
        "dataset": documents_name(cell.dataset, cell.vectors),
        "method": method,
        "n_bits": recipe.n_bits,
        "supervision": recipe.label_fraction,
        "seed": recipe.seed,
        **_figures(evaluation),
    }


def _figures(evaluation: Evaluation) -> Record:
    return {
        "p100": evaluation.metrics["P@100"],
        "map100": evaluation.metrics["mAP@100"],
        "p100_expected": evaluation.expected["P@100"],
        "map100_expected": evaluation.expected["mAP@100"],
        "distinct_codes": evaluation.distinct_codes,
    }


def p100_by_run(results: list[Result], method: str) -> Any:
    """Return a method's p@100 by run and query, ``float64[R, Q]``."""
    return np.array([result.p100[method] for result in results if method in result.p100])
