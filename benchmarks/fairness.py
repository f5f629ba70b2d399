"""Cheap searches beside expensive requests: how long do the cheap ones wait?

Run as ``python -m benchmarks.fairness``. One client sends searches by text for ten hits, one after
the other, alone and then beside clients that send one kind of expensive request without pause.
Printed are the median and the 99th percentile of the cheap searches, and how many expensive
requests were answered meanwhile. Every client is a process of its own. The data folder is made once
and kept in ``build/``; ``--documents`` sets its size.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import numpy as np

import hummingbit.threads  # noqa: F401 - before the libraries that read the environment
from benchmarks.harness.served import served
from benchmarks.harness.service_corpus import Corpus, K, make_corpus
from corpus.document import Document
from index.data_folder import DataFolder
from index.rankings.protocol import HAMMING

NAME = "bench"
PATH = f"/v1/collections/{NAME}"
BODIES = 200
OPTIONS = ("--log-level", "error", "--max-body-bytes", str(16 << 20))
BYTES_OF_BODIES = 64 << 20
LABELS = 50
MANY = {"limit": 10_000}
# A cheap search may take this many times as long as alone, or so many milliseconds.
WANTED_RATIO, WANTED_MS = 5.0, 15.0


class Kind(NamedTuple):
    """A kind of expensive request; `body` makes the n-th, None for one without a body."""

    name: str
    path: str
    body: Callable[[int], object]
    method: str = "POST"
    clients: int = 4


CHEAP = Kind("cheap", "/search", lambda _: None, clients=1)


def make_folder(path: Path, documents: int) -> Corpus:
    """Make the corpus, and index it in the data folder `path` unless that was done before."""
    done = path / "complete"
    if not done.exists():
        corpus = make_corpus(path, documents)
        np.save(path / "codes.npy", corpus.codes)
        np.save(path / "query_codes.npy", corpus.query_codes)
        (path / "queries.json").write_text(json.dumps(corpus.queries))
        _index(corpus)
        done.touch()
    codes, query_codes = np.load(path / "codes.npy"), np.load(path / "query_codes.npy")
    return Corpus(path, codes, json.loads((path / "queries.json").read_text()), query_codes)


def _index(corpus: Corpus) -> None:
    with DataFolder(corpus.folder, writable=True, indexed=False) as folder:
        collection = folder.create_collection(NAME, encoder="bench")
        collection.set_ranking(HAMMING)
        for start in range(0, len(corpus.codes), 50_000):
            codes = corpus.codes[start : start + 50_000]
            documents = [_document(start + place) for place in range(len(codes))]
            collection.upsert_encoded(documents, codes)


def _document(number: int) -> Document:
    payload = {
        "number": number,
        "year": 1900 + number % 120,
        "label": f"label{number % LABELS}",
        "title": f"The title of document {number}, some sixty characters in length",
        "tags": [f"tag{number % 7}", f"tag{number % 11}"],
    }
    return Document(
        id=str(number), text=f"w{number % 10_000:05d} w{number % 9_973:05d}", payload=payload
    )


def kinds(corpus: Corpus) -> list[Kind]:
    """Return the expensive requests; no filter is ever sent twice."""
    texts, size = corpus.queries, len(corpus.codes)
    unseen = itertools.count()

    def some(at: int, count: int) -> list[str]:
        return [texts[(at * count + place) % len(texts)] for place in range(count)]

    def search(at: int, **options: object) -> dict[str, Any]:
        return {"text": texts[at % len(texts)], **options}

    def unseen_filter() -> dict[str, Any]:
        return {"field": "number", "gte": next(unseen), "lt": size // 2}

    def written(at: int) -> dict[str, Any]:
        documents = [
            {"id": f"new{at % 10}-{place}", "text": text, "payload": {"label": "label0"}}
            for place, text in enumerate(some(at, 1000))
        ]
        return {"documents": documents}

    def evaluated(at: int) -> dict[str, Any]:
        queries = [{"text": text, "label": f"label{at % LABELS}"} for text in some(at, 500)]
        return {"queries": queries, "metrics": ["P@100"]}

    long_text = " ".join(itertools.islice(itertools.cycle(texts), 200_000))[:1_000_000]

    def batched(at: int) -> dict[str, Any]:
        return {"searches": [{"text": one, "limit": 100} for one in some(at, 1000)]}

    def by_id(at: int) -> dict[str, Any]:
        return {"ids": [str((at * 1000 + place * 7) % size) for place in range(1000)]}

    def encoded(at: int) -> dict[str, Any]:
        return {"inputs": [{"text": one} for one in some(at, 1000)]}

    def filtered(_: int) -> dict[str, Any]:
        return search(0, limit=10, filter=unseen_filter())

    return [
        Kind("10,000 hits with payload", "/search", lambda n: search(n, **MANY, with_payload=True)),
        Kind("10,000 hits re-ranked", "/search", lambda n: search(n, **MANY, rerank=True)),
        Kind("batch of 1,000 searches", "/search/batch", batched),
        Kind("filter never asked before", "/search", filtered),
        Kind("40 such filters at a time", "/search", filtered, clients=40),
        Kind("count by a filter", "/documents:count", lambda _: {"filter": unseen_filter()}),
        Kind("1,000 documents by id", "/documents:get", by_id),
        Kind("scroll 1,000 documents", "/documents:scroll", lambda _: {"limit": 1000}),
        Kind("encode 1,000 texts", "/encode", encoded),
        Kind("a text of a million characters", "/search", lambda _: {"text": long_text}),
        Kind("evaluate 500 queries", "/evaluate", evaluated, clients=2),
        Kind("verify", "/verify", lambda _: {}, clients=2),
        Kind("upsert 1,000 documents", "/documents", written, "PUT", clients=2),
    ]


def measure(address: str, folder: Path, kind: Kind | None, seconds: float) -> dict[str, float]:
    """Return what the cheap searches took, beside `kind` or alone."""
    cheap = _load(address, CHEAP, folder / "cheap.jsonl", seconds)
    if kind is None:
        return _cheap(cheap)
    bodies = folder / "expensive.jsonl"
    _write_bodies(bodies, kind)
    # Longer than the cheap ones, so that there is no moment without it.
    expensive = _load(address, kind, bodies, seconds + 1)
    found = _cheap(cheap)
    beside = _result(expensive)
    found |= {"answered": beside["requests"], "refused": beside["failures"]}
    return {**found, "expensive_s": beside["p50_ms"] / 1000}


def _load(address: str, kind: Kind, bodies: Path, seconds: float) -> subprocess.Popen[str]:
    command = [
        sys.executable,
        "-m",
        "benchmarks.harness.load",
        address,
        kind.method,
        PATH + kind.path,
    ]
    command += [str(bodies), str(kind.clients), str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _result(load: subprocess.Popen[str]) -> dict[str, float]:
    output, _ = load.communicate()
    if load.returncode:
        raise SystemExit("a client failed; what it wrote is above")
    found: dict[str, float] = json.loads(output)
    return found


def _cheap(load: subprocess.Popen[str]) -> dict[str, float]:
    found = _result(load)
    if found["failures"]:
        raise SystemExit(f"{found['failures']:.0f} cheap searches were not answered 200")
    return found


def _write_bodies(path: Path, kind: Kind) -> None:
    written = 0
    with path.open("w") as file:
        for number in range(BODIES):
            line = json.dumps(kind.body(number))
            written += len(line)
            file.write(line + "\n")
            if written > BYTES_OF_BODIES:
                return


def _median(runs: list[dict[str, float]]) -> dict[str, float]:
    return {key: statistics.median(run[key] for run in runs) for key in runs[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kinds", nargs="*", help="only those whose names hold one of these words")
    args = parser.parse_args()
    folder = Path("build") / f"fairness-{args.documents}"
    corpus = make_folder(folder, args.documents)
    lines = (json.dumps({"text": text, "limit": K}) + "\n" for text in corpus.queries)
    (folder / "cheap.jsonl").write_text("".join(lines))
    chosen = [
        kind
        for kind in kinds(corpus)
        if not args.kinds or any(word in kind.name for word in args.kinds)
    ]
    with served(folder, *OPTIONS) as (_, address):
        httpx.get(f"{address}/readyz", timeout=60).raise_for_status()
        measure(address, folder, None, 1)
        _print_table(address, folder, chosen, args.seconds, args.rounds)


def _print_table(
    address: str, folder: Path, chosen: list[Kind], seconds: float, rounds: int
) -> None:
    head = f"{'beside':<32}{'clients':>8}{'p50 ms':>9}{'p99 ms':>9}{'× alone':>9}"
    print(f"{head}{'answered':>10}{'refused':>9}{'p50 s':>8}")
    for kind in chosen:
        alone_runs, beside_runs = [], []
        for _ in range(rounds):
            alone_runs.append(measure(address, folder, None, seconds / 2))
            beside_runs.append(measure(address, folder, kind, seconds))
        alone, beside = _median(alone_runs), _median(beside_runs)
        allowed = max(WANTED_RATIO * alone["p99_ms"], WANTED_MS)
        verdict = "" if beside["p99_ms"] <= allowed else f"  more than {allowed:.1f} ms"
        print(f"{'nothing':<32}{'':>8}{alone['p50_ms']:>9.2f}{alone['p99_ms']:>9.2f}")
        print(
            f"{kind.name:<32}{kind.clients:>8}{beside['p50_ms']:>9.2f}{beside['p99_ms']:>9.2f}"
            f"{beside['p99_ms'] / alone['p99_ms']:>9.1f}{beside['answered']:>10.0f}"
            f"{beside['refused']:>9.0f}{beside['expensive_s']:>8.2f}{verdict}",
            flush=True,
        )


if __name__ == "__main__":
    main()
