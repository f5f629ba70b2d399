"""SSB-VAE's retrieval experiment: p@100 and mAP@100 against the share of labels shown.

Source: Ñanculef et al., "Self-Supervised Bernoulli Autoencoders for Semi-Supervised Hashing"
(2020), Table I. The database is every training document with its true label; the queries are the
test documents. Beside the codes stand the class-code baseline, fitted on the same labels, and
TF-IDF cosine, which uses none.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from statistics import mean

from corpus.readers import read_documents
from encoder.artifact import load_encoder, read_labelled_ids
from encoder.encoder import Encoder
from evaluation.baselines import class_code_baseline, tfidf_cosine
from evaluation.evaluate import evaluate_encoder
from evaluation.result import Evaluation
from experiments.records import Record, group, mean_and_deviation, print_table, write_records
from training.data import Rows, TrainingData, gather
from training.pipeline import is_trained_on
from training.recipe import Recipe
from training.semi_supervised import train

SUMMARY = "SSB-VAE: retrieval from few labels, ours beside the paper's Table I"

PAPER_P100 = {
    ("snippets", 32, 0.1): 0.565,
    ("snippets", 32, 0.5): 0.641,
    ("snippets", 32, 1.0): 0.657,
}
"""SSB-VAE's p@100 as printed, by data set, bits and supervision."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("--dataset", default="snippets", choices=("snippets",))
    parser.add_argument("--bits", type=int, nargs="+", default=[32], metavar="N")
    parser.add_argument("--supervision", type=float, nargs="+", default=[0.1, 1.0], metavar="X")
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="runs of each cell")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write a flat list of records")
    parser.add_argument("--data-root", type=Path, metavar="DIR")
    parser.add_argument(
        "--work-dir",
        type=Path,
        default=Path("results/ssb-vae"),
        metavar="DIR",
        help="where encoders are kept; one trained already by the same recipe is used again",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Train and measure every cell, then print the table."""
    data = gather(read_documents(f"{args.dataset}:train", data_root=args.data_root))
    database = data.labelled()
    queries = gather(read_documents(f"{args.dataset}:test", data_root=args.data_root)).labelled()
    records = []
    for recipe in _recipes(args):
        cell = f"{args.dataset}-{recipe.n_bits}-{recipe.supervision:g}-{recipe.seed}"
        encoder, shown = _trained(data, recipe, args.work_dir / cell)
        found = {
            "class code": class_code_baseline(data.labelled(shown), database, queries),
            "ssb-vae": evaluate_encoder(encoder, database, queries),
        }
        records += [_record(args.dataset, name, one, recipe) for name, one in found.items()]
        if args.json:
            write_records(args.json, records)
    records.append(_record(args.dataset, "tf-idf cosine", tfidf_cosine(database, queries)))
    if args.json:
        write_records(args.json, records)
    _print(records)
    return 0


def _recipes(args: argparse.Namespace) -> Iterator[Recipe]:
    for n_bits in args.bits:
        for supervision in args.supervision:
            for seed in range(args.seeds):
                yield Recipe(n_bits=n_bits, supervision=supervision, seed=seed)


def _trained(data: TrainingData, recipe: Recipe, folder: Path) -> tuple[Encoder, Rows]:
    """Return the encoder of a recipe and the rows of `data` whose labels it was shown."""
    encoder = load_encoder(folder) if folder.exists() else None
    if encoder is None or not is_trained_on(encoder, data, asdict(recipe)):
        print(f"training {folder}", file=sys.stderr)
        encoder = train(data, recipe, folder, overwrite=True).encoder
    return encoder, data.rows_of(read_labelled_ids(folder, encoder))


def _record(dataset: str, method: str, found: Evaluation, recipe: Recipe | None = None) -> Record:
    return {
        "dataset": dataset,
        "method": method,
        "n_bits": recipe.n_bits if recipe else None,
        "supervision": recipe.supervision if recipe else None,
        "seed": recipe.seed if recipe else None,
        "p100": found.metrics["P@100"],
        "map100": found.metrics["mAP@100"],
        "p100_expected": found.expected["P@100"],
        "map100_expected": found.expected["mAP@100"],
        "distinct_codes": found.distinct_codes,
    }


def _print(records: list[Record]) -> None:
    header = ("data set", "bits", "ρ", "method", "p@100", "over ties", "mAP@100", "codes", "paper")
    rows = []
    for cell, runs in group(records, "dataset", "n_bits", "supervision", "method").items():
        dataset, n_bits, supervision, method = cell
        printed = PAPER_P100.get(cell[:3]) if method == "ssb-vae" else None
        codes = [run["distinct_codes"] for run in runs]
        rows.append(
            [
                dataset,
                str(n_bits or "–"),
                str(supervision or "–"),
                method,
                *(mean_and_deviation(runs, key) for key in ("p100", "p100_expected", "map100")),
                "–" if codes[0] is None else f"{mean(codes):,.0f}",
                "–" if printed is None else f"{printed:.3f}",
            ]
        )
    print_table(header, rows)
