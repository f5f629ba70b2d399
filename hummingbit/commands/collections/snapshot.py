"""``hummingbit snapshot ACTION``: copies of collections in one file each."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foundation.files import replacing
from hummingbit.commands.data_folder_options import (
    Actions,
    add_folder,
    add_url,
    open_folder,
    service_at,
)
from hummingbit.commands.json_output import add_json, print_result
from hummingbit.commands.options import OptionError, naming
from index.data_folder import DataFolder
from index.snapshots.snapshot_files import Snapshot

if TYPE_CHECKING:
    from hummingbit.clients.client import Client

SHOWN = ("id", "collection", "documents", "generation", "created", "bytes")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the actions."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    create = _add(actions, "create", run_create, "copy a collection and its encoder")
    create.add_argument("collection", metavar="COLLECTION")
    create.add_argument("--out", type=Path, metavar="FILE", help="write the snapshot there, too")
    listing = _add(actions, "list", run_list, "print the snapshots, the oldest first")
    listing.add_argument("collection", nargs="?", metavar="COLLECTION")
    restore = _add(actions, "restore", run_restore, "make a collection from a snapshot")
    restore.add_argument("snapshot", metavar="SNAPSHOT", help="an id, or else a file")
    restore.add_argument("collection", metavar="COLLECTION", help="the name of the one to make")
    download = _add(actions, "download", run_download, "write a snapshot to a file")
    download.add_argument("snapshot", metavar="SNAPSHOT", help="its id")
    download.add_argument("file", type=Path, metavar="FILE")
    upload = _add(actions, "upload", run_upload, "add the file of a snapshot made elsewhere")
    upload.add_argument("file", type=Path, metavar="FILE")
    delete = _add(actions, "delete", run_delete, "delete a snapshot")
    delete.add_argument("snapshot", metavar="SNAPSHOT", help="its id")


def run_create(args: argparse.Namespace) -> int:
    """Make a snapshot and print what it holds."""
    if args.url is not None:
        with service_at(args) as client:
            job = client.wait_for(client.snapshot_job(args.collection))
            made = client.snapshot((job["result"] or {})["id"])
            if args.out is not None:
                with naming(f"--out: {args.out}"):
                    client.download_snapshot(made["id"], args.out)
        _print(args, made)
        return 0
    with open_folder(args, writable=True) as folder:
        snapshot = folder.create_snapshot(args.collection)
        if args.out is not None:
            with naming(f"--out: {args.out}"):
                _copy(folder.snapshots.file(snapshot.id), args.out)
    _print(args, _record(snapshot))
    return 0


def run_download(args: argparse.Namespace) -> int:
    """Write a snapshot to a file that appears once it is whole, and print what it holds."""
    with naming(f"FILE: {args.file}"):
        if args.url is not None:
            with service_at(args) as client:
                _print(args, client.download_snapshot(args.snapshot, args.file))
            return 0
        with open_folder(args, writable=False) as folder:
            snapshot = folder.snapshots.get(args.snapshot)
            _copy(folder.snapshots.file(snapshot.id), args.file)
    _print(args, _record(snapshot))
    return 0


def run_upload(args: argparse.Namespace) -> int:
    """Check a snapshot's file, take it in, and print what it holds."""
    with naming(f"FILE: {args.file}"):
        args.file.open("rb").close()
        if args.url is not None:
            with service_at(args) as client:
                _print(args, _upload(client, args.file))
            return 0
        with open_folder(args, writable=True) as folder:
            _print(args, _record(folder.snapshots.add(args.file)))
    return 0


def run_list(args: argparse.Namespace) -> int:
    """Print a snapshot a line."""
    lost: list[dict[str, str]] = []  # a service tells of none
    if args.url is not None:
        with service_at(args) as client:
            found = [_shown(one) for one in client.snapshots(args.collection)]
    else:
        with open_folder(args, writable=False) as folder:
            found = [_record(one) for one in folder.snapshots.all(args.collection)]
            lost = [
                {"id": id_, "reason": str(reason)}
                for id_, reason in folder.snapshots.unavailable().items()
            ]
    lines = [f"{one['id']}\tcannot be read: {one['reason']}" for one in lost]
    lines += map(_line, found)
    print_result(args, {"snapshots": found, "unavailable": lost}, lines)
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
    result = {"collection": args.collection, "documents": documents}
    print_result(args, result, f"{args.collection}: {documents:,} documents restored")
    return 0


def run_delete(args: argparse.Namespace) -> int:
    """Delete a snapshot and its file."""
    if args.url is not None:
        with service_at(args) as client:
            client.delete_snapshot(args.snapshot)
    else:
        with open_folder(args, writable=True) as folder:
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


def _restore_remotely(client: Client, args: argparse.Namespace) -> int:
    known = [one["id"] for one in client.snapshots()]
    if args.snapshot in known:
        return _restore_from(client, args.snapshot, args.collection)
    _check_file(args.snapshot, "the service")
    with naming(f"SNAPSHOT: {args.snapshot}"):
        uploaded = _upload(client, Path(args.snapshot))["id"]
    try:
        return _restore_from(client, uploaded, args.collection)
    finally:
        if uploaded not in known:
            client.delete_snapshot(uploaded)


def _restore_from(client: Client, snapshot_id: str, collection: str) -> int:
    job = client.wait_for(client.restore_snapshot(snapshot_id, collection))
    return int((job["result"] or {})["documents"])


def _upload(client: Client, file: Path) -> Mapping[str, Any]:
    return client.wait_for(client.upload_snapshot_job(file))["result"] or {}


def _file_of(folder: DataFolder, given: str) -> Path:
    """Return the file of the snapshot with the id that was given, or else the file of that name."""
    if given in [one.id for one in folder.snapshots.all()]:
        return folder.snapshots.file(given)
    _check_file(given, "the folder")
    return Path(given)


def _check_file(given: str, place: str) -> None:
    if not Path(given).is_file():
        raise OptionError(f"SNAPSHOT: {given[:200]!a} is no snapshot of {place}, and no file")


def _copy(file: Path, out: Path) -> None:
    with replacing(out) as partial:
        shutil.copyfile(file, partial)


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


def _shown(one: Mapping[str, Any]) -> dict[str, Any]:
    """Return of a service's snapshot what is shown of one in a folder, too."""
    return {name: one[name] for name in SHOWN}


def _print(args: argparse.Namespace, one: Mapping[str, Any]) -> None:
    print_result(args, _shown(one), _line(one))


def _line(one: Mapping[str, Any]) -> str:
    held = f"{one['documents']:,} documents\tgeneration {one['generation']}"
    return f"{one['id']}\t{one['collection']}\t{held}\t{one['created']}\t{one['bytes']:,} bytes"
