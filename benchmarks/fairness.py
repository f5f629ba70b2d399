"""How long cheap searches wait beside expensive requests.

Run as ``python -m benchmarks.fairness``. One client sends searches by text for ten hits, one after
the other, alone and then beside clients that send one kind of expensive request without pause. The
output has the median and the 99th percentile of the cheap searches, the longest time that the event
loop of the service was late, and the number of expensive requests answered meanwhile. Each kind has
a service of its own, so that indexes are built anew. Cheap and expensive requests come from
different processes. The data folder is made once and reused from ``build/``; ``--documents`` sets
its size.
"""

from __future__ import annotations

import itertools
import json
import re
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import httpx

import hummingbit.threads  # noqa: F401 - before the libraries that read the environment
from benchmarks.harness.processes import end_load, service_process, start_load
from benchmarks.harness.service_corpus import Corpus, K, kept_corpus
from benchmarks.harness.timing import options, print_machine
from hummingbit.corpus.document import Document
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.names import HAMMING

NAME = "bench"
# Its documents have payloads of 600 KB, and one has very many keys.
LARGE = "large"
LARGE_DOCUMENTS, LARGE_BYTES, MANY_KEYS = 100, 600_000, 1_300_000
PATH = f"/v1/collections/{NAME}"
LOOP_DELAY = re.compile(r"^hummingbit_longest_event_loop_delay_seconds (\S+)$", re.M)
BODIES = 200
OPTIONS = ("--log-level", "error", "--max-body-bytes", str(16 << 20))
MAX_BODY_FILE_BYTES = 64 << 20
LABELS = 50
MANY = {"limit": 10_000}
# Beside the worst that a client may send, so many milliseconds are allowed for 99 of 100 cheap
# searches, and for the event loop, which answers health checks.
ALLOWED_MS, ALLOWED_LOOP_MS = 150.0, 300.0


class Kind(NamedTuple):
    """A kind of expensive request; `body` returns the body of the n-th, as a JSON value.

    With the method GET, it returns what follows `path` in the address.
    """

    name: str
    path: str
    body: Callable[[int], object]
    method: str = "POST"
    clients: int = 4
    collection: str = NAME


def make_folder(path: Path, documents: int) -> Corpus:
    """Make the corpus and index it in the data folder `path`, or take what an earlier run made."""
    corpus = kept_corpus(path, documents)
    with DataFolder(path, writable=True, indexed=False) as folder:
        if NAME not in folder.collections():
            folder.create_collection(NAME, encoder="bench").set_ranking(HAMMING)
        collection = folder.collection(NAME)
        for start in range(len(collection), documents, 50_000):
            codes = corpus.codes[start : start + 50_000]
            numbers = range(start, start + len(codes))
            collection.upsert_encoded([*map(_document, numbers)], codes)
    _add_large_documents(corpus)
    return corpus


