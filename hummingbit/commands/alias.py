"""``hummingbit alias list|set|remove``: second names of collections."""

from __future__ import annotations

import argparse

from hummingbit.commands.options import add_folder, add_url, open_collections
from hummingbit.commands.printing import add_json, print_result
from hummingbit.index.catalog import AddAlias, AliasAction, RemoveAlias


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the actions."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    listing = actions.add_parser("list", help="list the aliases and their collections")
    listing.set_defaults(run=run_list)
    set_ = actions.add_parser("set", help="point an alias at a collection, in one step")
    set_.add_argument("alias", metavar="ALIAS")
    set_.add_argument("collection", metavar="COLLECTION")
    set_.set_defaults(run=run_set)
    remove = actions.add_parser("remove", help="remove an alias; the collection stays")
    remove.add_argument("alias", metavar="ALIAS")
    remove.set_defaults(run=run_remove)
    for action in (listing, set_, remove):
        add_folder(action)
        add_url(action)
        add_json(action)


def run_list(args: argparse.Namespace) -> int:
    """Print an alias a line."""
    with open_collections(args, writable=False) as folder:
        aliases = {**folder.aliases()}
    lines = [f"{alias}\t{collection}" for alias, collection in aliases.items()]
    print_result(args, {"aliases": aliases}, lines)
    return 0


def run_set(args: argparse.Namespace) -> int:
    """Set an alias, in one step."""
    _change(args, AddAlias(args.alias, args.collection))
    set_ = {"alias": args.alias, "collection": args.collection}
    print_result(args, set_, f"{args.alias}\t{args.collection}")
    return 0


def run_remove(args: argparse.Namespace) -> int:
    """Remove an alias."""
    _change(args, RemoveAlias(args.alias))
    print_result(args, {"alias": args.alias, "removed": True}, f"{args.alias}: removed")
    return 0


def _change(args: argparse.Namespace, action: AliasAction) -> None:
    with open_collections(args, writable=True) as folder:
        folder.change_aliases([action])
