"""``hummingbit index duplicates``: near-duplicates in a collection, and deleting them."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from foundation.errors import counted
from foundation.stages import begin_stage
from hummingbit.commands.data_folder_options import Actions, add_action, open_folder
from hummingbit.commands.json_output import add_json
from index.bulk.near_duplicates import DuplicateCriteria, find_duplicates


def configure(actions: Actions) -> None:
    """Add the action."""
    duplicates = add_action(
        actions,
        "duplicates",
        run,
        "list clusters of documents that hardly differ, one on each line",
    )
    duplicates.add_argument(
        "--radius",
        type=int,
        required=True,
        metavar="R",
        help="the largest number of bits in which the codes of near-duplicates differ",
    )
    duplicates.add_argument(
        "--confirm",
        type=float,
        metavar="J",
        help="also compare the texts: the least Jaccard similarity of their shingles, such as 0.5",
    )
    duplicates.add_argument(
        "--shingle",
        type=int,
        default=5,
        metavar="N",
        help="terms in a shingle (default: %(default)s)",
    )
    duplicates.add_argument(
        "--delete",
        action="store_true",
        help="delete all documents of a cluster but the first, the oldest",
    )
    add_json(duplicates, "the clusters and, last, the summary as JSON lines")


def run(args: argparse.Namespace) -> int:
    """Print a cluster a line, as JSON; with ``--delete``, keep only the first of each."""
    criteria = DuplicateCriteria(args.radius, args.confirm, args.shingle)
    clusters, later = 0, []
    summary: dict[str, Any] = {"collection": args.collection}
    with open_folder(args, writable=args.delete) as folder:
        collection = folder.collection(args.collection)
        for ids in find_duplicates(collection, criteria):
            print(json.dumps({"ids": ids}, ensure_ascii=False))
            clusters += 1
            later += ids[1:]
        older = counted(len(later), "document")
        found = f"{counted(clusters, 'cluster')}; {older} with an older near-duplicate"
        summary |= {"clusters": clusters, "with_an_older": len(later)}
        if args.delete:
            begin_stage(f"deleting {counted(len(later), 'document')}")
            deleted = collection.delete(later).deleted if later else 0
            found += f"; {deleted:,} deleted, {len(collection):,} left"
            summary |= {"deleted": deleted, "documents": len(collection)}
    if args.json:
        print(json.dumps(summary, ensure_ascii=False))
    print(f"{args.collection}: {found}", file=sys.stderr)
    return 0
