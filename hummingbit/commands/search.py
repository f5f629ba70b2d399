"""``hummingbit search``: ask a collection from the command line."""

from __future__ import annotations

import argparse
import json

from hummingbit.commands.options import add_data_dir
from index.data_folder import DataFolder
from index.records import Query


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("collection", metavar="COLLECTION")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("text", nargs="?", metavar="TEXT")
    what.add_argument("--code", metavar="HEX", help="a packed code instead of a text")
    what.add_argument("--id", metavar="ID", help="a stored document instead of a text")
    parser.add_argument("--limit", type=int, default=10, metavar="N", help="hits (default: 10)")
    parser.add_argument("--radius", type=int, metavar="N", help="largest distance, inclusive")
    add_data_dir(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print a hit a line: distance, id, payload."""
    query = Query(text=args.text, code=args.code, id=args.id)
    with DataFolder(args.data_dir, writable=False) as folder:
        collection = folder.collection(args.collection)
        found = collection.search([query], args.limit, args.radius, with_payload=True)
    for hit in found.hits[0]:
        print(f"{hit.distance:>4}  {hit.id}  {json.dumps(hit.payload, ensure_ascii=False)}")
    return 0
