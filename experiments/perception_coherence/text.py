"""Students of a sentence encoder: binary codes of texts, learned without labels.

The teacher is all-MiniLM-L6-v2, from saved vectors or the model itself, or a wide SSB-VAE if
neither is available. Students take terms. The queries are the test split, the database is the
training split, and documents with the query's label are relevant. Neither teacher nor students use
labels. The baselines are the teacher's own vectors, codes of those vectors with the same number of
bits (which need the teacher for every query), and, without a teacher, TF-IDF cosine, ITQ of
TF-IDF, and methods that learn from the texts alone.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import numpy as np

from experiments.cells import trained_encoder
from experiments.perception_coherence.rivals import ALL_OBJECTIVES, TRANSFER_OBJECTIVES
from experiments.perception_coherence.text_corpora import (
    TaughtCorpus,
    add_teacher_options,
    cosine_blocks,
    read_taught,
)
from experiments.perception_coherence.text_students import (
    load_or_distill,
    measure_student,
    retrieval_figures,
    student_folder,
    text_recipe,
)
from experiments.result_tables import Record, group, mean_and_deviation, print_table, save_records
from experiments.ssb_vae.variants import VariantRecipe
from hummingbit.encoder.codes import Codes, pack_bits
from hummingbit.encoder.recipes import ClozeRecipe
from hummingbit.evaluation.baselines import tfidf_cosine
from hummingbit.evaluation.evaluate import evaluate_codes, evaluate_scores
from hummingbit.training.distillation import measure_agreement
from hummingbit.training.linear_codes import LINEAR_METHODS
from hummingbit.training.text_features import fit_text_features

COHERENCE = "perception-coherence"
METRICS = ("P@100",)
TEACHER_CODES = {"pca-sign": "teacher, PCA and sign", "itq": "teacher, ITQ"}
"""Codes of the teacher's vectors: methods of :data:`LINEAR_METHODS` and their titles."""
METHODS_OF_TEXTS = ("ict", "b-vae")
"""Methods that learn from texts without labels."""


def configure(group: argparse._ArgumentGroup) -> None:
    """Add the options of this part and of `semi`."""
    add_teacher_options(group)
    group.add_argument(
        "--widths",
        type=int,
        nargs="+",
        default=[32, 64, 128],
        metavar="BITS",
        help="bits in a code (default: 32 64 128)",
    )
    group.add_argument(
        "--objectives", nargs="+", default=list(TRANSFER_OBJECTIVES),
        choices=ALL_OBJECTIVES,
        help="objectives to compare, at one width",
    )  # fmt: skip
    group.add_argument(
        "--without-teacher", nargs="+", default=[], choices=METHODS_OF_TEXTS,
        help="methods of `train` without a teacher, to compare at this width (default: none)",
    )  # fmt: skip

    group.add_argument(
        "--compare-at", type=int, default=64, metavar="BITS", help="the width of that comparison"
    )


def run(args: argparse.Namespace) -> int:
    """Train and measure every student, then print the tables."""
    records: list[Record] = []
    for name in args.corpora:
        for record in _corpus_records(read_taught(name, args), args):
            records.append({"part": "text", "dataset": name, **record})
            save_records(args, records)
    _print(records)
    return 0


