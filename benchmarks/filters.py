"""Filters, facets and sorted listings of a million documents, and what they cost writes.

A collection gets documents with codes of 64 bits and payloads of five fields: a class of twenty, a
year, a fraction, a unique key and two tags. It is written twice, with all fields indexed and with
none. A process then opens it for each row of the table, so that nothing is cached: "first" is a
count of the documents that match the filter, or the facets, or the first page of 50, and "again"
the same once more. "written" adds 10,000 documents to the collection in one write. Milliseconds are
of the processor, so that other processes count for little, and are the least of ``--rounds``.

``--against DIR`` takes turns with another checkout, for example from ``git worktree add DIR
COMMIT``.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

# In the turns of an earlier checkout, these are its own modules, so only what it has, too.
from hummingbit.corpus.document import Document
from hummingbit.index.collection import Collection
from hummingbit.index.facets import parse_facets, parse_sort
from hummingbit.index.filters import parse_filter
from hummingbit.index.schema import Description
from hummingbit.index.store.store import Store

ROOT = Path(__file__).parents[1]
FIELDS = ("class", "year", "score", "key", "tags")
BATCH = 20_000
WRITTEN = 10_000
FILTERS: dict[str, dict[str, Any]] = {
    "class is one of twenty": {"field": "class", "eq": "class-3"},
    "class is in two": {"field": "class", "in": ["class-3", "class-9"]},
    "year in a decade": {"field": "year", "gte": 1990, "lt": 2000},
    "score below one half": {"field": "score", "lt": 0.5},
    "key is unique": {"field": "key", "eq": "key-77"},
    "one tag of seven": {"field": "tags", "eq": "t3"},
    "class exists": {"field": "class", "exists": True},
    "class and year": {"and": [{"field": "class", "eq": "class-3"}, {"field": "year", "lt": 1950}]},
    "not the class": {"not": {"field": "class", "eq": "class-3"}},
}
FACETS: dict[str, Any] = {
    "facet of class": "class",
    "facet of year, by 10": {"field": "year", "interval": 10},
    "facet of key": "key",
    "facet of tags": "tags",
}
SORTS = ("year", "score:desc", "key")
INDEXED, PLAIN = "indexed", "plain"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--documents", type=float, default=1e6, help="(default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="(default: %(default)s)")
    parser.add_argument("--against", type=Path, metavar="DIR", help="another checkout")
    parser.add_argument("--folder", type=Path, help="keep the collections here, for later runs")
    parser.add_argument("--turn", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.turn is not None:
        step, path, name = arguments.turn
        print(json.dumps(STEPS[step](Path(path), name)))
        return
    from benchmarks.harness.timing import print_machine  # noqa: PLC0415 - not in other checkouts

    print_machine()
    with tempfile.TemporaryDirectory() as temporary:
        compare(arguments.folder or Path(temporary), arguments)


def compare(folder: Path, arguments: argparse.Namespace) -> None:
    """Make the collections, and print the times of all rows."""
    checkouts = {"now": ROOT}
    if arguments.against is not None:
        checkouts["before"] = arguments.against.resolve()

    def turn(way: str, step: str, path: Path, name: str) -> Any:
        command = [sys.executable, __file__, "--turn", step, str(path), name]
        environment = {**os.environ, "PYTHONPATH": str(checkouts[way])}
        done = subprocess.run(command, env=environment, check=True, capture_output=True)
        return json.loads(done.stdout)

    n = int(arguments.documents)
    ways = [(way, kind) for way in checkouts for kind in (INDEXED, PLAIN)]
    paths = {(way, kind): folder / way / kind / "store.sqlite" for way, kind in ways}
    for (way, kind), path in paths.items():
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            seconds = turn(way, "make", path, f"{n} {kind}")
            print(f"{way}, {kind}: {seconds:.1f} CPU s to write", end="")
            print(f", {path.stat().st_size / n:.0f} bytes a document", flush=True)
    header = "".join(f"{f'{way}, {kind}':>24}" for way, kind in ways)
    print(f"\nCPU ms, first and again\n{'':24}{header}")
    rows: dict[str, tuple[str, str]] = {}
    rows |= {name: ("filter", name) for name in FILTERS}
    rows |= {name: ("facet", name) for name in FACETS}
    rows |= {f"sorted by {name}": ("sort", name) for name in SORTS}
    rows |= {"opened": ("open", ""), "written": ("write", "")}
    for row, (step, name) in rows.items():
        best = dict.fromkeys(ways, (float("inf"), float("inf")))
        answers = set()
        for _ in range(arguments.rounds):
            for both in ways:
                first, again, answer = turn(both[0], step, paths[both], name)
                best[both] = min(first, best[both][0]), min(again, best[both][1])
                answers.add(json.dumps(answer))
        if len(answers) > 1:
            raise SystemExit(f"{row}: different answers {answers}")
        cells = "".join(f"{first:15,.1f}{again:9,.1f}" for first, again in best.values())
        print(f"{row:24}{cells}", flush=True)


def milliseconds(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return the milliseconds of the processor that work takes, and its result."""
    began = time.process_time()
    result = work()
    return 1000 * (time.process_time() - began), result


