"""The first page of a search beside a page far down, over the same codes and queries, in one run.

Run as ``python -m benchmarks.pages``. A page has ten hits. "by cursor" finds the page after the
last hit of the page before it, "by offset" finds all hits up to it. Searches for a single query
take turns, and times are of the processor, which other processes do not lengthen. The codes are
those of ``benchmarks.rankings``. The ratios are the median time of the page over that of the first.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial

import faiss
import numpy as np

from benchmarks.rankings import add_noise, clustered_logits, draw_codes
from hummingbit.encoder.codes import pack_bits
from hummingbit.encoder.text_features import Floats
from hummingbit.index.engines.protocol import Rows
from hummingbit.index.engines.segments import IndexSnapshot
from hummingbit.index.rankings import AsymmetricRanking, HammingRanking, RankedRows
from hummingbit.index.records import EncodedQueries
from hummingbit.index.search import Position, hits_after

K = 10
LAST_ROW = 2**63 - 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--documents", type=float, default=1e6)
    parser.add_argument("--bits", type=int, nargs="+", default=[32, 64, 128, 256])
    parser.add_argument("--page", type=int, default=1000)
    parser.add_argument("--queries", type=int, default=50)
    arguments = parser.parse_args()
    faiss.omp_set_num_threads(1)
    print(f"page {arguments.page:,} beside page 1; medians")
    for n_bits in arguments.bits:
        rng = np.random.default_rng(0)
        logits = clustered_logits(rng, n_bits)
        codes = draw_codes(rng, logits, int(arguments.documents))
        weights = add_noise(rng, logits[rng.integers(0, len(logits), arguments.queries)])
        generation = IndexSnapshot.build(1, codes, np.arange(len(codes)))
        gone = np.flatnonzero(rng.random(len(codes)) < 0.2)
        half = np.flatnonzero(rng.random(len(codes)) < 0.5)
        half.setflags(write=False)
        none = np.empty(0, dtype=np.int64)
        cases: dict[str, tuple[IndexSnapshot, Rows | None]] = {
            "all": (generation, None),
            "50% allowed": (generation, half),
            "20% deleted": (generation.with_changes(2, codes[:0], none, gone), None),
        }
        for name, (searched, allowed) in cases.items():
            for ranking in (HammingRanking(searched), AsymmetricRanking(searched)):
                compare(
                    f"{n_bits:>4} {generation.index_type:>8} {ranking.name:>10} {name:>11}",
                    ranking,
                    weights,
                    arguments.page * K - K,
                    allowed,
                )


def compare(
    title: str,
    ranking: HammingRanking | AsymmetricRanking,
    weights: Floats,
    passed: int,
    allowed: Rows | None,
) -> None:
    """Print the times of a first page and of the page after `passed` hits."""
    seconds: dict[str, list[float]] = {"first": [], "by cursor": [], "by offset": []}
    for row in weights:
        query = EncodedQueries(
            pack_bits(row[None] > 0), row[None], [None], np.ones(1, dtype=np.bool_), [None]
        )
        (before,) = ranking.rank(query, passed, allowed)
        end = Position(float(before.scores[-1]), int(before.rows[-1]), LAST_ROW, passed)
        pages: dict[str, Callable[[], RankedRows]] = {
            "first": partial(first_hits, ranking, query, K + 1, allowed),
            "by cursor": partial(hits_after, end, ranking, query, K, allowed),
            "by offset": partial(first_hits, ranking, query, passed + K + 1, allowed),
        }
        found = {}
        for name, search in pages.items():
            search()
            began = time.process_time()
            found[name] = search()
            seconds[name].append(time.process_time() - began)
        if found["by cursor"].rows.tolist()[:K] != found["by offset"].rows.tolist()[passed:][:K]:
            raise AssertionError(f"{title}: the page by cursor is not the page by offset")
    medians = {name: statistics.median(some) * 1e6 for name, some in seconds.items()}
    first = medians["first"]
    ratios = [f"{name} {medians[name]:,.0f} µs ({medians[name] / first:.1f}×)" for name in medians]
    print(f"{title}  {', '.join(ratios)}")


def first_hits(
    ranking: HammingRanking | AsymmetricRanking, query: EncodedQueries, k: int, allowed: Rows | None
) -> RankedRows:
    (ranked,) = ranking.rank(query, k, allowed)
    return ranked


if __name__ == "__main__":
    main()
