"""The engines with the compiled kernel and without, FAISS's scan, and the machine's floor.

All search the same codes for the same queries in turns within one run; times are of the processor,
one thread, k = 10. "floor" is the time to read all codes once. "× Flat" is the time of FAISS's
``IndexBinaryFlat`` over that of the engine, of medians and of means. A second table has searches
that are allowed a share of the rows, and searches after a fifth of the rows was struck out, as
multiples of the same search without. Every line is checked against the oracle first.

Run as ``python -m benchmarks.kernel``; ``--sizes 1e7`` takes ten minutes.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import faiss
import numpy as np

from benchmarks.harness.search_codes import KINDS
from benchmarks.search import Timed, check, floor, interleaved
from encoder.codes import Codes
from index.engines.choice import Choice, build
from index.engines.compiled import kernel
from index.engines.protocol import Rows

QUERIES = 2000
K = 10
BATCH = 100
SINGLES = 20
SHARES = (0.5, 0.1, 0.01)
CASES = ("uniform 64", "uniform 128", "clustered 128", "real 32", "real 64", "real 128")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--sizes", type=float, nargs="+", default=[1e6])
    parser.add_argument("--cases", nargs="+", default=CASES, help="a kind and bits, as 'real 64'")
    parser.add_argument(
        "--rounds", type=int, default=10, help=f"of {SINGLES} single queries and a batch"
    )
    arguments = parser.parse_args()
    if kernel.native is None:
        parser.error("there is no compiled kernel, or it is switched off")
    faiss.omp_set_num_threads(1)
    print(f"{processor()}; the kernel's path: {kernel.built.paths()[0]}")
    for size in arguments.sizes:
        for case in arguments.cases:
            kind, n_bits = case.split()
            rng = np.random.default_rng(0)
            codes = KINDS[kind](rng, int(size) + QUERIES, int(n_bits))
            queries, codes = codes[:QUERIES].copy(), codes[QUERIES:].copy()
            print(f"\n{case} bits, {len(codes):,} codes; floor {floor(codes):,.0f} µs")
            compare(codes, queries, arguments.rounds)


def compare(codes: Codes, queries: Codes, rounds: int) -> None:
    """Time one set of codes every way."""
    rows = np.arange(len(codes))
    flat = faiss.IndexBinaryFlat(codes.shape[1] * 8)
    flat.add(codes)
    began = time.process_time()
    ours = build(codes, rows)
    built = time.process_time() - began
    with no_kernel():
        other = build(codes, rows)
    check(ours, codes, queries[:5])
    check(other, codes, queries[5:10])
    searches: dict[str, Timed] = {
        "FAISS Flat": flat.search,
        f"with, {ours.engine.name}": ours.engine.search,
        f"without, {other.engine.name}": other.engine.search,
    }
    one = interleaved(searches, queries, K, 1, rounds, singles=SINGLES)
    many = interleaved(searches, queries, K, BATCH, max(3, rounds // 3))
    for name in searches:
        print(f"  {name:20} one {line(one, name)}   in {BATCH} {line(many, name)}")
    print(f"  built in {built:.2f} s: {ours.reason}")
    restricted(ours, queries, rows, rounds)


def restricted(ours: Choice, queries: Codes, rows: Rows, rounds: int) -> None:
    """Time searches among some of the rows, and with tombstones, beside the plain one."""
    rng = np.random.default_rng(1)
    searches: dict[str, Timed] = {"all": ours.engine.search}
    for share in SHARES:
        among = np.flatnonzero(rng.random(len(rows)) < share)
        among.setflags(write=False)
        searches[f"{share:.0%} allowed"] = among_rows(ours, among)
    fewer = ours.engine.without(rows[rng.random(len(rows)) < 0.2])
    searches["20% struck out"] = fewer.search
    times = interleaved(searches, queries, K, 1, rounds, singles=SINGLES)
    plain = statistics.median(times.pop("all"))
    shown = [f"{name} {statistics.median(found) / plain:.2f}" for name, found in times.items()]
    print(f"  × of {plain:,.0f} µs: {', '.join(shown)}")


def among_rows(ours: Choice, among: Rows) -> Timed:
    return lambda queries, k: ours.engine.search(queries, k, None, among)


def line(times: dict[str, list[float]], name: str) -> str:
    flat, own = times["FAISS Flat"], times[name]
    median, mean = statistics.median(own), statistics.mean(own)
    ratios = f"{statistics.median(flat) / median:7.1f}× ({statistics.mean(flat) / mean:.1f}×)"
    return f"{median:9,.1f} µs (mean {mean:9,.1f}) {ratios}"


@contextmanager
def no_kernel() -> Iterator[None]:
    """Do without the kernel, as where nothing could compile it."""
    native, kernel.native = kernel.native, None
    try:
        yield
    finally:
        kernel.native = native


def processor() -> str:
    """Return the name of the processor, as Linux has it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return "unknown processor"
    fields = dict(part.split(":", 1) for part in lines if ":" in part)
    known = {key.strip(): value.strip() for key, value in fields.items()}
    return f"{known.get('model name', 'unknown')} (model {known.get('model', '?')})"


if __name__ == "__main__":
    main()
