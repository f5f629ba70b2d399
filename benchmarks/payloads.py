"""Facets, groups, sorted listings and payload updates of a million documents, over REST.

The documents are short texts as in :mod:`benchmarks.lexical`, with clustered codes of 64 bits, and
payloads of a class of twenty, a year, a fraction, a time, two tags, a batch of 10,000 documents and
a parent that four documents share on average. With ``--indexed``, the fields have indexes. One
client sends one request at a time; "first" is the time of the first request, the median and p99 are
those of later ones, and "CPU" is the median processor time of the service, all in ms. Searches with
groups take turns with the same searches without, and "ratio" is that of their processor times; ten
groups of three hits have as many hits as the search for thirty.

For updates, a process sends searches by Hamming distance: four clients without a pause, or a given
number of searches a second, whose latency counts from when they were due. It does so in turn alone,
beside a process that only computes, which is what any other work costs on this machine, beside one
update of the payloads of 10,000 documents by a filter, and beside such updates without a pause. The
figures are medians of five windows of each. Beside one update, only the searches that were due
while it ran count, those of all windows together, and only with a given number.

Run as ``python -m benchmarks.payloads``. The collection is kept in ``--folder`` and reused.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import numpy as np

import hummingbit.threads  # noqa: F401 - before the libraries that read the environment
from benchmarks.harness.processes import end_load, service_process, start_load
from benchmarks.harness.search_codes import clustered
from benchmarks.harness.timing import options
from benchmarks.harness.zipfian_texts import runs_of_words, zipfian_texts
from hummingbit.corpus.document import Document
from hummingbit.encoder.codes import Codes
from hummingbit.index.collection import local_collection
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.rankings import RANKINGS

N_BITS = 64
BATCH = 10_000
QUERIES = 200
WINDOWS = 5
RATE = 200
STARTED = 0.8
"""Seconds after which a process that sends searches has certainly begun."""
MEAN_WORDS = 12
OF_A_PARENT = 4
PARTS = ("columns", "groups", "updates")
FIELDS = ("class", "year", "score", "time", "tags", "batch", "parent")
PATH = "/v1/collections/bench"
LATE = {"field": "year", "gte": 1990, "lt": 2000}
CLASSES = {"field": "class", "in": ["class-3", "class-9", "class-14"]}
FACETS: dict[str, dict[str, Any]] = {
    "facet: class": {"facets": [{"field": "class"}]},
    "facet: tags": {"facets": [{"field": "tags"}]},
    "facet: parent, of many values": {"facets": [{"field": "parent"}]},
    "facet: years by ten": {"facets": [{"field": "year", "interval": 10}]},
    "facet: times by month": {"facets": [{"field": "time", "calendar_interval": "month"}]},
    "facet: ranges of score": {
        "facets": [{"field": "score", "ranges": [{"lt": 0.1}, {"gte": 0.1, "lt": 0.5}]}]
    },
    "facet: score, all different": {"facets": [{"field": "score", "interval": 0.1}]},
    "facet: class, where year": {"facets": [{"field": "class"}], "filter": LATE},
    "facet: tags, where class": {"facets": [{"field": "tags"}], "filter": CLASSES},
}
SORTS = {
    "sort: year": [{"field": "year"}],
    "sort: score, descending": [{"field": "score", "order": "desc"}],
    "sort: class, then time": [{"field": "class"}, {"field": "time", "order": "desc"}],
}


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--documents", type=float, default=1e6, help="(default: %(default)s)")
    parser.add_argument("--repeat", type=int, default=20, help="(default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=10.0, help="of load (default: 10)")
    parser.add_argument("--indexed", action="store_true", help="index the fields of payloads")
    parser.add_argument(
        "--workers",
        type=int,
        default=1,
        help="processes that serve (default: 1); of more, only times count",
    )
    parser.add_argument("--only", choices=PARTS, help="one part of the figures (default: all)")
    parser.add_argument(
        "--folder",
        type=Path,
        default=Path("build/benchmarks/payloads"),
        help="(default: %(default)s)",
    )
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    n_documents = int(args.documents)
    texts = zipfian_texts(rng, n_documents, MEAN_WORDS)
    codes = clustered(rng, n_documents, N_BITS)
    phrases = runs_of_words(rng, texts, QUERIES)
    near = codes[rng.integers(0, n_documents, QUERIES)].tolist()
    queries = [
        {"text": text, "code": bytes(code).hex(), "limit": 10, "with_payload": False}
        for text, code in zip(phrases, near, strict=True)
    ]
    _make(args.folder, texts, codes, indexed=args.indexed)
    del texts, codes
    workers = [] if args.workers == 1 else ["--workers", f"{args.workers}"]
    with service_process(args.folder, *workers) as (pid, address):
        service = _Service(pid, address)
        print(f"{n_documents:,} documents; fields {'' if args.indexed else 'not '}indexed\n")
        print(f"{'':<34}{'first':>9}{'median':>9}{'p99':>9}{'CPU':>9}{'ratio':>8}")
        if args.only in {None, "columns"}:
            for name, body in FACETS.items():
                _print(name, service.times("/facets", [body] * args.repeat))
            for name, sort in SORTS.items():
                _print(name, service.pages(sort, args.repeat))
            prefixes = sorted({phrase.split()[0][:3] for phrase in phrases})[: args.repeat]
            _print("completions", service.times("/completions?text=", prefixes))
            examples = [
                {"positive": [f"d{i}", f"d{i + 1}"], "strategy": "best_score"}
                for i in range(args.repeat)
            ]
            _print("recommend: best_score", service.times("/recommend", examples))
        if args.only in {None, "groups"}:
            for ranking in RANKINGS:
                _print_groups(service, ranking, queries)
        if args.only in {None, "updates"}:
            _print_updates(address, service, queries, args.seconds, n_documents // BATCH)


class Times(NamedTuple):
    """The milliseconds of a request, and the processor's for the service."""

    elapsed: float
    busy: float


