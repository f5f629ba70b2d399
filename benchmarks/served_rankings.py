"""Every ranking of the demo's docstrings: what a search by text takes, in the process and served.

Run as ``python -m benchmarks.served_rankings``. The queries are the first forty everyday questions
of the demo, over the docstrings of the packages installed here, with the codes of the encoder that
ships; k is 10. Encoding is included.

- *in the process*: the least time of a search in some rounds, the mean over the questions. Searches
  by all rankings take turns, so each finds the caches of the processor as another left them.
- *once*: the same for texts that are searched for only once by a ranking, some words of documents,
  so nothing that is kept of an earlier query helps. The median of the texts.
- *served*: the processor time of the server's process for a search, one client, the median and the
  least of rounds, in which the rankings take turns.
- *stock app*: the same of an application of thirty lines over the same collection
  (:mod:`benchmarks.harness.stock_server`), and the service's least as a multiple of its least. The
  last line has the floor: what a response of one line takes there.
- *before*: the same of the service of another checkout, with ``--before CHECKOUT``.
- *tantivy*: BM25 of the same texts by its Python package, stemmed; the id of each hit is read, as
  ours is. It is timed in turns with ours in the process.

With ``--clients``, hybrid searches a second through REST beside two others on this machine, in
turn: txtai's API with ``hybrid: true``, our encoder as its transform and a binary FAISS index
(:mod:`benchmarks.service` says how to install it), and what people write by hand
(:mod:`benchmarks.harness.by_hand_server`): tantivy, FAISS's ``IndexBinaryFlat`` and reciprocal rank
fusion behind FastAPI. "CPU µs" is the processor time of all processes of a server for a search, and
"of by hand" the rate as a multiple of that of the service by hand. That one answers in threads, and
its libraries compute in several at a time, so at many clients its rate is that of more processors
than one. Ours uses one unless it has processes for more (``--workers``).

With ``--folder``, the collection is kept there for the next run.
"""

from __future__ import annotations

import argparse
import itertools
import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import numpy as np

import hummingbit.threads  # noqa: F401 - before the libraries that read the environment
from benchmarks.harness.by_hand_server import WordSearch
from benchmarks.harness.processes import running, service_process
from benchmarks.harness.service_corpus import Corpus, K
from benchmarks.harness.service_peers import System, txtai
from benchmarks.harness.timing import print_machine
from benchmarks.harness.zipfian_texts import runs_of_words
from benchmarks.service import measure
from experiments.docstring_codes import NAME
from hummingbit.corpus.readers import read_documents
from hummingbit.index.backend import CollectionBackend
from hummingbit.index.catalog import NO_ENCODER, shipped_encoder
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.ingestion import ingest
from hummingbit.index.names import HYBRID
from hummingbit.index.rankings import RANKINGS
from hummingbit.index.records import Query

QUESTIONS, ROUNDS = 40, 14
ENCODER = "bench"
"""The name by which the other servers load the encoder."""
TANTIVY, BY_HAND = "tantivy", "tantivy + codes"
STOCK, BEFORE, FLOOR = " by the stock application", " before", "floor"
PATH = f"/v1/collections/{NAME}/search"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3, help="of load, for each ranking")
    parser.add_argument("--seconds", type=float, default=3.0, help="of load in a round")
    parser.add_argument("--clients", type=int, nargs="*", default=[], help="such as 1 8 32")
    parser.add_argument("--workers", type=int, nargs="*", default=[0, 2], help="of our service")
    parser.add_argument("--before", type=Path, help="another checkout, whose service is timed too")
    parser.add_argument("--folder", type=Path, help="keep the collection here")
    parser.add_argument("--txtai-python", type=Path, default=Path("build/txtai/bin/python"))
    args = parser.parse_args()
    print_machine()
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.folder or Path(scratch)
        corpus = kept_docstrings(folder)
        with DataFolder(folder, writable=False) as data_folder:
            own, once = times_in_process(data_folder.collection(NAME), corpus)
        with ExitStack() as stack:
            systems = [
                *stack.enter_context(hummingbit_rankings(corpus)),
                *stack.enter_context(stock_rankings(corpus)),
            ]
            if args.before:
                systems += stack.enter_context(hummingbit_rankings(corpus, args.before))
            served = [measure(systems, 1, args.seconds, 1) for _ in range(args.rounds)]
        print_served(len(corpus.codes), own, once, served)
        if args.clients:
            print_rates(corpus, args)


