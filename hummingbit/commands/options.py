"""Options that several commands share, and what they open or read."""

from __future__ import annotations

import argparse
import errno
import gzip
import json
import lzma
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import Field, fields, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias, TypeVar

from hummingbit.deferred import deferred_imports
from hummingbit.encoder.limits import CodeError, check_n_bits
from hummingbit.foundation.errors import HummingbitError, InputError
from hummingbit.foundation.slices import begin_stage
from hummingbit.index.names import AUTO, BACKENDS, LONG, PASSAGE_WORDS, check_backend

with deferred_imports():
    from hummingbit.encoder.artifact import check_destination
    from hummingbit.foundation.files import replacing
    from hummingbit.index.backend import AnyCollection, CollectionBackend
    from hummingbit.index.catalog import NAME, RULE, EncoderFolder
    from hummingbit.index.data_folder import DataFolder, DataFolderLocation
    from hummingbit.index.errors import DataFolderError, DataFolderInUse
    from hummingbit.index.filters import Filter, filter_to_json, parse_filter
    from hummingbit.index.passages import Passages

# A command imports what it uses: training and the readers of files take a search's time again.
if TYPE_CHECKING:
    from hummingbit.clients.client import Client
    from hummingbit.corpus.document import Document
    from hummingbit.corpus.field_types import FieldTypes
    from hummingbit.corpus.qrels import Qrels
    from hummingbit.corpus.readers import BadLine, Layout
    from hummingbit.corpus.survey import Survey
    from hummingbit.encoder.recipes import BaseRecipe, JudgementRecipe
    from hummingbit.local import LocalWorkbench
    from hummingbit.remote import RemoteCollection, RemoteEncoders, RemoteFolder
    from hummingbit.training.data import TrainingData


# Options that several commands share.


R = TypeVar("R", bound="BaseRecipe | JudgementRecipe")

# The names of fields that need not be found.
CONTENT_FIELDS = frozenset({"text", "vector", "matrix", "code"})

# Those of :data:`hummingbit.corpus.readers.FORMATS`, which takes long to import.
SUFFIXES_OF_LINES = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".txt", ".md")
SUFFIXES_OF_COLUMNS = (".parquet", ".arrow", ".feather", ".npz")

# Smaller encoders are rare.
ROOM_FOR_AN_ENCODER = 1 << 20


class OptionError(HummingbitError, ValueError):
    """An option is invalid, or cannot be combined with another; the message names it."""


TYPES: dict[str, Callable[[str], object]] = {"N": int, "X": float}
"""The types of values, by what the usage of an option calls them; others are texts."""


def add_option(
    parser: argparse._ActionsContainer,
    usage: str,
    help: str,  # noqa: A002 - as in argparse
    **settings: Any,
) -> None:
    """Add an option by its usage, such as ``--limit N``, with argparse's further `settings`.

    The value has the type that :data:`TYPES` gives its name; ``--sort FIELD ...`` takes several,
    and may be repeated. An option without a value is a flag, unless it has choices or an action.
    """
    *names, last = usage.split()
    if last == "...":
        last = names.pop()
        settings |= {"nargs": "+", "action": "extend"}
    if last.startswith("-"):
        names.append(last)
        if not settings.keys() & {"choices", "action"}:
            settings["action"] = "store_true"
    else:
        settings = {"metavar": last, "type": TYPES.get(last), **settings}
    parser.add_argument(*names, help=help, **settings)


def file_help() -> str:
    """Return the help of an option for a file of documents."""
    return f"{_file_help()} or a folder of text files"


def source_help() -> str:
    """Return the help of an option for documents from any source."""
    return (
        f"{_file_help()}, a folder of text files, - for JSON lines on standard input, or a named"
        " data set such as docstrings, snippets or snippets:test"
    )


def _file_help() -> str:
    lines, columns = ", ".join(SUFFIXES_OF_LINES), ", ".join(SUFFIXES_OF_COLUMNS)
    return f"a file ({lines}, also with .gz, .xz or .bz2; {columns})"


_DATA_DIR: dict[str, Any] = {
    "type": Path,
    "default": Path(),
    "metavar": "DIR",
    "help": "the folder that holds encoders/ and collections/ (default: the current one)",
}


