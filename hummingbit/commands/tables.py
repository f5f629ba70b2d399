"""Figures as people read them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from evaluation.result import Evaluation
from training.pipeline import Trained


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


def print_trained(out: Path, trained: Trained) -> None:
    """Print where an encoder was written and how it did on the documents held out."""
    encoder, figures = trained.encoder, trained.validation
    print(f"{out}: {encoder.n_bits} bits, fingerprint {encoder.fingerprint}")
    if not figures:
        print("no labelled documents were held out to judge it by")
        return
    print(f"trained with {len(trained.labelled_ids):,} labels; {figures['queries']:,} held out:")
    for title, found in (("codes", figures), ("class code", figures["class_code"])):
        if found:
            shown = "  ".join(f"{name} {value:.3f}" for name, value in found["expected"].items())
            print(f"  {title:<11} {shown}  {found['distinct_codes']:,} distinct codes")
