"""The service beside txtai: searches by text; and beside itself, of several processes.

Run as ``python -m benchmarks.service``. Both hold the same codes, find the same k, and run on this
machine at the same time. They are searched in turn, from separate processes. txtai is its API over
a binary FAISS index, with our encoder as its transform. It has its own environment:

    python -m venv build/txtai
    build/txtai/bin/pip install 'txtai[api]' 'torch==2.13.0' scipy PyStemmer

With ``--folder``, the corpus and our index are kept for the next run, so the benchmark can be run
in pieces, with other clients. If txtai is not installed, it is left out with a message.
Clients measure latencies and rates. "CPU µs" is the processor time that the processes of a service
take per search, where it is known.

``--workers 0 1 2 4`` compares our service with so many processes instead, 0 being one process
without others. Searches are by code. Memory is the proportional set size (PSS) of all processes: a
page that they share counts once. It is measured after searches, and again after writes. "CPU µs"
and "load" are the processor time of the service and of the process that sends the searches, for a
search with the most clients. "seen" is the time until a write is seen on its own connection, and
"all" until four new connections for each worker have seen it, one after another.
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

import hummingbit.threads  # noqa: F401 - before the libraries that read the environment
from benchmarks.harness.processes import (
    end_load,
    family,
    processor_seconds,
    proportional_bytes,
    service_process,
    start_load,
)
from benchmarks.harness.service_corpus import Corpus, K, kept_corpus
from benchmarks.harness.service_peers import System, txtai
from benchmarks.harness.timing import options, print_machine
from hummingbit import Client
from hummingbit.corpus.document import Document
from hummingbit.encoder.codes import hamming_distance
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.names import HAMMING

CHECKED_QUERIES = 20
WRITES = 20
SEARCH_PATH = "/v1/collections/bench/search"


@contextmanager
def hummingbit_service(corpus: Corpus) -> Iterator[System]:
    """Index the corpus and run a service that searches it."""
    index_corpus(corpus)
    bodies = corpus.folder / "bodies.jsonl"
    lines = (json.dumps({"text": text, "limit": K}) + "\n" for text in corpus.queries)
    bodies.write_text("".join(lines))
    with service_process(corpus.folder) as (pid, address), Client(address) as client:

        def search(position: int) -> list[int]:
            results = client.search("bench", corpus.queries[position], limit=K)
            return [int(hit["id"]) for hit in results["hits"]]

        load = ["benchmarks.harness.load", address, "POST", SEARCH_PATH, str(bodies)]
        yield System("hummingbit", load, search, pid)


def index_corpus(
    corpus: Corpus, document: Callable[[int], Document] = lambda i: Document(str(i), text="")
) -> None:
    """Index the codes in the folder of the corpus, unless an earlier run did."""
    with DataFolder(corpus.folder, writable=True, indexed=False) as folder:
        if "bench" not in folder.collections():
            folder.create_collection("bench", encoder="bench").set_ranking(HAMMING)
        collection = folder.collection("bench")
        for start in range(len(collection), len(corpus.codes), 50_000):
            codes = corpus.codes[start : start + 50_000]
            documents = [document(i) for i in range(start, start + len(codes))]
            collection.upsert_encoded(documents, codes)


def check(systems: list[System], corpus: Corpus) -> None:
    """Exit with an error unless all systems find documents at the same distances."""
    for position in range(CHECKED_QUERIES):
        expected = np.sort(hamming_distance(corpus.query_codes[position], corpus.codes))[:K]
        for system in systems:
            ids = system.search(position)
            distances = np.sort(hamming_distance(corpus.query_codes[position], corpus.codes[ids]))
            if distances.tolist() != expected.tolist():
                raise SystemExit(
                    f"{system.name}: the hits of query {position} have distances {distances},"
                    f" not {expected}"
                )


def measure(
    systems: list[System], clients: int, seconds: float, rounds: int
) -> dict[str, dict[str, float]]:
    """Put load on the systems in turn; return the median of each figure by system."""
    runs: dict[str, list[dict[str, float]]] = {system.name: [] for system in systems}
    for _ in range(rounds):
        for system in systems:
            command = [sys.executable, "-m", *system.load, str(clients), str(seconds)]
            before = _processor_seconds(system.pid)
            output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            seconds_used = _processor_seconds(system.pid) - before
            run = json.loads(output)
            if run["failures"]:
                raise SystemExit(f"{system.name}: {run['failures']} requests failed: {run}")
            processor_us = seconds_used / run["requests"] * 1e6
            runs[system.name].append({**run, "processor_us": processor_us})
    return {
        name: {key: statistics.median(run[key] for run in own) for key in own[0]}
        for name, own in runs.items()
    }


def _processor_seconds(pid: int | None) -> float:
    """Return those of a process and its children so far; 0 without an id."""
    return sum(map(processor_seconds, family(pid))) if pid else 0.0


# Several processes.


def print_workers(corpus: Corpus, workers: int, clients: list[int], seconds: float) -> None:
    """Print the memory, the rates and the delays of writes of a service of so many processes."""
    bodies = corpus.folder / "codes.jsonl"
    lines = (json.dumps({"code": code.tobytes().hex(), "limit": K}) for code in corpus.query_codes)
    bodies.write_text("".join(f"{line}\n" for line in lines))
    with service_process(corpus.folder, "--workers", str(workers)) as (pid, address):
        rates = []
        for count in clients:
            before, load_before = _processor_seconds(pid), _load_seconds()
            figures = end_load(start_load(address, SEARCH_PATH, bodies, count, seconds))
            rates.append(figures["per_second"])
            cpu = 1e6 * (_processor_seconds(pid) - before) / figures["requests"]
            load = 1e6 * (_load_seconds() - load_before) / figures["requests"]
        memory = _memory_mib(pid)
        own_ms, all_ms = visibility_delays(address, corpus, max(1, workers))
        after = _memory_mib(pid)
    columns = "".join(f"{rate:>16,.0f}" for rate in rates)
    print(f"{workers:>8}{memory:>10.0f}{after:>14.0f}{columns}", end="")
    print(f"{cpu:>8.0f}{load:>6.0f}{own_ms:>10.1f}{all_ms:>8.0f}", flush=True)


def visibility_delays(address: str, corpus: Corpus, workers: int) -> tuple[float, float]:
    """Return the median milliseconds until a write is seen: on its connection, and on all."""
    delays = []

    body = json.dumps({"text": corpus.queries[0], "limit": 1})

    def sees(generation: int) -> bool:
        with closing(HTTPConnection(urlsplit(address).netloc)) as other:
            other.request("POST", SEARCH_PATH, body, {"Content-Type": "application/json"})
            return int(json.loads(other.getresponse().read())["generation"]) >= generation

    with Client(address) as client:
        for text in corpus.queries[:WRITES]:
            began = time.perf_counter()
            generation = client.upsert("bench", [{"id": "new", "text": text}])["generation"]
            if client.search("bench", text, limit=1)["generation"] < generation:
                raise SystemExit("a search did not see a write on the same connection")
            own = time.perf_counter()
            while not all(sees(generation) for _ in range(4 * workers)):
                pass
            delays.append((1000 * (own - began), 1000 * (time.perf_counter() - began)))
    own_ms, all_ms = (statistics.median(column) for column in zip(*delays, strict=True))
    return own_ms, all_ms


def _load_seconds() -> float:
    """Return the processor seconds of ended children of this process, which only loads are."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _memory_mib(pid: int) -> float:
    """Return the proportional set size of a process and its children, in MiB."""
    return sum(map(proportional_bytes, family(pid))) / 2**20


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, nargs="+", help="compare numbers of processes")
    parser.add_argument("--folder", type=Path, help="keep corpora and our indexes here")
    parser.add_argument("--txtai-python", type=Path, default=Path("build/txtai/bin/python"))
    args = parser.parse_args()
    print_machine()
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        folder = Path(scratch) if args.folder is None else args.folder
        corpus = kept_corpus(folder / str(args.documents), args.documents)
        if args.workers:
            index_corpus(corpus)
            rates = "".join(f"{f'{clients} clients, /s':>16}" for clients in args.clients)
            print(f"{'workers':>8}{'PSS, MiB':>10}{'after writes':>14}{rates}", end="")
            print(f"{'CPU µs':>8}{'load':>6}{'seen, ms':>10}{'all':>8}")
            for workers in args.workers:
                print_workers(corpus, workers, args.clients, args.seconds)
            return
        systems = [stack.enter_context(hummingbit_service(corpus))]
        systems += stack.enter_context(txtai(corpus, args.txtai_python))
        check(systems, corpus)
        print(f"{'clients':>7}  {'':<12}{'requests/s':>11}", end="")
        print(f"{'p50 ms':>9}{'p99 ms':>9}{'ratio':>8}{'CPU µs':>9}")
        for clients in args.clients:
            figures = measure(systems, clients, args.seconds, args.rounds)
            ours = figures["hummingbit"]["per_second"]
            for name, own in figures.items():
                cpu = f"{own['processor_us']:>9.0f}" if own["processor_us"] else ""
                print(f"{clients:>7}  {name:<12}{own['per_second']:>11,.0f}", end="")
                print(f"{own['p50_ms']:>9.2f}{own['p99_ms']:>9.2f}", end="")
                print(f"{ours / own['per_second']:>7.1f}×{cpu}", flush=True)


if __name__ == "__main__":
    main()