def add_data_dir(parser: argparse.ArgumentParser) -> None:
    """Add ``--data-dir``."""
    parser.add_argument("--data-dir", **_DATA_DIR)


def add_data_dir_or_url(parser: argparse.ArgumentParser) -> None:
    """Add ``--data-dir`` and ``--url``, of which one may be given."""
    either = parser.add_mutually_exclusive_group()
    either.add_argument("--data-dir", **_DATA_DIR)
    add_option(
        either,
        "--url URL",
        "a running service instead of a data folder; the key is read from HUMMINGBIT_KEY",
    )


def add_passages(parser: argparse.ArgumentParser, default: str = "no") -> None:
    """Add ``--passages``; `default` is what the help says of a command without it."""
    add_option(
        parser,
        "--passages WORDS",
        f"split texts into passages of at most WORDS words, {PASSAGE_WORDS} if it is left"
        " out; auto splits texts of more than"
        f" {LONG:,} words only; no splits none (default: {default})",
        nargs="?",
        const=True,
        type=_parse_passages,
    )


def _parse_passages(value: str) -> Passages | bool:
    """Return the passages that ``--passages`` asks for, or False.

    Raises:
        ArgumentTypeError: if it is something else.
    """
    if value == "no":
        return False
    from hummingbit.index.passages import Passages  # noqa: PLC0415 - options are read before

    try:
        return Passages.of(value if value == AUTO else {"words": int(value)}) or False
    except ValueError as error:
        reason = str(error) if isinstance(error, InputError) else "it must be a number, auto or no"
        raise argparse.ArgumentTypeError(f"{value[:40]!r}: {reason}") from None


def add_reading(parser: argparse.ArgumentParser, *, label_field: bool = True) -> None:
    """Add the options for reading documents.

    A command with a ``--label-field`` of its own passes false for `label_field`.
    """
    reading = add_layout(parser, label_field=label_field)
    add_option(
        reading,
        "--data-root DIR",
        "the folder of the named data sets (default: $HUMMINGBIT_DATA)",
        type=Path,
    )
    add_option(
        reading,
        "--on-error",
        "stop at a bad line (default), or skip it",
        choices=("stop", "skip"),
        default="stop",
    )


def add_layout(
    parser: argparse.ArgumentParser, *, label_field: bool = True, are_found: bool = False
) -> Any:
    """Add the options for the fields of documents, which may be found; return their group."""
    by_name = ("id; without one, NAME:LINE", "text", "label or labels")
    id_default, text_default, label_default = ("found",) * 3 if are_found else by_name
    reading = parser.add_argument_group("reading")
    add_option(
        reading, "--id-field NAME", f"the field that holds a document's id (default: {id_default})"
    )
    add_option(
        reading,
        "--text-field NAME ...",
        f"the field of its text (default: {text_default}); several are joined, one a line",
        default=[],
    )
    if label_field:
        add_option(
            reading,
            "--label-field NAME",
            f"the field that holds its label (default: {label_default})",
            dest="read_label_field",
        )
    add_option(
        reading,
        "--payload-fields NAME",
        "the fields to keep as its payload (default: all others)",
        nargs="*",
        action="extend",
    )
    add_option(
        reading,
        "--no-header",
        "the first line of a CSV or TSV file is a document: its fields are column1, column2 …",
    )
    add_option(reading, "--encoding NAME", "encoding of text files (default: detected)")
    add_option(reading, "--html", "the texts are HTML: leave the tags out")
    return reading


def read(
    args: argparse.Namespace,
    source: str,
    *,
    unique_ids: bool = True,
    uses_payload: bool = True,
    field_types: FieldTypes | None = None,
) -> Iterator[Document]:
    """Read the documents of `source` according to the options of :func:`add_reading`.

    The fields of a file whose documents have none with a usual name are found and printed.
    """
    from hummingbit.corpus.readers import read_documents  # noqa: PLC0415 - see above

    return read_documents(
        source,
        on_error=args.on_error,
        data_root=args.data_root,
        report=_report_bad_line,
        notice=partial(print, file=sys.stderr),
        unique_ids=unique_ids,
        layout=_found_layout(args, source),
        uses_payload=uses_payload,
        field_types=field_types,
    )


