"""SSB-VAE's retrieval experiment: p@100 and mAP@100 against supervision, the share of labels.

Source: Ñanculef et al., "Self-Supervised Bernoulli Autoencoders for Semi-Supervised Hashing"
(2020), Tables I and II. The methods train on all training documents, which with their true labels
are also the database; the queries are the test documents. The baselines are the classifier
baseline, fitted to the same labels, and TF-IDF cosine, which uses none.

The paper's data differ in part. Its version of 20 Newsgroups is none of those here; its TMC has
10,000 tf-idf terms and ours 500 binary ones; its CIFAR-10 has VGG features and ours MobileNetV2's.
On those, compare the methods with each other, not with the printed figures.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from statistics import mean

import numpy as np

from encoder.analyzers import VISIBLE
from evaluation.significance.paired_runs import compare_runs
from evaluation.significance.ranks import friedman_nemenyi
from evaluation.significance.resampling import holm, permutation_test
from experiments.cells import (
    Cell,
    Result,
    documents_name,
    p100_by_run,
    run_cell,
    run_tfidf,
)
from experiments.parts import add_bits, add_run_options
from experiments.processes import map_runs
from experiments.result_tables import Record, group, mean_and_deviation, print_table, save_records
from experiments.ssb_vae.ablation import CHANGES, ablate
from experiments.ssb_vae.curves import plot_curves
from experiments.ssb_vae.measures import print_measures
from experiments.ssb_vae.presets import SHIPPED, read_preset
from experiments.ssb_vae.printed_tables import METHODS as PRINTED_METHODS
from experiments.ssb_vae.printed_tables import printed_p100
from experiments.ssb_vae.tuning import GRID, tune
from hummingbit.training_methods import AnyRecipe
from training.class_codes.class_recipe import ClassCodeRecipe
from training.linear_codes import LINEAR_METHODS
from training.recipe import METHODS, LinearRecipe, Recipe

SUMMARY = "SSB-VAE: retrieval from few labels, ours beside the paper's Table I"
DATASETS = ("snippets", "20news", "20news-headers", "20news-bydate", "tmc", "cifar10")

COMPARABLE = ("snippets", "20news")
"""The data sets close enough to the paper's for its figures to be printed beside ours."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    methods = [*METHODS, "class-codes", *LINEAR_METHODS]
    parser.add_argument(
        "--dataset",
        default="snippets",
        choices=DATASETS,
        help="the data set (default: %(default)s)",
    )
    parser.add_argument(
        "--methods",
        nargs="+",
        default=["ssb-vae"],
        choices=methods,
        help="the methods (default: ssb-vae)",
    )
    add_bits(parser, [32])
    parser.add_argument(
        "--supervision",
        type=float,
        nargs="+",
        default=[0.1, 1.0],
        metavar="X",
        help="shares of the labels to train with (default: 0.1 1.0)",
    )
    parser.add_argument(
        "--jobs", type=int, default=1, metavar="N", help="number of runs in parallel"
    )
    parser.add_argument("--paper", action="store_true", help="use the authors' settings")
    parser.add_argument(
        "--analyzer",
        default=VISIBLE.name,
        metavar="NAME",
        help="the analyzer of class-codes (default: %(default)s)",
    )
    parser.add_argument(
        "--plot", type=Path, metavar="FILE", help="draw mAP@100 against supervision (.svg, .png)"
    )
    parser.add_argument(
        "--vectors",
        type=Path,
        metavar="FILE",
        help="vectors by id (.npz, .parquet) to use instead of the documents' own content",
    )
    add_run_options(parser, "results/ssb-vae")
    tuning = parser.add_argument_group("tuning")
    exclusive = tuning.add_mutually_exclusive_group()
    exclusive.add_argument(
        "--ablate",
        nargs="*",
        choices=CHANGES,
        metavar="CHANGE",
        help="score the recipe and changes of it on held-out clusters of training documents"
        f" (default: all of {', '.join(CHANGES)})",
    )
    exclusive.add_argument(
        "--tune",
        action="store_true",
        help="choose settings on held-out clusters of training documents and write them to"
        " --presets",
    )
    exclusive.add_argument(
        "--measures",
        action="store_true",
        help="print p@100 beside measures that a code of the class alone fails: the tree of"
        " classes, unseen classes, the nearest documents, known items",
    )
    tuning.add_argument(
        "--tuned",
        nargs="+",
        choices=GRID,
        metavar="NAME",
        help="the settings to try (default: all)",
    )
    tuning.add_argument(
        "--presets",
        type=Path,
        default=SHIPPED,
        metavar="FILE",
        help="settings by data set and method (default: the ones found here)",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Train and measure every cell and print the tables; or run --tune, --ablate or --measures."""
    if args.tune:
        return tune(args)
    if args.ablate is not None:
        return ablate(args)
    cells = list(_cells(args))
    if args.measures:
        return print_measures(args, cells)
    results = list(map_runs(run_cell, cells, args.jobs))
    records = [record for result in results for record in result.records]
    tfidf = run_tfidf(args.dataset, args.data_root)
    records += [tfidf] if tfidf else []
    save_records(args, records)
    _print_figures(records)
    _print_significance(cells, results)
    _print_over_shares(records)
    if args.plot:
        plot_curves(args.plot, records, "map100", "mAP@100")
    return 0


def _cells(args: argparse.Namespace) -> Iterator[Cell]:
    documents = documents_name(args.dataset, args.vectors)
    for n_bits in args.bits:
        for supervision in args.supervision:
            for seed in range(args.seeds):
                for method in args.methods:
                    recipe = _recipe(args, method, n_bits, supervision, seed)
                    variant = f"{method}-paper" if args.paper else method
                    if method == "class-codes" and args.analyzer != VISIBLE.name:
                        variant = f"{method}-{args.analyzer}"
                    name = f"{documents}-{variant}-{n_bits}-{supervision:g}-{seed}"
                    folder = args.work_dir / name
                    yield Cell(args.dataset, recipe, folder, args.data_root, args.vectors)


def _recipe(
    args: argparse.Namespace, method: str, n_bits: int, supervision: float, seed: int
) -> AnyRecipe:
    # Presets were chosen before, and class-codes holds out clusters itself, so no other document is
    # held out.
    common = {
        "n_bits": n_bits,
        "supervision": supervision,
        "seed": seed,
        "validation_share": 0.0,
    }
    if method in LINEAR_METHODS:
        return LinearRecipe(method, **common)  # type: ignore[arg-type]
    documents = documents_name(args.dataset, args.vectors)
    preset = {} if args.paper else read_preset(args.presets, documents, method)
    if method == "class-codes":
        return ClassCodeRecipe(**{"analyzer": args.analyzer, **preset, **common})
    recipe = Recipe(**{**preset, **common, "method": method})
    return recipe.as_in_the_paper(args.dataset.split("-")[0]) if args.paper else recipe


def _print_figures(records: list[Record]) -> None:
    header = ("data set", "bits", "ρ", "method", "p@100", "tie-averaged", "mAP@100")
    rows = []
    for cell, runs in group(records, "dataset", "n_bits", "supervision", "method").items():
        dataset, n_bits, supervision, method = cell
        comparable = dataset in COMPARABLE and n_bits and supervision
        printed = printed_p100(dataset, n_bits, supervision) if comparable else {}
        figures = (mean_and_deviation(runs, key) for key in ("p100", "p100_expected", "map100"))
        name = (dataset, str(n_bits or "–"), str(supervision or "–"), method)
        paper = f"{printed[method]:.3f}" if method in printed else "–"
        best = f"{max(printed.values()):.3f}" if printed else "–"
        rows.append([*name, *figures, *_code_statistics(runs), paper, best])
    print_table((*header, "codes", "bits set", "paper", "paper's best"), rows)


def _code_statistics(runs: list[Record]) -> tuple[str, str]:
    """Return the mean number of distinct codes, and the range of the shares of ones by bit."""
    if runs[0]["distinct_codes"] is None:
        return "–", "–"
    codes = f"{mean(run['distinct_codes'] for run in runs):,.0f}"
    if "bit_balance_least" not in runs[0]:
        return codes, "–"
    least = min(run["bit_balance_least"] for run in runs)
    most = max(run["bit_balance_most"] for run in runs)
    return codes, f"{least:.2f}–{most:.2f}"


def _print_significance(cells: list[Cell], results: list[Result]) -> None:
    """Print, for each setting, significance tests between methods on the same queries.

    One test averages over the runs. The other resamples runs, that is seeds and labels, as well as
    queries.
    """
    settings: dict[tuple[int, float], list[Result]] = {}
    for cell, result in zip(cells, results, strict=True):
        key = (cell.recipe.n_bits, cell.recipe.supervision)
        settings.setdefault(key, []).append(result)
    for (n_bits, supervision), runs in settings.items():
        methods = list(dict.fromkeys(name for run in runs for name in run.p100))
        if len(methods) < 2:
            continue
        ours = "ssb-vae" if "ssb-vae" in methods else "class-codes"
        if ours not in methods:
            continue
        p100 = {name: p100_by_run(runs, name) for name in methods}
        others = [name for name in methods if name != ours]
        raw = [
            permutation_test(p100[ours].mean(axis=0), p100[name].mean(axis=0)) for name in others
        ]
        comparisons = [compare_runs(p100[ours], p100[name]) for name in others]
        p_resampled = holm([comparison.p_value for comparison in comparisons])
        print(
            f"\n{n_bits} bits, ρ = {supervision:g}: {ours} against the others, tie-averaged p@100"
        )
        tests = zip(others, comparisons, holm(raw), p_resampled, strict=True)
        for name, comparison, p_queries, p_both in tests:
            difference = comparison.difference
            print(
                f"  {name:<12} {difference.mean:+.3f}  p = {p_queries:.2g} (permutation, Holm);"
                f" {difference.low:+.3f} to {difference.high:+.3f}, p = {p_both:.2g}"
                f" (runs and queries resampled, Holm;"
                f" {len(p100[ours])} run{'s'[: len(p100[ours]) != 1]})"
            )
        if len(methods) > 2:
            ranked = friedman_nemenyi({name: values.mean(axis=0) for name, values in p100.items()})
            ranks = ", ".join(f"{name} {rank:.2f}" for name, rank in ranked.mean_ranks.items())
            print(f"  Friedman p = {ranked.p_value:.2g}; mean ranks: {ranks};")
            print(f"  Nemenyi's critical difference at 0.05: {ranked.critical_difference:.2f}")


def _print_over_shares(records: list[Record]) -> None:
    """Print the paper's Table II for our figures: tests of three methods, with shares as blocks.

    The values are p@100 as served, averaged over runs. If a method is missing or there is only one
    share of labels, print nothing.
    """
    for (n_bits,), width_records in group(records, "n_bits").items():
        p100: dict[str, list[float]] = {}
        for (method, _), runs in group(width_records, "method", "supervision").items():
            if method in PRINTED_METHODS:
                p100.setdefault(method, []).append(mean(run["p100"] for run in runs))
        shares = {len(values) for values in p100.values()}
        if len(p100) < len(PRINTED_METHODS) or min(shares) < 2:
            continue
        result = friedman_nemenyi({method: np.array(values) for method, values in p100.items()})
        print(
            f"\n{n_bits} bits, {min(shares)} shares of labels as blocks, as in the paper's Table II"
        )
        print(f"  Friedman p = {result.p_value:.2g}")
        for pair, p_value in result.pairs.items():
            if "ssb-vae" in pair:
                (other,) = set(pair) - {"ssb-vae"}
                print(f"  {other:<12} p = {p_value:.2g} (Nemenyi)")
