"""The first use of a filter, with indexes of the fields that it names and without.

A collection in a temporary folder gets documents with payloads of five fields: a class of twenty, a
year, a fraction, a unique key and two tags. The store resolves each filter as it does for the first
search with it; nothing is cached. Times are of the processor, so that other processes count for
little.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.harness.timing import options, timed
from hummingbit.corpus.document import Document
from hummingbit.index.collection import Collection
from hummingbit.index.filters import parse_filter
from hummingbit.index.schema import Description
from hummingbit.index.store.store import Store

FIELDS = ("class", "year", "score", "key", "tags")
BATCH = 20_000
FILTERS = {
    "class is one of twenty": {"field": "class", "eq": "class-3"},
    "class is in three": {"field": "class", "in": ["class-3", "class-9", "class-14"]},
    "year in a decade": {"field": "year", "gte": 1990, "lt": 2000},
    "score below one half": {"field": "score", "lt": 0.5},
    "key is unique": {"field": "key", "eq": "key-77"},
    "one tag of seven": {"field": "tags", "eq": "t3"},
    "class exists": {"field": "class", "exists": True},
    "class and year": {"and": [{"field": "class", "eq": "class-3"}, {"field": "year", "lt": 1950}]},
    "not the class": {"not": {"field": "class", "eq": "class-3"}},
}


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--documents", type=float, default=1e6, help="(default: %(default)s)")
    parser.add_argument("--repeat", type=int, default=5, help="(default: %(default)s)")
    parser.add_argument("--folder", type=Path, help="where to make the temporary folder")
    args = parser.parse_args()
    with TemporaryDirectory(dir=args.folder) as folder:
        path = Path(folder) / "store.sqlite"
        Store.create(path, Description("benchmark", 64))
        with closing(Collection(Store(path, writable=True), indexed=False)) as collection:
            _measure(collection, int(args.documents), args.repeat)


def _measure(collection: Collection, n_documents: int, repeat: int) -> None:
    for batch in _documents(n_documents):
        codes = np.zeros((len(batch), 8), dtype=np.uint8)
        collection.upsert_encoded(batch, codes)
    unindexed = {name: _milliseconds(collection, name, 1) for name in FILTERS}
    collection.compact()
    bytes_before = collection.bytes_on_disk()
    _, seconds = timed(lambda: collection.set_indexed_fields(FIELDS))
    collection.compact()
    added = collection.bytes_on_disk() - bytes_before
    print(
        f"{n_documents:,} documents of {bytes_before / n_documents:.0f} bytes; {len(FIELDS)} fields"
    )
    print(f"indexed in {seconds:.1f} s, {added / n_documents:.1f} more bytes per document\n")
    print(f"{'filter':<24}{'rows':>12}{'without, ms':>14}{'with, ms':>10}{'ratio':>8}")
    for name in FILTERS:
        rows, slow = unindexed[name]
        indexed_rows, fast = _milliseconds(collection, name, repeat)
        if indexed_rows != rows:
            raise SystemExit(f"{name}: {rows} rows without indexes, {indexed_rows} with them")
        print(f"{name:<24}{rows:>12,}{slow:>14.1f}{fast:>10.1f}{slow / fast:>8.0f}")


def _milliseconds(collection: Collection, name: str, repeat: int) -> tuple[int, float]:
    """Return the number of rows that match a filter, and the median time to find them."""
    filter_, times, rows = parse_filter(FILTERS[name]), [], 0
    for _ in range(repeat):
        began = time.process_time()
        rows = len(collection.store.matching(filter_).rows)
        times.append(1000 * (time.process_time() - began))
    return rows, median(times)


def _documents(n_documents: int) -> Iterator[list[Document]]:
    generator = np.random.default_rng(0)
    for start in range(0, n_documents, BATCH):
        count = min(BATCH, n_documents - start)
        columns = zip(
            range(start, start + count),
            generator.integers(20, size=count).tolist(),
            generator.integers(1900, 2025, count).tolist(),
            generator.random(count).tolist(),
            generator.integers(7, size=count).tolist(),
            strict=True,
        )
        yield [
            Document(
                id=str(number),
                code="00" * 8,
                payload={
                    "class": f"class-{class_}",
                    "year": year,
                    "score": score,
                    "key": f"key-{number * 7919 % n_documents}",
                    "tags": [f"t{tag}", f"u{number % 11}"],
                },
            )
            for number, class_, year, score, tag in columns
        ]


if __name__ == "__main__":
    main()
