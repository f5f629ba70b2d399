"""The time of a whole evaluation: every metric with a cut, ties included.

Codes are clustered as encoders make them, ten classes to a cluster-wise share; queries are further
codes of the same kind. Documents without a tie in sight would be a different matter: what is
counted is distinct codes, so their number is printed.

Run as ``python -m benchmarks.evaluation``.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from benchmarks.search import clustered
from evaluation.evaluate import evaluate_codes

CUT = ["P@100", "Recall@100", "Success@1", "MRR@100", "nDCG@100", "mAP@100", "mAP-trec@100"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--bits", type=int, default=32)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--metrics", nargs="+", default=[*CUT, "P@radius2"])
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    n = arguments.queries + arguments.documents
    codes = clustered(rng, n, arguments.bits)
    labels = [(str(one),) for one in rng.integers(0, arguments.classes, n)]
    queries = slice(0, arguments.queries)
    database = slice(arguments.queries, n)
    began = time.perf_counter()
    found = evaluate_codes(
        codes[queries], labels[queries], codes[database], labels[database], arguments.metrics
    )
    seconds = time.perf_counter() - began
    print(
        f"{found.queries:,} queries, {found.documents:,} documents, {arguments.bits} bits,"
        f" {found.distinct_codes:,} distinct codes: {seconds:.1f} s"
    )
    print(f"{'metric':14} {'served':>8} {'expected':>8} {'worst':>8} {'best':>8}")
    for name, value in found.metrics.items():
        around = (found.expected[name], found.worst[name], found.best[name])
        print(f"{name:14} {value:8.4f}", *(f"{one:8.4f}" for one in around))


if __name__ == "__main__":
    main()
