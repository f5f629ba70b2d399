"""Every ranking of one collection of a million short texts, one query at a time, and far pages.

The texts are those of :mod:`benchmarks.lexical`, of one line each; with ``--title-words``, their
first words are a title. Codes are clustered like those of encoders, and the weights of queries
resemble the codes of documents. Each query is searched with every ranking in turn, by the
collection's own search, which also reads the ids; encoding is not included. Times are of the
processor, which other processes do not lengthen. "ratio" is the median over that of the Hamming
ranking. With ``--page N``, the first page takes turns with page N: "by cursor" finds the page after
the last hit of the page before it, "by offset" finds all hits up to it.

Run as ``python -m benchmarks.rankings``. Collections are kept in ``build/benchmarks`` and reused.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.harness.search_codes import clustered
from benchmarks.harness.timing import in_turn, options, print_times, seconds_of
from benchmarks.harness.zipfian_texts import runs_of_words, zipfian_texts
from hummingbit.corpus.document import Document
from hummingbit.encoder.codes import Codes, unpack_codes
from hummingbit.index.collection import Collection
from hummingbit.index.rankings import ASYMMETRIC, HAMMING, RANKINGS
from hummingbit.index.records import EncodedQueries
from hummingbit.index.schema import Description
from hummingbit.index.search import SearchResult
from hummingbit.index.store.store import Store

OUT = Path("build/benchmarks")
WARM_UP = 10
BATCH = 50_000
CHECKED = 3


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--size", type=float, default=1e6, help="documents (default: 1e6)")
    parser.add_argument("--length", type=float, default=12, help="mean words (default: 12)")
    parser.add_argument(
        "--title-words", type=int, default=0, help="words of the titles (default: no titles)"
    )
    parser.add_argument("--bits", type=int, default=64)
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--k", type=int, default=10)
    parser.add_argument("--page", type=int, help="time this page instead, beside the first")
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    texts = zipfian_texts(rng, int(arguments.size), arguments.length)
    query_texts = runs_of_words(rng, texts, arguments.queries + WARM_UP)
    if n := arguments.title_words:
        texts = [
            " ".join(words[:n]) + "\n" + " ".join(words[n:]) for words in map(str.split, texts)
        ]
    codes = clustered(rng, len(texts), arguments.bits)
    encoded = make_queries(rng, query_texts, codes)
    queries = [encoded[number : number + 1] for number in range(len(encoded))]
    name = f"hybrid-{len(texts)}-{arguments.bits}-{arguments.title_words}.sqlite"
    with closing(open_collection(OUT / name, texts, codes)) as collection:
        ways: dict[str, Callable[[EncodedQueries], object]] = {
            ranking: partial(collection.search, k=arguments.k, ranking=ranking)
            for ranking in RANKINGS
        }
        warm_up = seconds_of(lambda: in_turn(ways, queries[:WARM_UP]))
        print(f"opened and warmed up in {warm_up:.1f} s")
        if arguments.page is None:
            print_times(in_turn(ways, queries[WARM_UP:]))
            return
        for ranking in (HAMMING, ASYMMETRIC):  # a cursor saves the other rankings nothing
            print(f"\n{ranking}, page {arguments.page:,} beside page 1")
            search = partial(collection.search, ranking=ranking)
            print_pages(search, queries[WARM_UP:], arguments.k, arguments.page)


def print_pages(
    search: Callable[..., SearchResult], queries: list[EncodedQueries], k: int, page: int
) -> None:
    """Print the times of the first page of `k` hits, and of another by its cursor and offset."""
    offset = (page - 1) * k
    before = [search(query, k, offset=offset - k) for query in queries]

    def by_cursor(number: int) -> SearchResult:
        return search(queries[number], k, cursor=before[number].next_cursors[0])

    def by_offset(number: int) -> SearchResult:
        return search(queries[number], k, offset=offset)

    for number in range(CHECKED):
        if by_cursor(number).hits != by_offset(number).hits:
            raise SystemExit("the page by cursor is not the page by offset")
    ways = {
        "first": lambda number: search(queries[number], k),
        "by cursor": by_cursor,
        "by offset": by_offset,
    }
    print_times(in_turn(ways, range(len(queries))))


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
