"""``hummingbit snapshot ACTION``: copies of collections, each in a single file."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from hummingbit.commands.object_storage import is_address, listing, read_file, written_file
from hummingbit.commands.options import (
    Actions,
    OptionError,
    add_folder,
    add_url,
    naming,
    open_collections,
)
from hummingbit.commands.printing import add_json, print_result
from hummingbit.foundation.errors import counted
from hummingbit.index.snapshots import Snapshot


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the actions."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    create = _add(actions, "create", run_create, "copy a collection and its encoder")
    create.add_argument("collection", metavar="COLLECTION")
    create.add_argument(
        "--out",
        metavar="FILE",
        help="also write the snapshot to FILE, to s3://BUCKET/KEY, or with a name of its own to"
        " s3://BUCKET/PREFIX/",
    )
    stored = _add(actions, "list", run_list, "print the snapshots, the oldest first")
    stored.add_argument(
        "collection",
        nargs="?",
        metavar="COLLECTION",
        help="the snapshots of a collection, or those in s3://BUCKET/PREFIX",
    )
    restore = _add(actions, "restore", run_restore, "make a collection from a snapshot")
    restore.add_argument("snapshot", metavar="SNAPSHOT", help="an id, a file, or s3://BUCKET/KEY")
    restore.add_argument("collection", metavar="COLLECTION", help="the name of the new collection")
    download = _add(actions, "download", run_download, "write a snapshot to a file")
    download.add_argument("snapshot", metavar="SNAPSHOT", help="its id")
    download.add_argument("file", metavar="FILE", help="a file, or s3://BUCKET/KEY")
    upload = _add(actions, "upload", run_upload, "add the file of a snapshot made elsewhere")
    upload.add_argument("file", metavar="FILE", help="a file, or s3://BUCKET/KEY")
    delete = _add(actions, "delete", run_delete, "delete a snapshot")
    delete.add_argument("snapshot", metavar="SNAPSHOT", help="its id")


def run_create(args: argparse.Namespace) -> int:
    """Create a snapshot and print what it contains."""
    with open_collections(args, writable=True) as folder:
        snapshot, address = folder.create_snapshot(args.collection), None
        if args.out is not None:
            with naming("--out"), written_file(args.out, _record(snapshot)) as (path, address):
                folder.snapshots.copy(snapshot.id, path)
    _print(args, snapshot, address)
    return 0


def run_download(args: argparse.Namespace) -> int:
    """Write a snapshot to a file that appears once it is complete; print what it contains."""
    with naming("FILE"), open_collections(args, writable=False) as folder:
        snapshot = folder.snapshots.get(args.snapshot)
        with written_file(args.file, _record(snapshot)) as (path, address):
            folder.snapshots.copy(snapshot.id, path)
    _print(args, snapshot, address)
    return 0


def run_upload(args: argparse.Namespace) -> int:
    """Check the file of a snapshot, add it, and print what it contains."""
    with naming(f"FILE: {args.file}"), read_file(args.file) as path:
        path.open("rb").close()
        with open_collections(args, writable=True) as folder:
            _print(args, folder.snapshots.add(path))
    return 0


def run_list(args: argparse.Namespace) -> int:
    """Print a snapshot a line."""
    if args.collection is not None and is_address(args.collection):
        records = listing(args.collection)
        print_result(args, {"snapshots": records, "unavailable": []}, [*map(_line, records)])
        return 0
    with open_collections(args, writable=False) as folder:
        records = [*map(_record, folder.snapshots.all(args.collection))]
        unavailable = [
            {"id": id_, "reason": str(reason)}
            for id_, reason in folder.snapshots.unavailable().items()
        ]
    lines = [f"{snapshot['id']}\tcannot be read: {snapshot['reason']}" for snapshot in unavailable]
    lines += map(_line, records)
    print_result(args, {"snapshots": records, "unavailable": unavailable}, lines)
    return 0


def run_restore(args: argparse.Namespace) -> int:
    """Restore a collection from a snapshot; a failure leaves nothing behind."""
    snapshot: str | Path = args.snapshot
    with ExitStack() as stack, open_collections(args, writable=True) as folder:
        if is_address(args.snapshot):
            snapshot = stack.enter_context(read_file(args.snapshot))
        known = (
            [] if isinstance(snapshot, Path) else [stored.id for stored in folder.snapshots.all()]
        )
        if isinstance(snapshot, str) and snapshot not in known:
            snapshot = Path(args.snapshot)
            if not snapshot.is_file():
                owner = "the folder" if args.url is None else "the service"
                found = f"{args.snapshot[:200]!r} is neither a snapshot of {owner} nor a file"
                raise OptionError(f"SNAPSHOT: {found}; snapshot list prints the ids")
            with naming(f"SNAPSHOT: {args.snapshot}"):
                snapshot.open("rb").close()
        documents = len(folder.restore_snapshot(snapshot, args.collection))
    result = {"collection": args.collection, "documents": documents}
    print_result(args, result, f"{args.collection}: {counted(documents, 'document')} restored")
    return 0


def run_delete(args: argparse.Namespace) -> int:
    """Delete a snapshot and its file."""
    with open_collections(args, writable=True) as folder:
        folder.snapshots.delete(args.snapshot)
    print_result(args, {"id": args.snapshot, "deleted": True}, f"{args.snapshot}: deleted")
    return 0


def _add(
    actions: Actions, name: str, run: Callable[[argparse.Namespace], int], summary: str
) -> argparse.ArgumentParser:
    action = actions.add_parser(name, help=summary)
    add_folder(action)
    add_url(action)
    add_json(action)
    action.set_defaults(run=run)
    return action


def _record(snapshot: Snapshot) -> dict[str, Any]:
    contents = snapshot.contents
    return {
        "id": snapshot.id,
        "collection": contents.collection,
        "documents": contents.documents,
        "generation": contents.generation,
        "created": contents.created,
        "bytes": snapshot.bytes,
    }


def _print(args: argparse.Namespace, snapshot: Snapshot, address: str | None = None) -> None:
    record = _record(snapshot)
    if address is not None and is_address(address):
        record["address"] = address
    print_result(args, record, _line(record))


def _line(record: dict[str, Any]) -> str:
    columns = (
        record.get("address", record["id"]),
        record["collection"],
        counted(record["documents"], "document"),
        f"generation {record['generation']}",
        record["created"],
        f"{record['bytes']:,} bytes",
    )
    return "\t".join(columns)
