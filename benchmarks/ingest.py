"""Ingestion, opening and filters: documents per second, seconds, and resident memory.

Ingestion: texts as long as web snippets, as :mod:`benchmarks.ingest_versions` times them.

Opening: a separate process opens a collection of 64-bit clustered codes, builds its index, and
searches with a filter that matches 1 % of the documents, for the first time and again. The seconds
of reading, opening and the first search come as elapsed and as processor time.

Run as ``python -m benchmarks.ingest``; ``--stores DIR`` saves the large collections for later runs.
"""

from __future__ import annotations

import argparse
import json
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.harness.processes import resident_bytes
from benchmarks.harness.search_codes import clustered
from benchmarks.ingest_versions import compare
from hummingbit.corpus.document import Document
from hummingbit.corpus.readers import read_documents
from hummingbit.index.collection import Collection
from hummingbit.index.encoding import batches
from hummingbit.index.filters import parse_filter
from hummingbit.index.ingestion import COMMIT_SIZE
from hummingbit.index.records import Query
from hummingbit.index.schema import Description
from hummingbit.index.store.store import Store

VOCABULARY = ["aeiou"[n % 5] * (n % 6) + f"w{n:x}" for n in range(10_000)]
STORED_BITS = 64
ONE_PERCENT = parse_filter({"field": "percent", "eq": 7})


@dataclass(frozen=True, slots=True)
class Timing:
    """Elapsed seconds, and processor seconds of this process and those it started."""

    elapsed: float
    cpu: float


def snippets(n: int) -> Iterator[str]:
    """Yield texts of 22 words, some frequent and most rare, about 140 characters long."""
    rng = np.random.default_rng(1)
    share = 1 / np.arange(1, len(VOCABULARY) + 1)
    for start in range(0, n, 10_000):
        size = (min(10_000, n - start), 22)
        for words in rng.choice(len(VOCABULARY), size, p=share / share.sum()):
            yield " ".join(VOCABULARY[word] for word in words)


def read_lines(path: Path) -> Iterator[list[Document]]:
    yield from batches(read_documents(path, unique_ids=False), COMMIT_SIZE)


def insert_lines(lines: Path, folder: Path) -> None:
    with closing(sqlite3.connect(folder / "floor.sqlite", isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("CREATE TABLE documents (id TEXT UNIQUE NOT NULL, payload, text)")
        for batch in read_lines(lines):
            rows = [
                (document.id, json.dumps(document.payload_with_labels), document.text)
                for document in batch
            ]
            connection.execute("BEGIN")
            connection.executemany("INSERT INTO documents VALUES (?, ?, ?)", rows)
            connection.execute("COMMIT")


def cpu_seconds() -> float:
    whose = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    usages = [resource.getrusage(who) for who in whose]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def make_store(path: Path, n: int) -> None:
    """Write a collection of `n` documents that bring their codes, unless `path` exists."""
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.unlink(missing_ok=True)
    Store.create(partial, Description("c", STORED_BITS))
    codes = clustered(np.random.default_rng(0), n, STORED_BITS)
    with closing(Collection(Store(partial, writable=True), indexed=False)) as collection:
        for start in range(0, n, COMMIT_SIZE):
            batch = codes[start : start + COMMIT_SIZE]
            numbers = range(start, start + len(batch))
            documents = [Document(id=f"d{i}", payload={"percent": i % 100}) for i in numbers]
            collection.upsert_encoded(documents, batch)
    partial.rename(path)


def open_store(path: Path) -> dict[str, object]:
    """Open a collection and search it; return the time and the memory of each step."""
    resident_before = resident_bytes()
    store = Store(path, writable=False)
    began, used = time.perf_counter(), cpu_seconds()
    store.read_codes()
    read = Timing(time.perf_counter() - began, cpu_seconds() - used)
    began, used = time.perf_counter(), cpu_seconds()
    collection = Collection(store)
    opening = Timing(time.perf_counter() - began, cpu_seconds() - used)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    resident = resident_bytes()
    query = [Query(code="00" * (STORED_BITS // 8))]
    searches: list[Timing] = []
    for _ in range(6):
        began, used = time.perf_counter(), cpu_seconds()
        results = collection.search(query, 10, filter=ONE_PERCENT)
        searches.append(Timing(time.perf_counter() - began, cpu_seconds() - used))
        if len(results.hits[0]) != 10:
            raise SystemExit("the filtered search did not return ten documents")
    return {
        "documents": len(collection),
        "engine": results.engine,
        "read codes, s": round(read.elapsed, 2),
        "read codes, CPU s": round(read.cpu, 2),
        "open, s": round(opening.elapsed, 2),
        "open, CPU s": round(opening.cpu, 2),
        "resident before, MB": resident_before >> 20,
        "resident, MB": resident >> 20,
        "peak, MB": peak >> 20,
        "filter of 1 %, first, s": round(searches[0].elapsed, 2),
        "filter of 1 %, first, CPU s": round(searches[0].cpu, 2),
        "again, ms": round(min(search.elapsed for search in searches[1:]) * 1e3, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "--documents", type=int, default=50_000, help="number of documents to ingest"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--open", type=int, nargs="*", default=[1_000_000], metavar="N")
    parser.add_argument(
        "--stores",
        type=Path,
        metavar="DIR",
        help="save the collections of --open here and reuse them",
    )
    parser.add_argument("--open-one", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.open_one is not None:
        print(json.dumps(open_store(arguments.open_one), indent=2))
        return
    if arguments.rounds:
        with tempfile.TemporaryDirectory() as name:
            arguments.against = None
            compare("texts", Path(name), arguments)
    with tempfile.TemporaryDirectory() as name:
        for n in arguments.open:
            path = (arguments.stores or Path(name)) / f"{n}.sqlite"
            make_store(path, n)
            command = [sys.executable, "-m", "benchmarks.ingest", "--open-one", str(path)]
            subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
