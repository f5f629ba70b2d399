from __future__ import annotations

import threading
from contextvars import copy_context

import pytest

from hummingbit.foundation.cancellation import Cancelled, cancelled_by, check_cancelled


def test_outside_of_a_request_nothing_is_cancelled() -> None:
    check_cancelled()


def test_work_that_nobody_waits_for_ends_at_its_next_check() -> None:
    cancelled = threading.Event()
    with cancelled_by(cancelled.is_set):
        check_cancelled()
        cancelled.set()
        with pytest.raises(Cancelled):
            check_cancelled()
    check_cancelled()


def test_threads_with_the_context_of_the_work_end_with_it() -> None:
    ended = threading.Event()

    def work() -> None:
        with pytest.raises(Cancelled):
            check_cancelled()
        ended.set()

    with cancelled_by(lambda: True):
        thread = threading.Thread(target=copy_context().run, args=(work,))
    thread.start()
    thread.join()
    assert ended.is_set()
