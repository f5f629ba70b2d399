"""``hummingbit index list|stats|verify|compact|rank|fields|drop``: the state of collections."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from foundation.errors import counted
from foundation.stages import begin_stage
from hummingbit.commands.collections import index_remotely
from hummingbit.commands.data_folder_options import (
    Actions,
    add_action,
    add_folder,
    add_url,
    open_folder,
)
from hummingbit.commands.json_output import add_json, print_json, print_result
from hummingbit.commands.options import OptionError
from index.rankings.protocol import RANKINGS
from index.search.empty_results import absent_fields


def configure(actions: Actions) -> None:
    """Add the actions."""
    list_ = actions.add_parser("list", help="list the collections, and those that cannot be opened")
    add_folder(list_)
    list_.set_defaults(run=run_list)
    stats = add_action(actions, "stats", run_stats, "describe a collection and its codes, as JSON")
    verify = add_action(actions, "verify", run_verify, "check every document, code and checksum")
    verify.add_argument(
        "--accept-loss",
        action="store_true",
        help="if acknowledged writes are missing, continue without them",
    )
    compact = add_action(actions, "compact", run_compact, "free the space of deleted documents")
    rank = add_action(actions, "rank", run_rank, "choose the default ranking of a collection")
    rank.add_argument("ranking", choices=RANKINGS, help="the ranking of searches that name none")
    fields = add_action(
        actions, "fields", run_fields, "set or list the indexed fields, which make filters fast"
    )
    fields.add_argument(
        "fields",
        nargs="*",
        metavar="FIELD",
        help="the fields of payloads to index, and no others; without any, list the indexed ones",
    )
    fields.add_argument("--none", action="store_true", help="index no fields")
    drop = add_action(actions, "drop", run_drop, "delete a collection and all of its documents")
    for action in (list_, stats, verify, compact, rank, fields, drop):
        add_url(action)
        add_json(action)


def run_list(args: argparse.Namespace) -> int:
    """Print a collection a line: name, documents, bits, encoder."""
    listed = index_remotely.list_(args) if args.url is not None else _list(args)
    lines = [
        f"{info['name']}\t{counted(info['documents'], 'document')}\t{info['n_bits']} bits"
        f"\t{info['encoder'] or '-'}"
        for info in listed["collections"]
    ]
    lines += [
        f"{info['name']}\tcannot be opened: {info['reason']}" for info in listed["unavailable"]
    ]
    print_result(args, listed, lines)
    return 0


def _list(args: argparse.Namespace) -> dict[str, Any]:
    with open_folder(args, writable=False) as folder:
        collections = [
            {
                "name": name,
                "documents": len(collection),
                "n_bits": collection.n_bits,
                "encoder": collection.encoder_name,
            }
            for name, collection in folder.collections().items()
        ]
        unavailable = folder.unavailable().items()
        return {
            "collections": collections,
            "unavailable": [{"name": name, "reason": str(reason)} for name, reason in unavailable],
        }


def run_stats(args: argparse.Namespace) -> int:
    """Print the statistics of a collection as JSON."""
    if args.url is not None:
        return index_remotely.stats(args)
    with open_folder(args, writable=False) as folder:
        collection = folder.collection(args.collection)
        begin_stage(f"measuring {counted(len(collection), 'code')}")
        print_json(collection.stats())
    return 0


def run_verify(args: argparse.Namespace) -> int:
    """Print the problems of a collection; return 1 if there are any."""
    if args.url is not None:
        if args.accept_loss:
            raise OptionError(
                "--accept-loss: cannot be combined with --url; stop the service and name its folder"
            )
        documents, problems = index_remotely.verify(args)
    else:
        if args.accept_loss:
            with open_folder(args, writable=True) as folder:
                folder.accept_loss(args.collection)
        with open_folder(args, writable=False) as folder:
            verification = folder.collection(args.collection).verify()
        documents, problems = verification.documents, verification.problems
    for problem in problems:
        print(f"{args.collection}: {problem}", file=sys.stderr)
    outcome = counted(len(problems), "problem") if problems else "no problems"
    result = {"collection": args.collection, "documents": documents, "problems": problems}
    print_result(
        args, result, f"{args.collection}: {counted(documents, 'document')} checked; {outcome}"
    )
    return 1 if problems else 0


def run_compact(args: argparse.Namespace) -> int:
    """Rewrite a collection without deleted documents, and print its size before and after."""
    if args.url is not None:
        before, after = index_remotely.compact(args)
    else:
        with open_folder(args, writable=True) as folder:
            collection = folder.collection(args.collection)
            before = collection.bytes_on_disk()
            begin_stage(f"rewriting {args.collection}")
            collection.compact()
            after = collection.bytes_on_disk()
    result = {"collection": args.collection, "bytes_before": before, "bytes_after": after}
    print_result(args, result, f"{args.collection}: {before:,} bytes before, {after:,} after")
    return 0


def run_rank(args: argparse.Namespace) -> int:
    """Set a collection's default ranking."""
    if args.url is not None:
        index_remotely.rank(args)
    else:
        with open_folder(args, writable=True) as folder:
            folder.collection(args.collection).set_ranking(args.ranking)
    result = {"collection": args.collection, "ranking": args.ranking}
    print_result(args, result, f"{args.collection}: searches are ranked by {args.ranking}")
    return 0


def run_fields(args: argparse.Namespace) -> int:
    """Index fields of payloads, and print which are indexed."""
    if args.none and args.fields:
        raise OptionError("--none: cannot be combined with fields")
    if args.url is not None:
        indexed, warnings = index_remotely.fields(args)
    else:
        changes = bool(args.fields) or args.none
        with open_folder(args, writable=changes) as folder:
            collection = folder.collection(args.collection)
            if changes:
                begin_stage(f"indexing fields of {counted(len(collection), 'document')}")
                collection.set_indexed_fields(args.fields)
            indexed = [*collection.indexed_fields]
            warnings = absent_fields(collection, args.fields)
    result = {"collection": args.collection, "indexed_fields": indexed}
    line = f"{args.collection}: indexed fields: {', '.join(indexed) or 'none'}"
    print_result(args, result, line, warnings)
    return 0


def run_drop(args: argparse.Namespace) -> int:
    """Delete a collection, even one that cannot be opened."""
    if args.url is not None:
        index_remotely.drop(args)
    else:
        with open_folder(args, writable=True) as folder:
            folder.drop_collection(args.collection)
    result = {"collection": args.collection, "dropped": True}
    print_result(args, result, f"{args.collection}: dropped")
    return 0