def _corpus_records(corpus: TaughtCorpus, args: argparse.Namespace) -> Iterator[Record]:
    yield _teacher_record(corpus)
    yield _tfidf_record(corpus)
    for n_bits in args.widths:
        for method, title in TEACHER_CODES.items():
            codes = _linear_codes(corpus.teacher.vectors, corpus.query_vectors, method, n_bits)
            yield {"method": title, "n_bits": n_bits, "seed": 0, **_figures(corpus, *codes)}
        codes = _linear_codes(*_tfidf(corpus), "itq", n_bits)
        yield {"method": "tf-idf, ITQ", "n_bits": n_bits, "seed": 0, **_figures(corpus, *codes)}
    for method in args.without_teacher:
        for seed in range(args.seeds):
            kind = ClozeRecipe if method == "ict" else VariantRecipe
            alone = kind(method=method, n_bits=args.compare_at, seed=seed)
            folder = args.work_dir / "text" / f"{corpus.name}-{method}-{args.compare_at}-{seed}"
            figures = measure_student(
                corpus, trained_encoder(corpus.database, alone, folder), folder
            )
            yield {"method": method, "n_bits": args.compare_at, "seed": seed, **figures}
    for n_bits, objective in _students(args):
        for seed in range(args.seeds):
            recipe = text_recipe(objective, n_bits=n_bits, seed=seed)
            folder = student_folder(corpus, recipe, args.work_dir)
            encoder = load_or_distill(corpus, recipe, folder)
            figures = measure_student(corpus, encoder, folder)
            yield {"method": objective, "n_bits": n_bits, "seed": seed, **figures}


def _students(args: argparse.Namespace) -> Iterator[tuple[int, str]]:
    """Yield all widths for perception coherence, and the compared width for all objectives."""
    for n_bits in args.widths:
        for objective in args.objectives:
            if objective == COHERENCE or n_bits == args.compare_at:
                yield n_bits, objective


def _teacher_record(corpus: TaughtCorpus) -> Record:
    labels, query_labels = corpus.database.labelled().labels, corpus.queries.labelled().labels
    evaluation = evaluate_scores(cosine_blocks(corpus), query_labels, labels, METRICS)
    setting = {"method": f"teacher {corpus.teacher.kind}, cosine", "n_bits": None, "seed": None}
    return {**setting, **retrieval_figures(evaluation), "coherence": 1.0}


def _tfidf_record(corpus: TaughtCorpus) -> Record:
    evaluation = tfidf_cosine(corpus.database.labelled(), corpus.queries.labelled(), METRICS)
    return {
        "method": "tf-idf cosine",
        "n_bits": None,
        "seed": None,
        **retrieval_figures(evaluation),
    }


def _tfidf(corpus: TaughtCorpus) -> tuple[Any, Any]:
    texts, queries = (
        [str(text) for text in data.inputs] for data in (corpus.database, corpus.queries)
    )
    features = fit_text_features(texts, max_terms=10_000)
    return features.transform(texts), features.transform(queries)


def _linear_codes(database: Any, queries: Any, method: str, n_bits: int) -> tuple[Codes, Codes]:
    """Return the codes of queries and database by a linear method fitted to the database."""
    weight, thresholds = LINEAR_METHODS[method](database, n_bits, 0)
    query_codes, codes = (
        pack_bits(np.asarray(rows @ weight) > thresholds) for rows in (queries, database)
    )
    return query_codes, codes


def _figures(corpus: TaughtCorpus, query_codes: Codes, codes: Codes) -> Record:
    evaluation = evaluate_codes(
        query_codes,
        corpus.queries.labelled().labels,
        codes,
        corpus.database.labelled().labels,
        METRICS,
    )
    agreement = measure_agreement(query_codes, codes, corpus.query_vectors, corpus.teacher.vectors)
    return {
        **retrieval_figures(evaluation),
        "coherence": agreement.coherence,
        "neighbours": agreement.neighbours,
        "nearest": agreement.nearest,
    }


def _print(records: list[Record]) -> None:
    header = (
        "data set",
        "bits",
        "method",
        "p@100",
        "tie-averaged",
        "coherence",
        "neighbours",
        "nearest",
        "size",
    )
    rows = []
    for (dataset, n_bits, method), runs in group(records, "dataset", "n_bits", "method").items():
        keys = ("p100", "p100_expected", "coherence", "neighbours", "nearest")
        figures = [mean_and_deviation(runs, key) if key in runs[0] else "–" for key in keys]
        size = runs[0].get("artifact_bytes")
        megabytes = f"{size / 1e6:.1f} MB" if size else "–"
        rows.append([dataset, str(n_bits or "–"), method, *figures, megabytes])
    print_table(header, rows)
