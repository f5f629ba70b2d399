"""``hummingbit snapshot create|list|restore|delete``: copies of collections in one file each."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hummingbit.commands.opening import Actions, add_folder, add_url, open_folder, service_at
from hummingbit.commands.options import OptionError
from index.data_folder import DataFolder
from index.snapshots import Snapshot

if TYPE_CHECKING:
    from hummingbit.client import Client


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the actions."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    create = _add(actions, "create", run_create, "copy a collection and its encoder")
    create.add_argument("collection", metavar="COLLECTION")
    create.add_argument("--out", type=Path, metavar="FILE", help="write the snapshot there, too")
    listing = _add(actions, "list", run_list, "print the snapshots, the oldest first")
    listing.add_argument("collection", nargs="?", metavar="COLLECTION")
    restore = _add(actions, "restore", run_restore, "make a collection of a snapshot")
    restore.add_argument("snapshot", metavar="SNAPSHOT", help="an id; without --url, also a file")
    restore.add_argument("collection", metavar="COLLECTION", help="the name of the one to make")
    delete = _add(actions, "delete", run_delete, "delete a snapshot")
    delete.add_argument("snapshot", metavar="SNAPSHOT", help="its id")


def run_create(args: argparse.Namespace) -> int:
    """Make a snapshot and print what it holds."""
    if args.url is not None:
        with service_at(args) as client:
            job = client.wait_for(client.snapshot_job(args.collection))
            made = client.snapshot((job["result"] or {})["id"])
            if args.out is not None:
                _written(args.out, lambda: client.download_snapshot(made["id"], args.out))
        _print(made)
        return 0
    with open_folder(args, writable=True) as folder:
        snapshot = folder.create_snapshot(args.collection)
        if args.out is not None:
            file = folder.snapshots().file(snapshot.id)
            _written(args.out, lambda: shutil.copyfile(file, args.out))
    _print(_record(snapshot))
    return 0


def run_list(args: argparse.Namespace) -> int:
    """Print a snapshot a line."""
    if args.url is not None:
        with service_at(args) as client:
            found: list[Any] = client.snapshots(args.collection)
    else:
        with open_folder(args, writable=False) as folder:
            found = [_record(one) for one in folder.snapshots().all(args.collection)]
    for one in found:
        _print(one)
    return 0


def run_restore(args: argparse.Namespace) -> int:
    """Make a collection of a snapshot; one that fails leaves nothing behind."""
    if args.url is not None:
        with service_at(args) as client:
            documents = _restore_remotely(client, args)
    else:
        with open_folder(args, writable=True) as folder:
            file = _file_of(folder, args.snapshot)
            documents = len(folder.restore_snapshot(file, args.collection))
    print(f"{args.collection}: {documents:,} documents restored")
    return 0


def run_delete(args: argparse.Namespace) -> int:
    """Delete a snapshot and its file."""
    if args.url is not None:
        with service_at(args) as client:
            client.delete_snapshot(args.snapshot)
    else:
        with open_folder(args, writable=True) as folder:
            folder.snapshots().delete(args.snapshot)
    print(f"{args.snapshot}: deleted")
    return 0


def _add(
    actions: Actions, name: str, run: Callable[[argparse.Namespace], int], summary: str
) -> argparse.ArgumentParser:
    action = actions.add_parser(name, help=summary)
    add_folder(action)
    add_url(action)
    action.set_defaults(run=run)
    return action


def _restore_remotely(client: Client, args: argparse.Namespace) -> int:
    job = client.wait_for(client.restore_snapshot(args.snapshot, args.collection))
    return int((job["result"] or {})["documents"])


def _file_of(folder: DataFolder, given: str) -> Path:
    """Return the file of the snapshot with the id that was given, or else the file of that name."""
    if given in [one.id for one in folder.snapshots().all()]:
        return folder.snapshots().file(given)
    if not Path(given).is_file():
        raise OptionError(f"SNAPSHOT: {given[:200]!a} is no snapshot of the folder, and no file")
    return Path(given)


def _written(out: Path, write: Callable[[], object]) -> None:
    try:
        write()
    except OSError as error:
        raise OptionError(f"--out: {out}: {error.strerror or error}") from error


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


def _print(one: Any) -> None:
    held = f"{one['documents']:,} documents\tgeneration {one['generation']}"
    print(f"{one['id']}\t{one['collection']}\t{held}\t{one['created']}\t{one['bytes']:,} bytes")
