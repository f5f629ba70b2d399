"""Options that several commands share."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import Field, fields
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from corpus.document import Document
from corpus.readers import BadLine, Layout, read_documents
from corpus.tables import FieldTypes
from encoder.artifact import check_destination
from encoder.codes import CodeError, check_n_bits
from encoder.recipes import BaseRecipe, flag_of
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

R = TypeVar("R", bound=BaseRecipe)

# Smaller encoders are rare.
ROOM_FOR_AN_ENCODER = 1 << 20


class OptionError(HummingbitError, ValueError):
    """An option is invalid, or cannot be combined with another; the message names it."""


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
    """Add the options for reading documents.

    A command with a ``--label-field`` of its own passes false for `label_field`.
    """
    reading = add_layout(parser, label_field=label_field)
    reading.add_argument(
        "--data-root",
        type=Path,
        metavar="DIR",
        help="the folder of the named data sets (default: $HUMMINGBIT_DATA)",
    )
    reading.add_argument(
        "--on-error",
        choices=("stop", "skip"),
        default="stop",
        help="stop at a bad line (default), or skip it",
    )


def add_layout(
    parser: argparse.ArgumentParser, *, label_field: bool = True, are_found: bool = False
) -> Any:
    """Add the options for the fields of documents, which may be found; return their group."""
    by_name = ("id; without one, NAME:LINE", "text", "label or labels")
    id_default, text_default, label_default = ("found",) * 3 if are_found else by_name
    reading = parser.add_argument_group("reading")
    reading.add_argument(
        "--id-field",
        metavar="NAME",
        help=f"the field that holds a document's id (default: {id_default})",
    )
    reading.add_argument(
        "--text-field",
        nargs="+",
        action="extend",
        default=[],
        metavar="NAME",
        help=f"the field of its text (default: {text_default}); several are joined, one a line",
    )
    if label_field:
        reading.add_argument(
            "--label-field",
            dest="read_label_field",
            metavar="NAME",
            help=f"the field that holds its label (default: {label_default})",
        )
    reading.add_argument(
        "--payload-fields",
        nargs="*",
        action="extend",
        metavar="NAME",
        help="the fields to keep as its payload (default: all others)",
    )
    reading.add_argument(
        "--no-header",
        action="store_true",
        help="the first line of a CSV or TSV file is a document: its fields are column1, column2 …",
    )
    reading.add_argument(
        "--encoding", metavar="NAME", help="encoding of text files (default: detected)"
    )
    reading.add_argument(
        "--html", action="store_true", help="the texts are HTML: leave the tags out"
    )
    return reading


def read(
    args: argparse.Namespace,
    source: str,
    *,
    unique_ids: bool = True,
    uses_payload: bool = True,
    field_types: FieldTypes | None = None,
) -> Iterator[Document]:
    """Read the documents of `source` according to the options of :func:`add_reading`."""
    return read_documents(
        source,
        on_error=args.on_error,
        data_root=args.data_root,
        report=_report_bad_line,
        notice=partial(print, file=sys.stderr),
        unique_ids=unique_ids,
        layout=layout_of(args),
        uses_payload=uses_payload,
        field_types=field_types,
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
        html=args.html,
    )


def add_out(
    parser: argparse.ArgumentParser, owner: str = "encoder", *, required: bool = True
) -> None:
    """Add ``--out`` and ``--overwrite``, for the folder that an encoder is written to."""
    parser.add_argument(
        "--out", required=required, type=Path, metavar="FOLDER", help=f"the {owner}'s folder"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace an encoder at --out")


def check_out(args: argparse.Namespace) -> None:
    """Check that an encoder can be written to ``--out``, before it is trained.

    Raises:
        OptionError: if the folder is in ``encoders/`` and its name is not valid for an encoder, or
            no folder can be created there.
        ArtifactError: if it already exists and must not be replaced.
    """
    out: Path = args.out
    if out.parent.name == "encoders" and not NAME.fullmatch(out.name):
        raise OptionError(f"--out {out}: an encoder's name must be {RULE}")
    check_destination(out, overwrite=args.overwrite)
    check_folder_above(out, f"--out {out}")


def check_folder_above(place: Path, option: str) -> None:
    """Raise OptionError, naming `option`, unless the folder above `place` can be created."""
    above = place.absolute().parent
    while not above.exists():
        above = above.parent
    if not above.is_dir():
        raise OptionError(f"{option}: {above} is a file; name a folder that can be created")
    check_writable(above, option)


def check_writable(folder: Path, option: str, room: int = ROOM_FOR_AN_ENCODER) -> None:
    """Raise OptionError, naming `option`, unless files of `room` bytes can be created in `folder`.

    What is written may take more.
    """
    with naming(f"{option}: {folder}"), TemporaryDirectory(prefix=".writable-", dir=folder):
        free = shutil.disk_usage(folder).free
    if free < room:
        sizes = f"{free / 1e6:,.1f} MB are free, and at least {room / 1e6:,.1f} MB are needed"
        raise OptionError(f"{option}: {folder}: {sizes}")


def add_setting(parser: Any, setting: Field[Any], *, default_text: str = "") -> None:
    """Add the flag of a recipe's setting; the method has none, because a sub-command names it.

    With a `default_text`, the value without the flag is None, and the help shows this text.
    """
    if setting.name == "method":
        return
    flag, former = flag_of(setting), setting.metadata["former"]
    options: dict[str, Any] = {
        "dest": setting.name,
        "default": None if default_text else setting.default,
        "help": f"{setting.metadata['help']} (default: {default_text or '%(default)s'})",
    }
    if isinstance(setting.default, bool):
        parser.add_argument(flag, action=argparse.BooleanOptionalAction, **options)
        return
    values: dict[str, Any] = {"type": type(setting.default)}
    if setting.metadata["choices"]:
        current = partial(_current_value, flag, setting.metadata["former_values"])
        values = {"type": current, "choices": setting.metadata["choices"]}
    else:
        options["metavar"] = "N" if isinstance(setting.default, int) else "X"
    if flag == "--bits":
        options["action"] = BitsOption
    parser.add_argument(flag, **values, **options)
    if former and former_flag(former) != flag:
        add_former_flag(parser, former_flag(former), flag, setting.name, **values)


def former_flag(name: str) -> str:
    """Return the option of a setting's former name."""
    return "--" + name.replace("_", "-")


