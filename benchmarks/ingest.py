"""Ingestion and opening: documents per second, seconds, and memory.

Ingestion: three corpora of JSON lines, documents with codes of 64 bits, with vectors of 64 numbers,
and with English texts of 12 words. Documents with codes or vectors also have a label and a small
payload, and the encoder of vectors has one layer; texts are encoded by the encoder that ships. The
time includes the word index, so that the collection can be searched by every ranking afterwards.
Every turn is a separate process that ingests into an empty data folder with synchronous=FULL. CPU
is the processor time of all processes per document; on a busy machine it tells more than elapsed
time. Memory is the most that all processes had together (PSS). "index build" is the command, from
its start to its end. "floor" reads the same lines and inserts them into a bare SQLite table,
without codes or index, "tantivy" indexes the same texts with stems, and "all stored" ingests them a
second time. ``--against DIR`` takes turns with another checkout, as from ``git worktree add DIR
COMMIT``. The parts of one more turn say what takes the time.

Texts are runs of 12 words of the documents of ``--texts``, by default the docstrings of the
installed Python packages; once all words were taken, the runs begin elsewhere.

Opening: a separate process opens a collection of 64-bit clustered codes, builds its index, and
searches with a filter that matches 1 % of the documents, for the first time and again. The seconds
of reading, opening and the first search come as elapsed and as processor time.

Run as ``python -m benchmarks.ingest``; ``--stores DIR`` saves the large collections for later runs.
A million texts: ``--cases texts --documents 1000000 --rounds 1 --open``.
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
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

# In the turns of an earlier checkout, these are its own modules, so only what it has, too.
from hummingbit.corpus.document import Document
from hummingbit.corpus.readers import read_documents
from hummingbit.encoder.artifact import write_artifact
from hummingbit.encoder.encoder import Encoder, Layer
from hummingbit.encoder.vector_features import VectorFeatures
from hummingbit.index.collection import Collection
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.encoding import batches
from hummingbit.index.filters import parse_filter
from hummingbit.index.ingestion import COMMIT_SIZE
from hummingbit.index.records import Query
from hummingbit.index.schema import Description
from hummingbit.index.store.store import Store

ROOT = Path(__file__).parents[1]
CASES = ("codes", "vectors", "texts")
N_BITS = DIMENSION = 64
FLOOR, AGAIN, COMMAND, TANTIVY, PARTS = "floor", "again", "command", "tantivy", "parts"
WORDS_IN_TEXT = 12
OFFSETS = (0, 5, 9, 2, 7, 11, 4, 1, 8, 3, 10, 6)
"""Where runs of words begin, each time that all were taken."""
SECONDS_BETWEEN_SAMPLES = 0.1
CODES = "of-codes"
"""A file that says that the documents bring their codes."""
ONE_PERCENT = parse_filter({"field": "percent", "eq": 7})


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--documents", type=int, default=100_000, help="to ingest")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=CASES)
    parser.add_argument("--texts", nargs="+", default=["docstrings"], metavar="SOURCE")
    parser.add_argument("--against", type=Path, metavar="DIR", help="another checkout")
    parser.add_argument("--open", type=int, nargs="*", default=[1_000_000], metavar="N")
    parser.add_argument("--stores", type=Path, metavar="DIR", help="save collections to open here")
    parser.add_argument("--turn", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--open-store", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.turn is not None:
        lines, folder, jobs = arguments.turn
        if jobs == PARTS:
            print_parts(Path(lines), Path(folder))
        else:
            print(json.dumps(run_turn(Path(lines), Path(folder), jobs)))
        return
    if arguments.open_store is not None:
        print(json.dumps(open_store(arguments.open_store), indent=2))
        return
    from benchmarks.harness.timing import print_machine  # noqa: PLC0415 - not in other checkouts

    print_machine(f"{len(os.sched_getaffinity(0))} cores")
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


def cpu_seconds(*whose: int) -> float:
    """Return the processor seconds of this process and of the children that ended, or of some."""
    whose = whose or (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    usages = map(resource.getrusage, whose)
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
    with lines.open("w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in corpus(case, arguments))
    ways = {"now, 1 process": (ROOT, "1"), "now, 2 processes": (ROOT, "2")}
    ways |= {"now, all stored": (ROOT, AGAIN), FLOOR: (ROOT, FLOOR)}
    if case == "texts":
        ways |= {"now, index build": (ROOT, COMMAND), "tantivy, en_stem": (ROOT, TANTIVY)}
    if arguments.against is not None:
        earlier = arguments.against.resolve()
        ways = {"before, 1 process": (earlier, "1"), "before, 2 processes": (earlier, "2")} | ways
    turns: dict[str, list[Turn]] = {name: [] for name in ways}
    for number in range(arguments.rounds):
        for name, (checkout, jobs) in ways.items():
            with tempfile.TemporaryDirectory(dir=folder) as data_folder:
                turns[name].append(measure(checkout, case, lines, Path(data_folder), jobs))
        if not number and case == "texts":
            with tempfile.TemporaryDirectory(dir=folder) as data_folder:
                subprocess.run(
                    [sys.executable, __file__, "--turn", str(lines), data_folder, PARTS], check=True
                )
    print(f"\n{case:22}{'documents/s':>12}{'CPU us/doc':>12}{'x floor, CPU':>14}{'MB':>7}")
    n = arguments.documents
    floor = statistics.median(turn.cpu for turn in turns[FLOOR])
    for name, some in turns.items():
        elapsed, cpu, peak = (statistics.median(column) for column in zip(*some, strict=True))
        print(f"  {name:20}{n / elapsed:12,.0f}{cpu / n * 1e6:12.1f}{cpu / floor:14.2f}", end="")
        print(f"{peak / 1e6:7,.0f}", flush=True)


class Turn(NamedTuple):
    """What a way took: elapsed seconds, those of the processor, and the most memory in bytes."""

    elapsed: float
    cpu: float
    peak: int


def measure(checkout: Path, case: str, lines: Path, folder: Path, jobs: str) -> Turn:
    """Ingest the lines into a data folder, in a process of its own."""
    write_encoder(case, folder)
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    command = [sys.executable, __file__, "--turn", str(lines), str(folder), jobs]
    if jobs == COMMAND:
        command = [sys.executable, "-m", "hummingbit", "index", "build", "c", str(lines)]
        command += ["--data-dir", str(folder)]
    from benchmarks.harness.processes import proportional_bytes  # noqa: PLC0415 - as above

    began, used, peak = time.perf_counter(), cpu_seconds(resource.RUSAGE_CHILDREN), 0
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        while process.poll() is None:
            peak = max(peak, sum(map(proportional_bytes, living(process.pid))))
            time.sleep(SECONDS_BETWEEN_SAMPLES)
        assert process.stdout is not None  # noqa: S101 - for the type checker
        printed = process.stdout.read()
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} failed")
    if jobs == COMMAND:
        used = cpu_seconds(resource.RUSAGE_CHILDREN) - used
        return Turn(time.perf_counter() - began, used, peak)
    elapsed, cpu = json.loads(printed)
    return Turn(elapsed, cpu, peak)


def living(pid: int) -> list[int]:
    """Return the ids of a process and its children, or none if it has ended."""
    from benchmarks.harness.processes import family  # noqa: PLC0415 - as above

    try:
        return family(pid)
    except OSError:
        return []


def run_turn(lines: Path, folder: Path, jobs: str) -> tuple[float, float]:
    """Ingest the lines; return the elapsed seconds and those of the processor."""
    if jobs == FLOOR:
        return timed(lambda: insert_lines(lines, folder))
    if jobs == TANTIVY:
        return timed(lambda: index_by_tantivy(lines))
    with DataFolder(folder, writable=True, indexed=False) as data:
        collection = make_collection(data)
        if jobs == AGAIN:
            collection.ingest(read_documents(lines, unique_ids=False))
        n_jobs = 1 if jobs == AGAIN else int(jobs)
        return timed(
            lambda: collection.ingest(read_documents(lines, unique_ids=False), jobs=n_jobs)
        )


def make_collection(data: DataFolder) -> Collection:
    """Make a collection with the encoder of its folder, or else that which ships, or of codes."""
    if "e" in data.encoders.names():
        return data.create_collection("c", encoder="e")
    is_of_codes = (data.path / CODES).exists()
    return data.create_collection("c", n_bits=N_BITS if is_of_codes else None)


def print_parts(lines: Path, folder: Path) -> None:
    """Ingest texts in one process, and print what each part takes."""
    used: dict[str, float] = {}
    began = time.process_time()

    def end(part: str) -> None:
        nonlocal began
        now = time.process_time()
        used[part] = used.get(part, 0.0) + now - began
        began = now

    with DataFolder(folder, writable=True, indexed=False) as data:
        collection = make_collection(data)
        encoder = collection.encoder
        assert encoder is not None  # noqa: S101 - it ships
        encoder.encode(["scipy is imported, and the weights are made whole"])
        end("start")
        n = 0
        for batch in batches(read_documents(lines, unique_ids=False), COMMIT_SIZE):
            n += len(batch)
            end("reading and checking")
            changed = collection.new_or_changed(batch)
            end("looking for stored ones")
            codes = encoder.encode([document.text or "" for document in changed])
            end("encoding")
            collection.upsert_encoded(changed, codes)
            end("SQLite, with codes")
        collection.save_words()
        end("words")
        query = Query(text="a first search")
        for ranking in ("bm25", "hybrid"):
            collection.search([query], 10, ranking=ranking)
        end("first searches")
    for part, seconds in used.items():
        print(f"  {part:24}{seconds / n * 1e6:8.1f} us/doc CPU", flush=True)


def index_by_tantivy(lines: Path) -> None:
    """Index the texts of documents with stems, in one thread, as the word index does."""
    import tantivy  # noqa: PLC0415 - other checkouts may lack it

    builder = tantivy.SchemaBuilder()
    builder.add_text_field("text", stored=False, tokenizer_name="en_stem", index_option="freq")
    writer = tantivy.Index(builder.build()).writer(heap_size=512 << 20, num_threads=1)
    with lines.open("rb") as file:
        for line in file:
            writer.add_document(tantivy.Document(text=json.loads(line)["text"]))
    writer.commit()
    writer.wait_merging_threads()


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


def corpus(case: str, arguments: argparse.Namespace) -> Iterator[str]:
    """Yield the documents of a corpus as JSON lines."""
    rng, n = np.random.default_rng(0), arguments.documents
    if case == "texts":
        for i, text in enumerate(islice(short_texts(arguments.texts), n)):
            yield json.dumps({"id": f"doc-{i}", "text": text}, ensure_ascii=False)
        return
    for i in range(n):
        content: dict[str, object] = {"code": rng.bytes(N_BITS // 8).hex()}
        if case == "vectors":
            content = {"vector": rng.normal(size=DIMENSION).round(6).tolist()}
        payload = {"year": 1990 + i % 30, "source": f"s{i % 7}"}
        yield json.dumps({"id": f"doc-{i}", "label": f"l{i % 8}", "payload": payload, **content})


def short_texts(sources: Sequence[str]) -> Iterator[str]:
    """Yield runs of words of the documents of sources."""
    words = [
        word
        for source in sources
        for document in read_documents(source)
        for word in (document.text or "").split()
    ]
    for offset in OFFSETS:
        for start in range(offset, len(words), WORDS_IN_TEXT):
            yield " ".join(words[start : start + WORDS_IN_TEXT])
    raise SystemExit("--texts has too few words for so many documents")


def write_encoder(case: str, folder: Path) -> None:
    """Write the encoder of vectors to a data folder; texts have that which ships."""
    if case == "codes":
        (folder / CODES).touch()
    if case != "vectors":
        return
    rng = np.random.default_rng(0)
    weight = rng.normal(size=(DIMENSION, N_BITS)).astype(np.float32)
    layer = Layer(weight, np.zeros(N_BITS, dtype=np.float32), "identity")
    thresholds = np.zeros(N_BITS, dtype=np.float32)
    encoder = Encoder(VectorFeatures(DIMENSION), [layer], thresholds, {})
    inputs = rng.normal(size=(50, DIMENSION)).astype(np.float32)
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
