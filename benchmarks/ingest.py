"""Ingestion, opening and filters: documents a second, seconds, and resident memory.

Ingestion: texts as long as web snippets, from a file of JSON lines into a collection: read, encoded
and committed in batches with synchronous=FULL. Beside it, in turns within one run, the same lines
are read and put into a bare SQLite table, which is the floor: nothing is encoded, and nothing could
be found. CPU is of all processes, a document; where the machine does other things as well, it says
more than elapsed time.

Opening: a process of its own opens a collection of 64-bit clustered codes, builds its index, and
searches with a filter that holds for 1 % of the documents, first and again.

Run as ``python -m benchmarks.ingest``; ``--stores DIR`` keeps the large collections for next time.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.harness.search_codes import clustered
from corpus.document import Document
from corpus.readers import read_documents
from encoder.artifact import write_artifact
from encoder.encoder import Encoder, Layer
from encoder.features import TextFeatures
from index.backend import CollectionBackend
from index.bulk.encoding import available_cores
from index.bulk.ingest import COMMIT_SIZE, ingest
from index.collection import Collection
from index.data_folder import DataFolder
from index.encoded_inputs import batches
from index.filter_parser import parse_filter
from index.records import Query
from index.schema import Description
from index.sqlite.store import Store

VOCABULARY = ["aeiou"[n % 5] * (n % 6) + f"w{n:x}" for n in range(10_000)]
HIDDEN = 500
N_BITS = 32
STORED_BITS = 64
ONE_PERCENT = parse_filter({"field": "percent", "eq": 7})


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of one turn: elapsed, and of the processor in this process and those it started."""

    elapsed: float
    cpu: float


def make_encoder() -> Encoder:
    """An encoder as wide as a trained one; its weights do not matter for the time it takes."""
    rng = np.random.default_rng(0)
    sizes = [len(VOCABULARY), HIDDEN, HIDDEN, N_BITS]
    layers = [
        Layer(
            rng.normal(size=(inputs, outputs)).astype(np.float32),
            np.zeros(outputs, dtype=np.float32),
            "relu" if outputs != N_BITS else "identity",
        )
        for inputs, outputs in itertools.pairwise(sizes)
    ]
    return Encoder(TextFeatures(VOCABULARY), layers, np.zeros(N_BITS, dtype=np.float32), {})


def snippets(n: int) -> Iterator[str]:
    """Texts of 22 words, some frequent and most rare, about 140 characters long."""
    rng = np.random.default_rng(1)
    share = 1 / np.arange(1, len(VOCABULARY) + 1)
    for start in range(0, n, 10_000):
        size = (min(10_000, n - start), 22)
        for words in rng.choice(len(VOCABULARY), size, p=share / share.sum()):
            yield " ".join(VOCABULARY[word] for word in words)


def write_lines(path: Path, n: int) -> None:
    with path.open("w") as file:
        for i, text in enumerate(snippets(n)):
            payload = {"year": 1990 + i % 30, "source": f"s{i % 7}"}
            line = {"id": f"doc-{i}", "text": text, "label": f"l{i % 8}", "payload": payload}
            file.write(json.dumps(line) + "\n")


def read_lines(path: Path) -> Iterator[list[Document]]:
    yield from batches(read_documents(path, unique_ids=False), COMMIT_SIZE)


def into_collection(lines: Path, collection: CollectionBackend, jobs: int) -> None:
    ingest(collection, read_documents(lines, unique_ids=False), jobs=jobs)


