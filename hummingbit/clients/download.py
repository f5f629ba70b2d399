"""Writes a downloaded snapshot to a file."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from hummingbit.clients.operations import operation_responses
from hummingbit.clients.operations.operation_calls import snapshot_path
from hummingbit.clients.transport import ServiceError


@dataclass(frozen=True, slots=True)
class SnapshotFile:
    """A snapshot of the service at `url`, to be written to `path`."""

    url: str
    snapshot: operation_responses.Snapshot
    path: Path

    @property
    def address(self) -> str:
        """The path of the file at the service."""
        return f"{snapshot_path(self.snapshot['id'])}/file"

    @contextmanager
    def writing(self, response: httpx.Response) -> Iterator[Callable[[bytes], None]]:
        """Yield a function that writes chunks of `response`; the file appears once it is complete.

        Raises:
            ServiceError: if the checksum is not that of the snapshot.
            OSError: if the file cannot be written.
        """
        digest = hashlib.sha256()
        partial = self.path.with_name(f"{self.path.name}.partial")
        try:
            with partial.open("wb") as file:

                def write_chunk(chunk: bytes) -> None:
                    digest.update(chunk)
                    file.write(chunk)

                yield write_chunk
                file.flush()
                os.fsync(file.fileno())
            if digest.hexdigest() != self.snapshot["sha256"]:
                message = f"the file of snapshot {self.snapshot['id']} has another SHA-256"
                hint = "download it again"
                raise ServiceError(f"{self.url}: {message}; {hint}", response.status_code)
            partial.replace(self.path)
        finally:
            partial.unlink(missing_ok=True)
