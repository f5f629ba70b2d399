"""Processes that are forked by another."""

from __future__ import annotations

import errno
import fcntl
import os
import resource

import pytest

from hummingbit.index.errors import DataFolderError
from hummingbit.service.workers import supervisor
from hummingbit.service.workers.supervisor import READY, start


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


def test_a_report_is_read_though_many_files_are_open() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 1200:
        resource.setrlimit(resource.RLIMIT_NOFILE, (1200 if hard < 0 else min(1200, hard), hard))
    low, write_end = os.pipe()
    high = fcntl.fcntl(low, fcntl.F_DUPFD, 1100)
    try:
        os.write(write_end, READY)
        assert supervisor._read_report(high, lambda: False) == READY
    finally:
        for descriptor in (low, write_end, high):
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
