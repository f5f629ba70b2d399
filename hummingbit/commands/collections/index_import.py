"""``hummingbit index import --from STORE``: points of other stores into a collection."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, cast

from corpus.document import Document
from encoder.codes import PACKINGS, Packing
from foundation.stages import count_in_stage
from hummingbit.commands.collections.index_remotely import fill
from hummingbit.commands.collections.index_report import print_ingested
from hummingbit.commands.collections.sending import send
from hummingbit.commands.data_folder_options import filling, open_folder, service_at
from hummingbit.commands.options import BitsOption, OptionError, add_layout, layout_of
from index.bulk.ingest import ingest
from index.bulk.other_stores import (
    STORES,
    VECTOR_TYPES,
    PointSelection,
    VectorType,
    code_length,
    read_points,
)
from index.errors import UnknownCollection

OPTIONS = ("encoder", "codes", "bits", "vector_field", "vector_type")
"""Options that do not apply to hummingbit's own exports."""


def add_stores(parser: argparse.ArgumentParser) -> None:
    """Add the options that other stores' files need."""
    group = parser.add_argument_group("files of other stores")
    group.add_argument(
        "--from", dest="store", choices=sorted(STORES), help="the store that wrote FILE"
    )
    group.add_argument(
        "--encoder",
        metavar="NAME",
        help="build a collection with this encoder, which encodes the texts or the vectors",
    )
    group.add_argument(
        "--codes",
        choices=PACKINGS,
        help="build a collection of codes from the vectors: from the sign of each number, or from"
        " bytes of 0 to 255 (ubinary) or -128 to 127 (binary) that hold packed codes",
    )
    group.add_argument(
        "--bits",
        type=int,
        action=BitsOption,
        metavar="N",
        help="use the first N bits of codes (default: all)",
    )
    group.add_argument("--vector-field", metavar="NAME", help="the vector, if there are several")
    group.add_argument(
        "--vector-type",
        choices=VECTOR_TYPES,
        help="the type of a vector whose bytes Milvus wrote to Parquet",
    )
    add_layout(parser)


def run_import_points(args: argparse.Namespace) -> int:
    """Add the points of a file that another store wrote; create the collection if needed.

    Returns 1 if the file says that more points follow, which it does not hold.
    """
    if args.encoder is not None and args.codes is not None:
        raise OptionError("--codes: cannot be combined with --encoder, which makes the codes")
    if args.file == "-":
        raise OptionError("FILE: is missing; with --from, name a file or a folder")
    incomplete: list[str] = []
    status = (_import_locally if args.url is None else _import_remotely)(args, incomplete)
    for sentence in incomplete:
        _print_error(sentence)
    return 1 if incomplete else status


def _import_locally(args: argparse.Namespace, incomplete: list[str]) -> int:
    with open_folder(args, writable=True) as folder:
        is_new = False
        try:
            collection = folder.collection(args.collection)
        except UnknownCollection:
            is_new = True
            _check_creatable(args)
            n_bits = None if args.encoder is not None else _code_length(args)
            collection = folder.create_collection(
                args.collection, encoder=args.encoder, n_bits=n_bits
            )
        with filling(folder, collection, is_new=is_new):
            kind = None if collection.encoder is None else collection.encoder.kind
            documents = _documents(args, kind, collection.n_bits, incomplete)
            with count_in_stage("importing") as advance:
                report = ingest(collection, documents, progress=advance)
        print_ingested(args, collection.name, len(collection), report)
    return 0


def _import_remotely(args: argparse.Namespace, incomplete: list[str]) -> int:
    from hummingbit.clients.transport import ServiceError  # noqa: PLC0415 - only a service needs it
    from hummingbit.service_transfer import record_of, summary_of  # noqa: PLC0415

    with service_at(args) as client:
        is_new = False
        try:
            summary = summary_of(client, args.collection)
        except ServiceError as error:
            if error.code != "unknown_collection":
                raise
            is_new = True
            _check_creatable(args)
            n_bits = None if args.encoder is not None else _code_length(args)
            summary = client.create_collection(args.collection, encoder=args.encoder, n_bits=n_bits)
        encoder = summary["encoder"]
        kind = None if encoder is None else client.encoder(encoder["name"])["kind"]

        def send_all() -> int:
            documents = _documents(args, kind, summary["n_bits"], incomplete)
            return send(client, args, map(record_of, documents), None)

        return fill(client, args.collection, send_all) if is_new else send_all()


def _check_creatable(args: argparse.Namespace) -> None:
    if args.encoder is None and args.codes is None:
        hint = f"to create it, give --encoder NAME or --codes {'|'.join(PACKINGS)}"
        raise OptionError(f"there is no collection {args.collection!r}; {hint}")


def _code_length(args: argparse.Namespace) -> int:
    if args.bits is not None:
        return cast("int", args.bits)
    return code_length(args.store, Path(args.file), _point_selection(args, None, None))


def _documents(
    args: argparse.Namespace, kind: str | None, n_bits: int, incomplete: list[str]
) -> Iterator[Document]:
    """Read the documents for a collection of an encoder of `kind`, or of codes."""
    if kind is None and args.codes is None:
        packings = "|".join(PACKINGS)
        message = f"--codes: is missing; collection {args.collection!r} has no encoder, so give"
        raise OptionError(f"{message} the format of the codes in the vectors: {packings}")
    if kind is not None and args.codes is not None:
        raise OptionError(
            f"--codes: collection {args.collection!r} has an encoder, which makes them"
        )
    if args.bits is not None and args.bits != n_bits:
        raise OptionError(f"--bits {args.bits}: collection {args.collection!r} has {n_bits} bits")
    selection = _point_selection(args, kind, n_bits)
    path, layout = Path(args.file), layout_of(args)
    return read_points(
        args.store, path, layout, selection, _print_error, incomplete=incomplete.append
    )


def _point_selection(
    args: argparse.Namespace, kind: str | None, n_bits: int | None
) -> PointSelection:
    content: Literal["text", "vector", "code"] = "code"
    if kind is not None:
        content = "text" if kind == "text" else "vector"
    packing = cast("Packing | None", args.codes)
    length = n_bits if args.bits is not None else None
    vector_type = cast("VectorType | None", args.vector_type)
    code_bits = n_bits if content == "code" else None
    return PointSelection(content, args.vector_field, packing, length, vector_type, code_bits)


def _print_error(what: str) -> None:
    print(what, file=sys.stderr)
