"""The weight of codes beside words: options of ``hummingbit index rank``, and the fit."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hummingbit.commands.options import OptionError, add_option, read_judged_queries
from hummingbit.deferred import deferred_imports
from hummingbit.foundation.slices import begin_stage
from hummingbit.index.names import HYBRID

with deferred_imports():
    import numpy as np

    from hummingbit.corpus.document import Document
    from hummingbit.corpus.qrels import Qrels
    from hummingbit.evaluation.fusion import (
        JUDGED_METRIC,
        WEIGHTS,
        Curve,
        curve_means,
        judged_weight,
        validated,
        why_no_fit,
    )
    from hummingbit.evaluation.rankings import RelevanceSettings

if TYPE_CHECKING:
    from hummingbit.local import LocalWorkbench
    from hummingbit.remote import RemoteFolder

ENCODER = "encoder"


def add_weight(parser: argparse.ArgumentParser) -> None:
    """Add the options of the weight."""
    weight = parser.add_mutually_exclusive_group()
    add_option(
        weight,
        "--weight W",
        "the weight of codes beside words in hybrid rankings; encoder: that of the encoder",
    )
    add_option(weight, "--fit", "fit the weight to judged queries (--queries, --qrels)")
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
    if judged is None:
        raise OptionError("--fit: needs --queries and --qrels; without them, the default suits")
    fitted = _fit_judged(bench, args.collection, *judged)
    n_queries = fitted.curve.shape[1]
    result: dict[str, Any] = {} if fitted.warning is None else {"warning": fitted.warning}
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
        mean = result["cross_validated"]
        print(f"{fitted.metric} with the weight fitted on other queries: {mean}")
        if fitted.unfit is not None:
            print(f"the weight stays: {fitted.unfit}")
        sys.stdout.flush()
    return result
