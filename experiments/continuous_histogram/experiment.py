"""Continuous histogram loss: the experiments of the paper.

Source: Zholus and Putin, "Continuous Histogram Loss: beyond neural similarity" (2020), section 4.
Each part is a module with `configure` and `run`.
"""

from __future__ import annotations

import argparse

from experiments.parts import configure_parts

SUMMARY = "continuous histogram loss: distances that follow graded similarities"

PARTS = {
    "synthetic": "experiments.continuous_histogram.synthetic",
    "mnist": "experiments.continuous_histogram.mnist",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    configure_parts(parser, PARTS, "results/continuous-histogram")
