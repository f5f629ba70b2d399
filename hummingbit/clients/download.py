"""A snapshot on its way into a file."""

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
    """The snapshot of the service at `url` that becomes the file at `path`."""

    url: str
    snapshot: operation_responses.Snapshot
    path: Path

    @property
    def address(self) -> str:
        """Where the service has it."""
        return f"{snapshot_path(self.snapshot['id'])}/file"

    @contextmanager
    def writing(self, response: httpx.Response) -> Iterator[Callable[[bytes], None]]:
        """Lend what takes the chunks of `response`; the file appears once all of them are right.

        Raises:
            ServiceError: if what came is not what the service says it has.
            OSError: if it cannot be written.
        """
        digest = hashlib.sha256()
        partial = self.path.with_name(f"{self.path.name}.partial")
        try:
            with partial.open("wb") as file:

                def take(chunk: bytes) -> None:
                    digest.update(chunk)
                    file.write(chunk)

                yield take
                file.flush()
                os.fsync(file.fileno())
            if digest.hexdigest() != self.snapshot["sha256"]:
                message = f"{self.url}: what came is not snapshot {self.snapshot['id']}"
                raise ServiceError(message, response.status_code)
            partial.replace(self.path)
        finally:
            partial.unlink(missing_ok=True)
