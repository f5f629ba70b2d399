"""``hummingbit snapshot ACTION``: copies of collections, each in a single file or object.

An object is at ``s3://BUCKET/KEY``, on Amazon S3 or storage with its protocol, such as MinIO's.
boto3 finds keys, region and ``AWS_ENDPOINT_URL`` in the environment and the files of AWS's own
programs; nothing of these comes from a service. An object appears once all of it has arrived. It
is then read again and compared, and its SHA-256 is part of its metadata, by which whoever restores
it compares what arrives.
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from hummingbit.commands.options import (
    Actions,
    OptionError,
    add_command,
    add_folder,
    add_option,
    naming,
    open_collections,
)
from hummingbit.commands.printing import add_json, print_result
from hummingbit.deferred import deferred_imports
from hummingbit.foundation.errors import counted, install_command

with deferred_imports():
    from hummingbit.index.snapshots import Snapshot


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the actions."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    create = _add(actions, "create", run_create, "copy a collection and its encoder")
    create.add_argument("collection", metavar="COLLECTION")
    add_option(
        create,
        "--out FILE",
        "also write the snapshot to FILE, to s3://BUCKET/KEY, or with a name of its own to"
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


def run_create(args: argparse.Namespace) -> None:
    """Create a snapshot and print what it contains."""
    with open_collections(args, writable=True) as folder:
        snapshot, address = folder.create_snapshot(args.collection), None
        if args.out is not None:
            with naming("--out"), written_file(args.out, _record(snapshot)) as (path, address):
                folder.snapshots.copy(snapshot.id, path)
    _print(args, snapshot, address)


def run_download(args: argparse.Namespace) -> None:
    """Write a snapshot to a file that appears once it is complete; print what it contains."""
    with naming("FILE"), open_collections(args, writable=False) as folder:
        snapshot = folder.snapshots.get(args.snapshot)
        with written_file(args.file, _record(snapshot)) as (path, address):
            folder.snapshots.copy(snapshot.id, path)
    _print(args, snapshot, address)


def run_upload(args: argparse.Namespace) -> None:
    """Check the file of a snapshot, add it, and print what it contains."""
    with naming(f"FILE: {args.file}"), read_file(args.file) as path:
        path.open("rb").close()
        with open_collections(args, writable=True) as folder:
            _print(args, folder.snapshots.add(path))


def run_list(args: argparse.Namespace) -> None:
    """Print a snapshot a line."""
    if args.collection is not None and is_address(args.collection):
        records = listing(args.collection)
        print_result(args, {"snapshots": records, "unavailable": []}, [*map(_line, records)])
        return
    with open_collections(args, writable=False) as folder:
        records = [*map(_record, folder.snapshots.all(args.collection))]
        unavailable = [
            {"id": id_, "reason": str(reason)}
            for id_, reason in folder.snapshots.unavailable().items()
        ]
    lines = [f"{snapshot['id']}\tcannot be read: {snapshot['reason']}" for snapshot in unavailable]
    lines += map(_line, records)
    print_result(args, {"snapshots": records, "unavailable": unavailable}, lines)


def run_restore(args: argparse.Namespace) -> None:
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
                reason = f"{args.snapshot[:200]!r} is neither a snapshot of {owner} nor a file"
                raise OptionError(f"SNAPSHOT: {reason}; snapshot list prints the ids")
            with naming(f"SNAPSHOT: {args.snapshot}"):
                snapshot.open("rb").close()
        documents = len(folder.restore_snapshot(snapshot, args.collection))
    result = {"collection": args.collection, "documents": documents}
    print_result(args, result, f"{args.collection}: {counted(documents, 'document')} restored")


def run_delete(args: argparse.Namespace) -> None:
    """Delete a snapshot and its file."""
    with open_collections(args, writable=True) as folder:
        folder.snapshots.delete(args.snapshot)
    print_result(args, {"id": args.snapshot, "deleted": True}, f"{args.snapshot}: deleted")


def _add(
    actions: Actions, name: str, run: Callable[[argparse.Namespace], int | None], summary: str
) -> argparse.ArgumentParser:
    action = add_command(actions, name, run, summary)
    add_folder(action)
    add_json(action)
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


SCHEME = "s3://"
CHUNK = 1 << 20


class Address(NamedTuple):
    """A bucket, and the key of an object or what keys begin with."""

    bucket: str
    key: str

    @classmethod
    def of(cls, address: str) -> Address:
        """Parse ``s3://BUCKET/KEY``; the key may be missing."""
        bucket, _, key = address.removeprefix(SCHEME).partition("/")
        if not bucket:
            raise OptionError(f"{address} names no bucket; write s3://BUCKET/KEY")
        return cls(bucket, key)

    def __str__(self) -> str:
        return f"{SCHEME}{self.bucket}/{self.key}"


