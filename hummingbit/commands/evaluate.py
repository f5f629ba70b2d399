"""``hummingbit evaluate``: measure a collection, and fail where it is not good enough."""

from __future__ import annotations

import argparse
import json
import sys

from evaluation.baselines import class_code_of_collection
from evaluation.evaluate import evaluate_collection
from evaluation.gate import check_gate
from evaluation.metrics import DEFAULT_METRICS
from evaluation.result import Evaluation
from hummingbit.commands.options import SOURCE_HELP, add_data_dir, add_reading, read
from hummingbit.commands.tables import print_figures
from index.collection import Collection
from index.data_folder import DataFolder


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("collection", metavar="COLLECTION")
    parser.add_argument("--queries", required=True, metavar="SOURCE", help=SOURCE_HELP)
    parser.add_argument(
        "--metrics",
        nargs="+",
        default=list(DEFAULT_METRICS),
        metavar="NAME",
        help="P@k and mAP@k (default: %(default)s)",
    )
    parser.add_argument("--label-field", default="label", metavar="NAME", help="of the payload")
    parser.add_argument("--min-p100", type=float, metavar="X", help="fail if P@100 is below")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    add_data_dir(parser)
    add_reading(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the figures; return 1 if one is below its minimum."""
    minimums = {} if args.min_p100 is None else {"P@100": args.min_p100}
    metrics = list(dict.fromkeys([*args.metrics, *minimums]))
    queries = list(read(args, args.queries))
    with DataFolder(args.data_dir, writable=False) as folder:
        collection = folder.collection(args.collection)
        found = evaluate_collection(collection, queries, metrics, args.label_field)
        failures = check_gate(found, minimums)
        shown_ids = _shown_ids(folder, collection)
        class_code = (
            class_code_of_collection(collection, shown_ids, queries, metrics, args.label_field)
            if shown_ids
            else None
        )
    if args.json:
        baseline = class_code and class_code.to_dict()
        figures = {**found.to_dict(), "class_code": baseline, "failures": failures}
        print(json.dumps(figures, indent=2))
    else:
        _print(found, class_code)
    for failure in failures:
        print(f"gate: {failure}", file=sys.stderr)
    return 1 if failures else 0


def _shown_ids(folder: DataFolder, collection: Collection) -> list[str]:
    """Return the ids whose labels trained the collection's encoder; none are known for others."""
    name = collection.encoder_name
    return [] if name is None else folder.labelled_ids(name)


def _print(found: Evaluation, class_code: Evaluation | None) -> None:
    print(f"{found.queries:,} queries, {found.documents:,} documents")
    if found.queries_without_relevant:
        print(f"{found.queries_without_relevant:,} queries have no relevant document and score 0")
    if class_code is None:
        print("no class-code baseline: the encoder has no record of labels it was trained with")
        print_figures({"codes": found})
    else:
        print_figures({"codes": found, "class code": class_code})
