"""The time of a whole evaluation, as served and tie-averaged, beside sorting every document.

Codes are clustered like those of encoders, labels are random, and queries are further codes of the
same kind. The alternative serves P@100 alone: for a few of the same queries it computes the
distance to every document and sorts. An evaluation computes distances once for each distinct code,
so its time depends on how many there are; the number is printed.

Run as ``python -m benchmarks.evaluation``.
"""

from __future__ import annotations

import time
from functools import partial

import numpy as np

from benchmarks.harness.search_codes import clustered
from benchmarks.harness.timing import options, print_machine, timed
from benchmarks.kernel import floor
from hummingbit.encoder.codes import Codes, hamming_distance
from hummingbit.evaluation.evaluate import evaluate_codes

METRICS = "P@100 Recall@100 Success@1 MRR@100 nDCG@100 mAP@100 mAP-trec@100 P@radius2".split()


def sort_documents(queries: Codes, codes: Codes) -> None:
    """Sort all documents by distance for each query."""
    for query in queries:
        np.argsort(hamming_distance(query, codes), kind="stable")[:100]


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--bits", type=int, default=32)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--metrics", nargs="+", default=METRICS)
    arguments = parser.parse_args()
    print_machine()
    rng = np.random.default_rng(0)
    n = arguments.queries + arguments.documents
    codes = clustered(rng, n, arguments.bits)
    labels = [(str(label),) for label in rng.integers(0, arguments.classes, n)]
    queries, database = slice(arguments.queries), slice(arguments.queries, n)
    began, before = time.perf_counter(), time.process_time()
    result = evaluate_codes(
        codes[queries], labels[queries], codes[database], labels[database], arguments.metrics
    )
    seconds, cpu = time.perf_counter() - began, time.process_time() - before
    sample = codes[: min(20, arguments.queries)]
    query_s = seconds / result.queries
    sorting = timed(partial(sort_documents, sample, codes[database]))[0] / len(sample)
    print(
        f"{result.queries:,} queries, {result.documents:,} documents, {arguments.bits} bits,"
        f" {result.distinct_codes:,} distinct codes: {seconds:.1f} s, {cpu:.1f} s of the processor,"
        f" {query_s * 1e3:.1f} ms a query;"
        f" sorting alone takes {sorting / query_s:.1f} times as long"
    )
    floor_seconds = floor(codes[: result.distinct_codes]) * 1e-6 * result.queries
    print(f"floor, to read these codes once for each query: {floor_seconds:.2f} s of the processor")
    print(f"{'metric':14} {'served':>8} {'expected':>8} {'worst':>8} {'best':>8}")
    for name, value in result.metrics.items():
        averaged = (result.expected[name], result.worst[name], result.best[name])
        print(f"{name:14} {value:8.4f}", *(f"{figure:8.4f}" for figure in averaged))


if __name__ == "__main__":
    main()
