"""What failed is tried again ever less often, and said once."""

from __future__ import annotations

import logging
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from hummingbit.index.data_folder import DataFolder
from hummingbit.index.errors import DataFolderError
from hummingbit.service.settings import Settings
from hummingbit.service.workers import supervisor
from hummingbit.service.workers.supervisor import FIRST_SECONDS, MAX_SECONDS, Retry


class Clock:
    """A time that passes where a test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)


def test_waits_double_up_to_the_longest_and_begin_anew_after_a_success(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, retry = Clock(monkeypatch), Retry()
    waits = []
    for _ in range(10):
        assert retry.is_due
        retry.note_failure("no memory")
        began = clock.now
        while not retry.is_due:
            clock.now += FIRST_SECONDS
        waits.append(clock.now - began)
    assert waits == [min(FIRST_SECONDS * 2**n, MAX_SECONDS) for n in range(10)]
    retry.note_success()
    assert retry.is_due
    assert retry.note_failure("no memory")
    clock.now += FIRST_SECONDS
    assert retry.is_due


def test_a_reason_is_said_until_it_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    Clock(monkeypatch)
    retry = Retry()
    said = [retry.note_failure(reason) for reason in ("a", "a", "b", "b", "a")]
    assert said == [True, False, True, False, True]


@pytest.fixture
def failing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A supervisor none of whose processes can be started, and how often it tried."""
    tried: list[float] = []

    def start(*_: Any) -> int:
        tried.append(time.monotonic())
        raise DataFolderError("cannot be forked: no memory")

    monkeypatch.setattr(supervisor, "start", start)
    with socket.socket() as listener, DataFolder(tmp_path, writable=True) as folder:
        listener.bind(("127.0.0.1", 0))
        found = supervisor._Supervisor(Settings(workers=1), listener, tmp_path)
        found._folder = folder
        monkeypatch.setattr(found, "_reap", lambda: iter(()))
        yield found, tried


def test_a_process_that_cannot_be_started_is_tried_less_and_less_and_said_once(
    failing: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    found, tried = failing
    clock = Clock(monkeypatch)
    with caplog.at_level(logging.WARNING):
        for _ in range(240):  # a minute
            found._check_processes()
            clock.now += supervisor.POLL_SECONDS
    assert len(tried) == 2 * 8  # of two processes, at 0, 0.25, 0.75 … and 31.75 seconds
    assert sorted(record.getMessage() for record in caplog.records) == [
        "reader 1 could not be started: cannot be forked: no memory",
        "the writer could not be started: cannot be forked: no memory",
    ]


def test_a_folder_that_cannot_be_followed_is_said_once(
    failing: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    found, _ = failing

    def follow() -> None:
        raise DataFolderError("is gone")

    monkeypatch.setattr(found._folder, "follow", follow)
    clock = Clock(monkeypatch)
    for _ in range(240):
        found._check_processes()
        clock.now += supervisor.POLL_SECONDS
    said = [record.getMessage() for record in caplog.records if "followed" in record.getMessage()]
    assert said == ["the data folder cannot be followed: is gone"]


def test_readers_that_could_not_be_renewed_are_renewed_later(
    failing: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, tried = failing
    clock = Clock(monkeypatch)
    monkeypatch.setattr(found, "_compactions", lambda: {"c": 1})
    found._processes[1 << 30] = supervisor._Process(1, clock.now)
    found._follow(found._folder)
    assert len(tried) == 1
    assert found._processes
    clock.now += supervisor.SECONDS_BETWEEN_RENEWALS + 1
    found._follow(found._folder)
    assert len(tried) == 2
