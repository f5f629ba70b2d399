from __future__ import annotations

from hummingbit.service.jobs.work import JobQueues


def test_owners_take_turns_and_each_ones_jobs_keep_their_order() -> None:
    queue = JobQueues()
    for number in range(3):
        queue.enqueue("long", "many", f"m{number}")
    queue.enqueue("long", "one", "o0")
    taken = [queue.take("long", 0) for _ in range(5)]
    assert taken == [("many", "m0"), ("one", "o0"), ("many", "m1"), ("many", "m2"), None]


def test_short_jobs_do_not_wait_for_long_ones() -> None:
    queue = JobQueues()
    queue.enqueue("long", "", "long")
    queue.enqueue("short", "", "short")
    assert queue.take("short", 0) == ("", "short")
    assert queue.take("short", 0) is None
    assert queue.take("long", 0) == ("", "long")


def test_a_queue_that_is_closed_hands_out_nothing() -> None:
    queue = JobQueues()
    queue.enqueue("long", "", "a")
    queue.close()
    assert queue.take("long", 10) is None


def test_in_a_queue_of_reading_an_owner_has_one_running_job() -> None:
    queue = JobQueues()
    for owner, id_ in (("one", "o0"), ("one", "o1"), ("other", "x0"), ("one", "o2")):
        queue.enqueue("analysis", owner, id_)
    taken = [queue.take("analysis", 0) for _ in range(3)]
    assert taken == [("one", "o0"), ("other", "x0"), None]
    queue.end("analysis", "x0")
    assert queue.take("analysis", 0) is None
    queue.end("analysis", "o0")
    assert queue.take("analysis", 0) == ("one", "o1")
    queue.end("analysis", "o1")
    assert queue.take("evaluation", 0) is None
    assert queue.take("analysis", 0) == ("one", "o2")
