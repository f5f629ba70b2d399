"""A service of one process beside services of several: memory, rates, and visibility of writes.

Memory is the proportional set size (PSS) of all processes of a service: a page that they share
counts once. It is measured after searches, and again after writes. Rates depend on how many
processors are free; several processes do not add any. "CPU µs" is the processor time that all
processes of a service take for a search with the most clients, and "load" that of the process that
sends the searches. On two processors, both together can use two million µs a second.
"""

from __future__ import annotations

import http.client
import json
import resource
import secrets
import statistics
import tempfile
import time
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

import hummingbit.threads  # noqa: F401 - before the libraries that read the environment
from benchmarks.harness.processes import (
    end_load,
    family,
    processor_seconds,
    service_process,
    start_load,
)
from benchmarks.harness.timing import options
from hummingbit import Client
from hummingbit.corpus.document import Document
from hummingbit.index.data_folder import DataFolder

N_BITS = 64
BATCH = 50_000
SEARCHES = 500
WRITES = 20
SEARCH_PATH = "/v1/collections/bench/search"


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--documents", type=float, default=1e6, help="(default: %(default)s)")
    parser.add_argument("--workers", type=int, nargs="+", default=[0, 1, 2, 4])
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--seconds", type=float, default=3.0, help="(default: %(default)s)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        data, bodies = Path(scratch) / "data", Path(scratch) / "bodies.jsonl"
        _make_folder(data, bodies, int(args.documents))
        rates = "".join(f"{f'{clients} clients, /s':>16}" for clients in args.clients)
        print(
            f"{'workers':>8}{'PSS, MiB':>10}{'after writes':>14}{rates}{'CPU µs':>8}{'load':>6}"
            f"{'seen, ms':>10}{'all':>8}"
        )
        for workers in args.workers:
            _print_line(data, bodies, workers, args.clients, args.seconds)


def _make_folder(data: Path, bodies: Path, n_documents: int) -> None:
    generator = np.random.default_rng(0)
    centres = generator.integers(0, 256, (20_000, N_BITS // 8), dtype=np.uint8)
    codes = centres[generator.integers(0, len(centres), n_documents)]
    codes ^= (generator.random(codes.shape) < 0.1).astype(np.uint8)
    with DataFolder(data, writable=True) as folder:
        collection = folder.create_collection("bench", n_bits=N_BITS)
        for start in range(0, n_documents, BATCH):
            batch = codes[start : start + BATCH]
            ids = range(start, start + len(batch))
            collection.upsert_encoded([Document(id=str(i), code="") for i in ids], batch)
    queries = codes[generator.integers(0, n_documents, SEARCHES)]
    lines = (json.dumps({"code": code.tobytes().hex(), "limit": 10}) + "\n" for code in queries)
    bodies.write_text("".join(lines))


def _print_line(data: Path, bodies: Path, workers: int, clients: list[int], seconds: float) -> None:
    with service_process(data, "--workers", str(workers)) as (pid, address):
        rates = []
        for count in clients:
            before, load_before = _service_seconds(pid), _load_seconds()
            figures = end_load(start_load(address, SEARCH_PATH, bodies, count, seconds))
            rates.append(figures["per_second"])
            microseconds = 1e6 * (_service_seconds(pid) - before) / figures["requests"]
            load_microseconds = 1e6 * (_load_seconds() - load_before) / figures["requests"]
        memory = _memory_mib(pid)
        own_ms, all_ms = _visibility_delays(address, max(1, workers))
        memory_after_writes = _memory_mib(pid)
    columns = "".join(f"{rate:>16,.0f}" for rate in rates)
    print(
        f"{workers:>8}{memory:>10.0f}{memory_after_writes:>14.0f}{columns}"
        f"{microseconds:>8.0f}{load_microseconds:>6.0f}{own_ms:>10.1f}{all_ms:>8.0f}",
        flush=True,
    )


def _service_seconds(pid: int) -> float:
    """Return the processor seconds of the processes of a service so far."""
    return sum(map(processor_seconds, family(pid)))


def _load_seconds() -> float:
    """Return the processor seconds of ended children of this process, which only loads are."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _visibility_delays(address: str, workers: int) -> tuple[float, float]:
    """Return the median milliseconds until a write is visible: on its connection, and on all.

    A write counts as visible on all once four new connections for each worker have seen it.
    """
    own_delays, all_delays = [], []
    with Client(address) as client:
        for _ in range(WRITES):
            code = secrets.token_hex(N_BITS // 8)
            began = time.perf_counter()
            generation = client.upsert("bench", [{"id": "new", "code": code}])["generation"]
            result = client.search("bench", code=code, limit=1)
            if result["generation"] < generation:
                raise SystemExit("a search did not see a write on the same connection")
            own_delays.append(1000 * (time.perf_counter() - began))
            while not all(_is_visible(address, code, generation) for _ in range(4 * workers)):
                pass
            all_delays.append(1000 * (time.perf_counter() - began))
    return statistics.median(own_delays), statistics.median(all_delays)


def _is_visible(address: str, code: str, generation: int) -> bool:
    """Return whether a search on another connection reflects `generation`."""
    with closing(http.client.HTTPConnection(urlsplit(address).netloc)) as connection:
        body, headers = json.dumps({"code": code, "limit": 1}), {"Content-Type": "application/json"}
        connection.request("POST", SEARCH_PATH, body, headers)
        current: int = json.loads(connection.getresponse().read())["generation"]
        return current >= generation


def _memory_mib(pid: int) -> float:
    """Return the proportional set size of a process and its children, in MiB."""
    kilobytes = 0
    for process in family(pid):
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
        kilobytes += next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return kilobytes / 1024


if __name__ == "__main__":
    main()
