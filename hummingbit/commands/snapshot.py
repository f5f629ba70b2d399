"""``hummingbit snapshot ACTION``: copies of collections, each in a single file."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hummingbit.commands.options import (
    Actions,
    OptionError,
    add_folder,
    add_url,
    naming,
    open_folder,
    service_at,
    wait_for,
)
from hummingbit.commands.printing import add_json, print_result
from hummingbit.foundation.errors import counted
from hummingbit.foundation.files import replacing
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.snapshots import Snapshot

if TYPE_CHECKING:
    from hummingbit.clients.client import Client

LOCAL_FIELDS = ("id", "collection", "documents", "generation", "created", "bytes")


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
    if args.url is not None:
        with service_at(args) as client:
            job = wait_for(client, client.snapshot_job(args.collection))
            created = client.snapshot((job["result"] or {})["id"])
            if args.out is not None:
                with naming(f"--out: {args.out}"):
                    client.download_snapshot(created["id"], args.out)
        _print(args, created)
        return 0
    with open_folder(args, writable=True) as folder:
        snapshot = folder.create_snapshot(args.collection)
        if args.out is not None:
            with naming(f"--out: {args.out}"):
                _copy(folder.snapshots.file(snapshot.id), args.out)
    _print(args, _record(snapshot))
    return 0


def run_download(args: argparse.Namespace) -> int:
    """Write a snapshot to a file that appears once it is complete; print what it contains."""
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
    """Check the file of a snapshot, add it, and print what it contains."""
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
    unavailable: list[dict[str, str]] = []  # the client returns none of these
    if args.url is not None:
        with service_at(args) as client:
            snapshots = [_local_fields(one) for one in client.snapshots(args.collection)]
    else:
        with open_folder(args, writable=False) as folder:
            snapshots = [_record(one) for one in folder.snapshots.all(args.collection)]
            unavailable = [
                {"id": id_, "reason": str(reason)}
                for id_, reason in folder.snapshots.unavailable().items()
            ]
    lines = [f"{one['id']}\tcannot be read: {one['reason']}" for one in unavailable]
    lines += map(_line, snapshots)
    print_result(args, {"snapshots": snapshots, "unavailable": unavailable}, lines)
    return 0


def run_restore(args: argparse.Namespace) -> int:
    """Restore a collection from a snapshot; a failure leaves nothing behind."""
    if args.url is not None:
        with service_at(args) as client:
            documents = _restore_remotely(client, args)
    else:
        with open_folder(args, writable=True) as folder:
            file = _file_of(folder, args.snapshot)
            documents = len(folder.restore_snapshot(file, args.collection))
    result = {"collection": args.collection, "documents": documents}
    print_result(args, result, f"{args.collection}: {counted(documents, 'document')} restored")
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
    ids = [snapshot["id"] for snapshot in client.snapshots()]
    if args.snapshot in ids:
        return _restore_from(client, args.snapshot, args.collection)
    _check_file(args.snapshot, "the service")
    with naming(f"SNAPSHOT: {args.snapshot}"):
        uploaded = _upload(client, Path(args.snapshot))["id"]
    try:
        return _restore_from(client, uploaded, args.collection)
    finally:
        if uploaded not in ids:
            client.delete_snapshot(uploaded)


def _restore_from(client: Client, snapshot_id: str, collection: str) -> int:
    job = wait_for(client, client.restore_snapshot(snapshot_id, collection))
    return int((job["result"] or {})["documents"])


def _upload(client: Client, file: Path) -> Mapping[str, Any]:
    return wait_for(client, client.upload_snapshot_job(file))["result"] or {}


def _file_of(folder: DataFolder, id_or_file: str) -> Path:
    """Return the file of the snapshot with this id, or else the file of this name."""
    if id_or_file in [snapshot.id for snapshot in folder.snapshots.all()]:
        return folder.snapshots.file(id_or_file)
    _check_file(id_or_file, "the folder")
    return Path(id_or_file)


def _check_file(id_or_file: str, place: str) -> None:
    if not Path(id_or_file).is_file():
        found = f"{id_or_file[:200]!r} is neither a snapshot of {place} nor a file"
        raise OptionError(f"SNAPSHOT: {found}; snapshot list prints the ids")


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


def _local_fields(snapshot: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a service's snapshot that a local one has too."""
    return {name: snapshot[name] for name in LOCAL_FIELDS}


def _print(args: argparse.Namespace, snapshot: Mapping[str, Any]) -> None:
    print_result(args, _local_fields(snapshot), _line(snapshot))


def _line(snapshot: Mapping[str, Any]) -> str:
    columns = (
        snapshot["id"],
        snapshot["collection"],
        counted(snapshot["documents"], "document"),
        f"generation {snapshot['generation']}",
        snapshot["created"],
        f"{snapshot['bytes']:,} bytes",
    )
    return "\t".join(columns)
