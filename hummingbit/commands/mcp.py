"""``hummingbit mcp COLLECTION``: a collection as tools for agents."""

from __future__ import annotations

import argparse

from hummingbit.commands.options import OptionError, add_data_dir, add_url, service_at
from hummingbit.foundation.extras import install_command


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("collection", metavar="COLLECTION")
    add_data_dir(parser)
    add_url(parser)
    parser.add_argument(
        "--read-only",
        action="store_true",
        help="offer no tool that writes, and leave the data folder to another process",
    )
    parser.add_argument(
        "--http",
        type=int,
        metavar="PORT",
        help="listen on this port of 127.0.0.1, at /mcp, instead of standard input",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Serve until the client closes standard input, or for ever."""
    try:
        from hummingbit.integrations.mcp import make_server  # noqa: PLC0415 - an option
    except ModuleNotFoundError as error:
        if error.name != "mcp":
            raise
        hint = f"install it with: {install_command('integrations')}"
        raise OptionError(f"mcp: needs the package mcp; {hint}") from None
    from hummingbit.embedded import Collection  # noqa: PLC0415 - it takes long to import
    from hummingbit.served import ServedCollection  # noqa: PLC0415 - it takes long to import

    opened: Collection | ServedCollection
    if args.url is not None:
        opened = ServedCollection(service_at(args), args.collection)
    else:
        opened = Collection.open(args.data_dir, args.collection, read_only=args.read_only)
    with opened as collection:
        server = make_server(collection, read_only=args.read_only)
        if args.http is None:
            server.run()
        else:
            server.run("streamable-http", host="127.0.0.1", port=args.http)
    return 0
