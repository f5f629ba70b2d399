"""The service beside Milvus and txtai: searches by text at 1, 8 and 32 clients.

Run as ``python -m benchmarks.service``. All of them hold the same codes, find the same k, run on
this machine at the same time and are asked in turn, from processes of their own. Milvus is the
2.3.5 standalone that the package ``milvus`` carries, with a ``BIN_FLAT`` index, asked through
pymilvus with codes that were made beforehand: it has no encoder. txtai is its API over a binary
FAISS index, with our encoder as its transform; it has an environment of its own:

    python -m venv build/txtai
    build/txtai/bin/pip install 'txtai[api]' 'torch==2.13.0' scipy

A peer that is not there is left out and said so. Latencies and rates are of the load's own clocks.
"CPU µs" is the time of processors that the process of our service takes for a search.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np

import hummingbit.threads  # noqa: F401 - before the libraries that read the environment
from benchmarks.harness.served import served
from benchmarks.harness.service_corpus import Corpus, K, make_corpus
from benchmarks.harness.service_peers import System, milvus, txtai
from corpus.document import Document
from encoder.codes import hamming_distance
from hummingbit import Client
from index.data_folder import DataFolder
from index.rankings.protocol import HAMMING

CHECKED = 20


@contextmanager
def hummingbit_service(corpus: Corpus) -> Iterator[System]:
    """Index the corpus and serve it."""
    with DataFolder(corpus.folder, writable=True) as folder:
        collection = folder.create_collection("bench", encoder="bench")
        collection.set_ranking(HAMMING)
        for start in range(0, len(corpus.codes), 50_000):
            part = slice(start, start + 50_000)
            ids = range(start, start + len(corpus.codes[part]))
            documents = [Document(id=str(i), text="") for i in ids]
            collection.upsert_encoded(documents, corpus.codes[part])
        print(f"hummingbit: {collection.stats()['engine_reason']}")
    bodies = corpus.folder / "bodies.jsonl"
    lines = (json.dumps({"text": text, "limit": K}) + "\n" for text in corpus.queries)
    bodies.write_text("".join(lines))
    path = "/v1/collections/bench/search"
    with served(corpus.folder) as (pid, address), Client(address) as client:

        def search(place: int) -> list[int]:
            found = client.search("bench", corpus.queries[place], limit=K)
            return [int(hit["id"]) for hit in found["hits"]]

        load = ["benchmarks.harness.load", address, "POST", path, str(bodies)]
        yield System("hummingbit", load, search, pid)


def check(systems: list[System], corpus: Corpus) -> None:
    """Fail unless all systems find documents at the same distances."""
    for place in range(CHECKED):
        expected = np.sort(hamming_distance(corpus.query_codes[place], corpus.codes))[:K]
        for system in systems:
            ids = system.search(place)
            found = np.sort(hamming_distance(corpus.query_codes[place], corpus.codes[ids]))
            if found.tolist() != expected.tolist():
                raise SystemExit(f"{system.name}: query {place}: {found} instead of {expected}")


def measure(
    systems: list[System], clients: int, seconds: float, rounds: int
) -> dict[str, dict[str, float]]:
    """Load the systems in turn and return the medians over the rounds."""
    found: dict[str, list[dict[str, float]]] = {system.name: [] for system in systems}
    for _ in range(rounds):
        for system in systems:
            command = [sys.executable, "-m", *system.load, str(clients), str(seconds)]
            before = processor_seconds(system.pid)
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            run = json.loads(done.stdout)
            took = processor_seconds(system.pid) - before
            found[system.name].append({**run, "processor_us": took / run["requests"] * 1e6})
            if found[system.name][-1]["failures"]:
                raise SystemExit(f"{system.name}: {found[system.name][-1]}")
    return {
        name: {key: statistics.median(run[key] for run in runs) for key in runs[0]}
        for name, runs in found.items()
    }


def processor_seconds(pid: int | None) -> float:
    """Return how long processors have worked for a process, all of its threads together."""
    if pid is None:
        return 0.0
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--documents", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", nargs="*", default=["milvus", "txtai"])
    parser.add_argument("--txtai-python", type=Path, default=Path("build/txtai/bin/python"))
    args = parser.parse_args()
    for documents in args.documents:
        with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
            corpus = make_corpus(Path(scratch), documents)
            systems = [stack.enter_context(hummingbit_service(corpus))]
            if "milvus" in args.peers:
                systems += stack.enter_context(milvus(corpus))
            if "txtai" in args.peers:
                systems += stack.enter_context(txtai(corpus, args.txtai_python))
            check(systems, corpus)
            print(f"{'documents':>10} {'clients':>7}  {'':<12}{'requests/s':>11}", end="")
            print(f"{'p50 ms':>9}{'p99 ms':>9}{'ratio':>8}{'CPU µs':>9}")
            for clients in args.clients:
                found = measure(systems, clients, args.seconds, args.rounds)
                ours = found["hummingbit"]["per_second"]
                for name, one in found.items():
                    print(f"{documents:>10,} {clients:>7}  {name:<12}", end="")
                    print(f"{one['per_second']:>11,.0f}{one['p50_ms']:>9.2f}", end="")
                    cpu = f"{one['processor_us']:>9.0f}" if one["processor_us"] else ""
                    ratio = f"{ours / one['per_second']:>7.1f}×"
                    print(f"{one['p99_ms']:>9.2f}{ratio}{cpu}", flush=True)


if __name__ == "__main__":
    main()
