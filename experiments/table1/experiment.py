"""SSB-VAE's Table I and the tests of its Table II, as ``experiments/ssb_vae/paper.md`` has them.

Source: Ñanculef et al., "Self-Supervised Bernoulli Autoencoders for Semi-Supervised Hashing"
(2020). Every cell is an encoder in the folder of results. A run of ``reproduce ssb-vae --paper``
leaves them there, and so does this command with ``--train``. Without it, cells that nobody has
trained are left out, and the others are used whatever version of the code trained them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from statistics import mean

from experiments.cells import (
    CLASSIFIER_BASELINE,
    Cell,
    measure_cell,
    trained_encoder,
)
from experiments.parts import add_bits, add_choices, add_plot_option, add_run_options
from experiments.result_tables import (
    Record,
    group,
    mean_and_deviation,
    print_table,
    read_records,
    save_records,
    write_records,
)
from experiments.splits import read_split
from experiments.ssb_vae.curves import plot_curves
from experiments.ssb_vae.experiment import OTHER_FEATURES
from experiments.ssb_vae.paper_weights import in_the_paper
from experiments.ssb_vae.printed_tables import METHODS, printed_p100
from experiments.ssb_vae.significance import print_tests_over_shares
from experiments.ssb_vae.variants import variant_recipe
from hummingbit.encoder.artifact import load_encoder, read_fingerprint

SUMMARY = "SSB-VAE: the whole of Table I, Table II and Figure 2, from saved encoders"
DATASETS = ("snippets", "20news", "tmc", "cifar10")
SHARES = tuple(round(0.1 * tenth, 1) for tenth in range(1, 11))
COLUMNS = ("ssb-vae", "psh-gs", "vdsh-s")
"""The methods of :data:`METHODS` in the order of the page."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_choices(parser, "--datasets", DATASETS, "the data sets")
    add_choices(parser, "--methods", COLUMNS, "the methods")
    add_bits(parser, [32, 16])
    parser.add_argument(
        "--supervision",
        type=float,
        nargs="+",
        default=list(SHARES),
        metavar="X",
        help="shares of the labels (default: all ten)",
    )
    parser.add_argument(
        "--train", action="store_true", help="train the cells that are missing, some three hours"
    )
    parser.add_argument(
        "--figures",
        type=Path,
        metavar="FILE",
        help="keep the figures of each encoder here, and measure only those that it lacks",
    )
    parser.add_argument(
        "--only-unseen",
        action="store_true",
        help="leave out queries whose content is in the training data, which the paper has too",
    )
    add_plot_option(parser)
    add_run_options(parser, "results/ssb-vae", seeds=1)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Measure the cells and print a table for each data set and number of bits."""
    measured = _Measured(args.figures, only_unseen=args.only_unseen)
    records: list[Record] = []
    for dataset, n_bits in product(args.datasets, args.bits):
        of_table: list[Record] = []
        for cell in _cells(args, dataset, n_bits):
            of_table += measured.records(cell, train=args.train)
        if not of_table:
            print(f"{dataset}, {n_bits} bits: not run", flush=True)
            continue
        records += of_table
        save_records(args, records)
        _print_cells(dataset, n_bits, of_table)
        _print_claims(dataset, n_bits, of_table)
        print_tests_over_shares(of_table)
    if args.plot:
        plot_curves(args.plot, records, "map100", "mAP@100")
    return 0


class _Measured:
    """The records of cells, kept in a file if one is given, by the encoders' fingerprints."""

    def __init__(self, path: Path | None, *, only_unseen: bool) -> None:
        self._path, self._only_unseen = path, only_unseen
        kept = read_records(path) if path is not None and path.exists() else []
        self._records: dict[object, list[Record]] = dict(group(kept, "fingerprint", "only_unseen"))

    def records(self, cell: Cell, *, train: bool) -> list[Record]:
        """Return the records of a cell; none if it is not trained and `train` is false."""
        if train:
            data, _ = read_split(cell.dataset, cell.data_root)
            trained_encoder(data, cell.recipe, cell.folder)
        fingerprint = read_fingerprint(cell.folder)
        if fingerprint is None:
            return []
        key = fingerprint, self._only_unseen
        if key not in self._records:
            print(f"measuring {cell.folder.name}", file=sys.stderr, flush=True)
            encoder = load_encoder(cell.folder)
            result = measure_cell(cell, encoder, only_unseen=self._only_unseen)
            about = {"fingerprint": fingerprint, "only_unseen": self._only_unseen}
            self._records[key] = [{**record, **about} for record in result.records]
            if self._path is not None:
                write_records(
                    self._path, [record for some in self._records.values() for record in some]
                )
        return self._records[key]


