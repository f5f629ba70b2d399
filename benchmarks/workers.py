"""A service of one process beside services of several: memory, rates, and how soon writes are seen.

The memory is the proportional share (PSS) of all processes of a service: a page that several of
them share counts once. It is taken after searches, and again after writes. Rates depend on how many
processors are free; a service of several processes has no more of them.
"""

from __future__ import annotations

import argparse
import http.client
import json
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

import hummingbit.threads  # noqa: F401 - before the libraries that read the environment
from benchmarks.harness.served import served
from corpus.document import Document
from hummingbit import Client
from index.data_folder import DataFolder

N_BITS = 64
AT_ONCE = 50_000
SEARCHES = 500
WRITES = 20
SEARCH_PATH = "/v1/collections/bench/search"


def main() -> None:
    """Print a line for each number of workers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=float, default=1e6, help="(default: %(default)s)")
    parser.add_argument("--workers", type=int, nargs="+", default=[0, 1, 2, 4])
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--seconds", type=float, default=3.0, help="(default: %(default)s)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        data, bodies = Path(scratch) / "data", Path(scratch) / "bodies.jsonl"
        _make(data, bodies, int(args.documents))
        rates = "".join(f"{f'{clients} clients, /s':>16}" for clients in args.clients)
        print(
            f"{'workers':>8}{'PSS, MiB':>10}{'after writes':>14}{rates}{'seen, ms':>10}{'all':>8}"
        )
        for workers in args.workers:
            _measure(data, bodies, workers, args.clients, args.seconds)


def _make(data: Path, bodies: Path, n_documents: int) -> None:
    generator = np.random.default_rng(0)
    centres = generator.integers(0, 256, (20_000, N_BITS // 8), dtype=np.uint8)
    codes = centres[generator.integers(0, len(centres), n_documents)]
    codes ^= (generator.random(codes.shape) < 0.1).astype(np.uint8)
    with DataFolder(data, writable=True) as folder:
        collection = folder.create_collection("bench", n_bits=N_BITS)
        for start in range(0, n_documents, AT_ONCE):
            some = codes[start : start + AT_ONCE]
            ids = range(start, start + len(some))
            collection.upsert_encoded([Document(id=str(at), code="") for at in ids], some)
    queries = codes[generator.integers(0, n_documents, SEARCHES)]
    lines = (json.dumps({"code": one.tobytes().hex(), "limit": 10}) + "\n" for one in queries)
    bodies.write_text("".join(lines))


def _measure(data: Path, bodies: Path, workers: int, clients: list[int], seconds: float) -> None:
    with served(data, "--workers", str(workers)) as (pid, address):
        rates = []
        for count in clients:
            command = [sys.executable, "-m", "benchmarks.harness.load", address, "POST"]
            command += [SEARCH_PATH, str(bodies), str(count), str(seconds)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            rates.append(json.loads(done.stdout)["per_second"])
        before = _memory(pid)
        seen, by_all = _visibility(address, max(1, workers))
        after = _memory(pid)
    shown = "".join(f"{rate:>16,.0f}" for rate in rates)
    print(
        f"{workers:>8}{before:>10.0f}{after:>14.0f}{shown}{seen:>10.1f}{by_all:>8.0f}", flush=True
    )


def _visibility(address: str, workers: int) -> tuple[float, float]:
    """Return the median milliseconds until a write is seen: on its connection, and on all others.

    It is seen on all once 4 connections for each worker see it.
    """
    own, others = [], []
    with Client(address) as client:
        for _ in range(WRITES):
            code = secrets.token_hex(N_BITS // 8)
            began = time.perf_counter()
            generation = client.upsert("bench", [{"id": "new", "code": code}])["generation"]
            found = client.search("bench", code=code, limit=1)
            if found["generation"] < generation:
                raise SystemExit("a write is not seen on its own connection")
            own.append(1000 * (time.perf_counter() - began))
            while not all(_sees(address, code, generation) for _ in range(4 * workers)):
                pass
            others.append(1000 * (time.perf_counter() - began))
    return statistics.median(own), statistics.median(others)


def _sees(address: str, code: str, generation: int) -> bool:
    """Ask on a connection of its own."""
    with closing(http.client.HTTPConnection(urlsplit(address).netloc)) as connection:
        body, headers = json.dumps({"code": code, "limit": 1}), {"Content-Type": "application/json"}
        connection.request("POST", SEARCH_PATH, body, headers)
        found: int = json.loads(connection.getresponse().read())["generation"]
        return found >= generation


def _memory(pid: int) -> float:
    """Return the proportional share of a process and its children, in MiB."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    kilobytes = 0
    for one in (str(pid), *children):
        lines = Path(f"/proc/{one}/smaps_rollup").read_text().splitlines()
        kilobytes += next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return kilobytes / 1024


if __name__ == "__main__":
    main()
