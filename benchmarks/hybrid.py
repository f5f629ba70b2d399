"""Every ranking of one collection of a million short texts, one query at a time.

The texts are those of :mod:`benchmarks.lexical`; codes come in clusters, and so do the real values
of queries, as an encoder's do. Each query is answered by every ranking in turn, as a collection's
search answers it, ids included; making a code of a text comes on top. Times are of the processor,
which other processes do not lengthen. "ratio" is of medians, to the ranking by Hamming distance.

Run as ``python -m benchmarks.hybrid``. The collection is kept in ``build/benchmarks``.
"""

from __future__ import annotations

import argparse
import time
from contextlib import closing
from pathlib import Path

import numpy as np

from benchmarks.harness.search_codes import clustered
from benchmarks.lexical import runs_of_words, zipfian_texts
from corpus.document import Document
from encoder.codes import Codes, unpack_codes
from index.collection import Collection
from index.rankings.protocol import RANKINGS
from index.records import EncodedQueries
from index.schema import Description
from index.sqlite.store import Store

OUT = Path("build/benchmarks")
WARM_UP = 10
AT_ONCE = 50_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--size", type=float, default=1e6, help="documents (default: 1e6)")
    parser.add_argument("--length", type=float, default=12, help="mean words (default: 12)")
    parser.add_argument("--bits", type=int, default=64)
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--k", type=int, default=10)
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    texts = zipfian_texts(rng, int(arguments.size), arguments.length)
    query_texts = runs_of_words(rng, texts, arguments.queries + WARM_UP)
    codes = clustered(rng, len(texts), arguments.bits)
    queries = some_queries(rng, query_texts, codes)
    with closing(filled(texts, codes)) as collection:
        began = time.process_time()
        for ranking in RANKINGS:
            for place in range(WARM_UP):
                one = queries[place : place + 1]
                collection.search(one, arguments.k, ranking=ranking)
        print(f"opened and first searched in {time.process_time() - began:.1f} s")
        times: dict[str, list[float]] = {ranking: [] for ranking in RANKINGS}
        for place in range(WARM_UP, len(query_texts)):
            for ranking in RANKINGS:
                one = queries[place : place + 1]
                began = time.process_time()
                collection.search(one, arguments.k, ranking=ranking)
                times[ranking].append((time.process_time() - began) * 1e3)
    first = float(np.median(times[RANKINGS[0]]))
    print("            median ms   p99 ms   ratio of medians")
    for ranking, taken in times.items():
        p50, p99 = np.percentile(taken, [50, 99])
        print(f"{ranking:11} {p50:9.2f} {p99:8.2f} {p50 / first:10.1f}")


def filled(texts: list[str], codes: Codes) -> Collection:
    """Open the collection of these texts and codes; it is made if it was not."""
    n_bits = codes.shape[1] * 8
    path = OUT / f"hybrid-{len(texts)}-{n_bits}.sqlite"
    OUT.mkdir(parents=True, exist_ok=True)
    made = path.exists()
    if not made:
        Store.create(path, Description("texts", n_bits))
    collection = Collection(Store(path, writable=True), indexed=False)
    if len(collection) < len(texts):
        for start in range(0, len(texts), AT_ONCE):
            some = texts[start : start + AT_ONCE]
            documents = [Document(id=f"d{start + at}", text=text) for at, text in enumerate(some)]
            collection.upsert_encoded(documents, codes[start : start + AT_ONCE])
    return collection


def some_queries(rng: np.random.Generator, texts: list[str], codes: Codes) -> EncodedQueries:
    """Make queries of texts whose real values point to the codes of documents, unsurely."""
    near = codes[rng.integers(0, len(codes), len(texts))]
    signs = unpack_codes(near).astype(np.float32) * 2 - 1
    weights = (signs * 2 + rng.normal(size=signs.shape)).astype(np.float32)
    packed = np.packbits(weights > 0, axis=1)
    known = np.ones(len(texts), dtype=np.bool_)
    return EncodedQueries(packed, weights, texts, known, [None] * len(texts))


if __name__ == "__main__":
    main()
