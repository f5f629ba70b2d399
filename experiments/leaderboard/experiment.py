"""Text hashing methods compared in one protocol, on several data sets, at 32 and 64 bits.

A cell is a method on a data set with a number of bits and a seed. Its record is saved in
``--work-dir`` and reused until its code changes. A cell without a record is empty in the table.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from experiments.leaderboard.cells import Cell, compute, saved_record
from experiments.leaderboard.methods import METHODS
from experiments.parts import add_bits, add_run_options
from experiments.result_tables import Record, mean_and_deviation, print_table, save_records
from experiments.ssb_vae.printed_tables import printed_p100
from hummingbit.foundation.errors import HummingbitError

SUMMARY = "text hashing methods compared in one protocol"
DATASETS = ("20news", "snippets", "reuters", "ag-news", "dbpedia14")

PRINTED = {"vdsh-s": "vdsh-s", "psh-gs": "psh-gs", "ssb-vae-paper": "ssb-vae"}
"""The methods with a figure in SSB-VAE's Table I, which has the same protocol for Snippets.

Other papers use other splits and samples of these corpora, so their figures are not comparable.
"""


class LeaderboardError(HummingbitError, ValueError):
    """An option of the leaderboard is invalid."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "--datasets",
        nargs="+",
        default=list(DATASETS),
        choices=DATASETS,
        metavar="NAME",
        help=f"of {', '.join(DATASETS)} (default: all)",
    )
    parser.add_argument(
        "--methods",
        nargs="+",
        default=list(METHODS),
        choices=METHODS,
        metavar="NAME",
        help=f"of {', '.join(METHODS)} (default: all)",
    )
    add_bits(parser, [32, 64])
    parser.add_argument(
        "--supervision",
        type=float,
        default=0.1,
        metavar="X",
        help="share of the labels for the methods that learn from labels",
    )
    for name, split in (("documents", "training"), ("queries", "test")):
        parser.add_argument(
            f"--{name}", type=int, metavar="N", help=f"number of {split} documents (default: all)"
        )
    parser.add_argument(
        "--no-unseen", action="store_true", help="leave out the cells with unseen classes"
    )
    parser.add_argument(
        "--minutes",
        type=float,
        metavar="X",
        help="start no further cell after X minutes; 0 prints the saved cells",
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
    """Compute the missing cells, then print a table for each data set and number of bits.

    For several data sets, tables of the tie-averaged P@100 in all of them follow.
    """
    vectors = _parse_vectors(args.vectors)
    began = time.monotonic()
    records: dict[Cell, Record] = {}
    for cell in _cells(args):
        vectors_file = vectors.get(cell.dataset) if METHODS[cell.method].takes_vectors else None
        if vectors_file is None and METHODS[cell.method].takes_vectors:
            continue
        record = saved_record(cell, args.work_dir, args.data_root, vectors_file)
        in_time = args.minutes is None or time.monotonic() - began < 60 * args.minutes
        if record is None and in_time:
            print(cell.name, file=sys.stderr, flush=True)
            record = compute(cell, args.work_dir, args.data_root, vectors_file)
        if record is not None:
            records[cell] = record
    save_records(args, list(records.values()))
    for dataset in args.datasets:
        for n_bits in args.bits:
            print(f"\n{dataset}, {n_bits} bits\n")
            _print(args, dataset, n_bits, list(records.values()))
    if len(args.datasets) > 1:
        _print_overviews(args, list(records.values()))
    return 0


def _cells(args: argparse.Namespace) -> Iterator[Cell]:
    """Yield the cells, all of the first seed before any of the second."""
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


def _parse_vectors(options: list[str]) -> Mapping[str, Path]:
    files: dict[str, Path] = {}
    for option in options:
        dataset, _, file = option.partition("=")
        if dataset not in DATASETS or not file:
            form = f"DATA-SET=FILE, where DATA-SET is one of {', '.join(DATASETS)}"
            raise LeaderboardError(f"vectors is {option!r}; it must be {form}")
        files[dataset] = Path(file)
    return files


def _print(args: argparse.Namespace, dataset: str, n_bits: int, records: list[Record]) -> None:
    header = ("method", "p@100", "tie-averaged", "mAP@100", "unseen", "codes", "CPU s", "printed")
    rows = []
    for method in args.methods:
        own = [
            record
            for record in records
            if (record["dataset"], record["method"], record["n_bits"]) == (dataset, method, n_bits)
        ]
        seen = [record for record in own if not record["unseen"]]
        unseen = [record for record in own if record["unseen"]]
        figures = ("p100", "p100_expected", "map100_expected")
        row = [method, *(_mean(seen, name) for name in figures), _mean(unseen, "p100_expected")]
        row += [_whole_mean(seen, "distinct_codes"), _whole_mean(seen, "cpu_seconds")]
        printed = printed_p100(dataset, n_bits, args.supervision) if dataset == "snippets" else {}
        rows.append(
            [*row, f"{printed[PRINTED[method]]:.3f}" if _is_printed(printed, method) else ""]
        )
    print_table(header, rows)


def _print_overviews(args: argparse.Namespace, records: list[Record]) -> None:
    """Print the tie-averaged P@100 of each method on each data set, a table for each width."""
    for n_bits in args.bits:
        for unseen in (False,) if args.no_unseen else (False, True):
            queries = "queries of unseen classes" if unseen else "all queries"
            print(f"\ntie-averaged p@100, {n_bits} bits, {queries}\n")
            rows = [
                [
                    method,
                    *(
                        _expected(records, dataset, method, n_bits, unseen=unseen)
                        for dataset in args.datasets
                    ),
                ]
                for method in args.methods
            ]
            print_table(("method", *args.datasets), rows)


def _expected(
    records: list[Record], dataset: str, method: str, n_bits: int, *, unseen: bool
) -> str:
    wanted = (dataset, method, n_bits, unseen)
    keys = ("dataset", "method", "n_bits", "unseen")
    own = [record for record in records if tuple(record[key] for key in keys) == wanted]
    return _mean(own, "p100_expected")


def _is_printed(printed: Mapping[str, float], method: str) -> bool:
    return PRINTED.get(method) in printed


def _mean(records: list[Record], figure: str) -> str:
    return mean_and_deviation(records, figure) if records else ""


def _whole_mean(records: list[Record], figure: str) -> str:
    if not records:
        return ""
    return f"{sum(record[figure] for record in records) / len(records):,.0f}"