def is_address(text: str) -> bool:
    """Tell whether a text is the address of an object, and not a file's name."""
    return text.startswith(SCHEME)


@contextmanager
def read_file(address: str) -> Iterator[Path]:
    """Yield the path of a file, or of a copy of the object at `address` for as long as needed.

    Raises:
        OptionError: if the object cannot be read, or is not what was written.
    """
    if not is_address(address):
        yield Path(address)
        return
    at = Address.of(address)
    if not at.key or at.key.endswith("/"):
        raise OptionError(f"{address} is no object; snapshot list {address} prints the objects")
    with TemporaryDirectory() as folder:
        path = Path(folder) / "object"
        with _storage(address) as client:
            stored = client.head_object(Bucket=at.bucket, Key=at.key)
            client.download_file(at.bucket, at.key, str(path))
        expected = stored["Metadata"].get("sha256")
        if expected not in {None, _sha256(path.open("rb"))}:
            raise OptionError(
                f"{address} is damaged: its SHA-256 is not the one it was written with"
            )
        yield path


@contextmanager
def written_file(address: str, record: Mapping[str, Any]) -> Iterator[tuple[Path, str]]:
    """Yield the path to write a file to, which becomes the object at `address`, and its address.

    If the address ends with a slash or is a bucket, the key is made from the `record` of the
    snapshot, which becomes metadata of the object. The object appears after the block.

    Raises:
        OptionError: if the object cannot be written, or does not hold what was written.
    """
    if not is_address(address):
        yield Path(address), address
        return
    bucket, key = Address.of(address)
    if not key or key.endswith("/"):
        created = record["created"][: len("2026-05-01T02:00:00")].replace(":", "")
        key += f"{record['collection']}-{created}Z-{record['id'][:8]}.tar"
    at = Address(bucket, key)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "object"
        yield path, str(at)
        digest = _sha256(path.open("rb"))
        metadata = {name: str(value) for name, value in record.items()} | {"sha256": digest}
        with _storage(str(at)) as client:
            extra = {"Metadata": metadata, "ContentType": "application/x-tar"}
            client.upload_file(str(path), bucket, key, ExtraArgs=extra)
            if _sha256(client.get_object(Bucket=bucket, Key=key)["Body"]) != digest:
                raise OptionError(f"{at} does not hold what was sent to it; write it again")


def listing(address: str) -> list[dict[str, Any]]:
    """Return the objects whose address begins with `address`, by name: their records and sizes.

    Raises:
        OptionError: if the storage cannot be read.
    """
    bucket, prefix = Address.of(address)
    records = []
    with _storage(address) as client:
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        for stored in (stored for page in pages for stored in page.get("Contents", ())):
            metadata = client.head_object(Bucket=bucket, Key=stored["Key"])["Metadata"]
            if "sha256" not in metadata:
                continue  # something else
            record = {
                **metadata,
                "bytes": stored["Size"],
                "address": str(Address(bucket, stored["Key"])),
            }
            for name in ("documents", "generation"):
                record[name] = int(metadata[name])
            records.append(record)
    return records


def _sha256(file: Any) -> str:
    digest = hashlib.sha256()
    with file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


@contextmanager
def _storage(address: str) -> Iterator[Any]:
    """Yield boto3's client; its errors name the address."""
    try:
        import boto3  # noqa: PLC0415 - an extra
        from boto3.exceptions import Boto3Error  # noqa: PLC0415
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415
    except ModuleNotFoundError as error:
        rule = f"needs the extra s3: {install_command('s3')} ({error})"
        raise OptionError(f"{address} {rule}") from error
    try:
        yield boto3.client("s3")
    except (Boto3Error, BotoCoreError, ClientError, ValueError) as error:
        raise OptionError(f"{address}: {error}") from error
