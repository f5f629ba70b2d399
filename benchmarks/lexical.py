"""BM25 side by side: our index, bm25s, tantivy and SQLite's FTS5, over a million short texts.

Words follow Zipf's law, as they do in languages, so that some are in most documents; queries are
runs of words of documents. All contestants index the same words without stemming, and answer the
same queries in turns within one run. Times are of the processor, which other processes do not
lengthen; "ratio" is a contestant's time over ours. "memory" is what the process grew by while its
index was built.

Run as ``python -m benchmarks.lexical``.
"""

from __future__ import annotations

import argparse
import os
import sqlite3
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bm25s
import numpy as np
import tantivy

from index.lexical.analyzer_names import ANALYZERS
from index.lexical.index import LexicalIndex

VOCABULARY = 400_000
Search = Callable[[str, int], int]
"""Finds so many documents for a text and returns how many there were."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--size", type=float, default=1e6, help="documents (default: 1e6)")
    parser.add_argument("--length", type=float, default=12, help="mean words (default: 12)")
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--k", type=int, default=10)
    parser.add_argument("--only", nargs="*", choices=list(CONTESTANTS), default=list(CONTESTANTS))
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    texts = zipfian_texts(rng, int(arguments.size), arguments.length)
    queries = runs_of_words(rng, texts, arguments.queries)
    searches: dict[str, Search] = {}
    for name in arguments.only:
        began, before = time.process_time(), resident()
        searches[name] = CONTESTANTS[name](texts)
        taken, grown = time.process_time() - began, resident() - before
        print(f"{name:11} built in {taken:6.1f} s, memory {grown / 1e6:7.0f} MB", flush=True)
    times: dict[str, list[float]] = {name: [] for name in searches}
    for query in queries:
        for name, search in searches.items():
            began = time.process_time()
            search(query, arguments.k)
            times[name].append((time.process_time() - began) * 1e3)
    ours = statistics.median(next(iter(times.values())))
    print("            median ms   p99 ms   ratio of medians")
    for name, taken_ms in times.items():
        p50, p99 = np.percentile(taken_ms, [50, 99])
        print(f"{name:11} {p50:9.2f} {p99:8.2f} {p50 / ours:10.2f}")


def zipfian_texts(rng: np.random.Generator, n_texts: int, mean_length: float) -> list[str]:
    """Make texts of words whose frequencies fall with their rank, of log-normal lengths."""
    shares = 1 / (np.arange(VOCABULARY) + 2.7)
    bounds = np.cumsum(shares) / shares.sum()
    words = [f"{_spelled(number)}" for number in range(VOCABULARY)]
    lengths = rng.lognormal(np.log(mean_length) - 0.125, 0.5, n_texts).clip(1).astype(int)
    drawn = np.searchsorted(bounds, rng.random(int(lengths.sum()))).tolist()
    texts, start = [], 0
    for length in lengths.tolist():
        texts.append(" ".join(words[number] for number in drawn[start : start + length]))
        start += length
    return texts


def runs_of_words(rng: np.random.Generator, texts: list[str], n_queries: int) -> list[str]:
    """Take two to six neighbouring words of documents drawn at random."""
    queries = []
    for number in rng.integers(0, len(texts), n_queries).tolist():
        words, length = texts[number].split(), int(rng.integers(2, 7))
        start = int(rng.integers(0, max(1, len(words) - length)))
        queries.append(" ".join(words[start : start + length]))
    return queries


def resident() -> int:
    """Return the memory that the process takes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def hummingbit(texts: list[str]) -> Search:
    index = LexicalIndex.build(0, ANALYZERS["words"], enumerate(texts))
    print(f"{'':11} of it {index.nbytes / 1e6:.0f} MB of postings")
    return lambda text, k: len(index.rank(text, k).rows)


def by_bm25s(texts: list[str]) -> Search:
    retriever = bm25s.BM25(k1=1.2, b=0.75, method="lucene")
    retriever.index([text.split() for text in texts], show_progress=False)

    def search(text: str, k: int) -> int:
        found, _ = retriever.retrieve([text.split()], k=k, show_progress=False, n_threads=0)
        return int(found.shape[1])

    return search


def by_tantivy(texts: list[str]) -> Search:
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("text", stored=False, tokenizer_name="whitespace", index_option="freq")
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
    "bm25s": by_bm25s,
    "tantivy": by_tantivy,
    "FTS5": by_fts5,
}


def _spelled(number: int) -> str:
    """Return a word of letters only, of at least two, another for each number."""
    letters = ""
    number += 26
    while number:
        number, letter = divmod(number, 26)
        letters += chr(ord("a") + letter)
    return letters + "x"


if __name__ == "__main__":
    main()
