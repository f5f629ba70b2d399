"""The times of searches by kind of query, over a collection of texts: what the slow ones are.

Run as ``python -m benchmarks.query_kinds NAME --data-dir FOLDER`` for a collection that ``index
build`` made. Queries are two to six successive words of documents:

- *first*: each is asked once, in a process that has asked nothing yet, so its words are looked up,
  and the words near to each are found;
- *again*: the same queries a second time;
- *misspelt*: a letter inside the longest word is doubled, left out or replaced;
- *phrase*: the first two words in quotes, before the others;
- *excluded*: the last word has a minus before it.

Times are of the processor, of one thread, in the process, with the ids of ten hits, in
milliseconds. *mixed* draws from the first, misspelt and phrase queries with the shares of
:data:`SHARES`.
"""

from __future__ import annotations

import argparse
import random
import re
import time
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path

import numpy as np

import hummingbit.threads  # noqa: F401 - before the libraries that read the environment
from benchmarks.harness.timing import print_machine
from benchmarks.harness.zipfian_texts import runs_of_words
from hummingbit.index.collection import Collection
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.names import BM25, HYBRID
from hummingbit.index.records import Query

K = 10
WORD = re.compile(r"[A-Za-z]{2,}")
LETTERS = "aeioulnrst"
READ = 200_000
"""So many documents are read for queries."""
DRAWN = 10_000
SHARES = {"first": 0.85, "misspelt": 0.1, "phrase": 0.05}
"""About one query in ten that people type has a misspelt word (Cucerzan and Brill, "Spelling
correction as an iterative process that exploits the collective knowledge of web users", 2004)."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("name", help="of the collection")
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--queries", type=int, default=300, help="of each kind")
    parser.add_argument("--rankings", nargs="+", default=[HYBRID, BM25])
    args = parser.parse_args()
    print_machine()
    with DataFolder(args.data_dir, writable=False) as folder:
        collection = folder.collection(args.name)
        runs = queries_of(collection, args.queries * len(args.rankings))
        collection.search([Query(text="opens the index")], K)
        print(f"{len(collection):,} documents{'p50':>25}{'p90':>9}{'p99':>9}{'longest':>9}")
        for number, ranking in enumerate(args.rankings):
            print_kinds(collection, ranking, runs[number :: len(args.rankings)])


def queries_of(collection: Collection, n: int) -> list[str]:
    """Return runs of words of documents, without what would be syntax in a query."""
    words = (WORD.findall(text) for _, text in islice(collection.store.texts(0), READ))
    texts = [" ".join(some) for some in words if len(some) > 1]
    return runs_of_words(np.random.default_rng(0), texts, n)


def misspelt(run: str) -> str:
    """Change a letter in the middle of the longest word."""
    rng, words = random.Random(run), run.split()  # noqa: S311 - for words, not for secrets
    at = max(range(len(words)), key=lambda number: len(words[number]))
    word, letter = words[at], rng.randrange(1, max(2, len(words[at]) - 1))
    changed = rng.choice(["", word[letter] * 2, rng.choice(LETTERS)])
    words[at] = word[:letter] + changed + word[letter + 1 :]
    return " ".join(words)


def with_phrase(run: str) -> str:
    first, second, *others = run.split()
    return " ".join([f'"{first} {second}"', *others])


def without_last(run: str) -> str:
    *others, last = run.split()
    return " ".join([*others, f"-{last}"])


KINDS: dict[str, Callable[[str], str]] = {
    "first": str,
    "again": str,
    "misspelt": misspelt,
    "phrase": with_phrase,
    "excluded": without_last,
}


def print_kinds(collection: Collection, ranking: str, runs: Sequence[str]) -> None:
    """Print the times of each kind of query."""
    kinds: dict[str, list[float]] = {name: [] for name in KINDS}
    for name, change in KINDS.items():
        for query in map(change, runs):
            start = time.thread_time()
            collection.search([Query(text=query)], K, ranking=ranking, with_cursor=False)
            kinds[name].append((time.thread_time() - start) * 1e3)
    rng = np.random.default_rng(0)
    drawn = rng.choice([*SHARES], DRAWN, p=[*SHARES.values()])
    kinds["mixed"] = [rng.choice(kinds[kind]) for kind in drawn]
    for name, milliseconds in kinds.items():
        quantiles = np.quantile(milliseconds, [0.5, 0.9, 0.99, 1])
        print(f"{ranking:<12}{name:<16}" + "".join(f"{value:>9.2f}" for value in quantiles))


if __name__ == "__main__":
    main()
