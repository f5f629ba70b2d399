"""``hummingbit leaderboard``: methods of text hashing beside each other, in one protocol."""

from __future__ import annotations

import argparse

from hummingbit.commands.options import OptionError
from hummingbit.commands.reproduce import configure_experiment, load_experiment, refuse_to_run


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the experiment's options; if it is not installed, running it gives an error."""
    try:
        experiment = load_experiment("leaderboard")
    except OptionError as error:
        parser.prefix_chars = "\0"
        refuse_to_run(parser, str(error))
    else:
        configure_experiment(experiment, parser)
