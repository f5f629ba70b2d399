"""The weight of codes beside words: options of ``hummingbit index rank``, and the fit."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from hummingbit.commands.options import OptionError, naming
from hummingbit.corpus.document import Document
from hummingbit.corpus.named_sets import Qrels
from hummingbit.corpus.readers import read_documents
from hummingbit.evaluation.fusion import (
    JUDGED_METRIC,
    LEAST_HELD_OUT,
    SEARCHED,
    WEIGHTS,
    Curve,
    TextEncoder,
    curve_means,
    fitted_weight,
    judged_curve,
    judged_weight,
    known_items,
    made_curve,
    validated,
)
from hummingbit.evaluation.rankings import unseen_queries
from hummingbit.evaluation.report import Report
from hummingbit.evaluation.trec import read_qrels
from hummingbit.foundation.slices import begin_stage
from hummingbit.index.backend import AnyCollection
from hummingbit.index.collection import Collection
from hummingbit.index.rankings import HYBRID
from hummingbit.remote import RemoteCollection, RemoteEncoder, evaluate_remotely

ENCODER = "encoder"
SCROLLED = 1000
"""The documents that are read at once."""
MADE_OF_TRAINING = (
    "values of training data: the encoder learned from the documents that the queries are made of;"
    " people's queries will score lower"
)


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
    if args.weight not in {None, ENCODER}:
        try:
            float(args.weight)
        except ValueError:
            reason = f"is {args.weight!r}; it must be a number or {ENCODER}"
            raise OptionError(f"--weight: {reason}") from None


@dataclass(frozen=True)
class _Fit:
    """What each weight finds, ``float64[W, Q]``, what the values are, and the best weight.

    `warning` says that the values are of training data, if they are.
    """

    curve: Curve
    metric: str
    weight: float
    warning: str | None


def _fit_made(collection: Collection | RemoteCollection) -> _Fit:
    """Fit the weight to queries made from documents that the encoder has not learned from.

    Where there are too few of these, they are made from any.
    """
    begin_stage("making queries from documents")
    encoder: TextEncoder | None = None
    if isinstance(collection, RemoteCollection):
        served = RemoteEncoder(collection.client, str(collection.encoder_name))
        texts = _sampled_texts(collection)
        encoder, is_learned = served, served.learned_from(texts)
    elif (local := collection.encoder) is not None:
        texts = _sampled_texts(collection)
        encoder, is_learned = local, local.learned.contain(texts)
    items, warning = None, None
    if encoder is not None:
        held_out = np.flatnonzero(~is_learned)
        if len(held_out) < min(len(texts), LEAST_HELD_OUT):
            held_out, warning = np.arange(len(texts)), MADE_OF_TRAINING
        items = known_items(encoder, texts, seed=0, held_out=held_out)
    if encoder is None or items is None:
        raise OptionError("--fit: no document has two sentences; give --queries and --qrels")
    curve = made_curve(items)
    return _Fit(curve, "MRR", fitted_weight(curve, of_model=encoder.is_slow), warning)


def _sampled_texts(collection: Collection | RemoteCollection) -> list[str]:
    """Return the texts of a random sample of the documents, in their order."""
    positions = set(np.random.default_rng(0).permutation(len(collection))[:SEARCHED].tolist())
    texts: list[str] = []
    n_read, cursor = 0, None
    while True:
        page = collection.scroll(SCROLLED, cursor)
        for position, document in enumerate(page.documents, n_read):
            if position in positions and document.text is not None:
                texts.append(document.text)
        n_read, cursor = n_read + len(page.documents), page.next_cursor
        if cursor is None:
            return texts


def _fit_judged(
    args: argparse.Namespace, collection: Collection | RemoteCollection, qrels: Qrels
) -> _Fit:
    """Fit the weight to judged queries."""
    with naming(args.queries):
        queries = [query for query in read_documents(args.queries) if query.id in qrels]
    if not queries:
        raise OptionError("--qrels: judges none of the queries")
    begin_stage("searching with each weight")
    if isinstance(collection, Collection):
        _, learned = unseen_queries(collection, queries)
        curve, warning = judged_curve(collection, queries, qrels), learned.warning
    else:
        report = _report_of_service(args, queries, qrels)
        measured = report.codes_weights or []
        curve = np.array([evaluation.per_query[JUDGED_METRIC] for evaluation in measured])
        warning = report.warning
    return _Fit(curve, JUDGED_METRIC, judged_weight(curve), warning)


def _report_of_service(args: argparse.Namespace, queries: list[Document], qrels: Qrels) -> Report:
    """Return what the service of ``--url`` measures with each weight."""
    body = {
        "queries": [{"id": query.id, "text": query.text} for query in queries],
        "qrels": {query.id: dict(qrels[query.id]) for query in queries},
        "metrics": [JUDGED_METRIC],
        "rankings": [HYBRID],
        "codes_weights": [*WEIGHTS],
    }
    return evaluate_remotely(args.url, args.collection, body).report


def fit(args: argparse.Namespace, collection: AnyCollection) -> dict[str, Any]:
    """Set the weight that suits the queries, print what each weight finds, and return it."""
    if not isinstance(collection, Collection | RemoteCollection) or (
        collection.encoder_kind != "text"
    ):
        raise OptionError(f"--fit: {args.collection} has no texts that an encoder reads")
    if args.queries is None:
        found = _fit_made(collection)
    else:
        with naming(args.qrels):
            qrels = read_qrels(args.qrels)
        found = _fit_judged(args, collection, qrels)
    collection.set_hybrid_weight(found.weight)
    n_queries = found.curve.shape[1]
    result: dict[str, Any] = {} if found.warning is None else {"warning": found.warning}
    if args.queries is not None:
        result["cross_validated"] = round(validated(found.curve), 4)
    result |= {"weight": found.weight, "metric": found.metric, "queries": n_queries}
    result["curve"] = curve_means(found.curve)
    if not args.json:
        if found.warning is not None:
            print(found.warning)
        print(f"{found.metric} of {n_queries} queries by the weight of codes:")
        for name, value in result["curve"].items():
            print(f"  {name:>5} {value:.4f}")
        if "cross_validated" in result:
            fitted = result["cross_validated"]
            print(f"{found.metric} with the weight fitted on other queries: {fitted}")
        sys.stdout.flush()
    return result
