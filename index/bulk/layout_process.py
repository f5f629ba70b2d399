"""The process that lays out codes for a map. It starts quickly, since it imports little."""

from __future__ import annotations

import os
from contextlib import suppress
from multiprocessing.connection import Connection

from index.bulk.code_layout import lay_out

NICENESS = 10


def send_layout(pipe: Connection) -> None:
    """Lay out codes with a low priority.

    Receives codes, method, seed and number of threads; sends each step as (name, done, total), then
    the layout. Once the other process is gone, even if it was killed, the next step ends this one.
    """
    if hasattr(os, "nice"):
        os.nice(NICENESS)
    try:
        codes, method, seed, jobs = pipe.recv()
    except (EOFError, OSError):  # the other end of the pipe is closed, perhaps amid the codes
        return
    with suppress(ConnectionError):
        pipe.send(lay_out(codes, method, seed=seed, jobs=jobs, tell=lambda *step: pipe.send(step)))