class _Service:
    """A connection to a service, which measures the time of requests."""

    def __init__(self, pid: int, address: str) -> None:
        self._pid = pid
        self._connection = HTTPConnection(urlsplit(address).netloc)

    def send(self, path: str, body: object = None) -> tuple[Times, Any]:
        """Return the milliseconds of a request to the collection, and its answer."""
        payload = None if body is None else json.dumps(body)
        headers = {"Content-Type": "application/json"}
        busy, began = self._busy(), time.perf_counter()
        self._connection.request("GET" if body is None else "POST", PATH + path, payload, headers)
        response = self._connection.getresponse()
        answer = response.read()
        elapsed = time.perf_counter() - began
        if response.status != 200:
            raise SystemExit(f"{path} was answered with {response.status}: {answer[:500]!r}")
        return Times(1000 * elapsed, 1000 * (self._busy() - busy)), json.loads(answer)

    def _busy(self) -> float:
        """Return the processor seconds of the threads of the service."""
        files = Path(f"/proc/{self._pid}/task").glob("*/schedstat")
        return sum(int(file.read_text().split()[0]) for file in files) / 1e9

    def times(self, path: str, bodies: list[Any]) -> list[Times]:
        """Return the milliseconds of each request; a string is the end of a path."""
        return [
            self.send(path + body)[0] if isinstance(body, str) else self.send(path, body)[0]
            for body in bodies
        ]

    def pages(self, sort: list[dict[str, str]], count: int) -> list[Times]:
        """Return the milliseconds of each page of a sorted listing."""
        times, cursor = [], None
        for _ in range(count):
            body = {"sort": sort, "limit": 100, "cursor": cursor}
            milliseconds, page = self.send("/documents:scroll", body)
            times.append(milliseconds)
            cursor = page["next_cursor"]
        return times


def _print(name: str, times: list[Times], plain: list[Times] | None = None) -> None:
    later = np.array(times[1:] or times)
    (p50, busy), p99 = np.median(later, axis=0), np.percentile(later[:, 0], 99)
    ratio = (
        "" if plain is None else f"{busy / np.median([window.busy for window in plain[1:]]):8.2f}"
    )
    print(f"{name:<34}{times[0].elapsed:9.1f}{p50:9.2f}{p99:9.2f}{busy:9.2f}{ratio}", flush=True)


def _print_groups(service: _Service, ranking: str, queries: list[dict[str, Any]]) -> None:
    kinds: dict[str, dict[str, Any]] = {
        "": {},
        ", 30 hits": {"limit": 30},
        " by parent": {"group_by": "parent"},
        " by parent, 3 hits each": {"group_by": "parent", "group_size": 3},
        " by class, 3 hits each": {"group_by": "class", "group_size": 3},
    }
    times: dict[str, list[Times]] = {kind: [] for kind in kinds}
    for query in queries:
        for kind, grouping in kinds.items():
            body = {**query, **grouping, "ranking": ranking}
            times[kind].append(service.send("/search", body)[0])
    for kind, some in times.items():
        _print(f"{ranking}{kind}", some, times[""] if kind else None)


ALONE, BESIDE_PROCESS = "alone", "beside a process that computes"
BESIDE_UPDATE, BESIDE_UPDATES = "beside an update", "beside updates without a pause"
COMPUTES = [sys.executable, "-c", "while True: pass"]