def _found_layout(args: argparse.Namespace, source: str) -> Layout:
    """Return the layout of the options, with what a survey finds of the fields that none names.

    The survey finds what ``quickstart`` finds.
    """
    from hummingbit.corpus.lines import suffixes_of  # noqa: PLC0415 - see above
    from hummingbit.corpus.readers import FORMATS, ReadError  # noqa: PLC0415 - see above
    from hummingbit.corpus.survey import survey  # noqa: PLC0415

    asked, path = layout_of(args), Path(source)
    format_ = FORMATS.get(suffixes_of(path)[0])
    is_surveyed = format_ is not None and format_.has_fields and path.is_file()
    if asked.text_fields or not is_surveyed:
        return asked
    try:
        surveyed = survey(path, asked)
    except ReadError:
        return asked  # reading it says what is wrong
    layout, content = surveyed.layout, CONTENT_FIELDS.intersection(surveyed.names)
    if content:
        layout = _with_found_names(asked, surveyed)
    if layout == asked:
        return asked
    parts = {
        "text": " + ".join(layout.text_fields or sorted(content)),
        "label": layout.label_field or ("label" if "label" in surveyed.names else "none"),
        "id": layout.id_field or ("id" if "id" in surveyed.names else "by line"),
    }
    fields_found = ", ".join(f"{part}: {name}" for part, name in parts.items())
    print(f"{source}: found {fields_found}", file=sys.stderr)
    return layout


def _with_found_names(asked: Layout, surveyed: Survey) -> Layout:
    """Return the options of a file whose text has its usual name, with its label and its id.

    A label is taken only by its name: the text is searched whatever the other fields hold.
    """
    from hummingbit.corpus.layout import LABEL_NAMES, rank_of  # noqa: PLC0415 - see above

    label, id_ = surveyed.layout.label_field, surveyed.layout.id_field
    if not {"label", "labels"}.isdisjoint(surveyed.names) or (
        label is not None and rank_of(label, LABEL_NAMES) is None
    ):
        label = asked.label_field
    if "id" in surveyed.names:
        id_ = asked.id_field
    return replace(asked, label_field=label, id_field=id_)


def layout_of(args: argparse.Namespace) -> Layout:
    """Return the layout that the options of :func:`add_layout` describe."""
    from hummingbit.corpus.readers import Layout  # noqa: PLC0415 - see above

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
    add_option(parser, "--out FOLDER", f"the {owner}'s folder", required=required, type=Path)
    add_option(parser, "--overwrite", "replace an encoder at --out")


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


def check_folder_above(path: Path, option: str) -> None:
    """Raise OptionError, naming `option`, unless the folder above `path` can be created."""
    above = path.absolute().parent
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


def add_serving(parser: argparse.ArgumentParser, stop: str) -> None:
    """Add ``--no-serve``, to stop after what `stop` names, and where a service is to listen."""
    add_option(parser, "--no-serve", f"stop after the {stop}")
    add_option(parser, "--host HOST", "address (default: %(default)s)", default="127.0.0.1")
    add_option(parser, "--port PORT", "port (default: %(default)s)", type=int, default=8000)


def read_judged_queries(args: argparse.Namespace) -> tuple[list[Document], Qrels] | None:
    """Return the judged queries of ``--queries`` and their ``--qrels``; None without them.

    Raises:
        OptionError: if one is given without the other, or they do not match.
        ReadError: if they cannot be read, or are malformed.
    """
    from hummingbit.corpus.qrels import read_qrels  # noqa: PLC0415
    from hummingbit.corpus.readers import read_documents  # noqa: PLC0415 - see above

    if (args.queries is None) != (args.qrels is None):
        given, missing = ("queries", "qrels") if args.qrels is None else ("qrels", "queries")
        raise OptionError(f"--{given}: needs --{missing}, so that the answers are known")
    if args.queries is None:
        return None
    qrels = read_qrels(args.qrels)
    with naming(args.queries):
        queries = [query for query in read_documents(args.queries) if query.id in qrels]
    if not queries:
        raise OptionError(f"--qrels: {args.qrels} judges none of the queries of {args.queries}")
    return queries, qrels


