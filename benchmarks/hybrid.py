"""Every ranking of one collection of a million short texts, one query at a time.

The texts are those of :mod:`benchmarks.lexical`, of one line each; with ``--title-words``, their
first words are a title. Codes are clustered like those of encoders, and the weights of queries
resemble the codes of documents. Each query is searched with every ranking in turn, by the
collection's own search, which also reads the ids; encoding is not included. Times are of the
processor, which other processes do not lengthen. "ratio" is the median over that of the Hamming
ranking.

Run as ``python -m benchmarks.hybrid``. The collection is saved in ``build/benchmarks`` and reused.
"""

from __future__ import annotations

import argparse
import time
from contextlib import closing
from pathlib import Path

import numpy as np

from benchmarks.harness.search_codes import clustered
from benchmarks.harness.zipfian_texts import runs_of_words, zipfian_texts
from hummingbit.corpus.document import Document
from hummingbit.encoder.codes import Codes, unpack_codes
from hummingbit.index.collection import Collection
from hummingbit.index.rankings import HAMMING, RANKINGS
from hummingbit.index.records import EncodedQueries
from hummingbit.index.schema import Description
from hummingbit.index.store.store import Store

OUT = Path("build/benchmarks")
WARM_UP = 10
BATCH = 50_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--size", type=float, default=1e6, help="documents (default: 1e6)")
    parser.add_argument("--length", type=float, default=12, help="mean words (default: 12)")
    parser.add_argument(
        "--title-words", type=int, default=0, help="words of the titles (default: no titles)"
    )
    parser.add_argument("--bits", type=int, default=64)
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--k", type=int, default=10)
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    texts = zipfian_texts(rng, int(arguments.size), arguments.length)
    query_texts = runs_of_words(rng, texts, arguments.queries + WARM_UP)
    if n := arguments.title_words:
        texts = [
            " ".join(words[:n]) + "\n" + " ".join(words[n:]) for words in map(str.split, texts)
        ]
    codes = clustered(rng, len(texts), arguments.bits)
    queries = make_queries(rng, query_texts, codes)
    name = f"hybrid-{len(texts)}-{arguments.bits}-{arguments.title_words}.sqlite"
    with closing(open_collection(OUT / name, texts, codes)) as collection:
        began = time.process_time()
        for ranking in RANKINGS:
            for number in range(WARM_UP):
                query = queries[number : number + 1]
                collection.search(query, arguments.k, ranking=ranking)
        print(f"opened and warmed up in {time.process_time() - began:.1f} s")
        times: dict[str, list[float]] = {ranking: [] for ranking in RANKINGS}
        for number in range(WARM_UP, len(query_texts)):
            query = queries[number : number + 1]
            for ranking in RANKINGS:
                began = time.process_time()
                collection.search(query, arguments.k, ranking=ranking)
                times[ranking].append((time.process_time() - began) * 1e3)
    hamming = float(np.median(times[HAMMING]))
    print("            median ms   p99 ms   ratio of medians")
    for ranking, milliseconds in times.items():
        p50, p99 = np.percentile(milliseconds, [50, 99])
        print(f"{ranking:11} {p50:9.2f} {p99:8.2f} {p50 / hamming:10.1f}")


def open_collection(path: Path, texts: list[str], codes: Codes) -> Collection:
    """Open the collection of these texts and codes; make it if there is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        Store.create(path, Description("texts", codes.shape[1] * 8))
    collection = Collection(Store(path, writable=True), indexed=False)
    if len(collection) < len(texts):
        for start in range(0, len(texts), BATCH):
            numbered = enumerate(texts[start : start + BATCH], start)
            documents = [Document(id=f"d{number}", text=text) for number, text in numbered]
            collection.upsert_encoded(documents, codes[start : start + BATCH])
    return collection


def make_queries(rng: np.random.Generator, texts: list[str], codes: Codes) -> EncodedQueries:
    """Make queries of `texts` whose weights are noisy versions of the codes of documents."""
    near = codes[rng.integers(0, len(codes), len(texts))]
    signs = unpack_codes(near).astype(np.float32) * 2 - 1
    weights = (signs * 2 + rng.normal(size=signs.shape)).astype(np.float32)
    packed = np.packbits(weights > 0, axis=1)
    weighted = np.ones(len(texts), dtype=np.bool_)
    return EncodedQueries(packed, weights, texts, weighted, [None] * len(texts))


if __name__ == "__main__":
    main()
