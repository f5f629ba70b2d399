"""``hummingbit index ACTION``: build and maintain collections of documents."""

from __future__ import annotations

import argparse

from hummingbit.commands.collections import (
    index_documents,
    index_duplicates,
    index_transfer,
    index_upkeep,
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the actions."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    index_documents.configure(actions)
    index_transfer.configure(actions)
    index_upkeep.configure(actions)
    index_duplicates.configure(actions)
