"""Perception coherence: the experiments of the paper, and its use for binary codes of texts.

Source: Nguyen et al., "Feature Representation Transferring to Lightweight Models via Perception
Coherence" (2026). Each part is a module of its own.
"""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path

SUMMARY = "Perception coherence: a small student that ranks as its teacher does"

PARTS = {
    "toy": "experiments.coherence_toy",
    "gpcl": "experiments.coherence_estimator",
    "cifar10": "experiments.coherence_cifar10",
    "text": "experiments.coherence_text",
    "text-settings": "experiments.coherence_text_settings",
    "semi": "experiments.coherence_semi",
}
"""The module of each part. It has ``configure(group)`` for options of its own and ``run(args)``."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options that all parts share, and those of each part."""
    parser.add_argument("--part", required=True, choices=PARTS)
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="runs of each setting")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="runs at a time (toy)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write a flat list of records")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the figure (.svg, .png)")
    parser.add_argument("--data-root", type=Path, metavar="DIR")
    parser.add_argument(
        "--work-dir",
        type=Path,
        default=Path("results/perception-coherence"),
        metavar="DIR",
        help="where results are kept; a run that was made there already is not made again",
    )
    for name, module in PARTS.items():
        import_module(module).configure(parser.add_argument_group(f"--part {name}"))
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the chosen part."""
    status: int = import_module(PARTS[args.part]).run(args)
    return status
