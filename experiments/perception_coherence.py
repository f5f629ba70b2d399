"""Perception coherence: the experiments of the paper, and its use for binary codes of texts.

Source: Nguyen et al., "Feature Representation Transferring to Lightweight Models via Perception
Coherence" (2026). Each part is a module of its own.
"""

from __future__ import annotations

import argparse

from experiments.parts import configure_parts

SUMMARY = "Perception coherence: a small student that ranks as its teacher does"

PARTS = {
    "toy": "experiments.coherence_toy",
    "gpcl": "experiments.coherence_estimator",
    "cifar10": "experiments.coherence_cifar10",
    "text": "experiments.coherence_text",
    "text-settings": "experiments.coherence_text_settings",
    "semi": "experiments.coherence_semi",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    configure_parts(parser, PARTS, "results/perception-coherence")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="runs at a time (toy)")
