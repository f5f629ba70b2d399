"""The weight of codes beside words: options of ``hummingbit index rank``, and the fit."""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np

from hummingbit.commands.options import OptionError, naming
from hummingbit.corpus.document import Document
from hummingbit.corpus.named_sets import Qrels
from hummingbit.corpus.readers import read_documents
from hummingbit.evaluation.fusion import (
    JUDGED_METRIC,
    WEIGHTS,
    Curve,
    curve_means,
    fitted_weight,
    judged_curve,
    judged_weight,
    known_items,
    made_curve,
    validated,
)
from hummingbit.evaluation.trec import read_qrels
from hummingbit.foundation.slices import begin_stage
from hummingbit.index.backend import AnyCollection
from hummingbit.index.collection import Collection
from hummingbit.index.rankings import HYBRID
from hummingbit.remote import RemoteCollection, evaluate_remotely

ENCODER = "encoder"


def add_weight(parser: argparse.ArgumentParser) -> None:
    """Add the options of the weight."""
    weight = parser.add_mutually_exclusive_group()
    weight.add_argument(
        "--weight",
        metavar="W",
        help="the weight of codes beside words in hybrid rankings; encoder: that of the encoder",
    )
    weight.add_argument(
        "--fit",
        action="store_true",
        help="fit the weight to judged queries, or to queries made from the documents",
    )
    parser.add_argument("--queries", metavar="FILE", help="with --fit: the judged queries")
    parser.add_argument("--qrels", metavar="FILE", help="with --fit: their judgements")


def check_weight(args: argparse.Namespace) -> None:
    """Raise an OptionError unless the options fit together."""
    if args.ranking is None and args.weight is None and not args.fit:
        raise OptionError("RANKING: give a ranking, --weight or --fit")
    if (args.queries is None) != (args.qrels is None):
        raise OptionError("--queries and --qrels: give both or neither")
    if args.queries is not None and not args.fit:
        raise OptionError("--queries: needs --fit")
    if args.fit and args.url is not None and args.queries is None:
        raise OptionError("--fit: at a service it needs judged queries: give --queries and --qrels")
    if args.weight not in {None, ENCODER}:
        try:
            float(args.weight)
        except ValueError:
            reason = f"is {args.weight!r}; it must be a number or {ENCODER}"
            raise OptionError(f"--weight: {reason}") from None


def _curve_at_service(args: argparse.Namespace, queries: list[Document], qrels: Qrels) -> Curve:
    """Return what :func:`judged_curve` returns, measured by the service of ``--url``."""
    body = {
        "queries": [{"id": query.id, "text": query.text} for query in queries],
        "qrels": {query.id: dict(qrels[query.id]) for query in queries},
        "metrics": [JUDGED_METRIC],
        "rankings": [HYBRID],
        "codes_weights": [*WEIGHTS],
    }
    curve = evaluate_remotely(args.url, args.collection, body).report.codes_weights or []
    return np.array([one.per_query[JUDGED_METRIC] for one in curve])


def fit(args: argparse.Namespace, collection: AnyCollection) -> dict[str, Any]:
    """Set the weight that suits the queries, print what each weight finds, and return it."""
    is_known = isinstance(collection, Collection | RemoteCollection)
    if not is_known or collection.encoder_kind != "text":
        raise OptionError(f"--fit: {args.collection} has no texts that an encoder reads")
    result: dict[str, Any]
    if isinstance(collection, Collection) and args.queries is None:
        begin_stage("making queries from documents")
        texts = [one.text for one in collection.all_documents() if one.text is not None]
        encoder = collection.encoder
        items = None if encoder is None else known_items(encoder, texts, seed=0)
        if items is None:
            raise OptionError("--fit: no document has two sentences; give --queries and --qrels")
        curve = made_curve(items)
        weight, metric = fitted_weight(curve), "MRR"
        result = {}
    else:
        qrels: Qrels = read_qrels(args.qrels)
        with naming(args.queries):
            queries = [one for one in read_documents(args.queries) if one.id in qrels]
        if not queries:
            raise OptionError("--qrels: judges none of the queries")
        begin_stage("searching with each weight")
        curve = (
            judged_curve(collection, queries, qrels)
            if isinstance(collection, Collection)
            else _curve_at_service(args, queries, qrels)
        )
        weight, metric = judged_weight(curve), JUDGED_METRIC
        result = {"cross_validated": round(validated(curve), 4)}
    collection.set_hybrid_weight(weight)
    result |= {"weight": weight, "metric": metric, "queries": curve.shape[1]}
    result["curve"] = curve_means(curve)
    if not args.json:
        print(f"{metric} of {curve.shape[1]} queries by the weight of codes:")
        for name, value in result["curve"].items():
            print(f"  {name:>5} {value:.4f}")
        if "cross_validated" in result:
            print(f"{metric} with the weight fitted on other queries: {result['cross_validated']}")
        sys.stdout.flush()
    return result
