"""``hummingbit index build|add|stats``: documents into a collection."""

from __future__ import annotations

import argparse
import itertools
import json

from tqdm import tqdm

from hummingbit.commands.options import SOURCE_HELP, add_data_dir, add_reading, read
from index.collection import Collection
from index.data_folder import DataFolder
from index.errors import CollectionExists
from index.ingest import ingest


def configure(parser: argparse.ArgumentParser) -> None:
    """Add ``build``, ``add`` and ``stats``."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    build = actions.add_parser("build", help="make a collection of documents")
    kind = build.add_mutually_exclusive_group(required=True)
    kind.add_argument("--encoder", metavar="NAME", help="an encoder of the data folder")
    kind.add_argument("--bits", type=int, metavar="N", help="for documents that bring their codes")
    build.set_defaults(run=run_build)
    add = actions.add_parser("add", help="add documents to a collection; an id there is replaced")
    add.set_defaults(run=run_add)
    stats = actions.add_parser("stats", help="describe a collection")
    stats.set_defaults(run=run_stats)
    for action in (build, add, stats):
        action.add_argument("collection", metavar="COLLECTION")
        add_data_dir(action)
    for action in (build, add):
        action.add_argument("sources", nargs="+", metavar="SOURCE", help=SOURCE_HELP)
        add_reading(action)


def run_build(args: argparse.Namespace) -> int:
    """Make a collection; if it cannot be filled, it is not made."""
    with DataFolder(args.data_dir, writable=True) as folder:
        if args.collection in folder.collections():
            raise CollectionExists(f"collection {args.collection!r} exists; index add extends it")
        collection = folder.create_collection(
            args.collection, encoder=args.encoder, n_bits=args.bits
        )
        try:
            _ingest(args, collection)
        except BaseException:
            folder.drop_collection(args.collection)
            raise
    return 0


def run_add(args: argparse.Namespace) -> int:
    """Add documents: all of them, or none if one cannot be read."""
    with DataFolder(args.data_dir, writable=True) as folder:
        _ingest(args, folder.collection(args.collection))
    return 0


def run_stats(args: argparse.Namespace) -> int:
    """Print what a collection holds, as JSON."""
    with DataFolder(args.data_dir, writable=False) as folder:
        print(json.dumps(folder.collection(args.collection).stats(), indent=2, ensure_ascii=False))
    return 0


def _ingest(args: argparse.Namespace, collection: Collection) -> None:
    documents = itertools.chain.from_iterable(read(args, source) for source in args.sources)
    with tqdm(desc="indexing", unit=" documents", disable=None) as bar:
        report = ingest(collection, documents, progress=bar.update)
    rate = report.documents / report.seconds if report.seconds else 0.0
    print(
        f"{collection.name}: {report.documents:,} documents in {report.seconds:.1f} s"
        f" ({rate:,.0f} a second); {len(collection):,} in all, generation {report.generation}"
    )