def add_setting(parser: Any, setting: Field[Any], *, default_text: str = "") -> None:
    """Add the flag of a recipe's setting; the method has none, because a sub-command names it.

    With a `default_text`, the value without the flag is None, and the help shows this text.
    """
    from hummingbit.encoder.recipes import flag_of  # noqa: PLC0415 - see above

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
        values["choices"] = setting.metadata["choices"]
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
    values = {setting.name: getattr(args, setting.name, None) for setting in fields(kind)}
    return kind(**{name: value for name, value in values.items() if value is not None})


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


STANDARD = "-"
"""A FILE that stands for standard input or output."""


def add_file(parser: argparse.ArgumentParser, summary: str) -> None:
    """Add the argument FILE, by default standard input or output."""
    parser.add_argument("file", nargs="?", default=STANDARD, metavar="FILE", help=summary)


@contextmanager
def open_input(file: str) -> Iterator[tuple[BinaryIO, str]]:
    """Yield a stream of a file, also a compressed one, or of standard input, and its name.

    Raises:
        OptionError: if it cannot be read.
    """
    if file == STANDARD:
        yield sys.stdin.buffer, "standard input"
        return
    from hummingbit.corpus.lines import open_bytes  # noqa: PLC0415 - see above

    with naming(file):
        stream = open_bytes(Path(file))
    with stream:
        yield stream, file


@contextmanager
def open_output(file: str) -> Iterator[BinaryIO]:
    """Yield a stream to a file that appears once it is complete, or to standard output.

    A file is compressed if its name ends in .gz or .xz.

    Raises:
        OptionError: if it cannot be written.
    """
    if file == STANDARD:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    path = Path(file)
    with (
        naming(file),
        replacing(path) as partial,
        _open_for_writing(partial, path.suffix.lower()) as stream,
    ):
        yield stream


def _open_for_writing(path: Path, suffix: str) -> BinaryIO:
    if suffix == ".gz":
        return gzip.open(path, "wb", compresslevel=6)  # type: ignore[return-value]
    if suffix == ".xz":
        return lzma.open(path, "wb", preset=1)  # type: ignore[return-value]
    return path.open("wb")


def write_text(path: Path, text: str) -> None:
    """Write a file that an option names.

    Raises:
        OptionError: if it cannot be written.
    """
    with naming(path):
        path.write_text(text, encoding="utf-8")


def _report_bad_line(bad: BadLine) -> None:
    print(f"skipped: {bad}", file=sys.stderr)


# The options that name a data folder or a service, and how commands open it.


# The return type of add_subparsers has no public name.
Actions: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # noqa: SLF001


def add_command(
    actions: Actions, name: str, run: Callable[[argparse.Namespace], int | None], summary: str
) -> argparse.ArgumentParser:
    """Add an action and return it; `run` returns the exit status, or None for 0."""
    command = actions.add_parser(name, help=summary)
    command.set_defaults(run=run)
    return command


def add_action(
    actions: Actions,
    name: str,
    run: Callable[[argparse.Namespace], int | None],
    summary: str,
    *,
    with_url: bool = True,
) -> argparse.ArgumentParser:
    """Add an action on a COLLECTION, of a data folder or `with_url` of a service; return it."""
    action = add_command(actions, name, run, summary)
    action.add_argument("collection", metavar="COLLECTION")
    add_folder(action, with_url=with_url)
    return action


def _backend(name: str) -> str:
    try:
        return check_backend(name)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"is {name[:80]!r}; it {error}") from None


def add_folder(parser: argparse.ArgumentParser, *, with_url: bool = True) -> None:
    """Add ``--data-dir``, ``--backend``, the addresses of servers and, `with_url`, ``--url``."""
    (add_data_dir_or_url if with_url else add_data_dir)(parser)
    add_option(
        parser,
        "--backend",
        "where collections are kept: in the data folder or on PostgreSQL (default: %(default)s)",
        type=_backend,
        choices=BACKENDS,
        default=os.environ.get("HUMMINGBIT_BACKEND", BACKENDS[0]),
    )
    add_option(
        parser,
        "--postgres-uri URI",
        "postgresql://USER@HOST:PORT/DATABASE; the password is read from"
        " HUMMINGBIT_POSTGRES_PASSWORD, PGPASSWORD or ~/.pgpass",
        default=os.environ.get("HUMMINGBIT_POSTGRES_URI"),
    )


