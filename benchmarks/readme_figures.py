"""The README's table of speed, measured anew.

Searches for the ten nearest of a million codes, in this process and by text through REST, beside
FAISS's ``IndexBinaryFlat`` in the same run. One thread searches.

Run as ``python -m benchmarks.readme_figures``. ``make readme-figures`` prints the table of quality,
too, by ``python -m experiments.questions.table --half report``.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from contextlib import redirect_stdout
from pathlib import Path

import faiss
import numpy as np

import hummingbit.threads  # noqa: F401 - before the libraries that read the environment
from benchmarks.harness.service_corpus import N_BITS, Corpus, K, make_corpus
from benchmarks.harness.timing import options, print_machine
from benchmarks.kernel import TimedSearch, check, interleaved
from benchmarks.service import check as check_systems
from benchmarks.service import hummingbit_service, measure
from experiments.result_tables import print_table
from hummingbit.index.engines.choice import build


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--documents", type=int, default=1_000_000, help="codes to search")
    parser.add_argument("--seconds", type=float, default=5.0, help="of load, in each of 3 rounds")
    args = parser.parse_args()
    print_machine()
    print_speed(args.documents, args.seconds)


def print_speed(documents: int, seconds: float) -> None:
    """Print the median time of a search in this process and through REST, and FAISS's beside it."""
    faiss.omp_set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        corpus = make_corpus(Path(folder), documents)
        ours, flat = search_times(corpus)
        with redirect_stdout(sys.stderr), hummingbit_service(corpus) as service:
            check_systems([service], corpus)
            served = measure([service], clients=1, seconds=seconds, rounds=3)[service.name]
            loaded = measure([service], clients=8, seconds=seconds, rounds=3)[service.name]
    rest = served["p50_ms"] * 1000
    print_table(
        (f"{K} nearest of {documents:,} codes, {N_BITS} bits", "median", "FAISS Flat takes"),
        [
            ["a code, in the process", f"{ours:,.0f} µs", f"{flat / ours:,.0f} ×"],
            ["a text through REST, encoded there", f"{rest:,.0f} µs", f"{flat / rest:,.1f} ×"],
            ["a code by FAISS IndexBinaryFlat, in the process", f"{flat:,.0f} µs", "1 ×"],
        ],
    )
    print(f"\nWith 8 clients the service answers {loaded['per_second']:,.0f} searches a second.")


def search_times(corpus: Corpus) -> tuple[float, float]:
    """Return the median microseconds of a search by our engine and by FAISS, interleaved."""
    ours = build(corpus.codes, np.arange(len(corpus.codes)))
    check(ours, corpus.codes, corpus.query_codes[:20])
    flat = faiss.IndexBinaryFlat(N_BITS)
    flat.add(corpus.codes)
    searches: dict[str, TimedSearch] = {"ours": ours.code_index.search, "FAISS": flat.search}
    times = interleaved(searches, corpus.query_codes, K, 1, rounds=15, singles=20)
    return statistics.median(times["ours"]), statistics.median(times["FAISS"])


if __name__ == "__main__":
    main()
