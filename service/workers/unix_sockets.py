"""The Unix sockets at which the processes of one service reach each other."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from foundation.errors import counted
from index.errors import DataFolderError
from service.server import BACKLOG

# The smallest limit of any system, in bytes, without the terminating null.
MAX_SOCKET_PATH = 103


def check_socket_path(private: Path) -> None:
    """Raise a DataFolderError if the paths of sockets in the folder would be too long."""
    excess = len(os.fsencode(private / f"{'9' * 5}.sock")) - MAX_SOCKET_PATH
    if excess > 0:
        message = f"is too long a path for sockets, by {counted(excess, 'byte')}"
        raise DataFolderError(f"{private.parent}: {message}; set TMPDIR to a shorter one")


@contextmanager
def listen_at(path: Path) -> Iterator[socket.socket]:
    """Listen at a Unix socket, in a folder that only this user may enter."""
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        listener.listen(BACKLOG)
        yield listener
