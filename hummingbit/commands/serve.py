"""``hummingbit serve``: a data folder over REST."""

from __future__ import annotations

import argparse

from hummingbit.commands.options import add_data_dir


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_data_dir(parser)
    parser.add_argument("--host", default="127.0.0.1", help="address (default: %(default)s)")
    parser.add_argument("--port", type=int, default=8000, help="port (default: %(default)s)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Serve until interrupted."""
    from service.server import serve  # noqa: PLC0415 - keeps --help quick

    serve(args.data_dir, host=args.host, port=args.port)
    return 0
