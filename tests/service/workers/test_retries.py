"""A process that keeps ending is started again ever less often."""

from __future__ import annotations

import logging
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from hummingbit.index.errors import DataFolderError
from hummingbit.service.settings import Settings
from hummingbit.service.workers.supervisor import FIRST_SECONDS, MAX_SECONDS, _Worker


@pytest.fixture
def ending(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every process end at once, with a reason."""
    popen = subprocess.Popen

    def start(_: Any, **options: Any) -> Any:
        return popen([sys.executable, "-c", "print('no memory')"], **options)

    monkeypatch.setattr(subprocess, "Popen", start)


@pytest.mark.usefixtures("ending")
def test_waits_double_up_to_the_longest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    worker, waits, now = _Worker("reader 1", None), [], 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    with caplog.at_level(logging.ERROR):
        for _ in range(10):
            assert worker.is_due
            worker.start(Settings(), tmp_path / "w", keys_required=False)
            while not worker.note_end():
                time.sleep(0.01)
            began = now
            while not worker.is_due:
                now += FIRST_SECONDS
            waits.append(now - began)
    assert waits == [min(FIRST_SECONDS * 2**n, MAX_SECONDS) for n in range(10)]
    assert all(record.getMessage().endswith("ended: no memory") for record in caplog.records)


@pytest.mark.usefixtures("ending")
def test_the_first_start_says_why_it_failed(tmp_path: Path) -> None:
    worker = _Worker("the writer", None)
    worker.start(Settings(), tmp_path / "w", keys_required=False)
    with pytest.raises(DataFolderError, match="no memory"):
        worker.wait_until_ready(lambda: False)
    worker.wait()
