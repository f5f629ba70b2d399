"""Does knowing that hockey is nearer to baseball than to cryptography give better rankings?

Codes of the same number of bits are trained on the same labelled posts in three ways: by metric
learning with the hierarchy of newsgroups; by the same objectives with the groups as plain labels,
which makes generative similarity supervised contrastive learning; and by ``ssb-vae``, which also
has plain labels. The database is every training document, the queries are the test documents. The
gain of nDCG@100 is the number of shared levels
(:func:`hummingbit.evaluation.relevance.relevance_by_hierarchy`); p@100 counts documents of the same
group. Both are reported tie-averaged and as served.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from experiments.parts import add_choices, add_run_options
from experiments.result_tables import Record, group, mean_and_deviation, print_table, save_records
from experiments.saved_encoders import load_or_train
from experiments.splits import read_split
from hummingbit.encoder.encoder import Encoder
from hummingbit.encoder.recipes import AutoencoderRecipe, MetricRecipe
from hummingbit.evaluation.evaluate import evaluate_encoder
from hummingbit.evaluation.significance import holm, permutation_test
from hummingbit.training.data import TrainingData
from hummingbit.training.metric_learning import train_metric
from hummingbit.training.semi_supervised import train

SUMMARY = "hierarchy of labels: codes trained with it, beside codes trained without"

METHODS: Mapping[str, AutoencoderRecipe | MetricRecipe] = {
    "chl": MetricRecipe(objective="continuous-histogram", similarity="hierarchy"),
    "chl-names": MetricRecipe(objective="continuous-histogram", similarity="labels"),
    "generative": MetricRecipe(objective="generative-similarity", similarity="hierarchy"),
    "generative-names": MetricRecipe(objective="generative-similarity", similarity="labels"),
    "ssb-vae": AutoencoderRecipe(),
}
"""Recipes by method; the run sets bits, seed, epochs and hidden units."""

BASELINE = "ssb-vae"
_TITLES = {"ndcg100_expected": "nDCG@100", "p100_expected": "p@100"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "--dataset",
        default="20news-bydate",
        metavar="NAME",
        help="the data set (default: %(default)s)",
    )
    add_choices(parser, "--methods", METHODS, "the methods to compare")
    parser.add_argument(
        "--bits", type=int, default=32, metavar="N", help="bits in a code (default: %(default)s)"
    )
    parser.add_argument("--epochs", type=int, default=30, metavar="N", help="for every method")
    parser.add_argument("--hidden", type=int, default=500, metavar="N", help="for every method")
    add_run_options(parser, "results/hierarchy-codes")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Train and measure every method and seed, then print the figures and the tests."""
    data, queries = read_split(args.dataset, args.data_root)
    records: list[Record] = []
    ndcg: dict[str, list[Any]] = {}
    # Seed by seed, so that an interrupted run has measured every method equally often.
    for seed in range(args.seeds):
        for method in args.methods:
            sizes = {"n_bits": args.bits, "epochs": args.epochs, "hidden": args.hidden}
            recipe = replace(METHODS[method], seed=seed, **sizes)
            name = f"{args.dataset}-{method}-{'-'.join(map(str, sizes.values()))}-{seed}"
            encoder = _load_or_train(data, recipe, args.work_dir / name)
            record, ndcg_Q = measure(encoder, data, queries)
            setting = {"dataset": args.dataset, "method": method, "seed": seed}
            records.append({**setting, **sizes, **record})
            ndcg.setdefault(method, []).append(ndcg_Q)
    save_records(args, records)
    _print_figures(records)
    _print_significance({method: np.mean(runs, axis=0) for method, runs in ndcg.items()})
    return 0


def measure(encoder: Encoder, data: TrainingData, queries: TrainingData) -> tuple[Record, Any]:
    """Return the figures of an encoder, and the tie-averaged nDCG@100 by query, ``float64[Q]``."""
    database, labelled_queries = data.labelled(), queries.labelled()
    graded = evaluate_encoder(encoder, database, labelled_queries, ["nDCG@100"], hierarchy=True)
    same = evaluate_encoder(encoder, database, labelled_queries, ["P@100"])
    record = {
        "ndcg100": graded.metrics["nDCG@100"],
        "ndcg100_expected": graded.expected["nDCG@100"],
        "p100": same.metrics["P@100"],
        "p100_expected": same.expected["P@100"],
        "distinct_codes": same.distinct_codes,
    }
    return record, graded.expected_per_query["nDCG@100"]


def _load_or_train(
    data: TrainingData, recipe: AutoencoderRecipe | MetricRecipe, folder: Path
) -> Encoder:
    def train_anew() -> Encoder:
        if isinstance(recipe, MetricRecipe):
            return train_metric(data, recipe, folder, overwrite=True).encoder
        return train(data, recipe, folder, overwrite=True).encoder

    return load_or_train(folder, data, recipe, train_anew)


def _print_figures(records: list[Record]) -> None:
    rows = [
        [
            method,
            *(mean_and_deviation(runs, figure) for figure in _TITLES),
            mean_and_deviation(runs, "ndcg100"),
            mean_and_deviation(runs, "p100"),
            f"{np.mean([run['distinct_codes'] for run in runs]):,.0f}",
        ]
        for (method,), runs in group(records, "method").items()
    ]
    header = ("trained with", *_TITLES.values(), "nDCG as served", "p as served", "codes")
    print_table(header, rows)


def _print_significance(ndcg: Mapping[str, Any]) -> None:
    """Print permutation tests against the baseline on the same queries, averaged over seeds."""
    others = [method for method in ndcg if method != BASELINE]
    if BASELINE not in ndcg or not others:
        return
    print(f"\ndifference from {BASELINE} in tie-averaged nDCG@100")
    raw = [permutation_test(ndcg[method], ndcg[BASELINE]) for method in others]
    for method, p_value in zip(others, holm(raw), strict=True):
        difference = float((ndcg[method] - ndcg[BASELINE]).mean())
        print(f"  {method:<16} {difference:+.3f}  p = {p_value:.2g} (permutation, Holm)")
