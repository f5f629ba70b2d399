"""Hamming search side by side: our engines, FAISS and others, over codes of three kinds.

All contestants answer the same queries interleaved in one run, so that other load slows all alike.
Times are of the processor, which other processes do not lengthen; Milvus, which is a separate
process, is timed by the clock. "ratio" is a contestant's time over ours, for medians and for means;
means include the outliers, the queries that no lookup answers. Each table also has the time to read
all codes once. "recall" is the share of k that lies no farther than the true k-th.

Run as ``python -m benchmarks.search``. Writes ``build/benchmarks/search.json`` and ``search.png``.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import faiss
import matplotlib as mpl
import numpy as np

from benchmarks.harness.processes import resident_bytes
from benchmarks.harness.search_codes import KINDS
from benchmarks.harness.search_peers import CONTESTANTS, Contestant, Search, milvus
from hummingbit.encoder.codes import Codes, hamming_distance
from hummingbit.index.engines.choice import Choice, build
from hummingbit.index.engines.flat import FlatIndex
from tests.support.oracles.brute_force import BruteForceIndex

OUT = Path("build/benchmarks")
QUERIES = 2000
OURS, FLAT = "hummingbit", "FAISS Flat"

Record = dict[str, Any]

TimedSearch = Callable[[Codes, int], object]
"""A search that is timed, whatever it returns."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=list(KINDS))
    parser.add_argument("--sizes", type=float, nargs="+", default=[1e5, 1e6])
    parser.add_argument("--bits", type=int, nargs="+", default=[16, 32, 64, 128])
    parser.add_argument("--k", type=int, nargs="+", default=[10, 100])
    parser.add_argument(
        "--rounds", type=int, default=15, help="each of ten single queries, and a batch"
    )
    parser.add_argument("--only", nargs="+", help=f"some of {', '.join(CONTESTANTS)}")
    parser.add_argument("--milvus-uri", help="a Milvus server to time as well")
    parser.add_argument("--name", default="search", help="stem of the files that are written")
    arguments = parser.parse_args()
    faiss.omp_set_num_threads(1)
    contestants = dict(CONTESTANTS)
    if arguments.milvus_uri:
        contestants["Milvus"] = Contestant(milvus(arguments.milvus_uri), 10**6, exact=True)
    if arguments.only:
        contestants = {name: contestants[name] for name in [OURS, FLAT, *arguments.only]}
    records: list[Record] = []
    for kind in arguments.kinds:
        for n_bits in arguments.bits:
            for size in arguments.sizes:
                rng = np.random.default_rng(0)
                codes = KINDS[kind](rng, int(size) + QUERIES, n_bits)
                # Copies, so that the queries do not keep the whole array alive.
                queries, codes = codes[:QUERIES].copy(), codes[QUERIES:].copy()
                setting = {"kind": kind, "bits": n_bits, "codes": len(codes)}
                setting["floor_us"] = floor(codes)
                records += compare(setting, contestants, codes, queries, arguments)
                write(arguments.name, records)
    if records:
        plot(arguments.name, records)


def compare(
    setting: Record,
    contestants: dict[str, Contestant],
    codes: Codes,
    queries: Codes,
    arguments: argparse.Namespace,
) -> list[Record]:
    """Build every contestant, time all of them interleaved, and print and return the records."""
    searches: dict[str, Search] = {}
    built: dict[str, Record] = {}
    choice: Choice = build(codes, np.arange(len(codes)))
    setting = {**setting, "engine": choice.code_index.name, "reason": choice.reason}
    check(choice, codes, queries[:20])
    del choice
    print(
        f"\n{setting['kind']}, {setting['bits']} bits, {setting['codes']:,} codes:"
        f" {setting['reason']}"
    )
    for name, contestant in contestants.items():
        if len(codes) > contestant.max_codes or (
            name == "FAISS Flat, padded" and setting["bits"] > 24
        ):
            continue
        try:
            resident_before, began = resident_bytes(), time.process_time()
            searches[name] = contestant.build(codes)
            built[name] = {
                "build_s": time.process_time() - began,
                "resident_mb": (resident_bytes() - resident_before) / 1e6,
            }
        except ImportError as error:
            print(f"  {name}: left out ({error})")
    records = []
    for k in arguments.k:
        for batch in (1, 100):
            times = interleaved(searches, queries, k, batch, arguments.rounds)
            for name, microseconds in times.items():
                exact = contestants[name].exact
                records.append(
                    {
                        **setting,
                        "name": name,
                        "k": k,
                        "batch": batch,
                        "median_us": statistics.median(microseconds),
                        "mean_us": statistics.mean(microseconds),
                        "p95_us": float(np.percentile(microseconds, 95)),
                        "recall": 1.0 if exact else recall(searches[name], codes, queries[:50], k),
                        **built[name],
                    }
                )
            print_records(records[-len(times) :])
    return records


