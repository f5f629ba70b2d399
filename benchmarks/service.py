"""The service beside Milvus and txtai: searches by text at 1, 8 and 32 clients.

Run as ``python -m benchmarks.service``. All three hold the same codes, find the same k, and run on
this machine at the same time. They are searched in turn, from separate processes. Milvus is the
2.3.5 standalone from the package ``milvus``, with a ``BIN_FLAT`` index. It has no encoder, so it is
searched through pymilvus with codes made beforehand. txtai is its API over a binary FAISS index,
with our encoder as its transform. It has its own environment:

    python -m venv build/txtai
    build/txtai/bin/pip install 'txtai[api]' 'torch==2.13.0' scipy PyStemmer

With ``--folder``, the corpus and our index are kept for the next run, so the benchmark can be run
in pieces, with other clients or peers. A peer that is not installed is left out with a message.
Clients measure latencies and rates. "CPU µs" is the processor time that the processes of a service
take per search, where it is known. "empty" is the floor: an application that answers the same
requests with ``{}``, on the same server.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np

import hummingbit.threads  # noqa: F401 - before the libraries that read the environment
from benchmarks.harness.processes import family, processor_seconds, running, service_process
from benchmarks.harness.service_corpus import Corpus, K, kept_corpus
from benchmarks.harness.service_peers import System, milvus, txtai
from benchmarks.harness.timing import options
from hummingbit import Client
from hummingbit.corpus.document import Document
from hummingbit.encoder.codes import hamming_distance
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.rankings import HAMMING

CHECKED_QUERIES = 20
BODIES = "bodies.jsonl"


@contextmanager
def hummingbit_service(corpus: Corpus) -> Iterator[System]:
    """Index the corpus and run a service that searches it."""
    with DataFolder(corpus.folder, writable=True) as folder:
        if "bench" in folder.collections():
            collection = folder.collection("bench")
        else:
            collection = folder.create_collection("bench", encoder="bench")
            collection.set_ranking(HAMMING)
        for start in range(len(collection), len(corpus.codes), 50_000):
            part = slice(start, start + 50_000)
            ids = range(start, start + len(corpus.codes[part]))
            documents = [Document(id=str(i), text="") for i in ids]
            collection.upsert_encoded(documents, corpus.codes[part])
        print(f"hummingbit: {collection.stats()['engine_reason']}")
    bodies = corpus.folder / BODIES
    lines = (json.dumps({"text": text, "limit": K}) + "\n" for text in corpus.queries)
    bodies.write_text("".join(lines))
    path = "/v1/collections/bench/search"
    with service_process(corpus.folder) as (pid, address), Client(address) as client:

        def search(position: int) -> list[int]:
            results = client.search("bench", corpus.queries[position], limit=K)
            return [int(hit["id"]) for hit in results["hits"]]

        load = ["benchmarks.harness.load", address, "POST", path, str(bodies)]
        yield System("hummingbit", load, search, pid)


@contextmanager
def empty_service(corpus: Corpus) -> Iterator[System]:
    """Run a service that answers every request with an empty object."""
    with running("benchmarks.harness.empty_service") as (pid, address):
        load = ["benchmarks.harness.load", address, "POST", "/", str(corpus.folder / BODIES)]
        yield System("empty", load, lambda _: [], pid)


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


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--documents", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", nargs="*", default=["milvus", "txtai"])
    parser.add_argument("--folder", type=Path, help="keep corpora and our indexes here")
    parser.add_argument("--txtai-python", type=Path, default=Path("build/txtai/bin/python"))
    args = parser.parse_args()
    for documents in args.documents:
        with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
            folder = Path(scratch) if args.folder is None else args.folder
            corpus = kept_corpus(folder / str(documents), documents)
            systems = [stack.enter_context(hummingbit_service(corpus))]
            if "milvus" in args.peers:
                systems += stack.enter_context(milvus(corpus))
            if "txtai" in args.peers:
                systems += stack.enter_context(txtai(corpus, args.txtai_python))
            check(systems, corpus)
            systems.append(stack.enter_context(empty_service(corpus)))
            print(f"{'documents':>10} {'clients':>7}  {'':<12}{'requests/s':>11}", end="")
            print(f"{'p50 ms':>9}{'p99 ms':>9}{'ratio':>8}{'CPU µs':>9}")
            for clients in args.clients:
                figures = measure(systems, clients, args.seconds, args.rounds)
                ours = figures["hummingbit"]["per_second"]
                for name, own in figures.items():
                    print(f"{documents:>10,} {clients:>7}  {name:<12}", end="")
                    print(f"{own['per_second']:>11,.0f}{own['p50_ms']:>9.2f}", end="")
                    cpu = f"{own['processor_us']:>9.0f}" if own["processor_us"] else ""
                    ratio = f"{ours / own['per_second']:>7.1f}×"
                    print(f"{own['p99_ms']:>9.2f}{ratio}{cpu}", flush=True)


if __name__ == "__main__":
    main()