def make(path: Path, name: str) -> float:
    """Write a collection; return the seconds of the processor."""
    n, kind = name.split()
    partial = path.with_suffix(".partial")
    partial.unlink(missing_ok=True)
    fields = FIELDS if kind == INDEXED else ()
    Store.create(partial, Description("benchmark", 64), indexed_fields=fields)
    total = 0.0
    with closing(Collection(Store(partial, writable=True), indexed=False)) as collection:
        for start in range(0, int(n), BATCH):
            batch = [*documents(start, min(BATCH, int(n) - start), int(n))]
            codes = np.zeros((len(batch), 8), dtype=np.uint8)
            total += milliseconds(lambda: collection.upsert_encoded(batch, codes))[0]  # noqa: B023
        if fields:
            total += milliseconds(lambda: collection.set_indexed_fields(fields))[0]
    partial.rename(path)
    return total / 1000


def documents(start: int, count: int, n: int) -> Iterator[Document]:
    """Yield documents whose ids count from `start`, of `n` in all."""
    rng = np.random.default_rng(start)
    columns = zip(
        range(start, start + count),
        rng.integers(20, size=count).tolist(),
        rng.integers(1900, 2025, count).tolist(),
        rng.random(count).tolist(),
        rng.integers(7, size=count).tolist(),
        strict=True,
    )
    for number, class_, year, score, tag in columns:
        payload = {
            "class": f"class-{class_}",
            "year": year,
            "score": score,
            "key": f"key-{number * 7919 % n}",
            "tags": [f"t{tag}", f"u{number % 11}"],
        }
        yield Document(id=str(number), code="00" * 8, payload=payload)


def opened(path: Path, work: Callable[[Collection], Any]) -> tuple[float, float, Any]:
    """Open a collection, work twice, and return the times and the answer."""
    with closing(Collection(Store(path, writable=False))) as collection:
        first, answer = milliseconds(lambda: work(collection))
        again, _ = milliseconds(lambda: work(collection))
    return first, again, answer


def count(path: Path, name: str) -> tuple[float, float, Any]:
    return opened(path, lambda collection: collection.count(parse_filter(FILTERS[name])))


def facet(path: Path, name: str) -> tuple[float, float, Any]:
    facets = parse_facets(FACETS[name])

    def counted(collection: Any) -> Any:
        if hasattr(collection, "facets"):  # an earlier checkout
            return collection.facets(facets).facets[0].buckets
        return collection.ask("facets", {"facets": FACETS[name]})["facets"][0]["buckets"]

    return opened(path, counted)


def sort(path: Path, name: str) -> tuple[float, float, Any]:
    def page(collection: Collection) -> list[str]:
        return [document.id for document in collection.scroll(50, sort=parse_sort(name)).documents]

    return opened(path, page)


def open_(path: Path, _: str) -> tuple[float, float, Any]:
    """Time the opening for writing, of which the first may bring a store up to date."""
    times = []
    for _turn in range(2):
        began = time.process_time()
        with closing(Collection(Store(path, writable=True))):
            times.append(1000 * (time.process_time() - began))
    return times[0], times[1], None


def write(path: Path, _: str) -> tuple[float, float, Any]:
    """Write to a copy of a collection, twice."""
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        copy = Path(folder) / path.name
        shutil.copy(path, copy)
        with closing(Collection(Store(copy, writable=True))) as collection:
            collection.count(parse_filter(FILTERS["class and year"]))
            times = []
            for start in (10**9, 2 * 10**9):
                batch = [*documents(start, WRITTEN, 10**9)]
                codes = np.zeros((len(batch), 8), dtype=np.uint8)
                times.append(
                    milliseconds(lambda: collection.upsert_encoded(batch, codes))[0]  # noqa: B023
                )
            return times[0], times[1], None


STEPS: dict[str, Callable[[Path, str], Any]] = {
    "make": make,
    "filter": count,
    "facet": facet,
    "sort": sort,
    "open": open_,
    "write": write,
}


if __name__ == "__main__":
    main()
