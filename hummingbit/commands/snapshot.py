"""``hummingbit snapshot ACTION``: copies of collections, each in a single file."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

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
    create.add_argument("--out", type=Path, metavar="FILE", help="also write the snapshot to FILE")
    listing = _add(actions, "list", run_list, "print the snapshots, the oldest first")
    listing.add_argument("collection", nargs="?", metavar="COLLECTION")
    restore = _add(actions, "restore", run_restore, "make a collection from a snapshot")
    restore.add_argument("snapshot", metavar="SNAPSHOT", help="an id, or else a file")
    restore.add_argument("collection", metavar="COLLECTION", help="the name of the new collection")
    download = _add(actions, "download", run_download, "write a snapshot to a file")
    download.add_argument("snapshot", metavar="SNAPSHOT", help="its id")
    download.add_argument("file", type=Path, metavar="FILE")
    upload = _add(actions, "upload", run_upload, "add the file of a snapshot made elsewhere")
    upload.add_argument("file", type=Path, metavar="FILE")
    delete = _add(actions, "delete", run_delete, "delete a snapshot")
    delete.add_argument("snapshot", metavar="SNAPSHOT", help="its id")


def run_create(args: argparse.Namespace) -> int:
    """Create a snapshot and print what it contains."""
    with open_collections(args, writable=True) as folder:
        snapshot = folder.create_snapshot(args.collection)
        if args.out is not None:
            with naming(f"--out: {args.out}"):
                folder.snapshots.copy(snapshot.id, args.out)
    _print(args, snapshot)
    return 0


def run_download(args: argparse.Namespace) -> int:
    """Write a snapshot to a file that appears once it is complete; print what it contains."""
    with naming(f"FILE: {args.file}"), open_collections(args, writable=False) as folder:
        snapshot = folder.snapshots.get(args.snapshot)
        folder.snapshots.copy(snapshot.id, args.file)
    _print(args, snapshot)
    return 0


def run_upload(args: argparse.Namespace) -> int:
    """Check the file of a snapshot, add it, and print what it contains."""
    with naming(f"FILE: {args.file}"):
        args.file.open("rb").close()
        with open_collections(args, writable=True) as folder:
            _print(args, folder.snapshots.add(args.file))
    return 0


def run_list(args: argparse.Namespace) -> int:
    """Print a snapshot a line."""
    with open_collections(args, writable=False) as folder:
        snapshots = folder.snapshots.all(args.collection)
        unavailable = [
            {"id": id_, "reason": str(reason)}
            for id_, reason in folder.snapshots.unavailable().items()
        ]
    lines = [f"{snapshot['id']}\tcannot be read: {snapshot['reason']}" for snapshot in unavailable]
    lines += map(_line, snapshots)
    records = [*map(_record, snapshots)]
    print_result(args, {"snapshots": records, "unavailable": unavailable}, lines)
    return 0


def run_restore(args: argparse.Namespace) -> int:
    """Restore a collection from a snapshot; a failure leaves nothing behind."""
    snapshot: str | Path = args.snapshot
    with open_collections(args, writable=True) as folder:
        if snapshot not in [known.id for known in folder.snapshots.all()]:
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


def _print(args: argparse.Namespace, snapshot: Snapshot) -> None:
    print_result(args, _record(snapshot), _line(snapshot))


def _line(snapshot: Snapshot) -> str:
    contents = snapshot.contents
    columns = (
        snapshot.id,
        contents.collection,
        counted(contents.documents, "document"),
        f"generation {contents.generation}",
        contents.created,
        f"{snapshot.bytes:,} bytes",
    )
    return "\t".join(columns)
