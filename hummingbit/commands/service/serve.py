"""``hummingbit serve``: a data folder over REST."""

from __future__ import annotations

import argparse

import hummingbit.threads  # noqa: F401 - before the libraries that read the environment
from hummingbit.commands.service.service_options import add_settings, read_settings


def configure(parser: argparse.ArgumentParser) -> None:
    """Add a flag for every setting."""
    add_settings(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Serve until interrupted."""
    settings = read_settings(args).settings
    from service.server import serve  # noqa: PLC0415 - keeps --help quick

    serve(settings)
    return 0
