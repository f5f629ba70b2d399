"""A headless Chromium without network access, except optionally to this machine."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
OPTIONS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--hide-scrollbars",
]
# No name is looked up: whatever a page would load from another host is not there.
NOWHERE = "--host-resolver-rules=MAP * ~NOTFOUND"
LOOPBACK = f"{NOWHERE}, EXCLUDE 127.0.0.1"

needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="needs Chromium, which is not installed"
)


def run_chromium(profile: Path, *arguments: str) -> str:
    """Run Chromium with its own profile and return its output."""
    command = [str(CHROMIUM), *OPTIONS, f"--user-data-dir={profile}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout
