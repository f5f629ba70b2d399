"""Prints results for people, and with ``--json`` for programs."""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hummingbit.commands.options import add_option, write_text
from hummingbit.deferred import deferred_imports
from hummingbit.foundation.errors import counted
from hummingbit.foundation.slices import end_stage

with deferred_imports():
    from hummingbit.index.facets import FacetResult
    from hummingbit.index.search import with_warnings

# Control characters in what a command prints.


_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def without_controls(text: str) -> str:
    r"""Return `text` with escapes such as ``\x1b`` and ``\n`` in place of control characters.

    So an id or a text cannot end a line, move the cursor or colour the terminal.
    """
    return _CONTROL.sub(lambda match: repr(match[0])[1:-1], text)


# ``--json``: the result of a command as JSON, and nothing else on standard output.


def add_json(parser: argparse.ArgumentParser, output: str = "the result as JSON") -> None:
    """Add ``--json``."""
    add_option(parser, "--json", f"print {output}, and nothing else on standard output")


def add_json_or_former_file(parser: argparse.ArgumentParser, *, names: str | None = None) -> None:
    """Add ``--json``, which in the previous release took a FILE to write.

    `names` is the positional argument, if there is one, that could be mistaken for the FILE.
    """
    add_option(
        parser,
        "--json",
        "print the result as JSON, and nothing else on standard output; with FILE, as in the"
        " previous release, write it there",
        action=_JsonOrFormerFile,
        names=names,
        nargs="?",
        const=True,
        default=False,
        metavar="FILE",
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


def reindexed_line(result: Mapping[str, Any]) -> str:
    """Return the line for a `collection` of so many `documents`, to which an `alias` may point."""
    moved = "" if result["alias"] is None else f"; the alias {result['alias']} points to it"
    return f"{result['collection']}: {counted(result['documents'], 'document')}{moved}"


def print_warnings(warnings: Iterable[str]) -> None:
    """Print a warning a line on standard error."""
    for warning in warnings:
        print(warning, file=sys.stderr)


@contextmanager
def timed_stage(title: str) -> Iterator[None]:
    """Print the title of a stage and, at its end, the seconds that it took."""
    print(f"{title} …", flush=True)
    began = time.perf_counter()
    yield
    end_stage()
    print(f"  {time.perf_counter() - began:.1f} s", flush=True)


MIDNIGHT = "T00:00:00Z"
FACETS_OVER = {
    "words": ", of the documents with a word of the query",
    "best": ", of the best documents",
    "found": ", of all documents found",
}


def print_facets(facets: Iterable[FacetResult], over: str = "") -> None:
    """Print how many documents have each value of a field, or are in each interval.

    `over` is `facets_over` of a search.
    """
    for facet in facets:
        counts = f"{facet.documents:,} with a value, {facet.missing:,} without"
        counts += FACETS_OVER.get(over, "")
        print(without_controls(f"{facet.field}: {counts}"))
        starts = [bucket["from"] for bucket in facet.buckets if isinstance(bucket.get("from"), str)]
        are_days = bool(starts) and all(start.endswith(MIDNIGHT) for start in starts)
        for bucket in facet.buckets:
            value = bucket.get("value", bucket.get("from"))
            text = value if isinstance(value, str) else json.dumps(value)
            text = text.removesuffix(MIDNIGHT) if are_days else text
            print(without_controls(f"{bucket['count']:>10,}  {text}"))
