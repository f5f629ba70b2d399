"""``hummingbit alias`` and ``reindex``: second names and other encoders of collections."""

from __future__ import annotations

import argparse

from hummingbit.commands.options import add_folder, add_url, open_collections
from hummingbit.commands.printing import add_json, print_result
from hummingbit.foundation.errors import counted
from hummingbit.index.catalog import AddAlias, AliasAction, RemoveAlias, check_name
from hummingbit.index.engines.choice import INDEX_TYPES


def configure_alias(parser: argparse.ArgumentParser) -> None:
    """Add the actions."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    listing = actions.add_parser("list", help="list the aliases and their collections")
    listing.set_defaults(run=list_aliases)
    set_ = actions.add_parser("set", help="point an alias at a collection, in one step")
    set_.add_argument("alias", metavar="ALIAS")
    set_.add_argument("collection", metavar="COLLECTION")
    set_.set_defaults(run=set_alias)
    remove = actions.add_parser("remove", help="remove an alias; the collection stays")
    remove.add_argument("alias", metavar="ALIAS")
    remove.set_defaults(run=remove_alias)
    for action in (listing, set_, remove):
        add_folder(action)
        add_url(action)
        add_json(action)


def list_aliases(args: argparse.Namespace) -> int:
    """Print an alias a line."""
    with open_collections(args, writable=False) as folder:
        aliases = {**folder.aliases()}
    lines = [f"{alias}\t{collection}" for alias, collection in aliases.items()]
    print_result(args, {"aliases": aliases}, lines)
    return 0


def set_alias(args: argparse.Namespace) -> int:
    """Set an alias, in one step."""
    _change_aliases(args, AddAlias(args.alias, args.collection))
    set_ = {"alias": args.alias, "collection": args.collection}
    print_result(args, set_, f"{args.alias}\t{args.collection}")
    return 0


def remove_alias(args: argparse.Namespace) -> int:
    """Remove an alias."""
    _change_aliases(args, RemoveAlias(args.alias))
    print_result(args, {"alias": args.alias, "removed": True}, f"{args.alias}: removed")
    return 0


def _change_aliases(args: argparse.Namespace, action: AliasAction) -> None:
    with open_collections(args, writable=True) as folder:
        folder.change_aliases([action])


def configure_reindex(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("collection", metavar="COLLECTION")
    parser.add_argument(
        "--encoder", required=True, metavar="NAME", help="the encoder of the new collection"
    )
    parser.add_argument(
        "--into", required=True, metavar="NAME", help="the name of the new collection"
    )
    parser.add_argument(
        "--alias", metavar="NAME", help="the alias to move to it once it is complete"
    )
    parser.add_argument(
        "--search-by",
        choices=INDEX_TYPES,
        help="the search engine of the new collection (default: that of COLLECTION)",
    )
    add_folder(parser)
    add_url(parser)
    add_json(parser)
    parser.set_defaults(run=run_reindex)


def run_reindex(args: argparse.Namespace) -> int:
    """Re-encode every document; if that fails, no new collection is left behind."""
    if args.alias is not None:
        check_name(args.alias, "--alias")
    with open_collections(args, writable=True) as folder:
        documents = folder.reindex(
            args.collection, args.encoder, args.into, args.alias, args.search_by
        )
    moved = "" if args.alias is None else f"; the alias {args.alias} points to it"
    result = {"collection": args.into, "documents": documents, "alias": args.alias}
    print_result(args, result, f"{args.into}: {counted(documents, 'document')}{moved}")
    return 0
