"""``hummingbit completion SHELL``: a script that completes commands and options at the tab key."""

from __future__ import annotations

import argparse
from pathlib import Path

import shtab

SHELLS = ("bash", "fish", "zsh")
PATH_METAVARS = ("FILE", "FOLDER", "DIR", "SOURCE")
"""The metavars of options that take a file or a folder."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the shell."""
    parser.add_argument("shell", choices=SHELLS)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the script, generated from the options of every command."""
    from hummingbit.cli import whole_parser  # noqa: PLC0415 - it imports the commands

    parser = whole_parser()
    _complete_paths(parser)
    print(shtab.complete(parser, args.shell))
    return 0


def _complete_paths(parser: argparse.ArgumentParser) -> None:
    """Make the shell complete paths for arguments that are paths."""
    for action in parser._actions:  # noqa: SLF001 - argparse has no public way to them
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for sub_parser in action.choices.values():
                _complete_paths(sub_parser)
        elif action.type is Path or action.metavar in PATH_METAVARS:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
