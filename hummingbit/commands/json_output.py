"""``--json``: the result of a command as JSON, and nothing else on standard output."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hummingbit.commands.options import write_text
from index.search.empty_results import with_warnings


def add_json(parser: argparse.ArgumentParser, output: str = "the result as JSON") -> None:
    """Add ``--json``."""
    parser.add_argument(
        "--json", action="store_true", help=f"print {output}, and nothing else on standard output"
    )


def add_json_or_former_file(parser: argparse.ArgumentParser, *, names: str | None = None) -> None:
    """Add ``--json``, which in the previous release took a FILE to write.

    `names` is the positional argument, if there is one, that could be mistaken for the FILE.
    """
    parser.add_argument(
        "--json",
        action=_JsonOrFormerFile,
        names=names,
        nargs="?",
        const=True,
        default=False,
        metavar="FILE",
        help="print the result as JSON, and nothing else on standard output; with FILE, as in the"
        " previous release, write it there",
    )


class _JsonOrFormerFile(argparse.Action):
    """Sets True, or the Path of a FILE with a warning."""

    def __init__(self, *args: Any, names: str | None, **options: Any) -> None:
        super().__init__(*args, **options)
        self._names = names

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Set the option; refuse a value that may be a name, so as to overwrite no such file."""
        if values is True:
            namespace.json = True
            return
        names_may_follow = self._names is not None and getattr(namespace, self._names) is None
        if names_may_follow and not values.endswith(".json"):
            parser.error(f"{option_string}: takes no value; put it after the names")
        print(f"{option_string} FILE is now {option_string} > FILE; use that", file=sys.stderr)
        namespace.json = Path(values)


def print_json(result: Mapping[str, Any]) -> None:
    """Print one JSON object."""
    print(json.dumps(result, indent=2, ensure_ascii=False), flush=True)


def print_or_write_json(args: argparse.Namespace, result: Mapping[str, Any]) -> None:
    """Print one JSON object, or write it to the FILE of :func:`add_json_or_former_file`.

    Raises:
        OptionError: if it cannot be written.
    """
    if args.json is True:
        print_json(result)
    else:
        write_text(args.json, json.dumps(result, indent=2, ensure_ascii=False) + "\n")


def print_result(
    args: argparse.Namespace,
    result: Mapping[str, Any],
    lines: str | Iterable[str],
    warnings: Sequence[str] = (),
) -> None:
    """Print `result` as JSON with ``--json``, and otherwise `lines`, for people to read.

    The `warnings` are a field of the JSON, or else lines on standard error.
    """
    if args.json:
        print_json(with_warnings(result, warnings))
        return
    for line in [lines] if isinstance(lines, str) else lines:
        print(line)
    print_warnings(warnings)


def print_warnings(warnings: Iterable[str]) -> None:
    """Print a warning a line on standard error."""
    for warning in warnings:
        print(warning, file=sys.stderr)
