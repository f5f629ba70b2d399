"""``hummingbit evaluate compare``: several systems on the same queries."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from evaluation.reports.compare import to_evaluation
from evaluation.reports.metric_table import format_probability
from evaluation.result import Evaluation
from evaluation.retrieval import evaluate_encoder
from evaluation.runs import evaluate_run
from evaluation.significance.systems import SystemComparison, compare_systems
from evaluation.trec import Run, read_run
from foundation.errors import counted
from foundation.stages import begin_stage
from hummingbit.commands.evaluation.measuring import (
    Measuring,
    add_measuring,
    find_qrels,
    metrics_of,
)
from hummingbit.commands.json_output import add_json_or_former_file, print_or_write_json
from hummingbit.commands.options import SOURCE_HELP, OptionError, naming
from hummingbit.commands.printing import print_figures
from hummingbit.commands.training_source import read_training_data
from index.data_folder import DataFolder


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "names",
        nargs="+",
        metavar="NAME",
        help="collections; with --data, encoders; with --runs, files of TREC runs",
    )
    parser.add_argument(
        "--data",
        metavar="SOURCE",
        help="the documents to encode with each encoder NAME: " + SOURCE_HELP,
    )
    parser.add_argument(
        "--runs", action="store_true", help="compare TREC runs of any systems, judged by --qrels"
    )
    add_measuring(parser, queries_required=False)
    add_json_or_former_file(parser, names="names")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the figures of each system, and the significance of their differences."""
    names = list(dict.fromkeys(args.names))
    if len(names) < 2:
        raise OptionError(f"NAME: only {names[0]!r} is given; a comparison needs two or more")
    systems = _evaluate(args, names)
    begin_stage("testing the differences")
    comparisons = compare_systems(systems)
    if args.json is not True:
        print_figures(systems)
        for comparison in comparisons.values():
            print_comparison(comparison)
    if args.json:
        print_or_write_json(args, comparison_to_json(systems, comparisons))
    return 0


def _evaluate(args: argparse.Namespace, names: list[str]) -> dict[str, Evaluation]:
    if args.runs:
        return _evaluate_runs(args, names)
    if args.queries is None:
        raise OptionError("--queries: is missing; only a comparison of --runs needs none")
    if args.data is not None:
        return _evaluate_encoders(args, names)
    jobs = Measuring(args, metrics_of(args)).measure(names)
    return {name: to_evaluation(job.report) for name, job in jobs.items()}


def _evaluate_runs(args: argparse.Namespace, names: list[str]) -> dict[str, Evaluation]:
    others = (args.queries, args.data, args.nearest)
    if args.qrels is None or any(other is not None for other in others):
        raise OptionError(
            "--runs: needs --qrels, and cannot be combined with --queries, --data or --nearest"
        )
    qrels = find_qrels(args) or {}
    return {
        name: evaluate_run(_read_run(name), qrels, metrics_of(args), args.relevant_from)
        for name in names
    }


def _read_run(path: str) -> Run:
    with naming(path):
        return read_run(path)


def _evaluate_encoders(args: argparse.Namespace, names: list[str]) -> dict[str, Evaluation]:
    others = (args.qrels, args.url, args.nearest)
    if any(other is not None for other in others) or args.exclude_self:
        raise OptionError(
            "--data: cannot be combined with --qrels, --url, --nearest or --exclude-self"
        )
    begin_stage(f"reading {args.data} and {args.queries}")
    database = read_training_data(args, args.data).labelled()
    queries = read_training_data(args, args.queries).labelled()
    with DataFolder(args.data_dir, writable=False) as folder:
        encoders = {name: folder.encoders.load(name) for name in names}
    evaluations = {}
    for name, encoder in encoders.items():
        begin_stage(f"evaluating {name} by {counted(len(queries), 'query', 'queries')}")
        evaluations[name] = evaluate_encoder(
            encoder,
            database,
            queries,
            metrics_of(args),
            hierarchy=args.hierarchy,
            relevant_from=args.relevant_from,
        )
    return evaluations


def print_comparison(comparison: SystemComparison) -> None:
    """Print the differences of one metric, and their significance."""
    print(f"\n{comparison.metric}, tie-averaged:")
    for pair in comparison.pairs:
        p_value = f"{format_probability(pair.adjusted)} (permutation test, Holm)"
        print(f"  {pair.a} − {pair.b}: {pair.difference:+.4f}, {p_value}")
    if comparison.ranks is None:
        return
    ranks = comparison.ranks
    print(f"  Friedman: χ² = {ranks.statistic:.2f}, {format_probability(ranks.p_value)}")
    order = sorted(ranks.mean_ranks.items(), key=lambda item: item[1])
    mean_ranks = ", ".join(f"{name} {rank:.2f}" for name, rank in order)
    difference = f"{ranks.critical_difference:.2f} at {ranks.alpha:g}"
    print(f"  mean ranks: {mean_ranks}; critical difference (Nemenyi): {difference}")
    for (a, b), p in ranks.pairs.items():
        print(f"  {a} and {b}: {format_probability(p)} (Nemenyi)")


def comparison_to_json(
    systems: Mapping[str, Evaluation], comparisons: Mapping[str, SystemComparison]
) -> dict[str, object]:
    """Return the figures of all systems and their differences, ready to be written as JSON."""
    return {
        "schema_version": 1,
        "systems": {name: one.to_dict() for name, one in systems.items()},
        "metrics": {name: one.to_dict() for name, one in comparisons.items()},
    }