def _print_updates(
    address: str,
    service: _Service,
    queries: list[dict[str, Any]],
    seconds: float,
    n_batches: int,
) -> None:
    with TemporaryDirectory() as scratch:
        bodies = Path(scratch) / "bodies.jsonl"
        lines = (json.dumps({"code": query["code"], "limit": 10}) + "\n" for query in queries)
        bodies.write_text("".join(lines))
        load = partial(start_load, address, f"{PATH}/search", bodies, 4, seconds / WINDOWS)
        updates = _updates(n_batches)
        times = [service.send("/documents:payload", next(updates))[0] for _ in range(5)]
        _print("update of 10,000 payloads", times)
        closed = [ALONE, BESIDE_PROCESS, BESIDE_UPDATES]
        _print_loads("searches of 4 clients", service, updates, load, closed)
        at_rate = [ALONE, BESIDE_PROCESS, BESIDE_UPDATE, BESIDE_UPDATES]
        title = f"{RATE} searches a second"
        _print_loads(title, service, updates, partial(load, rate=RATE), at_rate)
        after = next(iter(FACETS.items()))
        times = []
        for _ in range(5):
            service.send("/documents:payload", next(updates))
            times.append(service.send("/facets", after[1])[0])
        _print(f"{after[0]}, after an update", times)


def _print_loads(
    title: str,
    service: _Service,
    updates: Iterator[dict[str, Any]],
    start: Callable[[], subprocess.Popen[str]],
    kinds: list[str],
) -> None:
    loads: dict[str, list[dict[str, Any]]] = {kind: [] for kind in kinds}
    latencies: list[float] = []
    times: dict[str, list[Times]] = {kind: [] for kind in kinds}
    for _, kind in itertools.product(range(WINDOWS), kinds):
        computing = subprocess.Popen(COMPUTES) if kind == BESIDE_PROCESS else None
        load = start()
        if kind == BESIDE_UPDATE:
            time.sleep(STARTED)
            began = time.perf_counter()
            times[kind].append(service.send("/documents:payload", next(updates))[0])
            ended = time.perf_counter()
        while kind == BESIDE_UPDATES and load.poll() is None:
            times[kind].append(service.send("/documents:payload", next(updates))[0])
        loads[kind].append(end_load(load))
        if computing is not None:
            computing.kill()
            computing.wait()
        if kind == BESIDE_UPDATE:
            pairs = zip(loads[kind][-1]["due"], loads[kind][-1]["latencies"], strict=True)
            latencies += [1000 * latency for due, latency in pairs if began <= due <= ended]
    for kind in kinds:
        if times[kind]:
            _print(f"  update {kind.replace('an update', 'searches')}", times[kind])
    print(f"\n{title:<34}{'per second':>12}{'median':>9}{'p99':>9}{'ratio':>8}")
    p99_alone = float(np.median([window["p99_ms"] for window in loads[ALONE]]))
    for kind in kinds:
        rate, p50, p99 = (
            float(np.median([window[key] for window in loads[kind]]))
            for key in ("per_second", "p50_ms", "p99_ms")
        )
        if kind == BESIDE_UPDATE:
            p50, p99 = np.percentile(latencies, [50, 99])
        print(f"{kind:<34}{rate:12,.0f}{p50:9.2f}{p99:9.2f}{p99 / p99_alone:8.2f}", flush=True)


def _updates(n_batches: int) -> Iterator[dict[str, Any]]:
    """Yield updates that each change the payloads of all documents of a batch."""
    for number in itertools.count(time.time_ns()):
        filter_ = {"field": "batch", "eq": number % n_batches}
        yield {"updates": [{"filter": filter_, "set": {"checked": number}}]}


def _make(folder: Path, texts: list[str], codes: Codes, *, indexed: bool) -> None:
    """Make the collection if there is none, and index its fields or no fields."""
    with DataFolder(folder, writable=True) as data:
        if "bench" not in data.collections():
            data.create_collection("bench", n_bits=N_BITS)
        collection = local_collection(data.collection("bench"), "word index")
        rng = np.random.default_rng(1)
        n_parents = len(texts) // OF_A_PARENT
        for start in range(0, len(texts), BATCH):
            n = min(BATCH, len(texts) - start)
            classes, years = rng.integers(20, size=n), rng.integers(1900, 2025, n)
            scores, tags = rng.random(n), rng.integers(7, size=n)
            parents, days = rng.integers(n_parents, size=n), rng.integers(9_000, size=n)
            times = (np.datetime64("2000-01-01T12:00:00") + days * 86_400).astype(str)
            if start < len(collection):
                continue
            documents = [
                Document(
                    id=f"d{start + i}",
                    text=texts[start + i],
                    payload={
                        "class": f"class-{classes[i]}",
                        "year": int(years[i]),
                        "score": float(scores[i]),
                        "time": f"{times[i]}Z",
                        "tags": [f"t{tags[i]}", f"u{i % 11}"],
                        "batch": start // BATCH,
                        "parent": f"parent-{parents[i]}",
                    },
                )
                for i in range(n)
            ]
            collection.upsert_encoded(documents, codes[start : start + n])
        collection.set_indexed_fields(FIELDS if indexed else ())
        collection.set_ranking("hybrid")
        collection.save_words()


if __name__ == "__main__":
    main()
