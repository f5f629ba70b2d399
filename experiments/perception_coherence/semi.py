"""Few labels and a teacher: class codes with and without its vectors, and with word vectors.

All learn from every training document and from the same labels. The class code alone retrieves by
the class that an encoder's classifiers predict. These have all that its codes have: the soft
labels, the teacher and the word vectors.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from experiments.perception_coherence.text_corpora import TaughtCorpus, read_taught
from experiments.perception_coherence.text_students import agreement_of_queries
from experiments.result_tables import Record, group, mean_and_deviation, print_table, save_records
from experiments.saved_encoders import load_or_train
from experiments.word_vectors import read_word_vectors
from hummingbit.encoder.artifact import read_labelled_ids
from hummingbit.encoder.recipes import ClassCodeRecipe
from hummingbit.evaluation.baselines import ClassifierReference, classifier_baseline
from hummingbit.evaluation.evaluate import evaluate_encoder
from hummingbit.training.class_codes import train_class_codes
from hummingbit.training.word_vectors import WordVectors

METRICS = ("P@10", "P@100")
PLAIN, TAUGHT, WITH_WORDS = "class-codes", "class-codes, teacher", "class-codes, teacher, words"


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
        "--word-vectors",
        type=Path,
        metavar="FILE",
        help="also train with these vectors of words (.npz, .parquet, .txt, .vec)",
    )


def run(args: argparse.Namespace) -> int:
    """Train and measure every encoder, then print the table."""
    words = read_word_vectors(args.word_vectors) if args.word_vectors else None
    records: list[Record] = []
    for name in args.corpora:
        for record in _corpus_records(read_taught(name, args), words, args):
            records.append({"part": "semi", "dataset": name, "n_bits": args.compare_at, **record})
            save_records(args, records)
    _print(records)
    return 0


def _corpus_records(
    corpus: TaughtCorpus, words: WordVectors | None, args: argparse.Namespace
) -> Iterator[Record]:
    methods = [PLAIN, TAUGHT, *([WITH_WORDS] if words else [])]
    for supervision in args.supervision:
        for seed in range(args.seeds):
            recipe = ClassCodeRecipe(
                n_bits=args.compare_at, label_fraction=supervision, seed=seed, validation_share=0.0
            )
            for method in methods:
                given = words if method == WITH_WORDS else None
                yield _record(corpus, method, recipe, given, args.work_dir)


def _record(
    corpus: TaughtCorpus,
    method: str,
    recipe: ClassCodeRecipe,
    words: WordVectors | None,
    work_dir: Path,
) -> Record:
    cell = f"{method.replace(', ', '-')}-{recipe.n_bits}-{recipe.label_fraction:g}-{recipe.seed}"
    folder = work_dir / "semi" / f"{corpus.name}-{cell}"
    teacher = None if method == PLAIN else corpus.teacher
    data = corpus.database
    about = {} if teacher is None else {"teacher": teacher.about()}
    encoder = load_or_train(
        folder,
        data,
        recipe,
        lambda: (
            train_class_codes(
                data, recipe, folder, word_vectors=words, teacher=teacher, overwrite=True
            ).encoder
        ),
        about | ({"word_vectors": words.about()} if words else {}),
    )
    database, queries = data.labelled(), corpus.queries.labelled()
    shown = data.labelled(data.rows_of(read_labelled_ids(folder, encoder)))
    codes = evaluate_encoder(encoder, database, queries, METRICS)
    classes = classifier_baseline(
        ClassifierReference(encoder, None), shown, database, queries, METRICS
    )
    return {
        "method": method,
        "supervision": recipe.label_fraction,
        "seed": recipe.seed,
        **{f"served {name}": codes.metrics[name] for name in METRICS},
        **{name: codes.expected[name] for name in METRICS},
        **{f"class alone {name}": classes.expected[name] for name in METRICS},
        "nearest": agreement_of_queries(corpus, encoder).nearest,
        "chosen": encoder.metadata["chosen"]["query_classifier"],
        "content_share": encoder.metadata["chosen"]["content_share"],
    }


def _print(records: list[Record]) -> None:
    names = [*METRICS, *(f"class alone {name}" for name in METRICS), "nearest"]
    rows = []
    for cell, runs in group(records, "dataset", "supervision", "method").items():
        dataset, supervision, method = cell
        figures = [mean_and_deviation(runs, name) for name in names]
        rows.append([dataset, f"{supervision:.0%}", method, *figures])
    print_table(("data set", "labels shown", "method", *names), rows)
