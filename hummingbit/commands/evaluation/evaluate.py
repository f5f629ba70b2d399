"""``hummingbit evaluate``: measure a collection, and exit with 1 if it fails a gate."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evaluation.reports.collection_report import Job
from evaluation.reports.compare import compare_reports
from evaluation.reports.formats import write_folder
from evaluation.reports.gate import Rule, read_gate
from evaluation.reports.plots import PlotError
from evaluation.reports.report import MetricFigures, Report, read_report
from evaluation.significance.systems import compare_systems
from hummingbit.commands.evaluation.evaluate_compare import comparison_to_json, print_comparison
from hummingbit.commands.evaluation.measuring import Measuring, add_measuring, metrics_of
from hummingbit.commands.json_output import add_json, print_json
from hummingbit.commands.options import OptionError, add_former_flag, naming
from hummingbit.commands.printing import print_figures, print_report
from index.rankings.protocol import RANKINGS
from index.search.search_options import RESCORERS

JUDGED_RANKINGS = (*RANKINGS, *(f"{name}+{by}" for name in RANKINGS for by in RESCORERS))

EPILOG = (
    "See also: evaluate compare, evaluate curve. To evaluate a collection with one of these names,"
    " use --collection. Exit status: 0 passed, 1 the gate failed, 2 bad input."
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.epilog = EPILOG
    parser.add_argument("positional", nargs="?", metavar="COLLECTION")
    parser.add_argument(
        "--collection", metavar="NAME", help="the collection, if its name is compare or curve"
    )
    add_measuring(parser)
    parser.add_argument(
        "--baseline",
        type=Path,
        metavar="FILE",
        help="the report.json of an earlier run, to compare with",
    )
    parser.add_argument(
        "--ignore-unmatched-queries",
        action="store_true",
        help="compare on the queries that both runs have; without this, other queries are an error",
    )
    former, flag = "--common-queries", "--ignore-unmatched-queries"
    add_former_flag(parser, former, flag, "ignore_unmatched_queries", nargs=0)
    parser.add_argument(
        "--gate",
        metavar="FILE",
        help="TOML file with min, max_drop, alpha and level of metrics; exit with 1 if one fails",
    )
    parser.add_argument("--min-p100", type=float, metavar="X", help="exit with 1 if P@100 is lower")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="write report.json, report.md, junit.xml, index.html and run.trec to this folder",
    )
    parser.add_argument(
        "--rankings",
        nargs="+",
        action="extend",
        choices=JUDGED_RANKINGS,
        metavar="NAME",
        help="compare these rankings of the collection side by side, with significance"
        f" (default: hamming alone): {', '.join(RANKINGS)};"
        f" NAME+SCORE rescores their candidates: {', '.join(RESCORERS)}",
    )
    parser.add_argument(
        "--oversample",
        type=float,
        metavar="X",
        help="candidates for each hit of a rescored ranking (default: 4)",
    )
    add_json(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the figures; return 1 if the gate fails."""
    name = _collection(args)
    if args.oversample is not None and not any("+" in one for one in args.rankings or ()):
        raise OptionError("--oversample: needs a rescored ranking, such as hamming+vectors")
    if args.rankings is not None:
        return _compare_rankings(args, name)
    rules = _rules(args)
    metrics = list(dict.fromkeys([*metrics_of(args), *(rule.metric for rule in rules)]))
    baseline = None if args.baseline is None else read_report(args.baseline)
    job = Measuring(args, metrics).measure([name])[name]
    report = compare_reports(
        job.report, rules, baseline, ignore_unmatched_queries=args.ignore_unmatched_queries
    )
    if args.json:
        print_json(_figures(report))
    else:
        print_report(report)
        sys.stdout.flush()
    if args.out is not None:
        _write(Job(report, job.run), args.out, baseline)
    for one in report.gate or []:
        if one.status != "passed":
            kind = "gate" if one.status == "failed" else "gate, warning only"
            print(f"{kind}: {one.sentence}", file=sys.stderr)
    return 0 if report.passed else 1


def _compare_rankings(args: argparse.Namespace, name: str) -> int:
    """Print the figures of each ranking, and the significance of their differences."""
    for option in ("gate", "baseline", "out", "min_p100"):
        if getattr(args, option) is not None:
            flag = "--" + option.replace("_", "-")
            raise OptionError(f"--rankings: cannot be combined with {flag}")
    evaluations = Measuring(args, metrics_of(args)).measure_rankings(name, args.rankings)
    comparisons = compare_systems(evaluations) if len(evaluations) > 1 else {}
    if args.json:
        print_json(comparison_to_json(evaluations, comparisons))
        return 0
    print_figures(evaluations)
    for comparison in comparisons.values():
        print_comparison(comparison)
    return 0


def _collection(args: argparse.Namespace) -> str:
    names = [name for name in (args.positional, args.collection) if name is not None]
    if len(names) != 1:
        raise OptionError("COLLECTION: give one collection, as an argument or by --collection")
    return str(names[0])


def _rules(args: argparse.Namespace) -> list[Rule]:
    """Return the rules of --gate and the one of --min-p100."""
    rules: list[Rule] = []
    if args.gate is not None:
        with naming(args.gate):
            rules += read_gate(args.gate)
    if args.min_p100 is not None:
        if not 0 <= args.min_p100 <= 1:
            raise OptionError(f"--min-p100 is {args.min_p100:g}; it must be from 0 to 1")
        rules.append(Rule("P@100", minimum=args.min_p100))
    return rules


def _write(job: Job, folder: Path, baseline: Report | None) -> None:
    try:
        with naming(f"--out: {folder}"):
            write_folder(job, folder, baseline)
    except PlotError as error:
        print(f"--out {folder}: index.html is left out: {error}", file=sys.stderr)


def _figures(report: Report) -> dict[str, Any]:
    """Return the figures of a report without those of single queries and of plots."""
    return {
        **_means(report.metrics),
        "queries": report.queries,
        "documents": report.subject.documents,
        "queries_without_relevant": report.queries_without_relevant,
        "distinct_codes": report.subject.distinct_codes,
        "notes": report.notes,
        "classifier_baseline": None
        if report.classifier_baseline is None
        else _means(report.classifier_baseline),
        "changes": [one.model_dump() for one in report.changes or []],
        "gate": [one.model_dump() for one in report.gate or []],
        "failures": [one.sentence for one in report.gate or [] if one.status == "failed"],
    }


def _means(metrics: Sequence[MetricFigures]) -> dict[str, dict[str, float | None]]:
    kinds = {"metrics": "served", "expected": "expected", "best": "best", "worst": "worst"}
    return {name: {one.name: getattr(one, kind) for one in metrics} for name, kind in kinds.items()}