def into_sqlite(lines: Path, folder: Path) -> None:
    with closing(sqlite3.connect(folder / "floor.sqlite", isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("CREATE TABLE documents (id TEXT UNIQUE NOT NULL, payload, text)")
        for batch in read_lines(lines):
            rows = [(one.id, json.dumps(one.payload_with_labels), one.text) for one in batch]
            connection.execute("BEGIN")
            connection.executemany("INSERT INTO documents VALUES (?, ?, ?)", rows)
            connection.execute("COMMIT")


def timed(work: Callable[[], None]) -> Timing:
    began, before = time.perf_counter(), cpu_seconds()
    work()
    return Timing(time.perf_counter() - began, cpu_seconds() - before)


def cpu_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def compare_ingestion(n: int, rounds: int) -> None:
    times: dict[str, list[Timing]] = {}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as name:
            for contestant, timing in one_round(Path(name), n):
                times.setdefault(contestant, []).append(timing)
    floor = statistics.median(one.cpu for one in times["bare SQLite"])
    print(f"\n{n:,} documents, commits of {COMMIT_SIZE:,}; medians of {rounds} rounds")
    print(f"{'':34}{'documents/s':>12}{'CPU us/doc':>12}{'x bare SQLite, CPU':>20}")
    for contestant, found in times.items():
        elapsed = statistics.median(one.elapsed for one in found)
        cpu = statistics.median(one.cpu for one in found)
        print(f"{contestant:34}{n / elapsed:12,.0f}{cpu / n * 1e6:12.1f}{cpu / floor:20.2f}")


def one_round(folder: Path, n: int) -> Iterator[tuple[str, Timing]]:
    lines = folder / "corpus.jsonl"
    write_lines(lines, n)
    write_artifact(folder / "encoders" / "e", make_encoder(), list(snippets(50)))
    cores = available_cores()
    with DataFolder(folder, writable=True, indexed=False) as data:
        for jobs in dict.fromkeys((1, cores)):
            collection = data.create_collection(f"jobs{jobs}", encoder="e")
            name = "hummingbit, " + (
                "one process" if jobs == 1 else f"encoding in {jobs} processes"
            )
            yield name, timed(lambda: into_collection(lines, collection, jobs))  # noqa: B023
        again = data.collection("jobs1")
        yield "hummingbit, all there already", timed(lambda: into_collection(lines, again, 1))
    yield "bare SQLite", timed(lambda: into_sqlite(lines, folder))


def make_store(path: Path, n: int) -> None:
    """Write a collection of `n` documents with codes of their own, unless it is there."""
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.unlink(missing_ok=True)
    Store.create(partial, Description("c", STORED_BITS))
    codes = clustered(np.random.default_rng(0), n, STORED_BITS)
    with closing(Collection(Store(partial, writable=True), indexed=False)) as collection:
        for start in range(0, n, COMMIT_SIZE):
            some = codes[start : start + COMMIT_SIZE]
            numbers = range(start, start + len(some))
            documents = [Document(id=f"d{i}", payload={"percent": i % 100}) for i in numbers]
            collection.upsert_encoded(documents, some)
    partial.rename(path)


def open_store(path: Path) -> dict[str, object]:
    """Open a collection and search it, and return what that took."""
    before = resident_bytes()
    began = time.perf_counter()
    store = Store(path, writable=False)
    store.read_codes()
    read = time.perf_counter() - began
    began = time.perf_counter()
    collection = Collection(store)
    opened = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    resident = resident_bytes()
    query = [Query(code="00" * (STORED_BITS // 8))]
    filtered: list[float] = []
    for _ in range(6):
        began = time.perf_counter()
        found = collection.search(query, 10, filter=ONE_PERCENT)
        filtered.append(time.perf_counter() - began)
        if len(found.hits[0]) != 10:
            raise SystemExit("the filter did not leave ten documents")
    return {
        "documents": len(collection),
        "engine": found.engine,
        "read codes, s": round(read, 2),
        "open, s": round(opened, 2),
        "resident before, MB": before >> 20,
        "resident, MB": resident >> 20,
        "peak, MB": peak >> 20,
        "filter of 1 %, first, s": round(filtered[0], 2),
        "again, ms": round(min(filtered[1:]) * 1e3, 2),
    }


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--documents", type=int, default=50_000, help="to ingest")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--open", type=int, nargs="*", default=[1_000_000], metavar="N")
    parser.add_argument("--stores", type=Path, metavar="DIR", help="keeps what --open makes")
    parser.add_argument("--open-one", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.open_one is not None:
        print(json.dumps(open_store(arguments.open_one), indent=2))
        return
    if arguments.rounds:
        compare_ingestion(arguments.documents, arguments.rounds)
    with tempfile.TemporaryDirectory() as name:
        for n in arguments.open:
            path = (arguments.stores or Path(name)) / f"{n}.sqlite"
            make_store(path, n)
            command = [sys.executable, "-m", "benchmarks.ingest", "--open-one", str(path)]
            subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