def kept_docstrings(folder: Path) -> Corpus:
    """Return the docstrings and the questions; index them in `folder` unless they are there."""
    questions = [document.text or "" for document in read_documents(f"{NAME}:queries")][:QUESTIONS]
    if not (folder / "texts.json").exists():
        documents = [*read_documents(f"{NAME}:train"), *read_documents(f"{NAME}:test")]
        shipped = shipped_encoder()
        if shipped is None:
            raise SystemExit(NO_ENCODER)
        with DataFolder(folder, writable=True) as data_folder:
            data_folder.encoders.install(shipped, ENCODER)
            collection = data_folder.create_collection(NAME, encoder=ENCODER)
            collection.set_ranking(HYBRID)
            ingest(collection, documents)
            codes = collection.labelled_codes()[0]
        np.save(folder / "codes.npy", codes)
        (folder / "texts.json").write_text(json.dumps([document.text for document in documents]))
    codes = np.load(folder / "codes.npy")
    return Corpus(folder, codes, questions, codes[: len(questions)])


def times_in_process(
    collection: CollectionBackend, corpus: Corpus
) -> tuple[Mapping[str, float], Mapping[str, float]]:
    """Return the microseconds of a search by each ranking, and by tantivy: repeated, and once."""
    texts = json.loads((corpus.folder / "texts.json").read_text())
    words = WordSearch(texts)

    def search(ranking: str, text: str) -> object:
        return collection.search([Query(text=text)], K, ranking=ranking, with_cursor=False)

    searches: dict[str, Callable[[str], object]] = {
        **{ranking: partial(search, ranking) for ranking in RANKINGS},
        TANTIVY: lambda text: words.search(text, K),
    }
    unseen = runs_of_words(np.random.default_rng(0), texts, len(searches) * QUESTIONS * ROUNDS)
    once: dict[str, list[float]] = {name: [] for name in searches}
    for text, (name, work) in zip(unseen, itertools.cycle(searches.items()), strict=False):
        start = time.perf_counter()
        work(text)
        once[name].append((time.perf_counter() - start) * 1e6)
    least = {name: [np.inf] * len(corpus.queries) for name in searches}
    for _ in range(ROUNDS):
        for position, text in enumerate(corpus.queries):
            for name, work in searches.items():
                start = time.perf_counter()
                work(text)
                seconds = time.perf_counter() - start
                least[name][position] = min(least[name][position], seconds)
    repeated = {name: statistics.fmean(times) * 1e6 for name, times in least.items()}
    return repeated, {name: statistics.median(times) for name, times in once.items()}


def print_served(
    documents: int,
    own: Mapping[str, float],
    once: Mapping[str, float],
    served: Sequence[Mapping[str, Mapping[str, float]]],
) -> None:
    """Print a line for each ranking: in the process, served, by the stock application, before."""
    columns = f"{'in the process':>26}{'once':>12}{'served, CPU':>15}"
    print(f"{documents:,} documents{columns}{'stock app':>29}{'before':>28}")

    def cpu(name: str) -> list[float]:
        return [run[name]["processor_us"] for run in served if name in run] or [np.nan]

    for name, microseconds in own.items():
        times = cpu(name)
        line = f"{name:<20}{microseconds:>17.0f} µs{once[name]:>9.0f} µs"
        line += f"{statistics.median(times):>12.0f} µs, least {min(times):.0f} µs"
        for other in (STOCK, BEFORE):
            others = cpu(f"{name}{other}")
            line += f"{statistics.median(others):>10.0f}, least {min(others):.0f}"
            line += f" ({min(times) / min(others):.2f} ×)"
        print(line)
    print(f"floor {min(cpu(FLOOR)):.0f} µs")


