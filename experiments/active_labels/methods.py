"""The methods beside each other, on documents held out of the training documents.

A fifth of the training documents is held out and asks; the others are labelled one after another,
and a classifier of their labels (:mod:`evaluation.labelling.classes`) says of which class a
document is. No network is trained, so every method can be tried.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from evaluation.labelling.classes import class_scores
from evaluation.labelling.sampling import METHODS
from experiments.active_labels.choosing import label_order, places_of
from experiments.code_version import code_version
from experiments.result_tables import (
    Record,
    give_records,
    group,
    mean_and_deviation,
    print_table,
    read_records,
    write_records,
)
from experiments.splits import read_split

DATASETS = ("snippets", "20news-bydate", "ag-news", "hwu64")
HELD_OUT = 5


def configure(group_: argparse._ArgumentGroup) -> None:
    """Add the options."""
    group_.add_argument("--sets", nargs="+", default=list(DATASETS), choices=DATASETS)
    group_.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    group_.add_argument("--labels", type=int, nargs="+", default=[100, 200, 500, 1000])


def run(args: argparse.Namespace) -> int:
    """Measure what is not measured yet, then print a table for each data set."""
    records = list(_records(args))
    give_records(args, records)
    for (dataset,), some in group(records, "dataset").items():
        print(f"\n{dataset}: share of held-out documents whose class is predicted\n")
        rows = [
            [method, *(mean_and_deviation(cell, "accuracy") for cell in cells.values())]
            for (method,), runs in group(some, "method").items()
            for cells in [group(runs, "labels")]
        ]
        print_table(("method", *(f"{labels:,} labels" for labels in args.labels)), rows)
    return 0


def _records(args: argparse.Namespace) -> Iterator[Record]:
    for dataset in args.sets:
        for seed in range(args.seeds):
            for method in args.methods:
                yield from _measured(args, dataset, method, seed)


def _measured(args: argparse.Namespace, dataset: str, method: str, seed: int) -> list[Record]:
    sizes = "-".join(map(str, [*args.labels, code_version()[:12]]))
    path: Path = args.work_dir / f"held-out-{dataset}-{method}-{seed}-{sizes}.json"
    if path.exists():
        return read_records(path)
    data, _ = read_split(dataset, args.data_root)
    drawn = np.random.default_rng((seed, 1)).permutation(len(data))
    held, rows = drawn[: len(data) // HELD_OUT], drawn[len(data) // HELD_OUT :]
    order = label_order(
        dataset, method, seed=seed, labels=max(args.labels), data_root=args.data_root, rows=rows
    )
    places, classes = places_of(dataset, args.data_root), data.tags.argmax(axis=1)
    records = []
    for labels in args.labels:
        known = order[:labels]
        scores = class_scores(places, known, classes[known], len(data.classes))
        right = scores[held].argmax(axis=1) == classes[held]
        records.append(
            {
                "dataset": dataset,
                "method": method,
                "seed": seed,
                "labels": labels,
                "accuracy": float(right.mean()),
            }
        )
    write_records(path, records)
    return records
