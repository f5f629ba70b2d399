"""``hummingbit ready``: check whether the service on this machine is ready, for probes."""

from __future__ import annotations

import argparse
import os

from hummingbit.clients.client import Client
from hummingbit.clients.transport import KEY_VARIABLE
from hummingbit.commands.printing import add_json, print_result
from hummingbit.commands.serve import add_settings, read_settings
from hummingbit.foundation.errors import counted
from hummingbit.service.settings import Settings

SECONDS = 5.0


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the settings that say where the service is."""
    add_settings(parser, ("port",))
    parser.add_argument("--url", metavar="URL", help="a service elsewhere")
    add_json(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print what is served; a service that is not ready is an error.

    The key is ``HUMMINGBIT_KEY``, or else one of the keys in the settings.
    """
    settings = read_settings(args).settings
    url = args.url or f"http://127.0.0.1:{settings.port}"
    with Client(
        url, os.environ.get(KEY_VARIABLE) or _key(settings), timeout=SECONDS, retries=0
    ) as client:
        readiness = client.ready()
    collections = counted(len(readiness["collections"]), "collection")
    line = f"ready: {collections}, {counted(len(readiness['encoders']), 'encoder')}"
    print_result(args, readiness, line)
    return 0


def _key(settings: Settings) -> str | None:
    keys = (settings.read_key, settings.write_key, settings.admin_key)
    return next((key.get_secret_value() for key in keys if key is not None), None)
