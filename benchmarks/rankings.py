"""The asymmetric ranking beside the Hamming ranking, over the same codes and queries, in one run.

Run as ``python -m benchmarks.rankings``. Both rank the documents of one generation; searches for a
single query take turns, and times are of the processor, which other processes do not lengthen. The
codes are of documents in clusters of unequal size: a document's logits are its cluster's and its
own noise, bit b of its code is 1 with the probability sigmoid(logit_b), and queries bring the
logits of documents. With ``--encoder`` and ``--data`` the logits are those that an encoder gives
the documents of a data set. "ratio" is the asymmetric ranking's time over the other's.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

import faiss
import numpy as np
import numpy.typing as npt

from corpus.datasets import load_dataset
from encoder.artifact import load_encoder
from encoder.codes import Codes, pack_bits
from encoder.features import Floats
from index.engines.segments import Generation
from index.rankings.asymmetric import AsymmetricRanking
from index.rankings.hamming import HammingRanking
from index.rankings.protocol import Ranking
from index.records import EncodedQueries

CLUSTERS = 300
AT_ONCE = 100_000
QUERIES = 200


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--documents", type=float, default=1e6)
    parser.add_argument("--bits", type=int, nargs="+", default=[16, 32, 64, 128])
    parser.add_argument("--k", type=int, nargs="+", default=[10, 100])
    parser.add_argument("--rounds", type=int, default=QUERIES, help="single queries of each")
    parser.add_argument("--encoder", type=Path, help="an encoder's folder, in place of clusters")
    parser.add_argument("--data", default="snippets", help="what the encoder encodes")
    arguments = parser.parse_args()
    faiss.omp_set_num_threads(1)
    print(
        f"{'bits':>4} {'distinct':>9} {'engine':>9} {'k':>4}  {'hamming':>9} {'asymm.':>9}  ratio"
    )
    for n_bits in [0] if arguments.encoder else arguments.bits:
        rng = np.random.default_rng(0)
        if arguments.encoder:
            logits = logits_of(arguments.encoder, arguments.data)
        else:
            logits = clustered_logits(rng, n_bits)
        codes = drawn(rng, logits, int(arguments.documents))
        generation = Generation.build(1, codes, np.arange(len(codes)))
        distinct = len(generation.distinct_codes()[0])
        for k in arguments.k:
            chosen = logits[rng.integers(0, len(logits), arguments.rounds)]
            ours, theirs = times(generation, noisy(rng, chosen), k)
            one, other = statistics.median(ours), statistics.median(theirs)
            means = statistics.mean(theirs) / statistics.mean(ours)
            print(
                f"{codes.shape[1] * 8:>4} {distinct:>9,} {generation.engine:>9} {k:>4}"
                f"  {one * 1e6:>6.0f} µs {other * 1e6:>6.0f} µs"
                f"  {other / one:.2f} (means {means:.2f})"
            )


def clustered_logits(rng: np.random.Generator, n_bits: int) -> Floats:
    """Return the logits of clusters, ``float32[CLUSTERS, n_bits]``, most of them far from zero."""
    sizes = rng.gamma(3.0, 1.5, (CLUSTERS, n_bits))
    logits: Floats = (sizes * rng.choice([-1, 1], sizes.shape)).astype(np.float32)
    return logits


def logits_of(folder: Path, dataset: str) -> Floats:
    """Return what the encoder in `folder` gives the documents of a data set."""
    encoder = load_encoder(folder)
    return encoder.query_weights([one.text or "" for one in load_dataset(dataset, "train")])


def noisy(rng: np.random.Generator, logits: Floats) -> Floats:
    """Return logits of documents like those with `logits`."""
    noise = rng.normal(size=logits.shape).astype(np.float32)
    noise += logits
    return noise


def drawn(rng: np.random.Generator, logits: Floats, n: int) -> Codes:
    """Return `n` codes, each drawn by the probabilities of a row of `logits` with noise."""
    share = 1 / np.arange(1, len(logits) + 1)
    parts = []
    for start in range(0, n, AT_ONCE):
        size = min(AT_ONCE, n - start)
        chosen = noisy(rng, logits[rng.choice(len(logits), size, p=share / share.sum())])
        draws = rng.random(chosen.shape, dtype=np.float32)
        parts.append(pack_bits(draws < 1 / (1 + np.exp(-chosen))))
    return np.concatenate(parts)


def times(generation: Generation, weights: Floats, k: int) -> tuple[list[float], list[float]]:
    """Return the seconds that each ranking takes for each query alone."""
    rankings: list[Ranking] = [HammingRanking(generation), AsymmetricRanking(generation)]
    seconds: list[list[float]] = [[], []]
    for row in weights:
        weighted: npt.NDArray[np.bool_] = np.ones(1, dtype=np.bool_)
        query = EncodedQueries(pack_bits(row[None] > 0), row[None], [None], weighted, [None])
        for number, ranking in enumerate(rankings):
            ranking.rank(query, k)
            began = time.process_time()
            ranking.rank(query, k)
            seconds[number].append(time.process_time() - began)
    return seconds[0], seconds[1]


if __name__ == "__main__":
    main()
