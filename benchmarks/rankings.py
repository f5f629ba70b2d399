"""The asymmetric ranking beside the Hamming ranking, over the same codes and queries, in one run.

Run as ``python -m benchmarks.rankings``. Both rank the documents of one generation. Searches for a
single query take turns, and times are of the processor, which other processes do not lengthen. The
documents form clusters of unequal size: the logits of a document are those of its cluster plus
noise, and bit b of its code is 1 with probability sigmoid(logit_b). Queries have such logits, too.
With ``--encoder`` and ``--data`` the logits are an encoder's for the documents of a data set.
"ratio" is the time of the asymmetric ranking over that of the Hamming ranking.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

import faiss
import numpy as np
import numpy.typing as npt

from hummingbit.corpus.named_sets import load_dataset
from hummingbit.encoder.artifact import load_encoder
from hummingbit.encoder.codes import Codes, pack_bits
from hummingbit.encoder.text_features import Floats
from hummingbit.index.engines.segments import IndexSnapshot
from hummingbit.index.rankings import AsymmetricRanking, HammingRanking, Ranking
from hummingbit.index.records import EncodedQueries

CLUSTERS = 300
CHUNK = 100_000
QUERIES = 200


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--documents", type=float, default=1e6)
    parser.add_argument("--bits", type=int, nargs="+", default=[16, 32, 64, 128])
    parser.add_argument("--k", type=int, nargs="+", default=[10, 100])
    parser.add_argument("--rounds", type=int, default=QUERIES, help="single queries per setting")
    parser.add_argument("--encoder", type=Path, help="an encoder's folder, instead of clusters")
    parser.add_argument(
        "--data", default="snippets", help="the data set to encode (default: %(default)s)"
    )
    arguments = parser.parse_args()
    faiss.omp_set_num_threads(1)
    print(
        f"{'bits':>4} {'distinct':>9} {'engine':>9} {'k':>4}  {'hamming':>9} {'asymm.':>9}  ratio"
    )
    for n_bits in [0] if arguments.encoder else arguments.bits:
        rng = np.random.default_rng(0)
        if arguments.encoder:
            logits = encoder_logits(arguments.encoder, arguments.data)
        else:
            logits = clustered_logits(rng, n_bits)
        codes = draw_codes(rng, logits, int(arguments.documents))
        generation = IndexSnapshot.build(1, codes, np.arange(len(codes)))
        distinct = len(generation.distinct_codes()[0])
        for k in arguments.k:
            weights = add_noise(rng, logits[rng.integers(0, len(logits), arguments.rounds)])
            hamming, asymmetric = ranking_seconds(generation, weights, k)
            medians = statistics.median(hamming), statistics.median(asymmetric)
            means = statistics.mean(asymmetric) / statistics.mean(hamming)
            print(
                f"{codes.shape[1] * 8:>4} {distinct:>9,} {generation.index_type:>9} {k:>4}"
                f"  {medians[0] * 1e6:>6.0f} µs {medians[1] * 1e6:>6.0f} µs"
                f"  {medians[1] / medians[0]:.2f} (means {means:.2f})"
            )


def clustered_logits(rng: np.random.Generator, n_bits: int) -> Floats:
    """Return the logits of clusters, ``float32[CLUSTERS, n_bits]``, most of them far from zero."""
    sizes = rng.gamma(3.0, 1.5, (CLUSTERS, n_bits))
    logits: Floats = (sizes * rng.choice([-1, 1], sizes.shape)).astype(np.float32)
    return logits


def encoder_logits(folder: Path, dataset: str) -> Floats:
    """Return the query weights that the encoder in `folder` computes for a data set."""
    encoder = load_encoder(folder)
    return encoder.query_weights(
        [document.text or "" for document in load_dataset(dataset, "train")]
    )


def add_noise(rng: np.random.Generator, logits: Floats) -> Floats:
    """Return `logits` plus standard normal noise, of the same shape."""
    noise = rng.normal(size=logits.shape).astype(np.float32)
    noise += logits
    return noise


def draw_codes(rng: np.random.Generator, logits: Floats, n: int) -> Codes:
    """Return `n` codes, each drawn with the probabilities of a row of `logits` plus noise."""
    share = 1 / np.arange(1, len(logits) + 1)
    parts = []
    for start in range(0, n, CHUNK):
        size = min(CHUNK, n - start)
        rows = rng.choice(len(logits), size, p=share / share.sum())
        document_logits = add_noise(rng, logits[rows])
        draws = rng.random(document_logits.shape, dtype=np.float32)
        parts.append(pack_bits(draws < 1 / (1 + np.exp(-document_logits))))
    return np.concatenate(parts)


def ranking_seconds(
    generation: IndexSnapshot, weights: Floats, k: int
) -> tuple[list[float], list[float]]:
    """Return the seconds per query of the Hamming and of the asymmetric ranking."""
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
