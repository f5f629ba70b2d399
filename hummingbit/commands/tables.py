"""Figures as people read them."""

from __future__ import annotations

from collections.abc import Mapping

from evaluation.result import Evaluation


def print_figures(found: Mapping[str, Evaluation]) -> None:
    """Print a line for each method: every metric as served and, after it, in expectation over ties.

    Where no two documents are at one distance, as with real-valued scores, the two agree.
    """
    names = list(next(iter(found.values())).metrics)
    width = max(len("method"), *map(len, found))
    header = "".join(f"{name:>10} {'over ties':>10}" for name in names)
    print(f"{'method':<{width}}{header}{'distinct codes':>16}")
    for method, one in found.items():
        cells = "".join(f"{one.metrics[name]:>10.3f} {one.expected[name]:>10.3f}" for name in names)
        codes = "–" if one.distinct_codes is None else f"{one.distinct_codes:,}"
        print(f"{method:<{width}}{cells}{codes:>16}")
