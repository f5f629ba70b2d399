"""``hummingbit evaluate``: measure a collection, and exit with 1 if it fails a gate."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from hummingbit.cli import did_you_mean
from hummingbit.commands.options import (
    OptionError,
    add_folder,
    add_former_flag,
    add_option,
    add_reading,
    add_setting,
    naming,
    open_workbench,
    read,
    read_training_data,
    source_help,
    write_text,
)
from hummingbit.commands.printed_figures import print_figures, print_report, print_worst_queries
from hummingbit.commands.printing import (
    add_json,
    add_json_or_former_file,
    print_json,
    print_or_write_json,
)
from hummingbit.deferred import deferred_imports
from hummingbit.encoder.recipes import CLASS_CODES, RECIPES, SSB_VAE, AutoencoderRecipe, BaseRecipe
from hummingbit.foundation.errors import counted
from hummingbit.foundation.slices import begin_stage
from hummingbit.index.names import HAMMING, RANKING_SUMMARIES, RESCORERS
from hummingbit.index.options import DEFAULT_OVERSAMPLE

with deferred_imports():
    import numpy as np

    from hummingbit.corpus.document import Document
    from hummingbit.corpus.named_sets import is_judged, load_qrels
    from hummingbit.corpus.qrels import Qrels, read_qrels
    from hummingbit.evaluation.baselines import ClassifierReference, classifier_baseline
    from hummingbit.evaluation.evaluate import evaluate_encoder, evaluate_run, split_learned, unseen
    from hummingbit.evaluation.formats import (
        PlotError,
        draw_label_curve,
        load_figure,
        missing_for_html,
        write_folder,
    )
    from hummingbit.evaluation.gate import (
        COHERENCE,
        NOT_COMPARED,
        Gate,
        GateError,
        Rule,
        by_ranking,
        compare_reports,
        on_common_queries,
        read_gate,
        to_evaluation,
    )
    from hummingbit.evaluation.metrics import (
        DEFAULT_METRICS,
        JUDGED_METRICS,
        NEAREST_METRICS,
        parse_metric,
        parse_metrics,
    )
    from hummingbit.evaluation.rankings import SERVED, RelevanceSettings, check_codes_weights
    from hummingbit.evaluation.relevance import query_labels
    from hummingbit.evaluation.report import Job, MetricFigures, Report, full_name, read_report
    from hummingbit.evaluation.result import Evaluation
    from hummingbit.evaluation.significance import (
        SystemComparison,
        compare_systems,
        format_probability,
    )
    from hummingbit.evaluation.trec import Run, read_run
    from hummingbit.index.backend import AnyCollection
    from hummingbit.index.data_folder import DataFolder
    from hummingbit.index.records import StoredDocument
    from hummingbit.training.data import TrainingData
    from hummingbit.training_methods import check_torch, train_by

# Without queries, so many documents are asked for those nearest to them.
N_ASKED, NEAREST = 1_000, 10
_PAGE = 1_000
_READ = 50_000

# What the evaluation commands share: their options, and measuring here or at a service.


def add_measuring(parser: argparse.ArgumentParser) -> None:
    """Add the options for collections, queries, judgements and metrics."""
    add_option(parser, "--queries SOURCE", f"the queries: {source_help()}")
    add_option(
        parser,
        "--qrels FILE",
        "a file of judgements in TREC's format or BEIR's TSV, or a named data set with judged"
        " queries, such as docstrings:queries (default: the judgements of the data set of the"
        " queries, if it has any; otherwise documents with a label of the query are relevant)",
    )
    add_option(
        parser,
        "--metrics NAME ...",
        "such as P@100 mAP@100 nDCG@10 Recall@1000 MRR P@radius2 (default: P@100 mAP@100; for"
        " judged queries nDCG@10 MRR Success@10 Recall@100)",
    )
    add_option(
        parser,
        "--label-field NAME",
        "the payload field that holds the labels (default: %(default)s)",
        default="label",
    )
    add_option(
        parser,
        "--hierarchy",
        "labels are paths such as rec.sport.hockey; grade documents by the levels they share",
    )
    add_option(
        parser,
        "--nearest N",
        "relevant are the N stored documents nearest to the query, by TF-IDF cosine of their"
        " texts or by their vectors, instead of those with its label (default metric: Recall@100)",
    )
    add_option(
        parser,
        "--relevant-from N",
        "the lowest grade that counts as relevant (default: %(default)s)",
        default=1,
    )
    add_option(parser, "--exclude-self", "leave out the stored document with the query's own id")
    add_option(parser, "--only-labelled", "search only the documents that have a label")
    add_folder(parser)
    add_reading(parser, label_field=False)


def measure(
    args: argparse.Namespace,
    metrics: Sequence[str],
    names: Sequence[str],
    rankings: Sequence[str] | None,
    *,
    needs_vectors: bool = False,
) -> dict[str, Job]:
    """Evaluate collections by the queries and judgements of the options, and return each result.

    `metrics` may include more than ``--metrics``. Without `rankings`, they are those of
    :func:`hummingbit.evaluation.report.run_job`. With `needs_vectors`, a collection whose first
    document has no vector is refused before anything is searched, unless there is a teacher.

    Raises:
        ReadError, TrecError: if a file is malformed.
        OptionError: if the judgements cannot be read, or there are none and no labels.
        GateError: if there are no vectors, and `needs_vectors`.
    """
    _check_nearest(args)
    parse_metrics(metrics)
    queries: list[Document] = []
    if args.queries is not None:
        begin_stage(f"reading {args.queries}")
        queries += read(args, args.queries, uses_payload=args.label_field != "label")
    qrels = None if args.nearest is not None else find_qrels(args)
    if qrels is None and args.nearest is None:
        _check_labels(args, queries)
    choices = ("nearest", "label_field", "hierarchy", "relevant_from", "exclude_self")
    settings = RelevanceSettings(
        qrels=qrels, **{name: getattr(args, name) for name in (*choices, "only_labelled")}
    )
    with open_workbench(args, writable=False) as bench:
        if needs_vectors and args.teacher is None:
            for name in names:
                first = bench.collection(name).scroll(1).documents
                if any(document.vector is None for document in first):
                    raise GateError(NOT_COMPARED)
        return {
            name: bench.evaluate(
                name,
                queries
                if args.queries is not None
                else _some_documents(bench.collection(name), args),
                metrics,
                settings,
                rankings=rankings,
                oversample=DEFAULT_OVERSAMPLE if args.oversample is None else args.oversample,
                codes_weights=args.codes_weights or (),
                teacher=args.teacher,
            )
            for name in names
        }


def _some_documents(collection: AnyCollection, args: argparse.Namespace) -> list[Document]:
    """Return at most :data:`N_ASKED` documents as queries, always the same of a collection."""
    documents: list[StoredDocument] = []
    cursor = None
    while len(documents) < _READ:
        page = collection.scroll(_PAGE, cursor)
        documents += page.documents
        cursor = page.next_cursor
        if cursor is None:
            break
    rows = np.random.default_rng(0).permutation(len(documents))[:N_ASKED]
    asked = [documents[row] for row in np.sort(rows)]
    # A service takes one content of a query.
    return [
        Document(one.id, one.text, None if args.url and one.text is not None else one.vector)
        for one in asked
    ]


def _check_nearest(args: argparse.Namespace) -> None:
    if args.nearest is None:
        return
    if args.nearest < 1:
        raise OptionError(f"--nearest is {args.nearest}; it must be 1 or more")
    for option, given in (
        ("--qrels", args.qrels is not None),
        ("--hierarchy", args.hierarchy),
        ("--relevant-from", args.relevant_from != 1),
    ):
        if given:
            raise OptionError(f"--nearest: cannot be combined with {option}")


def _check_labels(args: argparse.Namespace, queries: Sequence[Document]) -> None:
    if queries and not any(query_labels(queries, args.label_field)):
        remedy = "name its field with --label-field, or judgements with --qrels"
        fields = dict.fromkeys(name for query in queries for name in query.payload or {})
        remedy += did_you_mean(args.label_field, fields)
        raise OptionError(f"{args.queries}: no query has a label in {args.label_field!r}; {remedy}")


def find_qrels(args: argparse.Namespace) -> Qrels | None:
    """Return the judgements of ``--qrels``, or else those of the queries' data set, if any.

    Raises:
        ReadError: if they cannot be read, or are malformed.
    """
    if args.qrels is None:
        return None if args.queries is None else _dataset_qrels(args, args.queries)
    qrels = _dataset_qrels(args, args.qrels)
    return read_qrels(args.qrels) if qrels is None else qrels


def metrics_of(args: argparse.Namespace) -> list[str]:
    """Return the metrics of ``--metrics``, or else the defaults for such queries."""
    if args.metrics is not None:
        return list(args.metrics)
    if args.nearest is not None:
        return list(NEAREST_METRICS)
    source = args.qrels or args.queries
    has_judgements = source is not None and is_judged(*_name_and_split(source))
    return list(JUDGED_METRICS if args.qrels or has_judgements else DEFAULT_METRICS)


def _name_and_split(source: str) -> tuple[str, str]:
    name, _, split = source.partition(":")
    return name, split


def _dataset_qrels(args: argparse.Namespace, source: str) -> Qrels | None:
    name, split = _name_and_split(source)
    return load_qrels(name, split, args.data_root) if is_judged(name, split) else None


# ``hummingbit evaluate compare``: several systems on the same queries.


def configure_compare(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "names",
        nargs="+",
        metavar="NAME",
        help="collections; with --data, encoders; with --runs, files of TREC runs",
    )
    add_option(
        parser, "--data SOURCE", "the documents to encode with each encoder NAME: " + source_help()
    )
    add_option(parser, "--runs", "compare TREC runs of any systems, judged by --qrels")
    add_measuring(parser)
    add_json_or_former_file(parser, names="names")
    parser.set_defaults(run=run_compare, oversample=None, codes_weights=None, teacher=None)


def run_compare(args: argparse.Namespace) -> None:
    """Print the figures of each system, and the significance of their differences."""
    names = list(dict.fromkeys(args.names))
    if args.runs and args.qrels is None:
        raise OptionError("--runs: needs --qrels FILE, the judgements of the queries")
    if len(names) < 2:
        what = "file of a TREC run" if args.runs else "encoder" if args.data else "collection"
        raise OptionError(
            f"NAME: {names[0]!r} alone is given; a comparison needs two or more, so name another"
            f" {what} after it"
        )
    systems = _evaluate(args, names)
    begin_stage("testing the differences")
    comparisons = compare_systems(systems)
    if args.json is not True:
        print_figures(systems)
        for comparison in comparisons.values():
            print_comparison(comparison)
    if args.json:
        print_or_write_json(args, comparison_to_json(systems, comparisons))


def _evaluate(args: argparse.Namespace, names: list[str]) -> dict[str, Evaluation]:
    if args.runs:
        return _evaluate_runs(args, names)
    if args.queries is None:
        raise OptionError("--queries: is missing; only a comparison of --runs needs none")
    if args.data is not None:
        return _evaluate_encoders(args, names)
    jobs = measure(args, metrics_of(args), names, [HAMMING])
    return on_common_queries({name: to_evaluation(job.report) for name, job in jobs.items()})


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
    # Those that any of them learned from are left out for all.
    by_any = np.any(
        [encoder.learned.contain(queries.inputs) for encoder in encoders.values()], axis=0
    )
    rows, learned = split_learned(by_any)
    queries = queries.take(rows)
    evaluations = {}
    for name, encoder in encoders.items():
        begin_stage(f"evaluating {name} by {counted(len(queries), 'query', 'queries')}")
        evaluation = evaluate_encoder(
            encoder,
            database,
            queries,
            metrics_of(args),
            hierarchy=args.hierarchy,
            relevant_from=args.relevant_from,
            keep_learned=True,
        )
        notes = (*learned.notes, *evaluation.notes)
        evaluations[name] = replace(evaluation, notes=notes, warning=learned.warning)
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
    warnings = [f"{name}: {system.warning}" for name, system in systems.items() if system.warning]
    return {
        **({"warning": "; ".join(warnings)} if warnings else {}),
        "schema_version": 1,
        "systems": {name: system.to_dict() for name, system in systems.items()},
        "metrics": {name: comparison.to_dict() for name, comparison in comparisons.items()},
    }


# ``hummingbit evaluate curve``: how many labels pay off for a corpus.


SETTINGS = ("n_bits", "seed", "epochs", "batch_size", "hidden")


@dataclass(frozen=True)
class Point:
    """One run: how many labels it used, and the scores of its codes and of the baseline.

    `warning` and `notes` are as in :class:`hummingbit.evaluation.result.Evaluation`.
    """

    supervision: float
    labels: int
    served: float
    expected: float
    baseline: float
    warning: str | None
    notes: tuple[str, ...]


def configure_curve(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_option(parser, "--data SOURCE", f"the documents: {source_help()}", required=True)
    add_option(parser, "--queries SOURCE", "the queries: a source of the same kinds", required=True)
    add_option(
        parser,
        "--supervision X",
        "shares of the labels to train with (default: 0.01 0.03 0.1 0.3 1.0)",
        dest="label_fraction",
        nargs="+",
        default=[0.01, 0.03, 0.1, 0.3, 1.0],
    )
    add_option(
        parser, "--metric NAME", "the metric to print (default: %(default)s)", default="P@100"
    )
    add_json_or_former_file(parser)
    add_option(parser, "--plot FILE", "write the curve as SVG", type=Path)
    add_reading(parser)
    settings = parser.add_argument_group("recipe")
    add_option(
        settings,
        "--method METHOD",
        "what is trained (default: %(default)s)",
        default=SSB_VAE,
        choices=(SSB_VAE, CLASS_CODES),
    )
    for setting in fields(AutoencoderRecipe):
        if setting.name in SETTINGS:
            add_setting(settings, setting)
    parser.set_defaults(run=run_curve)


def run_curve(args: argparse.Namespace) -> None:
    """Train at each share of the labels, the smallest first, and print a line for each.

    If the result is printed as JSON, these lines go to standard error.
    """
    stream = sys.stderr if args.json is True else sys.stdout
    metric = parse_metric(args.metric).name
    kind = RECIPES[args.method]
    known = {setting.name for setting in fields(kind)}
    settings = {name: getattr(args, name) for name in SETTINGS if name in known}
    settings = {"method": args.method, **settings}
    shares = sorted(set(args.label_fraction))
    recipes = [kind(**settings | {"label_fraction": share}) for share in shares]
    check_torch(recipes[0])
    if args.plot is not None:
        load_figure()
    begin_stage(f"reading {args.data} and {args.queries}")
    data, query_data = (read_training_data(args, source) for source in (args.data, args.queries))
    points: list[Point] = []
    for share, recipe in zip(shares, recipes, strict=True):
        point = _measure(data, query_data, recipe, share, metric)
        if not points:
            for sentence in (point.warning, *point.notes):
                if sentence is not None:
                    print(sentence, file=stream)
            counts = counted(len(data), "document"), counted(len(query_data), "query", "queries")
            print(f"{', '.join(counts)}, {recipe.n_bits} bits", file=stream)
            heads = f"{metric:>10} {'tie-averaged':>13} {'classifier, tie-averaged':>25}"
            print(f"{'labels':>8} {'share':>7} {heads}", file=stream)
        points.append(point)
        print(
            f"{point.labels:>8,} {point.supervision:>7.1%} {point.served:>10.3f}"
            f" {point.expected:>13.3f} {point.baseline:>25.3f}",
            file=stream,
            flush=True,
        )
    if args.json:
        warning = points[0].warning
        said = {} if warning is None else {"warning": warning}
        rows = [asdict(point) for point in points]
        result = {"schema_version": 1, "metric": metric, "recipe": settings, "points": rows}
        print_or_write_json(args, said | result)
    if args.plot is not None:
        lines = {
            "codes": [point.expected for point in points],
            "classifier baseline": [point.baseline for point in points],
        }
        write_text(args.plot, draw_label_curve([point.labels for point in points], lines, metric))


def _measure(
    data: TrainingData, query_data: TrainingData, recipe: BaseRecipe, share: float, metric: str
) -> Point:
    with tempfile.TemporaryDirectory() as folder:
        trained = train_by(data, recipe, Path(folder) / "encoder", progress=False)
    database = data.labelled()
    queries, learned = unseen(trained.encoder, query_data.labelled())
    labelled = data.labelled(data.rows_of(trained.labelled_ids))
    reference = ClassifierReference(trained.encoder, trained.classifier)
    codes = evaluate_encoder(trained.encoder, database, queries, [metric], keep_learned=True)
    baseline = classifier_baseline(reference, labelled, database, queries, [metric])
    return Point(
        supervision=share,
        labels=len(labelled),
        served=codes.metrics[metric],
        expected=codes.expected[metric],
        baseline=baseline.expected[metric],
        warning=learned.warning,
        notes=learned.notes,
    )


# ``hummingbit evaluate``: measure a collection, and exit with 1 if it fails a gate.


JUDGED_RANKINGS = (
    *RANKING_SUMMARIES,
    *(f"{name}+{by}" for name in RANKING_SUMMARIES for by in RESCORERS),
)

EPILOG = (
    "See also: evaluate compare, evaluate curve. To evaluate a collection with one of these names,"
    " use --collection. Exit status: 0 passed, 1 the gate failed, 2 bad input."
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.epilog = EPILOG
    parser.add_argument("positional", nargs="?", metavar="COLLECTION")
    add_option(parser, "--collection NAME", "the collection, if its name is compare or curve")
    add_measuring(parser)
    add_option(
        parser, "--baseline FILE", "the report.json of an earlier run, to compare with", type=Path
    )
    add_option(
        parser,
        "--ignore-unmatched-queries",
        "compare on the queries that both runs have; without this, other queries are an error",
    )
    former, flag = "--common-queries", "--ignore-unmatched-queries"
    add_former_flag(parser, former, flag, "ignore_unmatched_queries", nargs=0)
    add_option(
        parser,
        "--gate FILE",
        "TOML file with min, max_drop, alpha, detect and level of metrics, such as P@100 and"
        " hybrid nDCG@10, and min of coherence; exit with 1 if one fails",
    )
    add_option(
        parser,
        "--allow-training-queries",
        "gate the values although the encoder learned from all queries",
    )
    add_option(parser, "--min-p100 X", "exit with 1 if P@100 is lower")
    add_option(
        parser,
        "--coherence X",
        "exit with 1 if the coherence level of codes with vectors is lower: a gate without labels,"
        " between encoders of one method (across methods it need not follow P@100). Without"
        " --queries, documents are asked for the --nearest 10 to them",
    )
    add_option(
        parser,
        "--out DIR",
        "write report.json, report.md, junit.xml, index.html and run.trec to this folder",
        type=Path,
    )
    add_option(
        parser,
        "--rankings NAME ...",
        "measure these rankings of the collection, and test their differences"
        f" (default: that of searches, and hamming): {', '.join(RANKING_SUMMARIES)};"
        f" NAME+SCORE rescores their candidates: {', '.join(RESCORERS)}",
        choices=JUDGED_RANKINGS,
    )
    add_option(
        parser, "--oversample X", "candidates for each hit of a rescored ranking (default: 4)"
    )
    add_option(
        parser,
        "--codes-weights W",
        "measure hybrid with each of these weights of codes beside words, too, such as 0 .5 1",
        nargs="+",
        type=float,
    )
    add_option(
        parser,
        "--teacher T",
        "compare the order of codes with that of these vectors of the documents: a file of vectors"
        " or an encoder's folder (default: the vectors that the documents have)",
    )
    add_option(
        parser,
        "--explain",
        "show the worst queries with their right answers: rank and score under each ranking,"
        " and the words and bits that match",
    )
    add_json(parser)
    parser.set_defaults(run=run, option_names={"rescore": "--rankings"})


def run(args: argparse.Namespace) -> int:
    """Print the figures; return 1 if the gate fails."""
    name = _collection(args)
    if args.oversample is not None and not any("+" in ranking for ranking in args.rankings or ()):
        raise OptionError("--oversample: needs a rescored ranking, such as hamming+vectors")
    check_codes_weights(args.codes_weights or ())
    rules = _rules(args)
    if args.queries is None:
        _ask_documents(args, rules)
    of_queries = (rule.metric for rule in rules if rule.metric != COHERENCE)
    measured = [full_name(metric).rpartition(" ") for metric in of_queries]
    metrics = list(dict.fromkeys([*metrics_of(args), *(metric for _, _, metric in measured)]))
    rankings = _rankings(args, [ranking for ranking, _, _ in measured])
    baseline = None if args.baseline is None else read_report(args.baseline)
    if args.out is not None and (missing := missing_for_html()):
        print(f"--out {args.out}: index.html will be left out: {missing}", file=sys.stderr)
    needs_vectors = any(rule.metric == COHERENCE for rule in rules)
    job = measure(args, metrics, [name], rankings, needs_vectors=needs_vectors)[name]
    report = compare_reports(
        job.report, rules, baseline, ignore_unmatched_queries=args.ignore_unmatched_queries
    )
    several = args.rankings and len(report.rankings) > 1
    comparisons = compare_systems(by_ranking(report)) if several else {}
    if args.json:
        print_json(
            {
                **_figures(report),
                **_comparison(args, report, comparisons),
                **_explanations(args, report),
            }
        )
    else:
        print_report(report)
        if args.explain:
            print_worst_queries(report)
        for comparison in comparisons.values():
            print_comparison(comparison)
        sys.stdout.flush()
    if args.out is not None:
        _write(Job(report, job.run), args.out, baseline)
    for rule in report.gate or []:
        if rule.status != "passed":
            kind = "gate" if rule.status == "failed" else "gate, warning only"
            by = "" if " " in rule.metric else f" (by {HAMMING} distance)"
            print(f"{kind}: {rule.sentence}{by}", file=sys.stderr)
    return 0 if report.passed else 1


def _rankings(args: argparse.Namespace, gated: Sequence[str]) -> list[str] | None:
    """Return the rankings to measure; None stands for Hamming and that of searches."""
    if args.rankings is None and not set(gated) - {HAMMING}:
        return None
    named = [HAMMING, SERVED] if args.rankings is None else args.rankings
    return list(dict.fromkeys([*named, *gated]))


def _comparison(
    args: argparse.Namespace, report: Report, comparisons: Mapping[str, SystemComparison]
) -> dict[str, Any]:
    """Return the figures of ``--rankings``, each as a system, and their differences."""
    if not args.rankings:
        return {}
    figures = _figures(report)
    kinds = ("queries", "documents", "queries_without_relevant", "distinct_codes", "notes")
    counts = {name: figures[name] for name in kinds}
    systems = {name: {**_means(ranking), **counts} for name, ranking in report.rankings.items()}
    return {
        "schema_version": 1,
        "systems": systems,
        "metrics": {name: comparison.to_dict() for name, comparison in comparisons.items()},
    }


def _explanations(args: argparse.Namespace, report: Report) -> dict[str, Any]:
    if not args.explain:
        return {}
    return {"worst_queries": [query.model_dump(mode="json") for query in report.worst_queries]}


def _collection(args: argparse.Namespace) -> str:
    names = [name for name in (args.positional, args.collection) if name is not None]
    if len(names) != 1:
        raise OptionError("COLLECTION: give one collection, as an argument or by --collection")
    return str(names[0])


def _rules(args: argparse.Namespace) -> Gate:
    """Return the rules of --gate, and those of --min-p100 and --coherence."""
    rules = Gate()
    if args.gate is not None:
        with naming(args.gate):
            rules = read_gate(args.gate)
    if args.allow_training_queries:
        rules.training_queries = True
    for flag, metric, least in (
        ("--min-p100", "P@100", args.min_p100),
        ("--coherence", COHERENCE, args.coherence),
    ):
        if least is None:
            continue
        if not 0 <= least <= 1:
            raise OptionError(f"{flag} is {least:g}; it must be from 0 to 1")
        rules.append(Rule(metric, minimum=least))
    return rules


def _ask_documents(args: argparse.Namespace, rules: Gate) -> None:
    """Have documents asked for those nearest to them, if the level alone is gated."""
    if not rules or any(rule.metric != COHERENCE for rule in rules):
        raise OptionError("--queries: is missing; only a gate of --coherence alone needs none")
    if args.qrels is not None or args.hierarchy:
        raise OptionError("--queries: is missing; --qrels and --hierarchy are about queries")
    args.exclude_self = True
    if args.nearest is None:
        args.nearest = NEAREST


def _write(job: Job, folder: Path, baseline: Report | None) -> None:
    with naming(f"--out: {folder}"), suppress(PlotError):  # said before the evaluation
        write_folder(job, folder, baseline)


def _figures(report: Report) -> dict[str, Any]:
    """Return the figures of a report without those of single queries and of plots."""
    rankings, subject, baseline = report.rankings, report.subject, report.classifier_baseline
    chosen = HAMMING if HAMMING in rankings else next(iter(rankings))
    weights, coherence = report.codes_weights, report.coherence
    optional: dict[str, Any] = {}
    if weights is not None:
        optional["codes_weights"] = [weight.model_dump(exclude={"per_query"}) for weight in weights]
    if coherence is not None:
        optional["coherence"] = coherence.model_dump()
    by_name: dict[str, list[MetricFigures]] = {}
    for figures in report.baselines:
        by_name.setdefault(figures.ranking, []).append(figures)
    return {
        **({} if report.warning is None else {"warning": report.warning}),
        "ranking": chosen,
        "served_ranking": subject.ranking,
        "codes_weight": subject.codes_weight,
        **_means(rankings[chosen]),
        "ceiling": {metric.name: metric.ceiling for metric in rankings[chosen]},
        "rankings": {name: _means(metrics) for name, metrics in rankings.items()},
        **optional,
        "queries": report.queries,
        "documents": subject.documents,
        "unlabelled": subject.unlabelled,
        "queries_without_relevant": report.queries_without_relevant,
        "distinct_codes": subject.distinct_codes,
        "notes": report.notes,
        "classifier_baseline": None if baseline is None else _means(baseline),
        "baselines": {name: _means(metrics) for name, metrics in by_name.items()},
        "changes": [change.model_dump() for change in report.changes or []],
        "gate": [rule.model_dump() for rule in report.gate or []],
        "failures": [rule.sentence for rule in report.gate or [] if rule.status == "failed"],
    }


def _means(metrics: Sequence[MetricFigures]) -> dict[str, dict[str, float | None]]:
    kinds = {"metrics": "served", "expected": "expected", "best": "best", "worst": "worst"}
    return {
        name: {metric.name: getattr(metric, kind) for metric in metrics}
        for name, kind in kinds.items()
    }
