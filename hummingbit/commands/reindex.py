"""``hummingbit reindex``: re-encode a collection's texts into another one by another encoder."""

from __future__ import annotations

import argparse

from hummingbit.commands.options import add_folder, add_url, open_collections
from hummingbit.commands.printing import add_json, print_result
from hummingbit.foundation.errors import counted
from hummingbit.index.catalog import check_name
from hummingbit.index.engines.choice import INDEX_TYPES


def configure(parser: argparse.ArgumentParser) -> None:
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
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
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
