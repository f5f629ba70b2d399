"""Runs a module for as long as whoever started it lives, and a file exists.

Run as ``python -m hummingbit.foundation.companion FILE MODULE [ARGUMENT …]``, in a session of its
own. Standard input is a pipe whose other end the caller holds, and never writes to. Once it is
closed, or FILE is gone, the whole session is killed.
"""

from __future__ import annotations

import os
import runpy
import select
import signal
import sys
import threading
from pathlib import Path

SECONDS_BETWEEN_LOOKS = 1.0


def main() -> None:
    """Watch, and run the module."""
    path, module, *arguments = sys.argv[1:]
    watching = threading.Thread(target=_watch, args=(Path(path),), name="watching", daemon=True)
    watching.start()
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _watch(path: Path) -> None:
    while path.exists():
        ended, _, _ = select.select([sys.stdin], [], [], SECONDS_BETWEEN_LOOKS)
        if ended:
            break
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main()
