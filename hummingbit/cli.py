"""The ``hummingbit`` command. Each sub-command opens something, calls it and prints the result.

Exit status: 0 success, 1 a failed gate or check, 2 invalid input or an explained failure, 130
interrupted.
"""

from __future__ import annotations

import argparse
import atexit
import codecs
import gc
import importlib
import json
import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from importlib.metadata import version
from io import TextIOWrapper
from pathlib import Path
from shlex import quote
from textwrap import fill
from typing import Any, NamedTuple

import hummingbit
from hummingbit import PACKAGES
from hummingbit.suggestions import SuggestingParser, as_sentence, did_you_mean


class Command(NamedTuple):
    """A command: the folder of :mod:`hummingbit.commands` with its module, and its summary."""

    folder: str
    summary: str


COMMANDS = {
    "quickstart": Command(
        "encoders", "inspect a file, train codes on it, compare rankings, and serve a search"
    ),
    "demo": Command(
        "encoders", "train on your own Python docstrings, index, evaluate and serve them"
    ),
    "train": Command("encoders", "train an encoder on documents, with few labels or none"),
    "distill": Command(
        "encoders", "train a small encoder to imitate a large model, with few labels or none"
    ),
    "index": Command("collections", "build and maintain collections of documents"),
    "label": Command("labels", "label and judge documents, see what to label next, and retrain"),
    "reindex": Command("collections", "re-encode a collection with another encoder"),
    "alias": Command("collections", "give collections a second name, and switch it in one step"),
    "snapshot": Command("collections", "back up collections to single files, and restore them"),
    "search": Command("collections", "search a collection from the command line"),
    "serve": Command("service", "serve a data folder over REST"),
    "mcp": Command("service", "serve a collection to agents, by the Model Context Protocol"),
    "ready": Command("service", "check whether the service on this machine is ready"),
    "job": Command("service", "list and cancel the background jobs of a service"),
    "keys": Command("service", "create, list and revoke API keys"),
    "config": Command("service", "show and check the settings of a service"),
    "completion": Command("service", "print a script that completes commands in bash, fish or zsh"),
    "encoder": Command("encoders", "install, list, describe and share encoders"),
    "evaluate": Command(
        "evaluation", "measure retrieval quality with labelled queries, also in CI"
    ),
    "evaluate compare": Command(
        "evaluation", "compare collections or encoders on the same queries"
    ),
    "evaluate curve": Command(
        "evaluation", "train with several shares of the labels, to see how many pay off"
    ),
    "leaderboard": Command("evaluation", "compare methods of text hashing on the same documents"),
    "reproduce": Command(
        "evaluation", "rerun a paper's experiment and print its figures beside ours"
    ),
}

SERVING = frozenset({"demo", "mcp", "quickstart", "serve"})
"""Commands that answer searches until they are stopped, and so must not pause for long."""

HELP_WIDTH = 80
MAX_COLLECTIONS = 10
"""More names of collections are not listed in an error."""
TITLES = {
    "encoders": "get started, and train encoders",
    "collections": "fill and search collections",
    "labels": "label",
    "evaluation": "measure",
    "service": "serve and operate",
}
"""The headings of the help, by folder."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv` (by default the process's own) and return the exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if argv is None:
        # Python looks for garbage when it ends, which takes half a second after training. What is
        # frozen it leaves to the system.
        atexit.register(gc.freeze)
    put_own_folders_first()
    _accept_all_characters()
    try:
        status = _run(arguments)
        if sys.stdout is not None:
            sys.stdout.flush()
    except KeyboardInterrupt:
        print("\nhummingbit: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        _drop_output()
        return 0
    except Exception as error:
        explanation = _explain(error)
        if explanation is None:
            raise
        print(f"hummingbit: {explanation}", file=sys.stderr)
        if isinstance(error, OSError):
            _drop_output()  # it may be what cannot be written
        return 2
    return status


def _hint(error: Exception) -> str:
    """Return what the data folder has in place of a name that it lacks, or nothing."""
    from index.errors import UnknownEncoder  # noqa: PLC0415 - as in _explain

    if isinstance(error, UnknownEncoder):
        return _hint_to_install(error.name)
    return _hint_to_collections(error)


def _hint_to_collections(error: Exception) -> str:
    """Return which collections there are, if `error` is that there is none of a name."""
    from index.errors import UnknownCollection  # noqa: PLC0415 - as in _explain

    if not isinstance(error, UnknownCollection) or error.known is None:
        return ""
    known = error.known
    if not known:
        return "; the data folder has none: name another with --data-dir"
    some = ", ".join(known[:MAX_COLLECTIONS])
    more = f" and {len(known) - MAX_COLLECTIONS:,} more" if len(known) > MAX_COLLECTIONS else ""
    return did_you_mean(error.name, known) or f"; the data folder has {some}{more}"


def _explain(error: Exception) -> str | None:
    """Return the sentence for an error that a user can put right, or None for a defect."""
    # Imported here, because our folders are first on the path only now.
    from foundation.errors import HummingbitError  # noqa: PLC0415
    from hummingbit.clients.transport import ServiceError  # noqa: PLC0415

    if isinstance(error, ServiceError):
        hint = "; start it with hummingbit serve, or name another with --url"
        return f"{error}{hint if 'Connection refused' in str(error) else ''}"
    if isinstance(error, HummingbitError):
        return f"{error}{_hint(error)}"
    if isinstance(error, ModuleNotFoundError) and error.name in {"torch", "geoopt", "pyriemann"}:
        from foundation.extras import install_command  # noqa: PLC0415

        return f"training needs {error.name}; install it with: {install_command('train')}"
    if isinstance(error, OSError) and error.strerror is not None:
        place = "standard output" if error.filename is None else error.filename
        return f"{place}: {error.strerror}"
    if isinstance(error, MemoryError):
        return "there is not enough memory for this"
    return None


def _hint_to_install(name: str) -> str:
    """Return how to install the encoder in the folder `name`, or nothing if it holds none."""
    from encoder.artifact_files.manifest import MANIFEST  # noqa: PLC0415 - as in main

    folder = Path(name)
    if not (folder / MANIFEST).is_file():
        return ""
    copies = f"hummingbit encoder install {quote(name)}"
    return f"; `{copies}` copies the encoder in that folder into the data folder"


def _run(arguments: list[str]) -> int:
    from foundation.garbage import rare_collections  # noqa: PLC0415 - as in _explain
    from foundation.stages import print_stages  # noqa: PLC0415

    with rare_collections():
        args = _parse(arguments)
    with print_stages(), nullcontext() if args.command in SERVING else rare_collections():
        status: int = args.run(args)
    return status


def _accept_all_characters() -> None:
    """Let output in an encoding without a character show its number instead of failing.

    The number is written as in JSON, ``\\u00e9``, so that what ``--json`` prints can be read.
    """
    codecs.register_error("json", _json_escapes)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper) and stream.encoding.lower() != "utf-8":
            stream.reconfigure(errors="json")


def _json_escapes(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


def _drop_output() -> None:
    """Send what standard output still holds to nowhere, so that the exit does not fail on it."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def put_own_folders_first() -> None:
    """Put the application's folders on the path before others with packages of the same names.

    ``python -m`` puts the current folder first on the path, and PYTHONPATH may name a project that
    has its own ``index`` or ``service``.
    """
    root = str(Path(hummingbit.__file__).parents[1])
    for place, entry in enumerate(sys.path):
        if entry == root:
            return
        folder = Path(entry)
        if any((folder / name).exists() or (folder / f"{name}.py").exists() for name in PACKAGES):
            sys.path.insert(place, root)
            return


def whole_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands with a one-word name, with all their options."""
    names = [name for name in COMMANDS if " " not in name]
    return _parser(names, names, in_help=True)


def _parse(arguments: list[str]) -> argparse.Namespace:
    if " ".join(arguments[:2]) in COMMANDS:
        arguments = [" ".join(arguments[:2]), *arguments[2:]]
    command = next((argument for argument in arguments if not argument.startswith("-")), None)
    parser = _parser(COMMANDS, [command] if command in COMMANDS else [])
    if command is not None and command not in COMMANDS:
        hint = did_you_mean(command, COMMANDS) or "; hummingbit --help lists them"
        parser.error(f"there is no command {command!r}{hint}")
    return parser.parse_args(arguments)


def _parser(
    names: Iterable[str], configured: Sequence[str | None], *, in_help: bool = False
) -> argparse.ArgumentParser:
    """Return the parser of the commands `names`; those in `configured` have their options.

    Unless `in_help`, argparse's list leaves the commands out: the groups below it name them.
    """
    parser = SuggestingParser(
        prog="hummingbit",
        description=hummingbit.__doc__,
        epilog=_grouped_help(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--version", action="version", version=f"hummingbit {version('hummingbit')}"
    )
    commands = parser.add_subparsers(
        dest="command", required=True, metavar="COMMAND", help="one of those below"
    )
    for name in names:
        folder, summary = COMMANDS[name]
        help_option: dict[str, Any] = {"help": summary} if in_help else {}
        sub_parser = commands.add_parser(name, description=as_sentence(summary), **help_option)
        if name in configured:
            module_name = f"hummingbit.commands.{folder}.{name.replace(' ', '_')}"
            importlib.import_module(module_name).configure(sub_parser)
    return parser


def _grouped_help() -> str:
    """Return the commands in groups."""
    lines = []
    for folder, title in TITLES.items():
        lines.append(f"{title}:")
        for name, command in COMMANDS.items():
            if command.folder == folder:
                head = f"  {name:<18}"
                lines.append(
                    fill(
                        command.summary, HELP_WIDTH, initial_indent=head, subsequent_indent=" " * 20
                    )
                )
        lines.append("")
    return "\n".join(lines) + "\n'hummingbit COMMAND --help' shows the options of a command."