def _cells(args: argparse.Namespace, dataset: str, n_bits: int) -> Iterator[Cell]:
    """Yield the cells of a table; their folders may lie in one of the data set's own."""
    own = args.work_dir / dataset
    folder = own if own.is_dir() else args.work_dir
    for supervision, method, seed in product(args.supervision, args.methods, range(args.seeds)):
        recipe = variant_recipe(
            method,
            n_bits=n_bits,
            label_fraction=supervision,
            seed=seed,
            validation_share=0.0,
        )
        name = f"{dataset}-{method}-paper-{n_bits}-{supervision:g}-{seed}"
        yield Cell(dataset, in_the_paper(recipe, dataset), folder / name, args.data_root)


def _print_cells(dataset: str, n_bits: int, records: list[Record]) -> None:
    note = "; its features are not the paper's" if dataset in OTHER_FEATURES else ""
    print(f"\n{dataset}, {n_bits} bits: p@100 as served, tie-averaged{note}\n")
    header = ["ρ", *(part for name in COLUMNS for part in (name, "printed"))]
    rows = []
    for (supervision,), of_share in group(records, "supervision").items():
        by_method = group(of_share, "method")
        printed = printed_p100(dataset, n_bits, supervision)
        row = [f"{supervision:g}"]
        for method in COLUMNS:
            runs = by_method.get((method,))
            paper = f"{printed[method]:.3f}" if printed else "–"
            row += [_figures(runs) if runs else "–", paper]
        baseline = by_method.get((CLASSIFIER_BASELINE,))
        of_ours = by_method.get(("ssb-vae",), [])
        codes = f"{mean(run['distinct_codes'] for run in of_ours):,.0f}" if of_ours else "–"
        rows.append([*row, _figures(baseline) if baseline else "–", codes])
    print_table([*header, CLASSIFIER_BASELINE, "codes"], rows)


def _figures(runs: list[Record]) -> str:
    return ", ".join(mean_and_deviation(runs, figure) for figure in ("p100", "p100_expected"))


def _print_claims(dataset: str, n_bits: int, records: list[Record]) -> None:
    """Print how many shares have the printed best method, and how far values are from the printed.

    Only the shares of which all three methods are run are counted.
    """
    for figure, title in (("p100", "as served"), ("p100_expected", "tie-averaged")):
        ours: list[Mapping[str, float]] = []
        theirs: list[Mapping[str, float]] = []
        for (supervision,), of_share in group(records, "supervision").items():
            by_method = group(of_share, "method")
            if all((name,) in by_method for name in METHODS):
                ours.append({n: mean(run[figure] for run in by_method[n,]) for n in METHODS})
                theirs.append(printed_p100(dataset, n_bits, supervision))
        if not ours:
            continue
        first = sum(max(row, key=row.__getitem__) == "ssb-vae" for row in ours)
        printed_first = sum(max(row, key=row.__getitem__) == "ssb-vae" for row in theirs)
        away = ", ".join(
            f"{name} {mean(a[name] - b[name] for a, b in zip(ours, theirs, strict=True)):+.3f}"
            for name in COLUMNS
        )
        print(
            f"{title}: ssb-vae is the best of three at {first} of {len(ours)} shares"
            f" (printed: {printed_first}); mean difference from the printed values: {away}"
        )
