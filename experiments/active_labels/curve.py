"""Codes from random labels beside codes from suggested labels, by the same learner."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean, stdev
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from experiments.active_labels.choosing import places_of, saved_label_order, version_of_data
from experiments.active_labels.orders import ORDERS
from experiments.drawings import new_drawing, save_drawing
from experiments.result_tables import (
    Record,
    format_mean,
    group,
    print_table,
    read_records,
    save_records,
    write_records,
)
from experiments.splits import read_split
from experiments.ssb_vae.variants import train_variant, variant_recipe
from hummingbit.encoder.recipes import CHOSEN, QUERY_CLASSIFIERS, ClassCodeRecipe
from hummingbit.evaluation.baselines import pack_class_bits
from hummingbit.evaluation.evaluate import evaluate_codes, evaluate_encoder
from hummingbit.evaluation.labelling.names import DEFAULT_METHOD
from hummingbit.evaluation.labelling.suggestions import (
    Rows,
    class_scores,
)
from hummingbit.evaluation.result import Evaluation
from hummingbit.training.class_codes import train_class_codes

DATASETS = ("snippets", "20news-bydate", "ag-news")
RANDOM = "random"
SSB_VAE, CLASS_CODES, CLASSIFIER = "ssb-vae", "class-codes", "classifier"
FEW_LABELS = 200
SHARE = 0.1
BUDGETS = ("200", "tenth")
# The numbers of suggested labels, as shares of each budget of random ones. The first shows whether
# suggestions save 30 %.
SHARES_OF_BUDGET = (0.7, 0.6, 0.5, 1.0)


@dataclass(frozen=True)
class Run:
    """One training, with the labels of the first `labels` documents that a method suggests."""

    dataset: str
    method: str
    labels: int
    seed: int


def configure(group_: argparse._ArgumentGroup) -> None:
    """Add the options."""
    group_.add_argument(
        "--dataset",
        nargs="+",
        default=list(DATASETS[:2]),
        choices=DATASETS,
        help="the data sets (default: the first two)",
    )
    group_.add_argument(
        "--method",
        default=DEFAULT_METHOD,
        choices=ORDERS,
        help="the method compared with random",
    )
    group_.add_argument(
        "--learner",
        default=SSB_VAE,
        choices=(SSB_VAE, CLASS_CODES, CLASSIFIER),
        help="what learns from the labels: the codes of ssb-vae, those of class-codes, or a"
        " classifier with one code for each predicted class, which takes a second"
        " (default: %(default)s)",
    )
    group_.add_argument(
        "--budgets",
        nargs="+",
        default=list(BUDGETS),
        choices=BUDGETS,
        help="the random labels to match: 200, or a tenth of the documents (default: both)",
    )
    group_.add_argument(
        "--shares",
        type=float,
        nargs="+",
        default=list(SHARES_OF_BUDGET),
        choices=SHARES_OF_BUDGET,
        help="the suggested labels, as shares of the random ones (default: all)",
    )
    group_.add_argument(
        "--query-classifier",
        default=CHOSEN,
        choices=(CHOSEN, *QUERY_CLASSIFIERS),
        help="the classifier of queries of class-codes, as in train class-codes"
        " (default: %(default)s)",
    )
    group_.add_argument(
        "--epochs", type=int, default=10, metavar="N", help="passes over the documents"
    )
    group_.add_argument(
        "--hidden",
        type=int,
        default=64,
        metavar="N",
        help="units in each hidden layer of ssb-vae (default: %(default)s)",
    )
    group_.add_argument(
        "--max-terms",
        type=int,
        default=4000,
        metavar="N",
        help="terms in the vocabulary of ssb-vae (default: %(default)s)",
    )


def run(args: argparse.Namespace) -> int:
    """Train and measure the runs without saved results, then print the tables."""
    records = []
    for planned in _runs(args):
        records.append(_measure(args, planned))
        save_records(args, records)
    for (dataset,), own_records in group(records, "dataset").items():
        print(f"\n{dataset}: tie-averaged p@100, mean and deviation of {args.seeds} seeds\n")
        _print(own_records, args.method, budgets(args, dataset), args.shares)
    if args.plot:
        plot(args.plot, records)
    return 0


def budgets(args: argparse.Namespace, dataset: str) -> list[int]:
    """Return the numbers of random labels whose p@100 fewer suggested labels should reach."""
    data, _ = read_split(dataset, args.data_root)
    sizes = dict(zip(BUDGETS, (FEW_LABELS, round(SHARE * len(data))), strict=True))
    return [sizes[name] for name in BUDGETS if name in args.budgets]


def _runs(args: argparse.Namespace) -> Iterator[Run]:
    """Yield the runs, the most informative ones first."""
    settings = [(dataset, budget) for dataset in args.dataset for budget in budgets(args, dataset)]
    shares = [share for share in SHARES_OF_BUDGET if share in args.shares]
    for share in shares:
        for seed in range(args.seeds):
            for dataset, budget in settings:
                if share == shares[0]:
                    yield Run(dataset, RANDOM, budget, seed)
                yield Run(dataset, args.method, round(share * budget), seed)
    if not args.plot:
        return
    for seed in range(args.seeds):
        for dataset, budget in settings:
            yield Run(dataset, RANDOM, round(SHARES_OF_BUDGET[0] * budget), seed)


def _measure(args: argparse.Namespace, planned: Run) -> Record:
    """Return the figures of a run, from its file of results if there is one."""
    settings = {"epochs": args.epochs, "hidden": args.hidden, "max_terms": args.max_terms}
    if args.learner != SSB_VAE:
        is_class_codes = args.learner == CLASS_CODES
        settings = {"query_classifier": args.query_classifier} if is_class_codes else {}
    parts = (
        args.learner,
        planned.dataset,
        planned.method,
        planned.labels,
        planned.seed,
        *settings.values(),
        version_of_data(planned.dataset, args.data_root),
    )
    path = args.work_dir / f"{'-'.join(map(str, parts))}.json"
    if path.exists():
        return read_records(path)[0]
    evaluation = _evaluate(args, planned, settings)
    record = {
        "dataset": planned.dataset,
        "method": planned.method,
        "labels": planned.labels,
        "seed": planned.seed,
        "learner": args.learner,
        **settings,
        "p100_expected": evaluation.expected["P@100"],
        "p100": evaluation.metrics["P@100"],
        "distinct_codes": evaluation.distinct_codes,
    }
    write_records(path, [record])
    print(json.dumps(record), file=sys.stderr, flush=True)
    return record


def _evaluate(args: argparse.Namespace, planned: Run, settings: dict[str, Any]) -> Evaluation:
    """Train the learner on the labels of a run and evaluate its codes, or those of a classifier."""
    order = saved_label_order(
        args.work_dir,
        planned.dataset,
        planned.method,
        seed=planned.seed,
        labels=max(budgets(args, planned.dataset)),
        data_root=args.data_root,
    )
    shown = order[: planned.labels]
    if args.learner == CLASSIFIER:
        return _evaluate_classifier(planned.dataset, args.data_root, shown)
    data, queries = read_split(planned.dataset, args.data_root)
    tags = np.zeros_like(data.tags)
    tags[shown] = data.tags[shown]
    masked = replace(data, tags=tags)
    common: dict[str, Any] = {"n_bits": 32, "validation_share": 0.0, "seed": planned.seed}
    with TemporaryDirectory() as folder:
        out = Path(folder, "encoder")
        if args.learner == CLASS_CODES:
            encoder = train_class_codes(masked, ClassCodeRecipe(**common, **settings), out).encoder
        else:
            recipe = variant_recipe(SSB_VAE, terms="frequent", **common, **settings)
            encoder = train_variant(masked, recipe, out, progress=False).encoder
    return evaluate_encoder(encoder, data.labelled(), queries.labelled(), ["P@100"])


def _evaluate_classifier(dataset: str, data_root: Path | None, labelled: Rows) -> Evaluation:
    """Evaluate one code for each class, the classes predicted by ridge regression on the labels."""
    data, queries = read_split(dataset, data_root)
    places = places_of(dataset, data_root), places_of(dataset, data_root, "test")
    classes = data.tags[labelled].argmax(axis=1)
    class_bits = np.eye(len(data.classes), dtype=np.bool_)
    scores = class_scores(np.concatenate(places), labelled, classes, len(data.classes))
    codes = pack_class_bits(class_bits[scores.argmax(axis=1)])
    database, query_codes = codes[: len(data)], codes[len(data) :]
    labels = data.labelled().labels
    return evaluate_codes(query_codes, queries.labelled().labels, database, labels, ["P@100"])


def _print(
    records: Sequence[Record], method: str, label_budgets: Sequence[int], shares: Sequence[float]
) -> None:
    by_size = group(records, "method", "labels")
    rows = []
    for budget in label_budgets:
        random = _figures(by_size[RANDOM, budget])
        rows.append([f"{budget:,} at random", format_mean(random), "", ""])
        for share in sorted(shares):
            labels = round(share * budget)
            suggested = _figures(by_size[method, labels])
            wins = sum(ours >= theirs for ours, theirs in zip(suggested, random, strict=True))
            saved = f"{1 - share:.0%}" if share < 1 else "–"
            seeds = f"{wins} of {len(suggested)}"
            rows.append([f"{labels:,} by {method}", format_mean(suggested), saved, seeds])
    print_table(("labels", "p@100", "labels saved", "seeds at or above random"), rows)


def _figures(records: Sequence[Record]) -> list[float]:
    return [
        float(record["p100_expected"])
        for record in sorted(records, key=lambda record: record["seed"])
    ]


def plot(path: Path, records: Sequence[Record]) -> None:
    """Draw p@100 against labels, a panel for each data set and a line for each method."""
    sets = group(records, "dataset")
    drawing = new_drawing(5 * len(sets), 4)
    panels = drawing.subplots(1, len(sets), squeeze=False)[0]
    for axes, ((dataset,), own_records) in zip(panels, sets.items(), strict=True):
        for (method,), runs in group(own_records, "method").items():
            cells = group(sorted(runs, key=lambda record: int(record["labels"])), "labels")
            values = [_figures(cell) for cell in cells.values()]
            means = [mean(seeds) for seeds in values]
            spread = [stdev(seeds) if len(seeds) > 1 else 0.0 for seeds in values]
            x = [labels for (labels,) in cells]
            axes.errorbar(x, means, spread, marker="o", capsize=3, label=method)
        axes.set(title=dataset, xlabel="labels", ylabel="p@100, tie-averaged", xscale="log")
        axes.grid(alpha=0.3)
        axes.legend()
    save_drawing(drawing, path)
