"""Snapshots at ``s3://BUCKET/KEY``: Amazon S3 and storage with its protocol, such as MinIO's.

boto3 finds keys, region and ``AWS_ENDPOINT_URL`` in the environment and the files of AWS's own
programs; nothing of these comes from a service. An object appears once all of it has arrived. It
is then read again and compared, and its SHA-256 is part of its metadata, by which whoever restores
it compares what arrives.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from hummingbit.commands.options import OptionError

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
        rule = f"needs the extra s3: pip install 'hummingbit[s3]' ({error})"
        raise OptionError(f"{address} {rule}") from error
    try:
        yield boto3.client("s3")
    except (Boto3Error, BotoCoreError, ClientError, ValueError) as error:
        raise OptionError(f"{address}: {error}") from error