def add_label_field(parser: argparse.ArgumentParser) -> None:
    """Add ``--label-field``, for labels besides those that people gave."""
    add_option(
        parser,
        "--label-field NAME",
        "a payload field with labels for the documents that nobody has labelled",
    )


def add_service(parser: argparse.ArgumentParser) -> None:
    """Add ``--url`` to a command that needs a service."""
    add_option(parser, "--url URL", "the service (default: $HUMMINGBIT_URL, or this machine's)")


def service_at(args: argparse.Namespace) -> Client:
    """Return a client of the service that ``--url`` names.

    Raises:
        ServiceError: if the address does not begin with http:// or https://.
    """
    from hummingbit.clients.client import Client  # noqa: PLC0415 - only a service needs it

    return Client(args.url)


def open_collections(args: argparse.Namespace, *, writable: bool) -> DataFolder | RemoteFolder:
    """Open the service that ``--url`` names, or else the data folder, as :func:`open_folder` does.

    Raises:
        ServiceError: if the address does not begin with http:// or https://.
        DataFolderError, StoreError: as for :func:`open_folder`.
    """
    if args.url is None:
        return open_folder(args, writable=writable)
    from hummingbit.remote import RemoteFolder  # noqa: PLC0415 - only a service needs it

    return RemoteFolder(service_at(args))


@contextmanager
def open_collection(
    args: argparse.Namespace, *, writable: bool
) -> Iterator[CollectionBackend | RemoteCollection]:
    """Yield the COLLECTION, here or at a service, as :func:`open_collections` opens it."""
    with open_collections(args, writable=writable) as folder:
        yield folder.collection(args.collection)


def open_workbench(args: argparse.Namespace, *, writable: bool) -> LocalWorkbench | RemoteFolder:
    """Open what evaluates and labels collections, here or at the service of ``--url``.

    Raises:
        ServiceError, DataFolderError, StoreError: as for :func:`open_collections`.
    """
    folder = open_collections(args, writable=writable)
    if not isinstance(folder, DataFolder):
        return folder
    from hummingbit.local import LocalWorkbench  # noqa: PLC0415 - see above

    return LocalWorkbench(folder)


@contextmanager
def open_encoders(args: argparse.Namespace) -> Iterator[EncoderFolder | RemoteEncoders]:
    """Yield the encoders of the data folder, or of the service of ``--url``.

    Raises:
        DataFolderError: if there is no such folder.
    """
    if args.url is None:
        if not args.data_dir.is_dir():
            raise DataFolderError(f"{args.data_dir}: {os.strerror(errno.ENOENT)}")
        yield EncoderFolder(args.data_dir / "encoders")
        return
    from hummingbit.remote import RemoteEncoders  # noqa: PLC0415 - only a service needs it

    with service_at(args) as client:
        yield RemoteEncoders(client)


def open_folder(args: argparse.Namespace, *, writable: bool) -> DataFolder:
    """Open the folder that the options of :func:`add_folder` name.

    The index of a collection is built when it is first searched.

    Raises:
        DataFolderError: if it cannot be opened.
        StoreError: if the collections are on a server that cannot be reached or refuses.
    """
    password = os.environ.get("HUMMINGBIT_POSTGRES_PASSWORD")
    begin_stage(f"opening {args.data_dir}")
    location = DataFolderLocation(args.data_dir, args.backend, args.postgres_uri, password)
    try:
        return location.open(writable=writable, indexed=False)
    except DataFolderInUse as error:
        raise DataFolderInUse(f"{error}; if that is a service, use its --url") from None


def add_filter(parser: argparse.ArgumentParser) -> None:
    """Add ``--filter``."""
    add_option(
        parser,
        "--filter JSON",
        'only documents whose payload matches, such as \'{"field": "year", "gte": 1990}\'',
    )


