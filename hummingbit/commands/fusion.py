"""The weight of codes beside words: options of ``hummingbit index rank``, and the fit."""

from __future__ import annotations

import argparse
import itertools
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hummingbit.commands.options import OptionError, add_option, read_judged_queries
from hummingbit.corpus.document import Document
from hummingbit.corpus.qrels import Qrels
from hummingbit.evaluation.fusion import (
    JUDGED_METRIC,
    LEAST_HELD_OUT,
    SEARCHED,
    WEIGHTS,
    Curve,
    curve_means,
    fitted_weight,
    judged_weight,
    known_items,
    made_curve,
    validated,
    why_no_fit,
)
from hummingbit.evaluation.rankings import RelevanceSettings
from hummingbit.foundation.slices import begin_stage
from hummingbit.index.backend import AnyCollection
from hummingbit.index.collection import pages_of
from hummingbit.index.rankings import HYBRID

if TYPE_CHECKING:
    from hummingbit.local import LocalWorkbench
    from hummingbit.remote import RemoteFolder

ENCODER = "encoder"
MADE_OF_TRAINING = (
    "values of training data: the encoder learned from the documents that the queries are made of;"
    " people's queries will score lower"
)


def add_weight(parser: argparse.ArgumentParser) -> None:
    """Add the options of the weight."""
    weight = parser.add_mutually_exclusive_group()
    add_option(
        weight,
        "--weight W",
        "the weight of codes beside words in hybrid rankings; encoder: that of the encoder",
    )
    add_option(
        weight, "--fit", "fit the weight to judged queries, or to queries made from the documents"
    )
    add_option(parser, "--queries FILE", "with --fit: the judged queries")
    add_option(parser, "--qrels FILE", "with --fit: their judgements")


def check_weight(args: argparse.Namespace) -> None:
    """Raise an OptionError unless the options fit together."""
    if args.ranking is None and args.weight is None and not args.fit:
        raise OptionError("RANKING: give a ranking, --weight or --fit")
    for option in ("queries", "qrels"):
        if getattr(args, option) is not None and not args.fit:
            raise OptionError(f"--{option}: needs --fit")
    if args.weight not in {None, ENCODER}:
        try:
            float(args.weight)
        except ValueError:
            reason = f"is {args.weight!r}; it must be a number or {ENCODER}"
            raise OptionError(f"--weight: {reason}") from None


@dataclass(frozen=True)
class _Fit:
    """What each weight finds, ``float64[W, Q]``, what the values are, and the best weight.

    `warning` says that the values are of training data, if they are, and `unfit` why the queries
    tell nothing about the weight, if they do not.
    """

    curve: Curve
    metric: str
    weight: float
    warning: str | None
    unfit: str | None


def _fit_made(collection: AnyCollection) -> _Fit:
    """Fit the weight to queries made from documents that the encoder has not learned from.

    Where there are too few of these, they are made from any.
    """
    begin_stage("making queries from documents")
    items, warning, encoder = None, None, collection.encoder
    if encoder is not None:
        texts = _sampled_texts(collection)
        held_out = np.flatnonzero(~encoder.learned.contain(texts))
        if len(held_out) < min(len(texts), LEAST_HELD_OUT):
            held_out, warning = np.arange(len(texts)), MADE_OF_TRAINING
        items = known_items(encoder, texts, seed=0, held_out=held_out)
    if encoder is None or items is None:
        raise OptionError("--fit: no document has two sentences; give --queries and --qrels")
    curve = made_curve(items)
    weight = fitted_weight(curve, of_model=encoder.is_slow)
    unfit = why_no_fit(curve, len(items.documents))
    if unfit is not None:
        unfit += "; give judged ones by --queries and --qrels"
    return _Fit(curve, "MRR", weight, warning, unfit)


def _sampled_texts(collection: AnyCollection) -> list[str]:
    """Return the texts of a random sample of the documents, in their order."""
    positions = set(np.random.default_rng(0).permutation(len(collection))[:SEARCHED].tolist())
    documents = itertools.chain.from_iterable(pages_of(collection))
    return [
        document.text
        for position, document in enumerate(documents)
        if position in positions and document.text is not None
    ]


def _fit_judged(
    bench: LocalWorkbench | RemoteFolder, name: str, queries: list[Document], qrels: Qrels
) -> _Fit:
    """Fit the weight to judged queries."""
    begin_stage("searching with each weight")
    report = bench.evaluate(
        name,
        queries,
        [JUDGED_METRIC],
        RelevanceSettings(qrels={query.id: qrels[query.id] for query in queries}),
        rankings=[HYBRID],
        codes_weights=WEIGHTS,
    ).report
    curve = np.array([weight.per_query[JUDGED_METRIC] for weight in report.codes_weights or ()])
    return _Fit(curve, JUDGED_METRIC, judged_weight(curve), report.warning, why_no_fit(curve))


def fit(args: argparse.Namespace, bench: LocalWorkbench | RemoteFolder) -> dict[str, Any]:
    """Set the weight that suits the queries, print what each weight finds, and return it.

    If the queries tell nothing about the weight, it stays, and `unchanged` says why.
    """
    collection = bench.collection(args.collection)
    if collection.encoder_kind != "text":
        raise OptionError(f"--fit: {args.collection} has no texts that an encoder reads")
    judged = read_judged_queries(args)
    fitted = (
        _fit_made(collection) if judged is None else _fit_judged(bench, args.collection, *judged)
    )
    n_queries = fitted.curve.shape[1]
    result: dict[str, Any] = {} if fitted.warning is None else {"warning": fitted.warning}
    if judged is not None:
        result["cross_validated"] = round(validated(fitted.curve), 4)
    if fitted.unfit is None:
        collection.set_hybrid_weight(fitted.weight)
        result["weight"] = fitted.weight
    else:
        result["unchanged"] = fitted.unfit
    result |= {"metric": fitted.metric, "queries": n_queries}
    result["curve"] = curve_means(fitted.curve)
    if not args.json:
        if fitted.warning is not None:
            print(fitted.warning)
        print(f"{fitted.metric} of {n_queries} queries by the weight of codes:")
        for name, value in result["curve"].items():
            print(f"  {name:>5} {value:.4f}")
        if "cross_validated" in result:
            mean = result["cross_validated"]
            print(f"{fitted.metric} with the weight fitted on other queries: {mean}")
        if fitted.unfit is not None:
            print(f"the weight stays: {fitted.unfit}")
        sys.stdout.flush()
    return result
