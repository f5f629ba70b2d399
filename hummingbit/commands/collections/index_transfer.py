"""``hummingbit index export|import``: copy a collection to a file, or fill one from a file."""

from __future__ import annotations

import argparse
import gzip
import lzma
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from corpus.detection.compressions import open_bytes
from foundation.errors import counted
from foundation.files import replacing
from foundation.stages import count_in_stage
from hummingbit.commands.collections.index_import import OPTIONS, add_stores, run_import_points
from hummingbit.commands.collections.index_remotely import fill
from hummingbit.commands.collections.index_report import print_ingested
from hummingbit.commands.collections.sending import send
from hummingbit.commands.data_folder_options import (
    Actions,
    add_action,
    add_url,
    filling,
    open_folder,
    service_at,
)
from hummingbit.commands.json_output import add_json
from hummingbit.commands.options import OptionError, naming
from index.bulk.collection_transfer import collection_for, export_collection, import_documents
from index.bulk.export_format import Export, write_export

STANDARD = "-"


def configure(actions: Actions) -> None:
    """Add the actions."""
    export = add_action(actions, "export", run_export, "write a collection as JSON lines")
    into = add_action(actions, "import", run_import, "fill a collection with an export")
    for action in (export, into):
        add_url(action)
    export.add_argument(
        "file",
        nargs="?",
        default=STANDARD,
        metavar="FILE",
        help="the file to write, compressed if it ends in .gz or .xz (default: standard output)",
    )
    into.add_argument(
        "file",
        nargs="?",
        default=STANDARD,
        metavar="FILE",
        help="a file that index export wrote, also .gz or .xz (default: standard input);"
        " with --from, what another store wrote",
    )
    add_stores(into)
    add_json(into)


def run_export(args: argparse.Namespace) -> int:
    """Write one generation of the collection."""
    if args.url is not None:
        exported = _export_remotely(args)
    else:
        with open_folder(args, writable=False) as folder:
            collection = folder.collection(args.collection)
            with _exporting(args.file, len(collection)) as (stream, progress):
                exported = export_collection(collection, stream, progress)
    print(f"{args.collection}: {counted(exported, 'document')} exported", file=sys.stderr)
    return 0


def run_import(args: argparse.Namespace) -> int:
    """Add the documents of an export, with their codes; create the collection if needed."""
    if args.store is not None:
        return run_import_points(args)
    _check_no_store_options(args)
    with _reading(args.file) as (stream, source):
        if args.url is not None:
            return _import_remotely(args, Export(stream, source))
        with open_folder(args, writable=True) as folder:
            export = Export(stream, source)
            is_new = args.collection not in {*folder.collections(), *folder.aliases()}
            collection = collection_for(folder, args.collection, export.header)
            total = export.header.documents
            with (
                filling(folder, collection, is_new=is_new),
                count_in_stage("importing", total) as advance,
            ):
                report = import_documents(collection, export, advance)
            print_ingested(args, collection.name, len(collection), report)
    return 0


def _check_no_store_options(args: argparse.Namespace) -> None:
    for name in OPTIONS:
        if getattr(args, name) is not None:
            option = "--" + name.replace("_", "-")
            raise OptionError(f"{option}: is for files of other stores; name the store with --from")


def _export_remotely(args: argparse.Namespace) -> int:
    # Only a service needs these.
    from hummingbit.service_transfer import annotations_of, header_of, pages_of  # noqa: PLC0415

    with service_at(args) as client:
        header = header_of(client, args.collection)
        with _exporting(args.file, header.documents) as (stream, progress):
            pages, annotations = pages_of(client, header), annotations_of(client, header.name)
            return write_export(header, pages, stream, progress, annotations)


def _import_remotely(args: argparse.Namespace, export: Export) -> int:
    from hummingbit.service_transfer import (  # noqa: PLC0415
        create_collection_for,
        exported_record,
        send_annotations,
    )

    header, name = export.header, args.collection
    with service_at(args) as client:
        is_new = create_collection_for(client, name, header)
        records = (exported_record(document, code) for document, code in export.documents())

        def send_all() -> int:
            status = send(client, args, records, header.documents, header.encoder_fingerprint)
            send_annotations(client, name, export)
            return status

        return fill(client, name, send_all) if is_new else send_all()


@contextmanager
def _exporting(file: str, total: int) -> Iterator[tuple[BinaryIO, Callable[[int], object]]]:
    with (
        _writing(file) as stream,
        count_in_stage("exporting", total) as advance,
    ):
        yield stream, advance


@contextmanager
def _writing(file: str) -> Iterator[BinaryIO]:
    """Yield a stream to a file that appears once it is complete, or to standard output."""
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


@contextmanager
def _reading(file: str) -> Iterator[tuple[BinaryIO, str]]:
    """Yield a stream of a file or of standard input, and its name."""
    if file == STANDARD:
        yield sys.stdin.buffer, "standard input"
        return
    with naming(file):
        stream = open_bytes(Path(file))
    with stream:
        yield stream, file
