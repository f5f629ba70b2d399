"""A teacher when labels are scarce: distillation, SSB-VAE, and both together, at 1 % and 10 %.

SSB-VAE has the defaults of `hummingbit train`. Both together are SSB-VAE with the teacher's loss
term added. Distillation alone has the settings chosen on held-out documents. All use the same
documents and hold out the same tenth of them.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from encoder.encoder import Encoder
from experiments.perception_coherence.text import COHERENCE
from experiments.perception_coherence.text_corpora import TaughtCorpus, read_taught
from experiments.perception_coherence.text_students import (
    load_or_distill,
    measure_student,
    student_folder,
    text_recipe,
)
from experiments.result_tables import Record, group, mean_and_deviation, print_table, save_records
from experiments.saved_encoders import load_or_train
from training.distillation.distillation_recipe import DistillationRecipe
from training.recipe import Recipe
from training.semi_supervised import train

SHARED = ("supervision", "epochs", "batch_size", "learning_rate", "hidden", "word_dropout")
"""The settings that both together share with SSB-VAE, so that only the teacher is added."""

DISTILLED, LABELLED, BOTH = "distillation", "ssb-vae", "distillation + ssb-vae"


def configure(group: argparse._ArgumentGroup) -> None:
    """Add the options of this part."""
    group.add_argument(
        "--supervision",
        type=float,
        nargs="+",
        default=[0.01, 0.1],
        metavar="X",
        help="shares of the labels to train with (default: 0.01 0.1)",
    )
    group.add_argument(
        "--teacher-weight",
        type=float,
        metavar="X",
        help="weight of the teacher's term beside SSB-VAE's loss",
    )


def run(args: argparse.Namespace) -> int:
    """Train and measure every encoder, then print the table."""
    records: list[Record] = []
    for name in args.corpora:
        for record in _corpus_records(read_taught(name, args), args):
            records.append({"part": "semi", "dataset": name, "n_bits": args.compare_at, **record})
            save_records(args, records)
    _print(records)
    return 0


def _corpus_records(corpus: TaughtCorpus, args: argparse.Namespace) -> Iterator[Record]:
    for seed in range(args.seeds):
        alone = text_recipe(COHERENCE, n_bits=args.compare_at, seed=seed)
        yield _measure(corpus, DISTILLED, alone, args.work_dir)
        for supervision in args.supervision:
            labelled = Recipe(n_bits=args.compare_at, supervision=supervision, seed=seed)
            yield _measure(corpus, LABELLED, labelled, args.work_dir)
            both = replace(alone, **{name: getattr(labelled, name) for name in SHARED})
            if args.teacher_weight is not None:
                both = replace(both, teacher_weight=args.teacher_weight)
            yield _measure(corpus, BOTH, both, args.work_dir)


def _measure(
    corpus: TaughtCorpus, method: str, recipe: DistillationRecipe | Recipe, work_dir: Path
) -> Record:
    cell = f"{method.replace(' ', '')}-{recipe.n_bits}-{recipe.supervision:g}-{recipe.seed}"
    folder = work_dir / "semi" / f"{corpus.name}-{cell}"
    weight = None
    if isinstance(recipe, Recipe):
        encoder = _autoencoder(corpus, recipe, folder)
    else:
        if not recipe.supervision:
            folder = student_folder(corpus, recipe, work_dir)
        encoder = load_or_distill(corpus, recipe, folder)
        weight = recipe.teacher_weight if recipe.supervision else None
    return {
        "method": method,
        "supervision": recipe.supervision,
        "seed": recipe.seed,
        "teacher_weight": weight,
        "validation_p100": encoder.metadata["validation"]["expected"]["P@100"],
        **measure_student(corpus, encoder, folder),
    }


def _autoencoder(corpus: TaughtCorpus, recipe: Recipe, folder: Path) -> Encoder:
    """Return the SSB-VAE saved in `folder`; train it if it is missing or out of date."""

    def train_anew() -> Encoder:
        return train(corpus.database, recipe, folder, overwrite=True).encoder

    return load_or_train(folder, corpus.database, recipe, train_anew)


def _print(records: list[Record]) -> None:
    header = ("data set", "labels shown", "method", "p@100", "tie-averaged", "coherence")
    rows = []
    for cell, runs in group(records, "dataset", "supervision", "method").items():
        dataset, supervision, method = cell
        keys = ("p100", "p100_expected", "coherence")
        figures = [mean_and_deviation(runs, key) for key in keys]
        rows.append([dataset, f"{supervision:.0%}", method, *figures])
    print_table(header, rows)
