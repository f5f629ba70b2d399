"""Processes that are forked by another."""

from __future__ import annotations

import errno
import os

import pytest

from hummingbit.index.errors import DataFolderError
from hummingbit.service.workers.supervisor import start


def test_where_no_process_can_be_made_the_caller_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def fork() -> int:
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(os, "fork", fork)
    alive = os.pipe()
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(DataFolderError, match="cannot be forked: Resource temporarily unavailable"):
        start(lambda _: None, alive, lambda: False)
    assert len(os.listdir("/proc/self/fd")) == before
    for end in alive:
        os.close(end)
