"""Ingestion and opening: documents per second, seconds, and resident memory.

Ingestion: three corpora of JSON lines, documents with codes of 64 bits, with vectors of 64 numbers,
and with texts of 22 words. Each document also has an id, a label and a small payload. The encoders
have one layer, so that reading, checking and writing take most of the time. Every turn is a
separate process that ingests into an empty data folder with synchronous=FULL. CPU is the processor
time of all processes per document; on a busy machine it tells more than elapsed time. "floor" reads
the same lines and inserts them into a bare SQLite table, without codes or index, and "all stored"
ingests them a second time. ``--against DIR`` takes turns with another checkout, for example from
``git worktree add DIR COMMIT``.

Opening: a separate process opens a collection of 64-bit clustered codes, builds its index, and
searches with a filter that matches 1 % of the documents, for the first time and again. The seconds
of reading, opening and the first search come as elapsed and as processor time.

Run as ``python -m benchmarks.ingest``; ``--stores DIR`` saves the large collections for later runs.
"""

from __future__ import annotations

import argparse
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
from pathlib import Path

import numpy as np

# In the turns of an earlier checkout, these are its own modules, so only what it has, too.
from hummingbit.corpus.document import Document
from hummingbit.corpus.readers import read_documents
from hummingbit.encoder.artifact import write_artifact
from hummingbit.encoder.encoder import Encoder, Layer
from hummingbit.encoder.text_features import TextFeatures
from hummingbit.encoder.vector_features import VectorFeatures
from hummingbit.index.collection import Collection
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.encoding import batches
from hummingbit.index.filters import parse_filter
from hummingbit.index.ingestion import COMMIT_SIZE, ingest
from hummingbit.index.records import Query
from hummingbit.index.schema import Description
from hummingbit.index.store.store import Store