def _add_large_documents(corpus: Corpus) -> None:
    with DataFolder(corpus.folder, writable=True, indexed=False) as folder:
        if LARGE in folder.collections():
            return
        collection = folder.create_collection(LARGE, encoder="bench")
        codes = corpus.codes[: LARGE_DOCUMENTS + 1]
        payloads: list[dict[str, Any]] = [{"long": "x" * LARGE_BYTES}] * LARGE_DOCUMENTS
        payloads.append({f"key{number}": number for number in range(MANY_KEYS)})
        documents = [
            Document(id=str(number), text=f"w{number:05d}", payload=payload)
            for number, payload in enumerate(payloads)
        ]
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
    """Return the kinds of expensive requests; no filter is ever sent twice."""
    texts, size = corpus.queries, len(corpus.codes)
    unused_numbers = itertools.count()

    def take_texts(n: int, count: int) -> list[str]:
        return [texts[(n * count + offset) % len(texts)] for offset in range(count)]

    def search(n: int, **options: object) -> dict[str, Any]:
        return {"text": texts[n % len(texts)], **options}

    def unused_filter() -> dict[str, Any]:
        return {"field": "number", "gte": next(unused_numbers), "lt": size // 2}

    def upsert(n: int, count: int = 1000) -> dict[str, Any]:
        documents = [
            {"id": f"new{n % 10}-{position}", "text": text, "payload": {"label": "label0"}}
            for position, text in enumerate(take_texts(n, count))
        ]
        return {"documents": documents}

    def evaluation(n: int) -> dict[str, Any]:
        queries = [{"text": text, "label": f"label{n % LABELS}"} for text in take_texts(n, 500)]
        return {"queries": queries, "metrics": ["P@100"]}

    long_text = " ".join(itertools.islice(itertools.cycle(texts), 200_000))[:1_000_000]

    def search_batch(n: int) -> dict[str, Any]:
        return {"searches": [{"text": text, "limit": 100} for text in take_texts(n, 1000)]}

    def ids(n: int) -> dict[str, Any]:
        return {"ids": [str((n * 1000 + offset * 7) % size) for offset in range(1000)]}

    def inputs(n: int) -> dict[str, Any]:
        return {"inputs": [{"text": text} for text in take_texts(n, 1000)]}

    def filtered_search(_: int) -> dict[str, Any]:
        return search(0, limit=10, filter=unused_filter())

    return [
        Kind("10,000 hits with payload", "/search", lambda n: search(n, **MANY, with_payload=True)),
        Kind("10,000 hits re-ranked", "/search", lambda n: search(n, **MANY, rerank=True)),
        Kind("batch of 1,000 searches", "/search/batch", search_batch),
        Kind("filter used for the first time", "/search", filtered_search),
        Kind("40 such filters at a time", "/search", filtered_search, clients=40),
        Kind("count by a filter", "/documents:count", lambda _: {"filter": unused_filter()}),
        Kind("1,000 documents by id", "/documents:get", ids),
        Kind("scroll 1,000 documents", "/documents:scroll", lambda _: {"limit": 1000}),
        Kind("encode 1,000 texts", "/encode", inputs),
        Kind("a text of a million characters", "/search", lambda _: {"text": long_text}),
        Kind("evaluate 500 queries", "/evaluate", evaluation, clients=2),
        Kind("verify", "/verify", lambda _: {}, clients=2),
        Kind("upsert 1,000 documents", "/documents", upsert, "PUT", clients=2),
        *_stalling_kinds(corpus, search, upsert),
    ]


def _stalling_kinds(
    corpus: Corpus,
    search: Callable[..., dict[str, Any]],
    upsert: Callable[[int, int], dict[str, Any]],
) -> list[Kind]:
    """Return kinds whose parts hold the interpreter lock for long."""
    texts = corpus.queries

    def unknown_labels(n: int) -> dict[str, Any]:
        return {"labels": [{"id": f"no{n}-{at}", "label": "a"} for at in range(5000)]}

    def long_query(n: int) -> dict[str, Any]:
        words = itertools.islice(itertools.cycle(texts[n % len(texts) :]), 40)
        return {"text": " ".join(words)[:2000], "ranking": "hybrid"}

    def hits(n: int) -> dict[str, Any]:
        return search(n, limit=100, with_payload=True)

    def numbers(n: int) -> dict[str, Any]:
        return {"documents": [{"id": f"n{n}", "vector": [n] * 1_900_000}]}

    return [
        Kind("1.9 million numbers", "/documents", numbers, "PUT", clients=2),
        Kind("three writers", "/documents", lambda n: upsert(n, 700), "PUT", clients=3),
        Kind("refused labels", "/labels", unknown_labels, "PUT", clients=2),
        Kind("search by words", "/search", lambda n: search(n, ranking="bm25"), clients=1),
        Kind("hybrid query of 2,000 characters", "/search", long_query, clients=1),
        Kind(
            "profile of the codes",
            "/codes?label_field=",
            lambda n: ("label", "none")[n % 2],
            "GET",
            clients=1,
        ),
        Kind("near-duplicates", "/duplicates", lambda _: {"radius": 3}, clients=1),
        Kind("near-duplicates, radius 30", "/duplicates", lambda _: {"radius": 30}, clients=1),
        Kind("hits of 600 KB with payload", "/search", hits, clients=1, collection=LARGE),
        Kind(
            "a document of 1.3 million keys",
            "/documents/",
            lambda _: str(LARGE_DOCUMENTS),
            "GET",
            clients=1,
            collection=LARGE,
        ),
    ]


def measure(address: str, folder: Path, kind: Kind | None, seconds: float) -> dict[str, float]:
    """Return the latencies of the cheap searches beside `kind`, or alone if it is None."""
    cheap = start_load(address, f"{PATH}/search", folder / "cheap.jsonl", 1, seconds)
    if kind is None:
        return end_load(cheap)
    bodies = folder / "expensive.jsonl"
    _write_bodies(bodies, kind)
    path = f"/v1/collections/{kind.collection}{kind.path}"
    # It runs longer than the cheap searches, so that none of them is alone.
    load = start_load(address, path, bodies, kind.clients, seconds + 1, method=kind.method)
    summary, expensive = end_load(cheap), end_load(load, may_fail=True)
    return {
        **summary,
        "answered": expensive["requests"],
        "refused": expensive["failures"],
        "expensive_s": expensive["p50_ms"] / 1000,
    }


def _write_bodies(path: Path, kind: Kind) -> None:
    written = 0
    with path.open("w") as file:
        for number in range(BODIES):
            line = json.dumps(kind.body(number))
            if kind.method == "GET":
                line = f"/v1/collections/{kind.collection}{kind.path}{kind.body(number)}"
            written += len(line)
            file.write(line + "\n")
            if written > MAX_BODY_FILE_BYTES:
                return


def _median(runs: list[dict[str, float]]) -> dict[str, float]:
    return {key: statistics.median(run[key] for run in runs) for key in runs[0]}


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--kinds", nargs="*", help="only kinds whose names contain one of these words"
    )
    args = parser.parse_args()
    print_machine()
    folder = Path("build") / f"fairness-{args.documents}"
    corpus = make_folder(folder, args.documents)
    lines = (json.dumps({"text": text, "limit": K}) + "\n" for text in corpus.queries)
    (folder / "cheap.jsonl").write_text("".join(lines))
    selected_kinds = [
        kind
        for kind in kinds(corpus)
        if not args.kinds or any(word in kind.name for word in args.kinds)
    ]
    print_table(folder, selected_kinds, args.seconds, args.rounds)


