"""``hummingbit reproduce NAME``: an experiment of a paper, found by its entry point."""

from __future__ import annotations

import argparse
from importlib.metadata import entry_points

GROUP = "hummingbit.experiments"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the experiments that are installed; each has options of its own."""
    experiments = parser.add_subparsers(dest="experiment", required=True, metavar="NAME")
    for entry in sorted(entry_points(group=GROUP), key=lambda one: one.name):
        module = entry.load()
        sub_parser = experiments.add_parser(
            entry.name, help=module.SUMMARY, description=f"{module.SUMMARY}."
        )
        module.configure(sub_parser)
