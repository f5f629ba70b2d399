from __future__ import annotations

from service.jobs.queue import JobQueue


def test_owners_take_turns_and_each_ones_jobs_keep_their_order() -> None:
    queue = JobQueue()
    for number in range(3):
        queue.enqueue("long", "many", f"m{number}")
    queue.enqueue("long", "one", "o0")
    assert [queue.take("long", 0) for _ in range(5)] == ["m0", "o0", "m1", "m2", None]


def test_short_jobs_do_not_wait_for_long_ones() -> None:
    queue = JobQueue()
    queue.enqueue("long", "", "long")
    queue.enqueue("short", "", "short")
    assert queue.take("short", 0) == "short"
    assert queue.take("short", 0) is None
    assert queue.take("long", 0) == "long"


def test_a_queue_that_is_closed_hands_out_nothing() -> None:
    queue = JobQueue()
    queue.enqueue("long", "", "a")
    queue.close()
    assert queue.take("long", 10) is None
