"""Methods of text hashing beside each other: one protocol, several data sets, 32 and 64 bits.

A cell is a method on a data set with so many bits and a seed. What was computed stays in
``--work-dir`` until the code that it comes from changes; a cell that was not computed is empty in
the table.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from experiments.leaderboard.cells import Cell, compute, kept_record
from experiments.leaderboard.methods import METHODS
from experiments.parts import add_run_options
from experiments.result_tables import Record, mean_and_deviation, print_table, save_records
from experiments.ssb_vae.printed_tables import printed_p100
from foundation.errors import HummingbitError

SUMMARY = "methods of text hashing beside each other, in one protocol"
DATASETS = ("20news", "snippets", "reuters", "ag-news", "dbpedia14")

PRINTED = {"vdsh-s": "vdsh-s", "psh-gs": "psh-gs", "ssb-vae-paper": "ssb-vae"}
"""Whose figure in SSB-VAE's Table I is of the same protocol, on Snippets alone.

Other papers print figures of other splits and samples of these corpora, which cannot be compared.
"""


class LeaderboardError(HummingbitError, ValueError):
    """An option of the leaderboard is not what it should be."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "--datasets",
        nargs="+",
        default=list(DATASETS),
        choices=DATASETS,
        metavar="NAME",
        help=f"of {', '}.join(DATASETS)",
    )
    parser.add_argument(
        "--methods",
        nargs="+",
        default=list(METHODS),
        choices=METHODS,
        metavar="NAME",
        help=f"of {', '}.join(METHODS)",
    )
    parser.add_argument("--bits", type=int, nargs="+", default=[32, 64], metavar="N")
    parser.add_argument(
        "--supervision",
        type=float,
        default=0.1,
        metavar="X",
        help="share of the labels shown to the methods that read them",
    )
    for name, what in (("documents", "training"), ("queries", "test")):
        parser.add_argument(
            f"--{name}", type=int, metavar="N", help=f"so many {what} documents (default: all)"
        )
    parser.add_argument(
        "--no-unseen", action="store_true", help="leave out the cells of unseen classes"
    )
    parser.add_argument(
        "--minutes",
        type=float,
        metavar="X",
        help="begin no further cell after so long; 0 prints what is there",
    )
    parser.add_argument(
        "--vectors",
        nargs="+",
        default=[],
        metavar="DATA-SET=FILE",
        help="sentence vectors by id (.npz, .parquet), for the methods that take them",
    )
    add_run_options(parser, "results/leaderboard")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Compute the cells that are missing, then print a table for each data set and width."""
    vectors = _vectors(args.vectors)
    began = time.monotonic()
    records: dict[Cell, Record] = {}
    for cell in _cells(args):
        place = vectors.get(cell.dataset) if METHODS[cell.method].takes_vectors else None
        if place is None and METHODS[cell.method].takes_vectors:
            continue
        record = kept_record(cell, args.work_dir, args.data_root, place)
        in_time = args.minutes is None or time.monotonic() - began < 60 * args.minutes
        if record is None and in_time:
            print(cell.name, file=sys.stderr, flush=True)
            record = compute(cell, args.work_dir, args.data_root, place)
        if record is not None:
            records[cell] = record
    save_records(args, list(records.values()))
    for dataset in args.datasets:
        for n_bits in args.bits:
            print(f"\n{dataset}, {n_bits} bits\n")
            _print(args, dataset, n_bits, list(records.values()))
    return 0


def _cells(args: argparse.Namespace) -> Iterator[Cell]:
    """Yield the cells: a first seed of all of them comes before a second of any."""
    for seed in range(args.seeds):
        for unseen in (False,) if args.no_unseen else (False, True):
            for n_bits in args.bits:
                for dataset in args.datasets:
                    for method in args.methods:
                        yield Cell(
                            dataset,
                            method,
                            n_bits,
                            seed,
                            args.supervision,
                            unseen,
                            args.documents,
                            args.queries,
                        )


def _vectors(given: list[str]) -> Mapping[str, Path]:
    files: dict[str, Path] = {}
    for one in given:
        dataset, _, file = one.partition("=")
        if dataset not in DATASETS or not file:
            wanted = f"DATA-SET=FILE, the data set one of {', '.join(DATASETS)}"
            raise LeaderboardError(f"vectors is {one!a}; it must be {wanted}")
        files[dataset] = Path(file)
    return files


def _print(args: argparse.Namespace, dataset: str, n_bits: int, records: list[Record]) -> None:
    header = ("method", "p@100", "tie-averaged", "mAP@100", "unseen", "codes", "CPU s", "printed")
    rows = []
    for method in args.methods:
        here = [
            record
            for record in records
            if (record["dataset"], record["method"], record["n_bits"]) == (dataset, method, n_bits)
        ]
        known = [record for record in here if not record["unseen"]]
        asked = [record for record in here if record["unseen"]]
        figures = ("p100", "p100_expected", "map100_expected")
        row = [method, *(_mean(known, name) for name in figures), _mean(asked, "p100_expected")]
        row += [_whole(known, "distinct_codes"), _whole(known, "cpu_seconds")]
        printed = printed_p100(dataset, n_bits, args.supervision) if dataset == "snippets" else {}
        rows.append([*row, f"{printed[PRINTED[method]]:.3f}" if _has(printed, method) else ""])
    print_table(header, rows)


def _has(printed: Mapping[str, float], method: str) -> bool:
    return PRINTED.get(method) in printed


def _mean(records: list[Record], figure: str) -> str:
    return mean_and_deviation(records, figure) if records else ""


def _whole(records: list[Record], figure: str) -> str:
    if not records:
        return ""
    return f"{sum(record[figure] for record in records) / len(records):,.0f}"
