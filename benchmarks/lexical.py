"""BM25 side by side: our index, bm25s, tantivy and SQLite's FTS5, over a million short texts.

The frequencies of words follow Zipf's law, as in natural languages, so some words are in most
documents. Queries are runs of words of documents. All contestants index the same words, and answer
the same queries interleaved in one run. "all scored" is our index if it adds up the scores of all
matches, as other rankings need them. The words are stemmed "with stems", in our index as
collections have it, and in "tantivy, stems", by its analyzer ``en_stem``; other indexes split at
spaces or as ``words``. Times are of the processor, which other processes do not lengthen; "ratio"
is a contestant's time over the first's. "memory" is the growth of the process while it built the
index.

Run as ``python -m benchmarks.lexical``.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import bm25s
import numpy as np
import tantivy

from benchmarks.harness.processes import resident_bytes
from benchmarks.harness.timing import in_turn, options, print_machine, print_times
from benchmarks.harness.zipfian_texts import runs_of_words, zipfian_texts
from hummingbit.index.lexical import ANALYZERS, DEFAULT_ANALYZER, LexicalIndex

Search = Callable[..., int]
"""Finds the k best documents for a text and returns how many it found."""


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--size", type=float, default=1e6, help="documents (default: 1e6)")
    parser.add_argument("--length", type=float, default=12, help="mean words (default: 12)")
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--k", type=int, default=10)
    parser.add_argument("--only", nargs="*", choices=list(CONTESTANTS), default=list(CONTESTANTS))
    arguments = parser.parse_args()
    print_machine()
    rng = np.random.default_rng(0)
    texts = zipfian_texts(rng, int(arguments.size), arguments.length)
    queries = runs_of_words(rng, texts, arguments.queries)
    import scipy.sparse  # noqa: F401, PLC0415 - our first build would import it

    searches: dict[str, Search] = {}
    for name in arguments.only:
        resident_before, began = resident_bytes(), time.process_time()
        searches[name] = CONTESTANTS[name](texts)
        seconds, added = time.process_time() - began, resident_bytes() - resident_before
        print(f"{name:14} built in {seconds:6.1f} s, memory {added / 1e6:7.0f} MB", flush=True)
    ways = {name: partial(search, k=arguments.k) for name, search in searches.items()}
    print_times(in_turn(ways, queries), width=14)


def hummingbit(texts: list[str], analyzer: str = "words") -> Search:
    index = LexicalIndex.build(0, ANALYZERS[analyzer], enumerate(texts))
    return lambda text, k: len(index.rank(text, k).rows)


def all_scored(texts: list[str]) -> Search:
    index = LexicalIndex.build(0, ANALYZERS["words"], enumerate(texts))
    return lambda text, k: len(index.matches(index.weigh(text)).best(k).rows)


def with_stems(texts: list[str]) -> Search:
    return hummingbit(texts, DEFAULT_ANALYZER)


def by_bm25s(texts: list[str]) -> Search:
    retriever = bm25s.BM25(k1=1.2, b=0.75, method="lucene")
    retriever.index([text.split() for text in texts], show_progress=False)

    def search(text: str, k: int) -> int:
        documents, _ = retriever.retrieve([text.split()], k=k, show_progress=False, n_threads=0)
        return int(documents.shape[1])

    return search


def by_tantivy(texts: list[str], tokenizer: str = "whitespace") -> Search:
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("text", stored=False, tokenizer_name=tokenizer, index_option="freq")
    schema = builder.build()
    index = tantivy.Index(schema)
    writer = index.writer(heap_size=512 << 20, num_threads=1)
    for text in texts:
        writer.add_document(tantivy.Document(text=text))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    searcher = index.searcher()

    def search(text: str, k: int) -> int:
        if tokenizer != "whitespace":  # which its parser of queries applies
            query, _ = index.parse_query_lenient(text, ["text"])
        else:
            terms = [tantivy.Query.term_query(schema, "text", word) for word in text.split()]
            query = tantivy.Query.boolean_query([(tantivy.Occur.Should, term) for term in terms])
        return len(searcher.search(query, k, count=False).hits)

    return search


def by_fts5(texts: list[str]) -> Search:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE VIRTUAL TABLE texts USING fts5(text, content='', detail='none')")
    rows: Any = ((text,) for text in texts)
    connection.executemany("INSERT INTO texts(text) VALUES (?)", rows)
    query = "SELECT rowid FROM texts WHERE texts MATCH ? ORDER BY rank LIMIT ?"

    def search(text: str, k: int) -> int:
        return len(connection.execute(query, (" OR ".join(text.split()), k)).fetchall())

    return search


CONTESTANTS: dict[str, Callable[[list[str]], Search]] = {
    "hummingbit": hummingbit,
    "all scored": all_scored,
    "with stems": with_stems,
    "bm25s": by_bm25s,
    "tantivy": by_tantivy,
    "tantivy, stems": partial(by_tantivy, tokenizer="en_stem"),
    "FTS5": by_fts5,
}


if __name__ == "__main__":
    main()
