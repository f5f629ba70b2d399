"""Ten million documents on one machine: written, opened, searched, and the memory of each part.

The texts are made like those of :mod:`benchmarks.lexical`, twelve words on average, and codes of
256 bits are uniform, as those of language models nearly are. Documents bring their codes, so
encoding is not included. Each step is a process of its own: the writing, the first opening, which
indexes the words and keeps them in a file, and an opening with searches. Times are of the
processor; the elapsed time is beside them, and other processes lengthen it. "floor" is the time to
read all codes once. Memory is private to the process (``RssAnon``) or mapped from files, which the
system can take back (``RssFile``).

Run as ``python -m benchmarks.scale``; ``--size 1e6`` takes two minutes, and 1e7 needs 8 GB.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np

from benchmarks.harness.search_codes import uniform
from benchmarks.harness.timing import options, peak_bytes
from benchmarks.harness.zipfian_texts import runs_of_words, zipfian_texts
from benchmarks.rankings import make_queries
from benchmarks.search import floor
from hummingbit.corpus.document import Document
from hummingbit.encoder.codes import Codes
from hummingbit.index.collection import Collection
from hummingbit.index.rankings import BM25, BY_WORDS, RANKINGS
from hummingbit.index.records import EncodedQueries
from hummingbit.index.schema import Description
from hummingbit.index.store.store import Store

BITS = 256
CHUNK = 100_000
COMMIT = 10_000
WARM_UP = 5
K = 10


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--size", type=float, default=1e7, help="documents (default: 1e7)")
    parser.add_argument("--queries", type=int, default=100, help="of each ranking")
    parser.add_argument("--folder", type=Path, help="save the collection here and reuse it")
    parser.add_argument("--step", choices=list(STEPS), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.step is not None:
        STEPS[arguments.step](arguments.folder / "store.sqlite", arguments)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = arguments.folder or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        given = ["--size", str(arguments.size), "--queries", str(arguments.queries)]
        for step in STEPS:
            command = [sys.executable, "-m", "benchmarks.scale", "--step", step]
            subprocess.run([*command, "--folder", str(folder), *given], check=True)


def write(path: Path, arguments: argparse.Namespace) -> None:
    """Write the collection, unless there is one."""
    if path.exists():
        return
    size, seconds = int(arguments.size), 0.0
    partial = path.with_suffix(".partial")
    partial.unlink(missing_ok=True)
    Store.create(partial, Description("texts", BITS))
    with closing(Collection(Store(partial, writable=True), indexed=False)) as collection:
        for start in range(0, size, CHUNK):
            texts, codes = chunk(start // CHUNK, min(CHUNK, size - start))
            began = time.process_time()
            for at in range(0, len(texts), COMMIT):
                numbered = enumerate(texts[at : at + COMMIT], start + at)
                documents = [Document(id=f"d{number}", text=text) for number, text in numbered]
                collection.upsert_encoded(documents, codes[at : at + COMMIT])
            seconds += time.process_time() - began
    partial.rename(path)
    disk = path.stat().st_size / size
    print(f"written    {seconds:9.1f} CPU s, {seconds / size * 1e6:.1f} µs and", end="")
    print(f" {disk:.0f} bytes on disk a document; peak {peak_bytes() / 1e6:,.0f} MB", flush=True)


def index_words(path: Path, _: argparse.Namespace) -> None:
    """Open the collection with its words for the first time."""
    with measured("words indexed"), closing(open_collection(path)) as collection:
        collection._published_index.current_with_lexical()  # noqa: SLF001
    bytes_ = sum(file.stat().st_size for file in path.parent.glob("words.index"))
    print(
        f"           a file of {bytes_ / 1e6:,.0f} MB; peak {peak_bytes() / 1e6:,.0f} MB",
        flush=True,
    )


def search(path: Path, arguments: argparse.Namespace) -> None:
    """Open the collection, and search it by every ranking; the words are opened for the last."""
    report("this process")
    with closing(open_collection(path)) as collection:
        with measured("opened"):
            published = collection._published_index.current()  # noqa: SLF001
        report("codes")
        codes, _ = published.generation.codes()
        print(f"floor      {floor(codes) / 1e3:9.2f} ms of the processor")
        del codes
        queries = make_some(arguments)
        report("queries")
        for ranking in sorted(RANKINGS, key=BY_WORDS.__contains__):
            if ranking == BM25:
                with measured("words opened"):
                    collection._published_index.current_with_lexical()  # noqa: SLF001
                report("words")
            times = []
            for number in range(len(queries.texts)):
                query = queries[number : number + 1]
                began = time.process_time(), time.perf_counter()
                collection.search(query, K, ranking=ranking)
                times.append((time.process_time() - began[0], time.perf_counter() - began[1]))
            cpu, elapsed = (1e3 * np.array(times[WARM_UP:])).T
            p50, p99 = np.percentile(cpu, [50, 99])
            print(f"{ranking:10} {p50:9.2f} ms p50, {p99:.2f} ms p99 of the processor;", end="")
            print(f" elapsed {np.median(elapsed):.2f} ms p50", flush=True)
            report(f"by {ranking}")
        print(f"           peak {peak_bytes() / 1e6:,.0f} MB")


STEPS = {"write": write, "words": index_words, "search": search}


def open_collection(path: Path) -> Collection:
    return Collection(Store(path, writable=False), indexed=False)


def chunk(number: int, size: int) -> tuple[list[str], Codes]:
    """Return the texts and codes of some documents, the same ones in every process."""
    rng = np.random.default_rng([0, number])
    return zipfian_texts(rng, size, 12), uniform(rng, size, BITS)


def make_some(arguments: argparse.Namespace) -> EncodedQueries:
    """Make queries like the documents of the first chunk."""
    texts, codes = chunk(0, min(CHUNK, int(arguments.size)))
    rng = np.random.default_rng(1)
    return make_queries(rng, runs_of_words(rng, texts, arguments.queries + WARM_UP), codes)


@contextmanager
def measured(name: str) -> Iterator[None]:
    """Print the times of a step."""
    cpu, elapsed = time.process_time(), time.perf_counter()
    yield
    cpu, elapsed = time.process_time() - cpu, time.perf_counter() - elapsed
    print(f"{name:10} {cpu:9.2f} CPU s, elapsed {elapsed:.2f} s", flush=True)


def report(part: str) -> None:
    """Print the memory of this process once it has a part."""
    status = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    fields = dict(line.split(":", 1) for line in status)
    own, mapped = (int(fields[name].split()[0]) / 1e3 for name in ("RssAnon", "RssFile"))
    print(f"  with {part:20} {own:7,.0f} MB own, {mapped:7,.0f} MB mapped", flush=True)


if __name__ == "__main__":
    main()