def parse_json_option(option: str, text: str, hint: str = "") -> Any:
    """Return the JSON value of an option.

    Raises:
        OptionError: if it is not JSON, or gives a key twice; the message ends with the `hint`.
    """
    from hummingbit.corpus.json_rows import parse_strictly  # noqa: PLC0415 - see above
    from hummingbit.corpus.lines import LineError  # noqa: PLC0415

    try:
        return parse_strictly(text)
    except LineError as error:
        raise OptionError(f"{option}: {error}{hint}") from None


def read_filter(args: argparse.Namespace) -> Filter | None:
    """Return the filter of ``--filter``, or None without one.

    Raises:
        OptionError: if it is not JSON, or gives a key twice.
        InputError: if it is not a filter.
    """
    if args.filter is None:
        return None
    example = """; write it as in '{"field": "year", "gte": 1990}'"""
    return parse_filter(parse_json_option("--filter", args.filter, example))


SECONDS_OF_UNIT = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def read_time(option: str, value: str) -> datetime:
    """Return a time to come that an option gives; one without a zone is in UTC.

    Raises:
        OptionError: if it is not a time, or is over.
    """
    now = datetime.now(UTC)
    if span := re.fullmatch(r"(\d{1,9})([smhd])", value):
        time = now + int(span[1]) * timedelta(seconds=SECONDS_OF_UNIT[span[2]])
    else:
        try:
            time = datetime.fromisoformat(value)
        except ValueError:
            rule = "it must be days or hours, such as 30d or 12h, or a time such as 2027-01-31"
            raise OptionError(f"{option} {value!r}: {rule}") from None
        time = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    if time <= now:
        raise OptionError(f"{option} {value!r}: is over")
    return time.replace(microsecond=0) + timedelta(seconds=bool(time.microsecond))


def read_json(option: str, text: str | None) -> dict[str, Any] | None:
    """Return the JSON object of an option, or None without one.

    Raises:
        OptionError: if it is not a JSON object, or gives a key twice.
    """
    if text is None:
        return None
    parsed = parse_json_option(option, text)
    if not isinstance(parsed, dict):
        raise OptionError(f"{option}: is {text[:40]}; it must be a JSON object")
    return parsed


def as_json(filter_: Filter) -> dict[str, Any]:
    """Return a filter as a service takes it."""
    parsed: dict[str, Any] = json.loads(filter_to_json(filter_))
    return parsed


@contextmanager
def filling(
    folder: DataFolder | RemoteFolder, collection: AnyCollection, *, is_new: bool
) -> Iterator[None]:
    """Drop a collection that was just created if filling it fails before it has a document."""
    from hummingbit.clients.requests import ServiceError  # noqa: PLC0415 - only a service needs it

    try:
        yield
    except BaseException:
        with suppress(ServiceError):  # the first error is the one to report
            if is_new and not len(collection):
                folder.drop_collection(collection.name)
        raise


# Reads what training learns from: the documents of a source, and vectors of words.


def read_training_data(args: argparse.Namespace, source: str) -> TrainingData:
    """Return the documents of `source`, read by the options of ``add_reading``, as training data.

    Raises:
        ReadError, DocumentError: if the source cannot be read.
        TrainingDataError: if its documents cannot be trained on. The message names the source.
    """
    from hummingbit.training.data import TrainingDataError, gather  # noqa: PLC0415 - see above

    try:
        return gather(read(args, source, uses_payload=False))
    except TrainingDataError as error:
        raise TrainingDataError(f"{source}: {error}") from None


def add_model(
    parser: argparse._ActionsContainer, *, default: str | None = None, otherwise: str = ""
) -> None:
    """Add the option for a language model, and say what is done `otherwise`."""
    add_option(
        parser,
        "--model FOLDER|URL",
        "a language model that reads the texts: the folder of one, as sentence-transformers"
        " saves it, which needs the extra model, or the URL of an embeddings endpoint, such as"
        f" http://localhost:11434/v1{otherwise}",
        default=default,
    )
    add_option(
        parser,
        "--model-name NAME",
        "the name of the model at the endpoint, such as nomic-embed-text",
        default=default,
    )
