"""Perception coherence: the experiments of the paper, and its use for binary codes of texts.

Source: Nguyen et al., "Feature Representation Transferring to Lightweight Models via Perception
Coherence" (2026). Each part is a module with `configure` and `run`.
"""

from __future__ import annotations

import argparse

from experiments.parts import configure_parts

SUMMARY = "perception coherence: a small student that ranks as its teacher does"
NEEDS = ", and sentence-transformers for a language model as the teacher"

PARTS = {
    "toy": "experiments.perception_coherence.toy",
    "gpcl": "experiments.perception_coherence.estimator",
    "cifar10": "experiments.perception_coherence.cifar10",
    "printed-settings": "experiments.perception_coherence.printed_settings",
    "text": "experiments.perception_coherence.text",
    "text-settings": "experiments.perception_coherence.text_settings",
    "semi": "experiments.perception_coherence.semi",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    configure_parts(parser, PARTS, "results/perception-coherence")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="runs at a time (toy)")