@contextmanager
def hummingbit_rankings(corpus: Corpus, checkout: Path | None = None) -> Iterator[list[System]]:
    """Run the service, that of another checkout if given; yield a system for each ranking."""
    suffix = "" if checkout is None else BEFORE
    with service_process(corpus.folder, "--read-only", cwd=checkout) as (pid, address):
        yield [
            System(f"{ranking}{suffix}", _load(corpus, address, ranking, PATH), lambda _: [], pid)
            for ranking in RANKINGS
        ]


@contextmanager
def stock_rankings(corpus: Corpus) -> Iterator[list[System]]:
    """Run the stock application; yield a system for each ranking, and the floor."""
    arguments = ("benchmarks.harness.stock_server", str(corpus.folder), NAME)
    with running(*arguments) as (pid, address):
        loads = {
            f"{ranking}{STOCK}": _load(corpus, address, ranking, "/search") for ranking in RANKINGS
        }
        loads[FLOOR] = _load(corpus, address, None, "/floor")
        yield [System(name, load, lambda _: [], pid) for name, load in loads.items()]


@contextmanager
def hybrid_of_workers(corpus: Corpus, workers: int) -> Iterator[System]:
    """Run the service with so many `workers` on a copy of its folder."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = shutil.copytree(corpus.folder, Path(scratch) / "data")
        with service_process(folder, "--workers", str(workers)) as (pid, address):
            load = _load(corpus, address, HYBRID, PATH)
            name = f"{HYBRID}, {workers} workers" if workers else HYBRID
            yield System(name, load, lambda _: [], pid)


@contextmanager
def by_hand(corpus: Corpus) -> Iterator[System]:
    """Run :mod:`benchmarks.harness.by_hand_server`."""
    with running("benchmarks.harness.by_hand_server", str(corpus.folder)) as (pid, address):
        yield System(BY_HAND, _load(corpus, address, None, "/search"), lambda _: [], pid)


def _load(corpus: Corpus, address: str, ranking: str | None, path: str) -> list[str]:
    bodies = corpus.folder / f"{ranking or 'by_hand'}.jsonl"
    fields = {"limit": K} if ranking is None else {"limit": K, "ranking": ranking}
    bodies.write_text(
        "".join(json.dumps({"text": text, **fields}) + "\n" for text in corpus.queries)
    )
    return ["benchmarks.harness.load", address, "POST", path, str(bodies)]


def print_rates(corpus: Corpus, args: argparse.Namespace) -> None:
    """Print the hybrid searches a second of the service and of others."""
    with ExitStack() as stack:
        systems = [
            stack.enter_context(hybrid_of_workers(corpus, workers)) for workers in args.workers
        ]
        systems.append(stack.enter_context(by_hand(corpus)))
        systems += stack.enter_context(txtai(corpus, args.txtai_python))
        columns = f"{'searches/s':>11}{'p50 ms':>9}{'p99 ms':>9}{'CPU µs':>9}{'of by hand':>12}"
        print(f"{'clients':>7}  {'':<18}{columns}")
        for clients in args.clients:
            figures = measure(systems, clients, args.seconds, args.rounds)
            of_by_hand = figures[BY_HAND]["per_second"]
            for name, run in figures.items():
                rates = f"{run['per_second']:>11,.0f}{run['p50_ms']:>9.2f}{run['p99_ms']:>9.2f}"
                ratio = f"{run['per_second'] / of_by_hand:>11.2f}×"
                print(f"{clients:>7}  {name:<18}{rates}{run['processor_us']:>9.0f}{ratio}")


if __name__ == "__main__":
    main()
