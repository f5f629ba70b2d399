"""Tests of the differences between methods, as `reproduce ssb-vae` prints them."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean

import numpy as np
import numpy.typing as npt

from experiments.cells import Cell, Result, p100_by_run
from experiments.paired_runs import compare_runs
from experiments.result_tables import Record, group
from experiments.ssb_vae.printed_tables import METHODS
from hummingbit.evaluation.significance import (
    friedman_nemenyi,
    holm,
    permutation_test,
)


def print_significance(cells: Sequence[Cell], results: Sequence[Result]) -> None:
    """Print, for each setting, significance tests between methods on the same queries.

    One test averages over the runs. The other resamples runs, that is seeds and labels, as well as
    queries.
    """
    settings: dict[tuple[int, float], list[Result]] = {}
    for cell, result in zip(cells, results, strict=True):
        key = (cell.recipe.n_bits, cell.recipe.label_fraction)
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


def print_tests_over_shares(records: Sequence[Record]) -> None:
    """Print the paper's Table II for our figures: tests of its methods, with shares as blocks.

    The values are p@100, averaged over runs. If a method is missing or there is only one share of
    labels, print nothing.
    """
    for (n_bits,), of_width in group(records, "n_bits").items():
        cells = group(of_width, "method", "supervision")
        runs = {name: [cells[key] for key in cells if key[0] == name] for name in METHODS}
        n_shares = min(map(len, runs.values()))
        if n_shares < 2:
            continue
        print(f"\n{n_bits} bits, {n_shares} shares of labels as blocks, as in the paper's Table II")
        for figure, title in (("p100", "as served"), ("p100_expected", "tie-averaged")):
            means = {
                method: np.array([mean(run[figure] for run in cell) for cell in method_runs])
                for method, method_runs in runs.items()
            }
            _print_ranks(title, means)


def _print_ranks(title: str, p100: dict[str, npt.NDArray[np.float64]]) -> None:
    """Print Friedman's test of all methods, and Nemenyi's of SSB-VAE against each other one."""
    result = friedman_nemenyi(p100)
    ranks = ", ".join(f"{method} {rank:.2f}" for method, rank in result.mean_ranks.items())
    print(f"  {title}: Friedman p = {result.p_value:.2g}; mean ranks: {ranks}")
    for pair, p_value in result.pairs.items():
        if "ssb-vae" in pair:
            (other,) = set(pair) - {"ssb-vae"}
            print(f"    against {other:<8} p = {p_value:.2g} (Nemenyi)")
