from __future__ import annotations

import asyncio
from functools import partial

from hypothesis import given, settings
from hypothesis import strategies as st

from hummingbit.service.http.protocol import Timeouts

OWNERS = "abcd"


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["start", "stop"]), st.sampled_from(OWNERS))))
def test_timeouts_expire_once_each_in_the_order_of_their_last_start(
    steps: list[tuple[str, str]],
) -> None:
    pending: list[str] = []
    for step, owner in steps:
        if owner in pending:
            pending.remove(owner)
        if step == "start":
            pending.append(owner)

    async def run() -> list[str]:
        timeouts = Timeouts(0.001)
        expired: list[str] = []
        for step, owner in steps:
            if step == "start":
                timeouts.start(owner, partial(expired.append, owner))
            else:
                timeouts.stop(owner)
        done = asyncio.Event()
        timeouts.start("last", done.set)
        await done.wait()
        return expired

    assert asyncio.run(run()) == pending


def test_a_timeout_that_begins_later_expires_too() -> None:
    async def run() -> list[str]:
        timeouts, expired, done = Timeouts(0.001), [], asyncio.Event()

        def begin_another() -> None:
            expired.append("first")
            timeouts.start("second", done.set)

        timeouts.start("first", begin_another)
        await done.wait()
        return expired

    assert asyncio.run(run()) == ["first"]
