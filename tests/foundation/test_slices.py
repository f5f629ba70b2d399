from __future__ import annotations

import threading

import pytest

from hummingbit.foundation.slices import (
    Cancelled,
    FairSemaphore,
    Slices,
    checkpoint,
    in_slices,
    stepping_aside,
    unbroken,
)

SECONDS = 120.0


def never() -> bool:
    return False


def test_a_checkpoint_outside_of_work_in_slices_does_nothing() -> None:
    checkpoint()
    with unbroken(), stepping_aside():
        checkpoint()


def test_work_that_nobody_waits_for_ends_at_its_next_checkpoint() -> None:
    turns, cancelled = FairSemaphore(1), threading.Event()
    with in_slices(Slices(turns, cancelled.is_set)):
        checkpoint()
        cancelled.set()
        with unbroken():
            checkpoint()
        with pytest.raises(Cancelled):
            checkpoint()
    # The turn was given back.
    with in_slices(Slices(turns, never)):
        checkpoint()


def test_several_works_compute_in_turn_and_no_two_at_once() -> None:
    turns, order, computing = FairSemaphore(1), list[int](), threading.Lock()
    begin = threading.Barrier(3)

    def work(number: int) -> None:
        with in_slices(Slices(turns, never)):
            begin.wait(SECONDS)
            for _ in range(50):
                checkpoint()
                assert computing.acquire(blocking=False), "two compute at a time"
                order.append(number)
                computing.release()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    assert sorted(order) == [0] * 50 + [1] * 50 + [2] * 50
    # While all three are at work, nobody has two turns before another had one.
    last = min(149 - order[::-1].index(number) for number in range(3))
    first = max(order.index(number) for number in range(3))
    assert all(order[at] != order[at + 1] for at in range(first, last - 1))


def test_who_waits_for_others_lets_them_compute() -> None:
    turns, done = FairSemaphore(1), threading.Event()

    def other() -> None:
        with in_slices(Slices(turns, never)):
            checkpoint()
            done.set()

    with in_slices(Slices(turns, never)):
        checkpoint()
        thread = threading.Thread(target=other)
        thread.start()
        assert not done.wait(0.05)
        with stepping_aside():
            assert done.wait(SECONDS)
        checkpoint()
    thread.join(SECONDS)
