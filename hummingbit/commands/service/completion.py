"""``hummingbit completion SHELL``: a script that completes commands and options at the tab key."""

from __future__ import annotations

import argparse
from pathlib import Path

import shtab

SHELLS = ("bash", "fish", "zsh")
PLACES = ("FILE", "FOLDER", "DIR", "SOURCE")
"""What options that take a file or a folder call their value."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the shell."""
    parser.add_argument("shell", choices=SHELLS)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the script, made of the options that every command has."""
    from hummingbit.cli import whole_parser  # noqa: PLC0415 - it imports the commands

    parser = whole_parser()
    _mark_places(parser)
    print(shtab.complete(parser, args.shell))
    return 0


def _mark_places(parser: argparse.ArgumentParser) -> None:
    """Have the shell complete paths where a path is asked for."""
    for action in parser._actions:  # noqa: SLF001 - argparse has no public way to them
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for one in action.choices.values():
                _mark_places(one)
        elif action.type is Path or action.metavar in PLACES:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
