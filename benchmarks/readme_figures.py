"""The figures of the README, measured anew and printed as its two tables.

Quality: the demo's questions with known answers, searched in the docstrings of the packages
installed here. Codes are trained with three seeds; a cell is the mean and the standard deviation.
Speed: searches for the ten nearest of a million codes, in this process and by text through REST,
beside FAISS's ``IndexBinaryFlat`` in the same run. One thread searches.

Run as ``python -m benchmarks.readme_figures``, or ``make readme-figures``.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path

import faiss
import numpy as np

import hummingbit.threads  # noqa: F401 - before the libraries that read the environment
from benchmarks.harness.service_corpus import N_BITS, Corpus, K, make_corpus
from benchmarks.harness.timing import options
from benchmarks.kernel import TimedSearch, check, interleaved, processor
from benchmarks.service import check as check_systems
from benchmarks.service import hummingbit_service, measure
from experiments.docstring_codes import (
    KNOWN_ITEMS,
    METHODS,
    NAME,
    RECIPE,
    find_known_items,
)
from experiments.result_tables import format_mean, print_table
from hummingbit.corpus.readers import read_documents
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.engines.choice import build
from hummingbit.index.ingestion import ingest
from hummingbit.index.rankings import ASYMMETRIC, BM25, HAMMING, HYBRID
from hummingbit.training.class_codes import train_class_codes
from hummingbit.training.data import gather

ORDER = (HYBRID, BM25, ASYMMETRIC, HAMMING)


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="trainings (default: %(default)s)")
    parser.add_argument("--documents", type=int, default=1_000_000, help="codes to search")
    parser.add_argument("--seconds", type=float, default=5.0, help="of load, in each of 3 rounds")
    args = parser.parse_args()
    print(f"{processor()}\n")
    print_quality(args.seeds)
    print()
    print_speed(args.documents, args.seconds)


def print_quality(seeds: int) -> None:
    """Print how often, and how high, each ranking finds the right answers of the questions."""
    documents = [
        document for part in ("train", "test") for document in read_documents(f"{NAME}:{part}")
    ]
    data = gather(read_documents(f"{NAME}:train"))
    values: dict[str, list[tuple[float, ...]]] = defaultdict(list)
    n_questions = 0
    for seed in range(seeds):
        with tempfile.TemporaryDirectory() as folder:
            encoder = Path(folder, "encoders", NAME)
            train_class_codes(data, replace(RECIPE, seed=seed), encoder)
            with DataFolder(Path(folder), writable=True) as data_folder:
                collection = data_folder.create_collection(NAME, encoder=NAME)
                ingest(collection, documents)
                for method, found in find_known_items(collection).items():
                    values[method].append(tuple(found.metrics[name] for name in KNOWN_ITEMS))
                    n_questions = found.queries
    corpus = f"{n_questions} questions, {len(documents):,} docstrings, {RECIPE.n_bits} bits"
    rows = [
        [METHODS[ranking], *(_format(runs) for runs in zip(*values[METHODS[ranking]], strict=True))]
        for ranking in ORDER
    ]
    print_table((corpus, "answer in first ten", "MRR"), rows)


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


def _format(runs: Sequence[float]) -> str:
    """Format the mean of runs, with their deviation if they differ."""
    return format_mean(runs[:1] if len(set(runs)) == 1 else runs)


if __name__ == "__main__":
    main()
