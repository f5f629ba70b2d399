"""Ingestion, opening and filters: documents per second, seconds, and resident memory.

Ingestion: texts as long as web snippets are read from a file of JSON lines, encoded, and committed
to a collection in batches with synchronous=FULL. In the same run, in turn, the same lines are read
and inserted into a bare SQLite table. This is the floor: it has neither codes nor an index. CPU is
the processor time of all processes per document; on a busy machine it tells more than elapsed time.

Opening: a separate process opens a collection of 64-bit clustered codes, builds its index, and
searches with a filter that matches 1 % of the documents, for the first time and again. The seconds
of reading, opening and the first search come as elapsed and as processor time.

Run as ``python -m benchmarks.ingest``; ``--stores DIR`` saves the large collections for later runs.
"""

from __future__ import annotations

import argparse
import itertools
import json
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

from benchmarks.harness.processes import resident_bytes
from benchmarks.harness.search_codes import clustered
from hummingbit.corpus.document import Document
from hummingbit.corpus.readers import read_documents
from hummingbit.encoder.artifact import write_artifact
from hummingbit.encoder.encoder import Encoder, Layer
from hummingbit.encoder.text_features import TextFeatures
from hummingbit.index.backend import CollectionBackend
from hummingbit.index.collection import Collection
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.encoding import available_cores, batches
from hummingbit.index.filters import parse_filter
from hummingbit.index.ingestion import COMMIT_SIZE, ingest
from hummingbit.index.records import Query
from hummingbit.index.schema import Description
from hummingbit.index.store.store import Store

VOCABULARY = ["aeiou"[n % 5] * (n % 6) + f"w{n:x}" for n in range(10_000)]
HIDDEN = 500
N_BITS = 32
STORED_BITS = 64
ONE_PERCENT = parse_filter({"field": "percent", "eq": 7})


@dataclass(frozen=True, slots=True)
class Timing:
    """Elapsed seconds, and processor seconds of this process and those it started."""

    elapsed: float
    cpu: float


def make_encoder() -> Encoder:
    """Return an encoder as wide as a trained one; its time does not depend on its weights."""
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
    """Yield texts of 22 words, some frequent and most rare, about 140 characters long."""
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


def ingest_lines(lines: Path, collection: CollectionBackend, jobs: int) -> None:
    ingest(collection, read_documents(lines, unique_ids=False), jobs=jobs)


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


def time_call(work: Callable[[], None]) -> Timing:
    began, before = time.perf_counter(), cpu_seconds()
    work()
    return Timing(time.perf_counter() - began, cpu_seconds() - before)


def cpu_seconds() -> float:
    whose = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    usages = [resource.getrusage(who) for who in whose]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def compare_ingestion(n: int, rounds: int) -> None:
    times: dict[str, list[Timing]] = {}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as name:
            for contestant, timing in run_round(Path(name), n):
                times.setdefault(contestant, []).append(timing)
    floor = statistics.median(timing.cpu for timing in times["bare SQLite"])
    print(f"\n{n:,} documents, commits of {COMMIT_SIZE:,}; medians of {rounds} rounds")
    print(f"{'':34}{'documents/s':>12}{'CPU us/doc':>12}{'x bare SQLite, CPU':>20}")
    for contestant, timings in times.items():
        elapsed = statistics.median(timing.elapsed for timing in timings)
        cpu = statistics.median(timing.cpu for timing in timings)
        print(f"{contestant:34}{n / elapsed:12,.0f}{cpu / n * 1e6:12.1f}{cpu / floor:20.2f}")


def run_round(folder: Path, n: int) -> Iterator[tuple[str, Timing]]:
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
            yield name, time_call(lambda: ingest_lines(lines, collection, jobs))  # noqa: B023
        complete = data.collection("jobs1")
        yield "hummingbit, all stored already", time_call(lambda: ingest_lines(lines, complete, 1))
    yield "bare SQLite", time_call(lambda: insert_lines(lines, folder))


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
        compare_ingestion(arguments.documents, arguments.rounds)
    with tempfile.TemporaryDirectory() as name:
        for n in arguments.open:
            path = (arguments.stores or Path(name)) / f"{n}.sqlite"
            make_store(path, n)
            command = [sys.executable, "-m", "benchmarks.ingest", "--open-one", str(path)]
            subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
