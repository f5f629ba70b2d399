"""A collection of a million or ten million texts: written, opened, searched, and its memory.

Texts have twelve words, whose frequencies follow Zipf's law. Codes of 256 bits are uniform, as
those of language models nearly are; ``--codes clustered --bits 64`` makes codes like those of
trained encoders.
Documents bring their codes, so encoding is not included. Each step is a process of its own: the
writing, the first opening, which indexes the words and keeps them in a file, and an opening with
searches. There each query is searched by every ranking in turn, by the collection's own search,
which also reads the ids: by the rankings of codes before the words are opened, and by all
afterwards. "ratio" is that of the medians to the ranking ``hamming``. With ``--page N``, the first
page of ten hits takes turns with page N: "by cursor" finds the page after the last hit of the page
before it, "by offset" finds all hits up to it.

Times are of the processor. "floor" is the time to read all codes once. Memory is private to the
process (``RssAnon``) or mapped from files, which the system can take back (``RssFile``).

Run as ``python -m benchmarks.scale``; ``--size 1e6`` takes two minutes, and 1e7 needs 8 GB.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.harness.search_codes import KINDS
from benchmarks.harness.timing import in_turn, options, peak_bytes, print_machine, print_times
from benchmarks.harness.zipfian_texts import runs_of_words, zipfian_texts
from benchmarks.kernel import floor
from hummingbit.corpus.document import Document
from hummingbit.encoder.codes import Codes, unpack_codes
from hummingbit.index.collection import Collection
from hummingbit.index.names import (
    ASYMMETRIC,
    HAMMING,
)
from hummingbit.index.query_syntax import QueryText
from hummingbit.index.questions import Question
from hummingbit.index.rankings import (
    BY_WORDS,
    RANKINGS,
)
from hummingbit.index.records import EncodedQueries
from hummingbit.index.schema import Description
from hummingbit.index.search import SearchResult
from hummingbit.index.store.store import Store

CHUNK = 100_000
COMMIT = 10_000
WARM_UP = 5
MEAN_WORDS = 12
K = 10
BY_CODES = [ranking for ranking in RANKINGS if ranking not in BY_WORDS]


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--size", type=float, default=1e7, help="documents (default: 1e7)")
    parser.add_argument("--bits", type=int, default=256, help="(default: 256)")
    parser.add_argument("--codes", choices=KINDS, default="uniform", help="(default: uniform)")
    parser.add_argument("--queries", type=int, default=100, help="of each ranking")
    parser.add_argument("--page", type=int, help="also time this page, beside the first")
    parser.add_argument("--folder", type=Path, help="save the collection here and reuse it")
    parser.add_argument("--step", choices=list(STEPS), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.step is not None:
        STEPS[arguments.step](arguments.folder / "store.sqlite", arguments)
        return
    print_machine()
    with tempfile.TemporaryDirectory() as name:
        folder = arguments.folder or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        for step in STEPS:
            command = [sys.executable, "-m", "benchmarks.scale", *sys.argv[1:], "--step", step]
            subprocess.run([*command, "--folder", str(folder)], check=True)


def write(path: Path, arguments: argparse.Namespace) -> None:
    """Write the collection, unless there is one."""
    if path.exists():
        return
    size, seconds = int(arguments.size), 0.0
    partial_path = path.with_suffix(".partial")
    partial_path.unlink(missing_ok=True)
    with closing(make_collection(partial_path, arguments.bits)) as collection:
        for start in range(0, size, CHUNK):
            texts, codes = chunk(start // CHUNK, min(CHUNK, size - start), arguments)
            began = time.process_time()
            write_texts(collection, texts, codes, start)
            seconds += time.process_time() - began
    partial_path.rename(path)
    disk = path.stat().st_size / size
    print(f"written    {seconds:9.1f} CPU s, {seconds / size * 1e6:.1f} µs and", end="")
    print(f" {disk:.0f} bytes on disk a document; peak {peak_bytes() / 1e6:,.0f} MB", flush=True)


def make_collection(path: Path, n_bits: int) -> Collection:
    """Make an empty collection of texts that bring their codes."""
    Store.create(path, Description("texts", n_bits))
    return Collection(Store(path, writable=True), indexed=False)


def write_texts(collection: Collection, texts: Sequence[str], codes: Codes, start: int = 0) -> None:
    """Write documents whose ids count from `start`."""
    for at in range(0, len(texts), COMMIT):
        numbered = enumerate(texts[at : at + COMMIT], start + at)
        documents = [Document(id=f"d{number}", text=text) for number, text in numbered]
        collection.upsert_encoded(documents, codes[at : at + COMMIT])


def index_words(path: Path, _: argparse.Namespace) -> None:
    """Open the collection with its words for the first time."""
    with measured("words indexed"), closing(open_collection(path)) as collection:
        collection._published_index.current_with_lexical()  # noqa: SLF001
    bytes_ = sum(file.stat().st_size for file in path.parent.glob("words.index"))
    print(f"           a file of {bytes_ / 1e6:,.0f} MB; peak {peak_bytes() / 1e6:,.0f} MB")


def search(path: Path, arguments: argparse.Namespace) -> None:
    """Open the collection, and search it by every ranking; the words are opened for the last."""
    print_memory("this process")
    with closing(open_collection(path)) as collection:
        with measured("opened"):
            published = collection._published_index.current()  # noqa: SLF001
        print_memory("codes")
        codes, _ = published.generation.codes()
        print(f"floor      {floor(codes) / 1e3:9.2f} ms of the processor")
        del codes
        texts, codes = chunk(0, min(CHUNK, int(arguments.size)), arguments)

        def queries_read_by(read: Callable[[str], Question]) -> list[EncodedQueries]:
            rng = np.random.default_rng(1)
            asked = runs_of_words(rng, texts, arguments.queries + WARM_UP)
            encoded = make_queries(rng, asked, codes, read)
            return [encoded[number : number + 1] for number in range(len(encoded))]

        queries = queries_read_by(plain_question)
        time_rankings(collection, queries, BY_CODES)
        print_memory("codes, searched")
        for ranking in (HAMMING, ASYMMETRIC) if arguments.page else ():
            print(f"{ranking}, page {arguments.page:,} beside page 1")
            time_pages(
                partial(collection.search, ranking=ranking), queries[WARM_UP:], arguments.page
            )
        with measured("words opened"):
            lexical = collection._published_index.current_with_lexical().lexical  # noqa: SLF001
        assert lexical is not None  # noqa: S101 - for the type checker
        time_rankings(collection, queries_read_by(lexical.read), list(RANKINGS))
        print_memory("words, searched")
        print(f"           peak {peak_bytes() / 1e6:,.0f} MB")


STEPS = {"write": write, "words": index_words, "search": search}


def time_rankings(
    collection: Collection, queries: Sequence[EncodedQueries], rankings: Sequence[str]
) -> None:
    """Print the times of searches by rankings that take turns."""
    ways: dict[str, Callable[[EncodedQueries], object]] = {
        ranking: partial(collection.search, k=K, ranking=ranking)
        for ranking in sorted(rankings, key=lambda ranking: ranking != HAMMING)
    }
    in_turn(ways, queries[:WARM_UP])
    print_times(in_turn(ways, queries[WARM_UP:]))


def time_pages(
    search: Callable[..., SearchResult], queries: Sequence[EncodedQueries], page: int
) -> None:
    """Print the times of the first page, and of another by its cursor and by its offset."""
    offset = (page - 1) * K
    before = [search(query, K, offset=offset - K) for query in queries]
    ways: dict[str, Callable[[int], SearchResult]] = {
        "first": lambda number: search(queries[number], K),
        "by cursor": lambda n: search(queries[n], K, cursor=before[n].next_cursors[0]),
        "by offset": lambda number: search(queries[number], K, offset=offset),
    }
    if ways["by cursor"](0).hits != ways["by offset"](0).hits:
        raise SystemExit("the page by cursor is not the page by offset")
    print_times(in_turn(ways, range(len(queries))))


def open_collection(path: Path) -> Collection:
    return Collection(Store(path, writable=False), indexed=False)


def chunk(number: int, size: int, arguments: argparse.Namespace) -> tuple[list[str], Codes]:
    """Return the texts and codes of some documents, the same ones in every process."""
    rng = np.random.default_rng([0, number])
    texts = zipfian_texts(rng, size, MEAN_WORDS)
    if arguments.codes == "clustered":  # all chunks have the same centres
        rng = np.random.default_rng(0)
        every = KINDS["clustered"](rng, size * (number + 1), arguments.bits)
        return texts, every[-size:]
    return texts, KINDS[arguments.codes](rng, size, arguments.bits)


def plain_question(text: str) -> Question:
    """Return a question for searches by codes."""
    return Question(QueryText(text), encoded=text)


def make_queries(
    rng: np.random.Generator,
    texts: list[str],
    codes: Codes,
    read: Callable[[str], Question] = plain_question,
) -> EncodedQueries:
    """Make queries of `texts` whose weights are noisy versions of the codes of documents."""
    near = codes[rng.integers(0, len(codes), len(texts))]
    signs = unpack_codes(near).astype(np.float32) * 2 - 1
    weights = (signs * 2 + rng.normal(size=signs.shape)).astype(np.float32)
    return EncodedQueries.of_texts([*map(read, texts)], weights)


@contextmanager
def measured(name: str) -> Iterator[None]:
    """Print the times of a step."""
    cpu, elapsed = time.process_time(), time.perf_counter()
    yield
    cpu, elapsed = time.process_time() - cpu, time.perf_counter() - elapsed
    print(f"{name:10} {cpu:9.2f} CPU s, elapsed {elapsed:.2f} s", flush=True)


def print_memory(part: str) -> None:
    """Print the memory of this process once it has a part."""
    status = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    fields = dict(line.split(":", 1) for line in status)
    own, mapped = (int(fields[name].split()[0]) / 1e3 for name in ("RssAnon", "RssFile"))
    print(f"  with {part:20} {own:7,.0f} MB own, {mapped:7,.0f} MB mapped", flush=True)


if __name__ == "__main__":
    main()
