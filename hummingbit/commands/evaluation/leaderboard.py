"""``hummingbit leaderboard``: methods of text hashing beside each other, in one protocol."""

from __future__ import annotations

import argparse

from hummingbit.commands.evaluation.reproduce import load_experiment


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the experiment of this name."""
    load_experiment("leaderboard").configure(parser)
