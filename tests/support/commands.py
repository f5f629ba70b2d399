"""Commands in their own processes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path


def run(*command: str, cwd: Path | None = None, **variables: str) -> str:
    """Run a command outside our virtual environment; fail unless it succeeds; return its output."""
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
