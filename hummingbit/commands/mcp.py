"""``hummingbit mcp``: collections as tools for agents."""

from __future__ import annotations

import argparse
import logging
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from hummingbit.commands.options import OptionError, add_data_dir_or_url, add_option, service_at
from hummingbit.foundation.errors import install_command

if TYPE_CHECKING:
    from hummingbit.integrations.mcp import Collections


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "collections",
        nargs="*",
        metavar="COLLECTION",
        help="with a single one, the tools work on it; with several, or with none for all of them,"
        " each call names its collection",
    )
    add_data_dir_or_url(parser)
    add_option(
        parser,
        "--read-only",
        "offer no tool that writes, and leave the data folder to another process",
    )
    add_option(
        parser,
        "--http PORT",
        "listen on this port of 127.0.0.1, at /mcp, instead of standard input",
        type=int,
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Serve until the client closes standard input, or for ever."""
    try:
        from hummingbit.integrations.mcp import make_server  # noqa: PLC0415 - an option
    except ModuleNotFoundError as error:
        if error.name != "mcp":
            raise
        hint = f"install it with: {install_command('integrations')}"
        raise OptionError(f"mcp: needs the package mcp; {hint}") from None
    from hummingbit.embedded import Collection  # noqa: PLC0415 - it takes long to import
    from hummingbit.served import ServedCollections  # noqa: PLC0415 - it takes long to import

    # The server of the protocol logs to standard error, which agents show, from INFO on.
    logging.getLogger("httpx").setLevel(logging.WARNING)
    with ExitStack() as stack:
        collections: Collections
        if args.url is not None:
            served = ServedCollections(stack.enter_context(service_at(args)))
            collections = {name: served[name] for name in args.collections} or served
        else:
            collections = {
                name: stack.enter_context(
                    Collection.open(args.data_dir, name, read_only=args.read_only)
                )
                for name in args.collections or _names_in(args.data_dir)
            }
        # A single collection that is named needs no name in each call.
        is_single = len(args.collections) == 1
        server = make_server(
            collections[args.collections[0]] if is_single else collections,
            read_only=args.read_only,
        )
        if args.http is None:
            server.run()
        else:
            server.run("streamable-http", host="127.0.0.1", port=args.http)


def _names_in(data_dir: Path) -> list[str]:
    """Return the names of the collections of a data folder.

    Raises:
        OptionError: if it has none.
        DataFolderError: if it cannot be opened.
    """
    from hummingbit.index.data_folder import DataFolder  # noqa: PLC0415 - it takes long to import

    with DataFolder(data_dir, writable=False, indexed=False) as folder:
        names = [*folder.collections()]
    if not names:
        raise OptionError(f"mcp: {data_dir} has no collections")
    return names
