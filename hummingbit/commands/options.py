"""Options that several commands share."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import Field
from pathlib import Path
from typing import Any

from corpus.document import Document
from corpus.readers import BadLine, read_documents

SOURCE_HELP = (
    "a file (.jsonl, .csv, .tsv, .parquet, .npz; .gz and .xz are read too), - for JSON lines on"
    " standard input, or a named data set such as docstrings, snippets or snippets:test"
)


class OptionError(ValueError):
    """An option cannot be followed, or not beside another; the message names it."""


def add_data_dir(parser: argparse.ArgumentParser) -> None:
    """Add ``--data-dir``."""
    parser.add_argument(
        "--data-dir",
        type=Path,
        default=Path(),
        metavar="DIR",
        help="the folder that holds encoders/ and collections/ (default: the current one)",
    )


def add_reading(parser: argparse.ArgumentParser) -> None:
    """Add what says how documents are read."""
    parser.add_argument(
        "--data-root",
        type=Path,
        metavar="DIR",
        help="where the named data sets lie (default: $HUMMINGBIT_DATA)",
    )
    parser.add_argument(
        "--on-error",
        choices=("stop", "skip"),
        default="stop",
        help="what to do at a bad line: stop (default), or skip it",
    )


def read(args: argparse.Namespace, source: str, *, unique_ids: bool = True) -> Iterator[Document]:
    """Read the documents of `source` as the options of :func:`add_reading` say."""
    return read_documents(
        source,
        on_error=args.on_error,
        data_root=args.data_root,
        report=_report_bad_line,
        unique_ids=unique_ids,
    )


def add_setting(parser: Any, one: Field[Any]) -> None:
    """Add the flag of a recipe's setting; the method is the sub-command's name and needs none."""
    if one.name == "method":
        return
    flag = "--bits" if one.name == "n_bits" else "--" + one.name.replace("_", "-")
    options: dict[str, Any] = {
        "dest": one.name,
        "default": one.default,
        "help": f"{one.metadata['help']} (default: %(default)s)",
    }
    if isinstance(one.default, bool):
        parser.add_argument(flag, action=argparse.BooleanOptionalAction, **options)
    elif one.metadata["choices"]:
        parser.add_argument(flag, choices=one.metadata["choices"], **options)
    else:
        shown = "N" if isinstance(one.default, int) else "X"
        parser.add_argument(flag, type=type(one.default), metavar=shown, **options)


def write_text(path: Path, text: str) -> None:
    """Write a file that an option names.

    Raises:
        OptionError: if it cannot be written.
    """
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise OptionError(f"{path}: {error.strerror or error}") from error


def _report_bad_line(bad: BadLine) -> None:
    print(f"skipped: {bad}", file=sys.stderr)
