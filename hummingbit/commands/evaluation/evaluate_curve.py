"""``hummingbit evaluate curve``: how many labels pay off for a corpus."""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from encoder.recipes import SSB_VAE, Recipe
from evaluation.classifier_baseline import ClassifierReference, classifier_baseline
from evaluation.metrics.metric_names import parse_metric
from evaluation.reports.plots import draw_label_curve, load_figure
from evaluation.retrieval import evaluate_encoder
from foundation.errors import counted
from foundation.stages import begin_stage
from hummingbit.commands.json_output import add_json_or_former_file, print_or_write_json
from hummingbit.commands.options import SOURCE_HELP, add_reading, add_setting, write_text
from hummingbit.commands.training_source import read_training_data
from hummingbit.training_methods import check_torch
from training.data import TrainingData

SETTINGS = ("method", "n_bits", "seed", "epochs", "batch_size", "hidden")


@dataclass(frozen=True)
class Point:
    """One run: how many labels it used, and the scores of its codes and of the baseline."""

    supervision: float
    labels: int
    served: float
    expected: float
    baseline: float


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "--data", required=True, metavar="SOURCE", help=f"the documents: {SOURCE_HELP}"
    )
    parser.add_argument(
        "--queries",
        required=True,
        metavar="SOURCE",
        help="the queries: a source of the same kinds",
    )
    parser.add_argument(
        "--supervision",
        nargs="+",
        type=float,
        default=[0.01, 0.03, 0.1, 0.3, 1.0],
        metavar="X",
        help="shares of the labels to train with (default: 0.01 0.03 0.1 0.3 1.0)",
    )
    parser.add_argument(
        "--metric",
        default="P@100",
        metavar="NAME",
        help="the metric to print (default: %(default)s)",
    )
    add_json_or_former_file(parser)
    parser.add_argument("--plot", type=Path, metavar="FILE", help="write the curve as SVG")
    add_reading(parser)
    settings = parser.add_argument_group("recipe")
    settings.add_argument(
        "--method",
        default=SSB_VAE,
        metavar="METHOD",
        help="what is trained (default: %(default)s)",
    )
    for one in fields(Recipe):
        if one.name in SETTINGS:
            add_setting(settings, one)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Train at each share of the labels, the smallest first, and print a line for each.

    If the result is printed as JSON, these lines go to standard error.
    """
    stream = sys.stderr if args.json is True else sys.stdout
    metric = parse_metric(args.metric).name
    settings = {name: getattr(args, name) for name in SETTINGS}
    recipes = [Recipe(label_fraction=share, **settings) for share in sorted(set(args.supervision))]
    check_torch(recipes[0])
    if args.plot is not None:
        load_figure()
    begin_stage(f"reading {args.data} and {args.queries}")
    data, query_data = (read_training_data(args, source) for source in (args.data, args.queries))
    print(
        f"{counted(len(data), 'document')}, {counted(len(query_data), 'query', 'queries')},"
        f" {recipes[0].n_bits} bits",
        file=stream,
    )
    heads = f"{metric:>10} {'tie-averaged':>13} {'classifier, tie-averaged':>25}"
    print(f"{'labels':>8} {'share':>7} {heads}", file=stream)
    points = []
    for recipe in recipes:
        point = _measure(data, query_data, recipe, metric)
        points.append(point)
        print(
            f"{point.labels:>8,} {point.supervision:>7.1%} {point.served:>10.3f}"
            f" {point.expected:>13.3f} {point.baseline:>25.3f}",
            file=stream,
            flush=True,
        )
    if args.json:
        rows = [asdict(point) for point in points]
        result = {"schema_version": 1, "metric": metric, "recipe": settings, "points": rows}
        print_or_write_json(args, result)
    if args.plot is not None:
        lines = {
            "codes": [point.expected for point in points],
            "classifier baseline": [point.baseline for point in points],
        }
        write_text(args.plot, draw_label_curve([point.labels for point in points], lines, metric))
    return 0


def _measure(data: TrainingData, query_data: TrainingData, recipe: Recipe, metric: str) -> Point:
    from training.semi_supervised import train  # noqa: PLC0415 - torch takes a second

    with tempfile.TemporaryDirectory() as folder:
        trained = train(data, recipe, Path(folder) / "encoder", progress=False)
    database, queries = data.labelled(), query_data.labelled()
    labelled = data.labelled(data.rows_of(trained.labelled_ids))
    reference = ClassifierReference(trained.encoder, trained.classifier)
    codes = evaluate_encoder(trained.encoder, database, queries, [metric])
    baseline = classifier_baseline(reference, labelled, database, queries, [metric])
    return Point(
        supervision=recipe.label_fraction,
        labels=len(labelled),
        served=codes.metrics[metric],
        expected=codes.expected[metric],
        baseline=baseline.expected[metric],
    )
