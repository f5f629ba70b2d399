"""Options that several commands share."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import Field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from corpus.document import Document
from corpus.readers import BadLine, Layout, read_documents
from encoder.artifact import check_destination
from foundation.errors import HummingbitError
from index.folder.names import NAME, RULE

_FILES = (
    "a file (.jsonl, .json, .csv, .tsv, .txt, .md, .parquet, .arrow, .npz; the first six also with"
    " .gz, .xz or .bz2)"
)
FILE_HELP = f"{_FILES} or a folder of text files"
SOURCE_HELP = (
    f"{_FILES}, a folder of text files, - for JSON lines on standard input, or a named data set"
    " such as docstrings, snippets or snippets:test"
)


FORMER_VALUES: Mapping[str, Mapping[str, str]] = {"likeness": {"predicted": "self-supervised"}}
"""Values of settings that the release before had, and those that replaced them."""


class OptionError(HummingbitError, ValueError):
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


def add_reading(parser: argparse.ArgumentParser, *, label_field: bool = True) -> None:
    """Add what says how documents are read.

    A command with a ``--label-field`` of its own goes without this one.
    """
    reading = add_layout(parser, label_field=label_field)
    reading.add_argument(
        "--data-root",
        type=Path,
        metavar="DIR",
        help="where the named data sets lie (default: $HUMMINGBIT_DATA)",
    )
    reading.add_argument(
        "--on-error",
        choices=("stop", "skip"),
        default="stop",
        help="stop at a bad line (default), or skip it",
    )


def add_layout(parser: argparse.ArgumentParser, *, label_field: bool = True) -> Any:
    """Add what says which fields are what, and return the group of these options."""
    reading = parser.add_argument_group("reading")
    reading.add_argument(
        "--id-field",
        metavar="NAME",
        help="the field that holds a document's id (default: id; without one, NAME:LINE)",
    )
    reading.add_argument(
        "--text-field",
        nargs="+",
        default=[],
        metavar="NAME",
        help="the field that holds its text (default: text); several are joined, one a line",
    )
    if label_field:
        reading.add_argument(
            "--label-field",
            dest="read_label_field",
            metavar="NAME",
            help="the field that holds its label (default: label or labels)",
        )
    reading.add_argument(
        "--payload-fields",
        nargs="*",
        metavar="NAME",
        help="the fields to keep as its payload (default: all others)",
    )
    reading.add_argument(
        "--no-header",
        action="store_true",
        help="the first line of a CSV or TSV file is a document: its fields are column1, column2 …",
    )
    reading.add_argument(
        "--encoding",
        metavar="NAME",
        help="encoding of CSV, TSV and text files (default: UTF-8, or else detected)",
    )
    return reading


def read(args: argparse.Namespace, source: str, *, unique_ids: bool = True) -> Iterator[Document]:
    """Read the documents of `source` as the options of :func:`add_reading` say."""
    return read_documents(
        source,
        on_error=args.on_error,
        data_root=args.data_root,
        report=_report_bad_line,
        notice=_print_notice,
        unique_ids=unique_ids,
        layout=layout_of(args),
    )


def layout_of(args: argparse.Namespace) -> Layout:
    """Return the layout that the options of :func:`add_layout` describe."""
    return Layout(
        id_field=args.id_field,
        text_fields=tuple(args.text_field),
        label_field=getattr(args, "read_label_field", None),
        payload_fields=None if args.payload_fields is None else tuple(args.payload_fields),
        encoding=args.encoding,
        has_header=not args.no_header,
    )


def add_out(
    parser: argparse.ArgumentParser, what: str = "encoder", *, required: bool = True
) -> None:
    """Add ``--out`` and ``--overwrite``, where an encoder goes."""
    parser.add_argument(
        "--out", required=required, type=Path, metavar="FOLDER", help=f"the {what}'s folder"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace an encoder at --out")


def check_out(args: argparse.Namespace) -> None:
    """Check where an encoder is to be written, before the work that it takes.

    Raises:
        OptionError: if a folder of that name in ``encoders/`` could not be found by its name, or
            no folder can be made there.
        ArtifactError: if it is there already and is not to be replaced.
    """
    out: Path = args.out
    if out.parent.name == "encoders" and not NAME.fullmatch(out.name):
        raise OptionError(f"--out {out}: an encoder's name must be {RULE}")
    check_destination(out, overwrite=args.overwrite)
    check_folder_above(out, f"--out {out}")


def check_folder_above(place: Path, option: str) -> None:
    """Raise OptionError, naming `option`, unless the folder above `place` can be made."""
    above = place.absolute().parent
    while not above.exists():
        above = above.parent
    if not above.is_dir():
        raise OptionError(f"{option}: {above} is a file; name a folder that can be made")
    check_writable(above, option)


def check_writable(folder: Path, option: str) -> None:
    """Raise OptionError, naming `option`, unless something can be made in `folder`."""
    with naming(f"{option}: {folder}"), TemporaryDirectory(prefix=".writable-", dir=folder):
        pass


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
        former = FORMER_VALUES.get(one.name, {})
        parser.add_argument(
            flag, choices=one.metadata["choices"], type=partial(_value, flag, former), **options
        )
    else:
        shown = "N" if isinstance(one.default, int) else "X"
        parser.add_argument(flag, type=type(one.default), metavar=shown, **options)
    if one.name == "soft_labels":
        choices = one.metadata["choices"]
        add_former_flag(parser, "--guesses", flag, one.name, choices=choices)


def _value(flag: str, former: Mapping[str, str], given: str) -> str:
    if given in former:
        print(f"{flag} {given} is now {flag} {former[given]}; use that value", file=sys.stderr)
    return former.get(given, given)


class FormerFlag(argparse.Action):
    """A flag under its former name: it does what today's flag does, and says so."""

    def __call__(
        self,
        _parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Set today's option and print a warning."""
        print(f"{option_string} is now {self.const}; use that name", file=sys.stderr)
        setattr(namespace, self.dest, True if self.nargs == 0 else values)


def add_former_flag(parser: Any, former: str, flag: str, dest: str, **options: Any) -> None:
    """Accept `former`, the name of the option `flag` in the release before, with a warning."""
    parser.add_argument(
        former,
        action=FormerFlag,
        const=flag,
        dest=dest,
        default=argparse.SUPPRESS,
        help=argparse.SUPPRESS,
        **options,
    )


@contextmanager
def naming(what: Path | str) -> Iterator[None]:
    """Say what it is that cannot be read or written: a file, or an option and its file."""
    try:
        yield
    except OSError as error:
        raise OptionError(f"{what}: {error.strerror or error}") from error


def write_text(path: Path, text: str) -> None:
    """Write a file that an option names.

    Raises:
        OptionError: if it cannot be written.
    """
    with naming(path):
        path.write_text(text, encoding="utf-8")


def _print_notice(what: str) -> None:
    print(what, file=sys.stderr)


def _report_bad_line(bad: BadLine) -> None:
    print(f"skipped: {bad}", file=sys.stderr)
