"""Commands in processes of their own."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path


def run(*command: str, cwd: Path | None = None, **variables: str) -> str:
    """Run a command that must succeed, without our environment, and return what it prints."""
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**environment, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout
