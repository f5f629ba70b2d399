"""The time of a whole evaluation, as served and tie-averaged, beside sorting every document.

Codes are clustered as encoders make them and labels are random; queries are further codes of the
same kind. The alternative computes the distance of every document and sorts them for P@100 alone,
for a few of the same queries. Distances are computed once for each distinct code, so the number of
these decides; it is printed.

Run as ``python -m benchmarks.evaluation``.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from benchmarks.harness.search_codes import clustered
from benchmarks.search import floor
from encoder.codes import Codes, hamming_distance
from evaluation.retrieval import evaluate_codes

CUT = ["P@100", "Recall@100", "Success@1", "MRR@100", "nDCG@100", "mAP@100", "mAP-trec@100"]


def seconds_of_sorting(queries: Codes, codes: Codes) -> float:
    """Rank all documents for each query the direct way."""
    began = time.perf_counter()
    for query in queries:
        np.argsort(hamming_distance(query, codes), kind="stable")[:100]
    return time.perf_counter() - began


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
    began, before = time.perf_counter(), time.process_time()
    found = evaluate_codes(
        codes[queries], labels[queries], codes[database], labels[database], arguments.metrics
    )
    seconds, cpu = time.perf_counter() - began, time.process_time() - before
    few = codes[: min(20, arguments.queries)]
    each = seconds / found.queries
    sorting = seconds_of_sorting(few, codes[database]) / len(few)
    print(
        f"{found.queries:,} queries, {found.documents:,} documents, {arguments.bits} bits,"
        f" {found.distinct_codes:,} distinct codes: {seconds:.1f} s, {cpu:.1f} s of the processor,"
        f" {each * 1e3:.1f} ms a query; sorting alone takes {sorting / each:.1f} times as long"
    )
    read = floor(codes[: found.distinct_codes]) * 1e-6 * found.queries
    print(f"the floor, to read so many codes once for each query: {read:.2f} s of the processor")
    print(f"{'metric':14} {'served':>8} {'expected':>8} {'worst':>8} {'best':>8}")
    for name, value in found.metrics.items():
        around = (found.expected[name], found.worst[name], found.best[name])
        print(f"{name:14} {value:8.4f}", *(f"{one:8.4f}" for one in around))


if __name__ == "__main__":
    main()