def print_table(folder: Path, kinds: list[Kind], seconds: float, rounds: int) -> None:
    """Measure each kind beside a service of its own, and print a row for it."""
    head = f"{'beside':<34}{'clients':>8}{'p50 ms':>9}{'p99 ms':>9}{'× alone':>9}{'loop ms':>9}"
    print(f"{head}{'answered':>10}{'refused':>9}{'p50 s':>8}")
    for kind in kinds:
        alone_runs, beside_runs = [], []
        with service_process(folder, *OPTIONS) as (_, address):
            httpx.get(f"{address}/readyz", timeout=60).raise_for_status()
            measure(address, folder, None, 1)
            for _ in range(rounds):
                alone_runs.append(measure(address, folder, None, seconds / 2))
                beside_runs.append(measure(address, folder, kind, seconds))
            delay = longest_delay(address)
        alone, beside = _median(alone_runs), _median(beside_runs)
        verdict = "" if beside["p99_ms"] <= ALLOWED_MS else f"  more than {ALLOWED_MS:.0f} ms"
        verdict += "" if delay * 1000 <= ALLOWED_LOOP_MS else f"  loop beyond {ALLOWED_LOOP_MS:.0f}"
        print(f"{'nothing':<34}{'':>8}{alone['p50_ms']:>9.2f}{alone['p99_ms']:>9.2f}")
        print(
            f"{kind.name:<34}{kind.clients:>8}{beside['p50_ms']:>9.2f}{beside['p99_ms']:>9.2f}"
            f"{beside['p99_ms'] / alone['p99_ms']:>9.1f}{delay * 1000:>9.0f}"
            f"{beside['answered']:>10.0f}{beside['refused']:>9.0f}"
            f"{beside['expensive_s']:>8.2f}{verdict}",
            flush=True,
        )


def longest_delay(address: str) -> float:
    """Return the longest time, in seconds, that the event loop of a service was late."""
    found = LOOP_DELAY.search(httpx.get(f"{address}/metrics", timeout=60).text)
    assert found is not None  # noqa: S101 - for the type checker
    return float(found[1])


if __name__ == "__main__":
    main()
