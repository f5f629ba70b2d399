"""The data folder that a command works on."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import TypeAlias

from hummingbit.commands.options import OptionError, add_data_dir
from index.data_folder import DataFolder
from index.filters import Filter, parse_filter

# What add_subparsers returns has no public name.
Actions: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # noqa: SLF001


def add_action(
    actions: Actions, name: str, run: Callable[[argparse.Namespace], int], summary: str
) -> argparse.ArgumentParser:
    """Add an action on a COLLECTION and return its parser."""
    action = actions.add_parser(name, help=summary)
    action.add_argument("collection", metavar="COLLECTION")
    add_data_dir(action)
    action.set_defaults(run=run)
    return action


def open_folder(args: argparse.Namespace, *, writable: bool) -> DataFolder:
    """Open the folder of ``--data-dir``; the index of a collection is built when it is searched.

    Raises:
        DataFolderError: if it cannot be opened.
    """
    return DataFolder(args.data_dir, writable=writable, indexed=False)


def add_filter(parser: argparse.ArgumentParser) -> None:
    """Add ``--filter``."""
    parser.add_argument(
        "--filter",
        metavar="JSON",
        help='only documents whose payload it holds for: \'{"field": "year", "gte": 1990}\'',
    )


def read_filter(args: argparse.Namespace) -> Filter | None:
    """Return what ``--filter`` says.

    Raises:
        OptionError: if it is not JSON.
        InputError: if it is no filter.
    """
    if args.filter is None:
        return None
    try:
        return parse_filter(json.loads(args.filter))
    except (json.JSONDecodeError, RecursionError) as error:
        raise OptionError(f"--filter: is not valid JSON: {error}") from None