def recipe_from(args: argparse.Namespace, kind: type[R]) -> R:
    """Return the recipe of the settings that the options of :func:`add_setting` set."""
    values = {one.name: getattr(args, one.name, None) for one in fields(kind)}
    return kind(**{name: value for name, value in values.items() if value is not None})


def _current_value(flag: str, former: Mapping[str, str], value: str) -> str:
    if value in former:
        print(f"{flag} {value} is now {flag} {former[value]}; use that value", file=sys.stderr)
    return former.get(value, value)


class BitsOption(argparse.Action):
    """Sets a number of bits; raises OptionError, which names the option, if no code can have it."""

    def __call__(
        self,
        _parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Set the number of bits."""
        try:
            setattr(namespace, self.dest, check_n_bits(values))
        except CodeError as error:
            raise OptionError(f"{option_string} {error.reason}") from None


class FormerFlag(argparse.Action):
    """The former name of a flag: it works as the current flag does, with a warning."""

    def __call__(
        self,
        _parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Set the current option and print a warning."""
        print(f"{option_string} is now {self.const}; use that name", file=sys.stderr)
        setattr(namespace, self.dest, True if self.nargs == 0 else values)


def add_former_flag(parser: Any, former: str, flag: str, dest: str, **options: Any) -> None:
    """Accept `former`, the name of the option `flag` in the previous release, with a warning."""
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
def naming(subject: Path | str) -> Iterator[None]:
    """Turn an OSError into an OptionError that names `subject`: a file, or an option and a file."""
    try:
        yield
    except OSError as error:
        raise OptionError(f"{subject}: {error.strerror or error}") from error


def write_text(path: Path, text: str) -> None:
    """Write a file that an option names.

    Raises:
        OptionError: if it cannot be written.
    """
    with naming(path):
        path.write_text(text, encoding="utf-8")


def _report_bad_line(bad: BadLine) -> None:
    print(f"skipped: {bad}", file=sys.stderr)
