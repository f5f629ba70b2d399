"""The ``hummingbit`` command: each sub-command opens, calls and prints.

Exit status: 0 done, 1 a gate failed, 2 bad input or an explained failure, 130 interrupted.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib.metadata import version
from pathlib import Path

import hummingbit

COMMANDS = {
    "demo": "train on your own Python docstrings, index, evaluate and serve them",
    "train": "learn an encoder from documents of which few are labelled",
    "distill": "learn a small encoder from a teacher's vectors, without labels",
    "index": "put documents into a collection and look after it",
    "reindex": "encode a collection again, by another encoder, into another one",
    "alias": "give collections second names, and move them in one step",
    "snapshot": "copy collections into one file each, and make collections of those",
    "search": "search a collection from the command line",
    "serve": "serve a data folder over REST",
    "ready": "ask the service on this machine whether it is ready",
    "job": "see and stop what a service does in the background",
    "keys": "make, list and revoke the keys of a service",
    "config": "show and check the settings of a service",
    "encoder": "install, list and describe encoders",
    "evaluate": "measure a collection with labelled queries, as a job of your CI",
    "evaluate compare": "compare collections or encoders on the same queries",
    "evaluate curve": "train at several shares of the labels: how many are worth buying",
    "reproduce": "rerun an experiment of a paper, ours beside the printed figures",
}
PACKAGES = (
    "corpus",
    "encoder",
    "evaluation",
    "experiments",
    "hummingbit",
    "index",
    "service",
    "training",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv` (by default the process's own) and return the exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    put_own_folders_first()
    try:
        args = _parse(arguments)
        status: int = args.run(args)
    except KeyboardInterrupt:
        print("\nhummingbit: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # Whoever read the output has had enough of it; what is left must not be flushed to them.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except ModuleNotFoundError as error:
        if error.name not in {"torch", "geoopt", "pyriemann"}:
            raise
        cure = f"training needs {error.name}: pip install 'hummingbit[train]'"
        print(f"hummingbit: {cure}", file=sys.stderr)
        return 2
    except Exception as error:
        # An error that one of our packages names says what is wrong in a sentence; any other is a
        # defect and keeps its traceback.
        if type(error).__module__.partition(".")[0] not in PACKAGES:
            raise
        print(f"hummingbit: {error}", file=sys.stderr)
        return 2
    return status


def put_own_folders_first() -> None:
    """Let imports find the application's folders, and not the caller's own of the same names.

    ``python -m`` puts the current folder first on the path, and PYTHONPATH may name a project that
    has an ``index`` or a ``service`` of its own.
    """
    root = str(Path(hummingbit.__file__).parents[1])
    for place, entry in enumerate(sys.path):
        if entry == root:
            return
        if any(
            (Path(entry) / one).exists() or (Path(entry) / f"{one}.py").exists() for one in PACKAGES
        ):
            sys.path.insert(place, root)
            return


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="hummingbit", description=hummingbit.__doc__)
    parser.add_argument(
        "--version", action="version", version=f"hummingbit {version('hummingbit')}"
    )
    if " ".join(arguments[:2]) in COMMANDS:
        arguments = [" ".join(arguments[:2]), *arguments[2:]]
    named = next((one for one in arguments if not one.startswith("-")), None)
    if named is not None and named not in COMMANDS:
        near = get_close_matches(named, COMMANDS, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else "; hummingbit --help lists them"
        parser.error(f"there is no command {named!r}{hint}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, summary in COMMANDS.items():
        sub_parser = commands.add_parser(
            name, help=summary, description=f"{summary[0].upper()}{summary[1:]}."
        )
        if name in arguments:
            module = importlib.import_module(f"hummingbit.commands.{name.replace(' ', '_')}")
            module.configure(sub_parser)
    return parser.parse_args(arguments)