ROOT = Path(__file__).parents[1]
CASES = ("codes", "vectors", "texts")
N_BITS = DIMENSION = 64
FLOOR, AGAIN = "floor", "again"
VOCABULARY = ["aeiou"[n % 5] * (n % 6) + f"w{n:x}" for n in range(10_000)]
ONE_PERCENT = parse_filter({"field": "percent", "eq": 7})


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--documents", type=int, default=100_000, help="to ingest")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=CASES)
    parser.add_argument("--against", type=Path, metavar="DIR", help="another checkout")
    parser.add_argument("--open", type=int, nargs="*", default=[1_000_000], metavar="N")
    parser.add_argument("--stores", type=Path, metavar="DIR", help="save collections to open here")
    parser.add_argument("--turn", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--open-store", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.turn is not None:
        lines, folder, jobs = arguments.turn
        print(json.dumps(run_turn(Path(lines), Path(folder), jobs)))
        return
    if arguments.open_store is not None:
        print(json.dumps(open_store(arguments.open_store), indent=2))
        return
    from benchmarks.harness.timing import print_machine  # noqa: PLC0415 - not in other checkouts

    print_machine()
    if arguments.rounds:
        print(f"{arguments.documents:,} documents; medians of {arguments.rounds} rounds")
    for case in arguments.cases if arguments.rounds else ():
        with tempfile.TemporaryDirectory() as name:
            compare(case, Path(name), arguments)
    with tempfile.TemporaryDirectory() as name:
        for n in arguments.open:
            path = (arguments.stores or Path(name)) / f"{n}.sqlite"
            make_store(path, n)
            subprocess.run([sys.executable, __file__, "--open-store", str(path)], check=True)


def cpu_seconds() -> float:
    """Return the processor seconds of this process and of the children that ended."""
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Return the elapsed seconds of work, and those of the processor."""
    began, used = time.perf_counter(), cpu_seconds()
    work()
    return time.perf_counter() - began, cpu_seconds() - used


# Ingestion.


def compare(case: str, folder: Path, arguments: argparse.Namespace) -> None:
    """Time every way to ingest one corpus, interleaved."""
    lines = folder / "corpus.jsonl"
    lines.write_text("".join(f"{line}\n" for line in corpus(case, arguments.documents)))
    ways = {"now, 1 process": (ROOT, "1"), "now, 2 processes": (ROOT, "2")}
    ways |= {"now, all stored": (ROOT, AGAIN), FLOOR: (ROOT, FLOOR)}
    if arguments.against is not None:
        earlier = arguments.against.resolve()
        ways = {"before, 1 process": (earlier, "1"), "before, 2 processes": (earlier, "2")} | ways
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for turn in range(arguments.rounds):
        for name, (checkout, jobs) in ways.items():
            data_folder = folder / f"{turn}-{name}"
            write_encoder(case, data_folder)
            command = [sys.executable, __file__, "--turn", str(lines), str(data_folder), jobs]
            environment = {**os.environ, "PYTHONPATH": str(checkout)}
            done = subprocess.run(command, env=environment, check=True, capture_output=True)
            seconds[name].append(tuple(json.loads(done.stdout)))
    print(f"\n{case:22}{'documents/s':>12}{'CPU us/doc':>12}{'x floor, CPU':>14}")
    n = arguments.documents
    floor = statistics.median(cpu for _, cpu in seconds[FLOOR])
    for name, pairs in seconds.items():
        elapsed, cpu = (statistics.median(column) for column in zip(*pairs, strict=True))
        print(f"  {name:20}{n / elapsed:12,.0f}{cpu / n * 1e6:12.1f}{cpu / floor:14.2f}")


def run_turn(lines: Path, folder: Path, jobs: str) -> tuple[float, float]:
    """Ingest the lines; return the elapsed seconds and those of the processor."""
    has_encoder = (folder / "encoders").exists()
    with DataFolder(folder, writable=True, indexed=False) as data:
        encoder, n_bits = ("e", None) if has_encoder else (None, N_BITS)
        collection = data.create_collection("c", encoder=encoder, n_bits=n_bits)
        if jobs == FLOOR:
            return timed(lambda: insert_lines(lines, folder))
        if jobs == AGAIN:
            ingest(collection, read_documents(lines, unique_ids=False))
        n_jobs = 1 if jobs == AGAIN else int(jobs)
        return timed(
            lambda: ingest(collection, read_documents(lines, unique_ids=False), jobs=n_jobs)
        )


def insert_lines(lines: Path, folder: Path) -> None:
    """Insert the documents of lines into a bare table."""
    with closing(sqlite3.connect(folder / "floor.sqlite", isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("CREATE TABLE documents (id TEXT UNIQUE NOT NULL, payload, text)")
        for batch in batches(read_documents(lines, unique_ids=False), COMMIT_SIZE):
            rows = [
                (document.id, json.dumps(document.payload_with_labels), document.text)
                for document in batch
            ]
            connection.execute("BEGIN")
            connection.executemany("INSERT INTO documents VALUES (?, ?, ?)", rows)
            connection.execute("COMMIT")


def corpus(case: str, n: int) -> Iterator[str]:
    """Yield the documents of a corpus as JSON lines."""
    rng = np.random.default_rng(0)
    for i, text in enumerate(snippets(n)):
        content: dict[str, object] = {"text": text}
        if case == "codes":
            content = {"code": rng.bytes(N_BITS // 8).hex()}
        elif case == "vectors":
            content = {"vector": rng.normal(size=DIMENSION).round(6).tolist()}
        payload = {"year": 1990 + i % 30, "source": f"s{i % 7}"}
        yield json.dumps({"id": f"doc-{i}", "label": f"l{i % 8}", "payload": payload, **content})


def snippets(n: int) -> Iterator[str]:
    """Yield texts of 22 words, some frequent and most rare, about 140 characters long."""
    rng = np.random.default_rng(1)
    share = 1 / np.arange(1, len(VOCABULARY) + 1)
    for start in range(0, n, 10_000):
        size = (min(10_000, n - start), 22)
        for words in rng.choice(len(VOCABULARY), size, p=share / share.sum()):
            yield " ".join(VOCABULARY[word] for word in words)


def write_encoder(case: str, folder: Path) -> None:
    """Write the encoder of a corpus to a data folder; documents with codes need none."""
    folder.mkdir(parents=True)
    if case == "codes":
        return
    rng = np.random.default_rng(0)
    texts = case == "texts"
    features = TextFeatures(VOCABULARY) if texts else VectorFeatures(DIMENSION)
    weight = rng.normal(size=(features.dimension, N_BITS)).astype(np.float32)
    layer = Layer(weight, np.zeros(N_BITS, dtype=np.float32), "identity")
    encoder = Encoder(features, [layer], np.zeros(N_BITS, dtype=np.float32), {})
    inputs = list(snippets(50)) if texts else rng.normal(size=(50, DIMENSION)).astype(np.float32)
    write_artifact(folder / "encoders" / "e", encoder, inputs)


# Opening.


def make_store(path: Path, n: int) -> None:
    """Write a collection of `n` documents that bring their codes, unless `path` exists."""
    from benchmarks.harness.search_codes import clustered  # noqa: PLC0415 - not in other checkouts

    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.unlink(missing_ok=True)
    Store.create(partial, Description("c", N_BITS))
    codes = clustered(np.random.default_rng(0), n, N_BITS)
    with closing(Collection(Store(partial, writable=True), indexed=False)) as collection:
        for start in range(0, n, COMMIT_SIZE):
            batch = codes[start : start + COMMIT_SIZE]
            numbers = range(start, start + len(batch))
            documents = [Document(id=f"d{i}", payload={"percent": i % 100}) for i in numbers]
            collection.upsert_encoded(documents, batch)
    partial.rename(path)


def open_store(path: Path) -> dict[str, object]:
    """Open a collection and search it; return the time and the memory of each step."""
    resident_before = resident_mb()
    store = Store(path, writable=False)
    read = timed(store.read_codes)
    began, used = time.perf_counter(), cpu_seconds()
    collection = Collection(store)
    opening = time.perf_counter() - began, cpu_seconds() - used
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    resident = resident_mb()
    query = [Query(code="00" * (N_BITS // 8))]
    searches = [timed(lambda: collection.search(query, 10, filter=ONE_PERCENT)) for _ in range(6)]
    results = collection.search(query, 10, filter=ONE_PERCENT)
    if len(results.hits[0]) != 10:
        raise SystemExit("the filtered search did not return ten documents")
    return {
        "documents": len(collection),
        "engine": results.engine,
        "read codes, s": round(read[0], 2),
        "read codes, CPU s": round(read[1], 2),
        "open, s": round(opening[0], 2),
        "open, CPU s": round(opening[1], 2),
        "resident before, MB": resident_before,
        "resident, MB": resident,
        "peak, MB": peak,
        "filter of 1 %, first, s": round(searches[0][0], 2),
        "filter of 1 %, first, CPU s": round(searches[0][1], 2),
        "again, ms": round(min(elapsed for elapsed, _ in searches[1:]) * 1e3, 2),
    }


def resident_mb() -> int:
    """Return the memory that this process holds, in MB."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") >> 20


if __name__ == "__main__":
    main()
