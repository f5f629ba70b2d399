from __future__ import annotations

import time
from contextlib import suppress

import pytest

from foundation import stages
from foundation.stages import begin_stage, print_stages


def test_only_a_stage_that_takes_a_while_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    begin_stage("before")
    with print_stages():
        monkeypatch.setattr(stages, "SECONDS", 3600.0)
        begin_stage("a short one")
        monkeypatch.setattr(stages, "SECONDS", 0.0)
        begin_stage("reading a.csv")
        printed = ""
        deadline = time.monotonic() + 60
        while not printed:
            assert time.monotonic() < deadline
            printed = capsys.readouterr().err
        monkeypatch.setattr(stages, "SECONDS", 3600.0)
        begin_stage("the last")
    begin_stage("after")
    assert printed == "reading a.csv …\n"
    assert capsys.readouterr() == ("", "")


def test_a_command_that_fails_prints_no_more_stages(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(stages, "SECONDS", 3600.0)
    with suppress(KeyError), print_stages():
        begin_stage("reading a.csv")
        raise KeyError
    monkeypatch.setattr(stages, "SECONDS", 0.0)
    begin_stage("another")
    assert capsys.readouterr() == ("", "")
