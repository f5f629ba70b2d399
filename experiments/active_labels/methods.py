"""The suggestion methods side by side, on documents held out of the training documents.

A fifth of the training documents is held out. The others are labelled in the order that a method
suggests, and a classifier of these labels (:mod:`hummingbit.evaluation.labelling.suggestions`)
predicts the classes of the held-out documents. No network is trained, so every method can be tried.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from experiments.active_labels.choosing import label_order, places_of, version_of_data
from experiments.active_labels.orders import ORDERS
from experiments.parts import add_choices
from experiments.result_tables import (
    Record,
    group,
    mean_and_deviation,
    print_table,
    read_records,
    save_records,
    write_records,
)
from experiments.splits import read_split
from hummingbit.evaluation.labelling.suggestions import class_scores

DATASETS = ("snippets", "20news-bydate", "ag-news", "hwu64")
HELD_OUT_DIVISOR = 5


def configure(group_: argparse._ArgumentGroup) -> None:
    """Add the options."""
    add_choices(group_, "--sets", DATASETS, "the data sets")
    add_choices(group_, "--methods", ORDERS, "the methods to compare")
    group_.add_argument(
        "--labels",
        type=int,
        nargs="+",
        default=[100, 200, 500, 1000],
        help="the numbers of labels to measure at",
    )


def run(args: argparse.Namespace) -> int:
    """Measure the settings without saved results, then print a table for each data set."""
    records = list(_records(args))
    save_records(args, records)
    for (dataset,), own_records in group(records, "dataset").items():
        print(f"\n{dataset}: share of held-out documents whose class is predicted\n")
        rows = [
            [method, *(mean_and_deviation(cell, "accuracy") for cell in cells.values())]
            for (method,), runs in group(own_records, "method").items()
            for cells in [group(runs, "labels")]
        ]
        print_table(("method", *(f"{labels:,} labels" for labels in args.labels)), rows)
    return 0


def _records(args: argparse.Namespace) -> Iterator[Record]:
    for dataset in args.sets:
        for seed in range(args.seeds):
            for method in args.methods:
                yield from _measure(args, dataset, method, seed)


def _measure(args: argparse.Namespace, dataset: str, method: str, seed: int) -> list[Record]:
    sizes = "-".join(map(str, [*args.labels, version_of_data(dataset, args.data_root)]))
    path: Path = args.work_dir / f"held-out-{dataset}-{method}-{seed}-{sizes}.json"
    if path.exists():
        return read_records(path)
    data, _ = read_split(dataset, args.data_root)
    shuffled = np.random.default_rng((seed, 1)).permutation(len(data))
    n_held_out = len(data) // HELD_OUT_DIVISOR
    held_out, rows = shuffled[:n_held_out], shuffled[n_held_out:]
    order = label_order(
        dataset, method, seed=seed, labels=max(args.labels), data_root=args.data_root, rows=rows
    )
    places, classes = places_of(dataset, args.data_root), data.tags.argmax(axis=1)
    records = []
    for labels in args.labels:
        labelled = order[:labels]
        scores = class_scores(places, labelled, classes[labelled], len(data.classes))
        correct = scores[held_out].argmax(axis=1) == classes[held_out]
        records.append(
            {
                "dataset": dataset,
                "method": method,
                "seed": seed,
                "labels": labels,
                "accuracy": float(correct.mean()),
            }
        )
    write_records(path, records)
    return records
