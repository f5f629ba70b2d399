from __future__ import annotations

import sys
import time
from contextlib import suppress
from io import StringIO

import pytest

from hummingbit.foundation import slices
from hummingbit.foundation.slices import (
    begin_stage,
    count_in_inner_stage,
    count_in_stage,
    end_stage,
    inner_stage,
    part_of_stages,
    print_stages,
    stop_printing,
)


def standard_error(monkeypatch: pytest.MonkeyPatch) -> StringIO:
    """Return what is printed on standard error; `capsys` can lose what another thread prints."""
    stream = StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    return stream


def wait_for_a_line(printed: StringIO) -> None:
    deadline = time.monotonic() + 120
    while not printed.getvalue().endswith("\n"):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_only_a_stage_that_takes_a_while_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    printed = standard_error(monkeypatch)
    begin_stage("before")
    with print_stages():
        monkeypatch.setattr(slices, "SECONDS", 3600.0)
        begin_stage("a short one")
        monkeypatch.setattr(slices, "SECONDS", 0.0)
        begin_stage("reading a.csv")
        wait_for_a_line(printed)
        monkeypatch.setattr(slices, "SECONDS", 3600.0)
        begin_stage("the last")
    begin_stage("after")
    assert printed.getvalue() == "reading a.csv …\n"


def test_a_stage_of_a_trial_names_the_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    printed = standard_error(monkeypatch)
    monkeypatch.setattr(slices, "SECONDS", 0.0)
    with print_stages():
        with part_of_stages("trial 2 of 4"):
            begin_stage("training")
            wait_for_a_line(printed)
        monkeypatch.setattr(slices, "SECONDS", 3600.0)
        begin_stage("after")
    assert printed.getvalue() == "trial 2 of 4: training …\n"


def test_a_command_that_fails_prints_no_more_stages(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(slices, "SECONDS", 3600.0)
    with suppress(KeyError), print_stages():
        begin_stage("reading a.csv")
        raise KeyError
    monkeypatch.setattr(slices, "SECONDS", 0.0)
    begin_stage("another")
    assert capsys.readouterr() == ("", "")


def test_work_that_follows_a_stage_is_not_printed_as_the_stage(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with print_stages():
        monkeypatch.setattr(slices, "SECONDS", 3600.0)
        begin_stage("a short one")
        monkeypatch.setattr(slices, "SECONDS", 0.0)
        end_stage()
        stop_printing()
        begin_stage("work of a service")
    assert capsys.readouterr() == ("", "")


def test_after_an_inner_stage_the_outer_one_continues(monkeypatch: pytest.MonkeyPatch) -> None:
    printed = standard_error(monkeypatch)
    with print_stages():
        monkeypatch.setattr(slices, "SECONDS", 3600.0)
        begin_stage("evaluating")
        with inner_stage("indexing the codes"):
            monkeypatch.setattr(slices, "SECONDS", 0.0)
        wait_for_a_line(printed)
        end_stage()
        monkeypatch.setattr(slices, "SECONDS", 3600.0)
        with inner_stage("indexing the words"):
            monkeypatch.setattr(slices, "SECONDS", 0.0)
    assert printed.getvalue() == "evaluating …\n"


def test_without_a_terminal_a_bar_is_a_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    printed = standard_error(monkeypatch)
    monkeypatch.setattr(slices, "SECONDS", 0.0)
    with print_stages(), count_in_stage("indexing", 2) as advance:
        wait_for_a_line(printed)
        advance(2)
    assert printed.getvalue() == "indexing …\n"


def test_a_long_stage_inside_another_is_a_bar_on_the_terminal_of_a_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with count_in_inner_stage("of a service", slices.MANY) as advance:
        advance(slices.MANY)
    assert not capsys.readouterr().err
    with print_stages():
        with count_in_inner_stage("a short one", 10) as advance:
            advance(10)
        assert not capsys.readouterr().err
        with count_in_inner_stage("indexing the words", slices.MANY) as advance:
            advance(slices.MANY)
    assert "indexing the words: 100%" in capsys.readouterr().err


def test_on_a_terminal_a_bar_counts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with print_stages(), count_in_stage("indexing", 2000) as advance:
        advance(2000)
    assert "indexing: 100%" in capsys.readouterr().err