def interleaved(
    searches: Mapping[str, TimedSearch],
    queries: Codes,
    k: int,
    batch: int,
    rounds: int,
    *,
    singles: int = 10,
) -> dict[str, list[float]]:
    """Return the microseconds per query of each search; all take turns with every batch."""
    times: dict[str, list[float]] = defaultdict(list)
    # Several single queries per turn, so that the caches belong to the search that is timed.
    per_turn = singles if batch == 1 else 1
    for turn in range(rounds):
        start = turn * batch * per_turn % (len(queries) - batch * per_turn)
        batches = [queries[start + n * batch : start + (n + 1) * batch] for n in range(per_turn)]
        for name, search in searches.items():
            clock = time.perf_counter if name == "Milvus" else time.process_time
            search(batches[-1][:10], k)
            times[name] += [time_search(search, each, k, clock) for each in batches]
    return times


def time_search(search: TimedSearch, batch: Codes, k: int, clock: Callable[[], float]) -> float:
    """Return the microseconds per query of one batch."""
    began = clock()
    search(batch, k)
    return (clock() - began) * 1e6 / len(batch)


def print_records(records: list[Record]) -> None:
    by_name = {record["name"]: record for record in records}
    ours = by_name[OURS]
    print(f"  k={ours['k']} batch={ours['batch']}; reading all once: {ours['floor_us']:.0f} µs")
    for name, record in by_name.items():
        ratio, mean_ratio = (record[key] / ours[key] for key in ("median_us", "mean_us"))
        print(
            f"    {name:18} {record['median_us']:10.1f} µs  mean {record['mean_us']:10.1f}"
            f"  p95 {record['p95_us']:10.1f}  ratio {ratio:8.2f}  of means {mean_ratio:8.2f}"
            f"  recall {record['recall']:.3f}  built {record['build_s']:7.2f} s"
            f"  {record['resident_mb']:7.0f} MB",
            flush=True,
        )


def check(choice: Choice, codes: Codes, queries: Codes) -> None:
    """Exit with an error unless the engine finds the same rows as the oracle."""
    oracle = BruteForceIndex(codes, np.arange(len(codes)))
    for query in queries[:: 1 if len(codes) < 10**6 else 10]:
        (hits,), (expected,) = (
            choice.code_index.search(query[None], 10),
            oracle.search(query[None], 10),
        )
        if hits.rows.tolist() != expected.rows.tolist():
            raise SystemExit(f"{choice.code_index.name} disagrees with the oracle")


def recall(search: Search, codes: Codes, queries: Codes, k: int) -> float:
    """Return the share of `k` hits no farther than the true k-th, so that ties do not matter."""
    exact = FlatIndex(codes, np.arange(len(codes))).search(queries, k)
    shares = []
    for query, rows, true in zip(queries, search(queries, k), exact, strict=True):
        # Approximate indexes fill up short results with rows that do not exist.
        valid = rows[(rows >= 0) & (rows < len(codes))].astype(np.int64)
        near = hamming_distance(codes[valid], query) <= true.distances[-1]
        shares.append(near.sum() / len(true.rows))
    return float(np.mean(shares))


def floor(codes: Codes) -> float:
    """Return the microseconds that one thread takes to read all codes from memory."""
    return statistics.median(time_reading(codes) for _ in range(9))


def time_reading(codes: Codes) -> float:
    """Read all codes once; return the microseconds of the processor."""
    began = time.process_time()
    codes.max()
    return (time.process_time() - began) * 1e6


def write(name: str, records: list[Record]) -> None:
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / f"{name}.json").write_text(json.dumps(records, indent=1), encoding="utf-8")


def plot(name: str, records: Iterable[Record]) -> None:
    """Draw the ratio of FAISS Flat's time to ours for each kind of codes."""
    mpl.use("agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415 - once the backend is set

    ratios: dict[tuple[int, str], float] = {}
    pairs: dict[tuple[Any, ...], dict[str, float]] = defaultdict(dict)
    for record in records:
        key = tuple(record[name] for name in ("kind", "bits", "codes", "k", "batch"))
        pairs[key][record["name"]] = record["median_us"]
    for (kind, bits, codes, k, batch), times in pairs.items():
        if k == 10:
            ratios[batch, f"{kind}, {bits} bits, {codes:.0e}"] = times[FLAT] / times[OURS]
    labels = list(dict.fromkeys(label for _, label in ratios))
    figure, axes = plt.subplots(figsize=(8, 1 + 0.32 * len(labels)))
    for offset, (batch, title) in enumerate([(1, "one query"), (100, "batches of 100")]):
        places = np.arange(len(labels)) + 0.4 * offset
        axes.barh(places, [ratios[batch, label] for label in labels], 0.38, label=title)
    axes.set_yticks(np.arange(len(labels)) + 0.2, labels)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xlabel("FAISS Flat's time / ours, k = 10, medians")
    axes.legend()
    figure.savefig(OUT / f"{name}.png", dpi=120, bbox_inches="tight")


if __name__ == "__main__":
    main()
