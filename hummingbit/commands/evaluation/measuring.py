"""What the evaluation commands share: their options, and measuring here or at a service."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from corpus.datasets import is_judged, load_qrels
from corpus.document import Document
from evaluation.evaluation_input import RelevanceSettings
from evaluation.metrics.metric_names import (
    DEFAULT_METRICS,
    KNOWN_ITEM_METRICS,
    NEAREST_METRICS,
    parse_metrics,
)
from evaluation.rankings import evaluate_rankings
from evaluation.reports.collection_report import Job, read_training_labels, run_job
from evaluation.result import Evaluation
from evaluation.retrieval import query_labels
from evaluation.trec import Qrels, read_qrels
from foundation.stages import begin_stage
from hummingbit.commands.data_folder_options import add_folder, open_folder
from hummingbit.commands.options import SOURCE_HELP, OptionError, add_reading, naming, read
from hummingbit.remote import evaluate_rankings_remotely, evaluate_remotely
from hummingbit.suggestions import did_you_mean
from index.records import DEFAULT_OVERSAMPLE


def add_measuring(parser: argparse.ArgumentParser, *, queries_required: bool = True) -> None:
    """Add the options for collections, queries, judgements and metrics."""
    parser.add_argument(
        "--queries",
        required=queries_required,
        metavar="SOURCE",
        help=f"the queries: {SOURCE_HELP}",
    )
    parser.add_argument(
        "--qrels",
        metavar="FILE",
        help="a file of judgements in TREC's format or BEIR's TSV, or a named data set with judged"
        " queries, such as docstrings:queries (default: the judgements of the data set of the"
        " queries, if it has any; otherwise documents with a label of the query are relevant)",
    )
    parser.add_argument(
        "--metrics",
        nargs="+",
        action="extend",
        metavar="NAME",
        help="such as P@100 mAP@100 nDCG@10 Recall@1000 MRR P@radius2 (default: P@100 mAP@100; for"
        " the judged queries of a named data set Success@10 MRR nDCG@10 Recall@100)",
    )
    parser.add_argument(
        "--label-field",
        default="label",
        metavar="NAME",
        help="the payload field that holds the labels (default: %(default)s)",
    )
    parser.add_argument(
        "--hierarchy",
        action="store_true",
        help="labels are paths such as rec.sport.hockey; grade documents by the levels they share",
    )
    parser.add_argument(
        "--nearest",
        type=int,
        metavar="N",
        help="relevant are the N stored documents nearest to the query, by TF-IDF cosine of their"
        " texts or by their vectors, instead of those with its label (default metric: Recall@100)",
    )
    parser.add_argument(
        "--relevant-from",
        type=int,
        default=1,
        metavar="N",
        help="the lowest grade that counts as relevant (default: %(default)s)",
    )
    parser.add_argument(
        "--exclude-self",
        action="store_true",
        help="leave out the stored document with the query's own id",
    )
    add_folder(parser)
    parser.add_argument("--url", metavar="URL", help="a running service instead of a data folder")
    add_reading(parser, label_field=False)


class Measuring:
    """Measures collections by name, with the queries and judgements that the options name."""

    def __init__(self, args: argparse.Namespace, metrics: Sequence[str]) -> None:
        """Read the queries and judgements; `metrics` may include more than ``--metrics``.

        Raises:
            ReadError, TrecError: if a file is malformed.
            OptionError: if the judgements cannot be read, or there are none and no labels.
        """
        self._args = args
        self._metrics = list(metrics)
        _check_nearest(args)
        parse_metrics(metrics)
        begin_stage(f"reading {args.queries}")
        self._queries = list(read(args, args.queries, uses_payload=args.label_field != "label"))
        self._qrels = None if args.nearest is not None else find_qrels(args)
        if self._qrels is None and args.nearest is None:
            _check_labels(args, self._queries)

    def measure(self, names: Sequence[str]) -> dict[str, Job]:
        """Evaluate collections, and return the result of each by name."""
        if self._args.url is not None:
            body = self._body()
            return {name: evaluate_remotely(self._args.url, name, body) for name in names}
        with open_folder(self._args, writable=False) as folder:
            collections = {name: folder.collection(name) for name in names}
            return {
                name: run_job(
                    collection,
                    self._queries,
                    self._metrics,
                    self._settings(),
                    read_training_labels(folder, collection),
                )
                for name, collection in collections.items()
            }

    def measure_rankings(self, name: str, rankings: Sequence[str]) -> dict[str, Evaluation]:
        """Evaluate rankings of one collection, and return the result of each by ranking."""
        settings = self._settings()
        given = self._args.oversample
        oversample = DEFAULT_OVERSAMPLE if given is None else given
        if self._args.url is not None:
            return evaluate_rankings_remotely(
                self._args.url,
                name,
                self._queries,
                rankings,
                metrics=self._metrics,
                settings=settings,
                oversample=oversample,
            )
        with open_folder(self._args, writable=False) as folder:
            collection = folder.collection(name)
            judged = (collection, self._queries, rankings, self._metrics, settings)
            return evaluate_rankings(*judged, oversample=oversample)

    def _choices(self) -> dict[str, Any]:
        names = ("label_field", "hierarchy", "relevant_from", "exclude_self")
        return {name: getattr(self._args, name) for name in names}

    def _settings(self) -> RelevanceSettings:
        return RelevanceSettings(qrels=self._qrels, nearest=self._args.nearest, **self._choices())

    def _body(self) -> dict[str, Any]:
        body = {
            "queries": [_query(one, self._args.label_field) for one in self._queries],
            "metrics": self._metrics,
            **self._choices(),
        }
        return body if self._qrels is None else {**body, "qrels": self._qrels}


def _check_nearest(args: argparse.Namespace) -> None:
    if args.nearest is None:
        return
    if args.nearest < 1:
        raise OptionError(f"--nearest is {args.nearest}; it must be 1 or more")
    for option, given in (
        ("--url", args.url is not None),
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
        TrecError, ReadError: if they are malformed.
        OptionError: if they cannot be read.
    """
    if args.qrels is None:
        return None if args.queries is None else _dataset_qrels(args, args.queries)
    qrels = _dataset_qrels(args, args.qrels)
    if qrels is not None:
        return qrels
    with naming(args.qrels):
        return read_qrels(args.qrels)


def metrics_of(args: argparse.Namespace) -> list[str]:
    """Return the metrics of ``--metrics``, or else the defaults for such queries."""
    if args.metrics is not None:
        return list(args.metrics)
    if args.nearest is not None:
        return list(NEAREST_METRICS)
    source = args.qrels or args.queries
    has_judgements = source is not None and is_judged(*_name_and_split(source))
    return list(KNOWN_ITEM_METRICS if has_judgements else DEFAULT_METRICS)


def _name_and_split(source: str) -> tuple[str, str]:
    name, _, split = source.partition(":")
    return name, split


def _dataset_qrels(args: argparse.Namespace, source: str) -> Qrels | None:
    name, split = _name_and_split(source)
    return load_qrels(name, split, args.data_root) if is_judged(name, split) else None


def _query(document: Document, label_field: str) -> dict[str, Any]:
    """Return a query in the form that the service takes."""
    (labels,) = query_labels([document], label_field)
    fields = {
        "text": document.text,
        "vector": None if document.vector is None else document.vector.tolist(),
        "code": document.code,
        "labels": list(labels) or None,
    }
    return {"id": document.id} | {key: value for key, value in fields.items() if value is not None}
