"""Expensive requests hold up neither cheap ones nor health, and end when they have timed out."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from hummingbit.foundation.slices import Cancelled, FairSemaphore, about_to_hold, checkpoint
from hummingbit.index.store import fields
from hummingbit.service.concurrency import SMALL_ANSWER, ConcurrencyLimiter
from hummingbit.service.http.problems import ProblemError
from hummingbit.service.settings import Settings
from tests.support.service import check_problem, make_data_folder, running_service, send

PATH = "/v1/collections/codes"
SECONDS = 120.0


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Hold all reading of columns until the event is set."""
    go_on, real = threading.Event(), fields.read_columns

    def read_columns(*args: Any) -> Any:
        go_on.wait(SECONDS)
        return real(*args)

    monkeypatch.setattr(fields, "read_columns", read_columns)
    yield go_on
    go_on.set()


def fill(client: httpx.Client) -> None:
    assert send(client, "PUT", PATH, {"n_bits": 8}).status_code == 201
    documents = [{"id": f"d{n}", "code": "0f", "payload": {"n": n}} for n in range(50)]
    send(client, "PUT", f"{PATH}/documents", {"documents": documents}).raise_for_status()


def search(client: httpx.Client, **options: Any) -> httpx.Response:
    return send(client, "POST", f"{PATH}/search", {"code": "0f", "limit": 3, **options})


def test_cheap_searches_and_health_are_answered_while_filters_wait(
    tmp_path: Path, held: threading.Event
) -> None:
    settings = Settings(concurrent_requests=40)
    with running_service(make_data_folder(tmp_path), settings) as client:
        fill(client)
        found: dict[int, httpx.Response] = {}

        def ask(number: int) -> None:
            filter_ = {"field": "n", "gte": number}
            with httpx.Client(base_url=client.base_url, timeout=120, trust_env=False) as own:
                found[number] = search(own, filter=filter_)

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(60)]
        for thread in threads:
            thread.start()
        # More than there are turns and threads.
        while client.get("/metrics").text.count("hummingbit_waiting_requests 0.0") != 1:
            pass
        for _ in range(20):
            assert search(client).status_code == 200
            assert client.get("/readyz").status_code == 200
            assert client.get("/metrics").status_code == 200
        assert not found
        held.set()
        for thread in threads:
            thread.join(SECONDS)
        ids = {number: [hit["id"] for hit in item.json()["hits"]] for number, item in found.items()}
        assert ids == {n: [f"d{at}" for at in range(n, min(n + 3, 50))] for n in range(60)}


def test_a_filter_that_is_known_does_not_wait_for_those_that_are_not(
    tmp_path: Path, held: threading.Event
) -> None:
    known, unknown = {"field": "n", "gte": 5}, {"field": "m", "gte": 6}
    with running_service(make_data_folder(tmp_path)) as client:
        fill(client)
        held.set()
        first = search(client, filter=known).json()["hits"]
        held.clear()
        thread = threading.Thread(target=lambda: search(client, filter=unknown))
        thread.start()
        assert search(client, filter=known).json()["hits"] == first
        held.set()
        thread.join(SECONDS)


def test_a_request_that_timed_out_gives_its_place_back(
    tmp_path: Path, held: threading.Event
) -> None:
    data = make_data_folder(tmp_path)
    with running_service(data) as client:  # which waits for as long as it takes
        fill(client)
    with running_service(data, Settings(request_timeout=1.5)) as client:
        late = search(client, filter={"field": "n", "gte": 5})
        check_problem(late, 503, "timed_out")
        held.set()
        deadline = time.monotonic() + SECONDS  # the machine may be too busy for the first ones
        while search(client, filter={"field": "n", "gte": 6}).status_code != 200:
            assert time.monotonic() < deadline


def test_a_limiter_takes_so_many_and_lets_so_many_wait() -> None:
    async def run() -> None:
        limiter, given_back = ConcurrencyLimiter(1, 1, FairSemaphore(1)), []
        state = {"give_back_turn": lambda: given_back.append(1)}
        async with limiter.slot(state):
            waiting = asyncio.create_task(enter(limiter, state))
            await asyncio.sleep(0)
            with pytest.raises(
                ProblemError, match="expensive requests are already waiting"
            ) as raised:
                await enter(limiter, state)
            assert raised.value.status_code == 429
        await waiting
        assert len(given_back) == 2

    asyncio.run(run())


async def enter(limiter: ConcurrencyLimiter, state: dict[str, Any]) -> None:
    async with limiter.slot(state):
        checkpoint()


def test_the_work_of_a_request_that_expired_is_cancelled() -> None:
    async def run() -> None:
        state: dict[str, Any] = {}
        async with ConcurrencyLimiter(1, 1, FairSemaphore(1)).slot(state):
            checkpoint()
            state["expired"] = True
            with pytest.raises(Cancelled):
                checkpoint()

    asyncio.run(run())


def test_few_large_responses_are_made_at_a_time_and_small_ones_pass_them() -> None:
    """The second large one goes on only when the first has given its slot back."""
    went_on: list[str] = []

    async def make(name: str, size: int, opened: threading.Event) -> None:
        def work() -> None:
            about_to_hold(size)
            about_to_hold(size)
            went_on.append(name)
            assert opened.wait(SECONDS)

        async with limiter.slot({}):
            await asyncio.to_thread(work)

    async def wait_for(*names: str) -> None:
        while sorted(went_on) != sorted(names):
            await asyncio.sleep(0.005)

    async def run() -> None:
        first, others = threading.Event(), threading.Event()
        others.set()
        tasks = [asyncio.create_task(make("large", SMALL_ANSWER, first))]
        await wait_for("large")
        tasks.append(asyncio.create_task(make("another", SMALL_ANSWER, others)))
        tasks.append(asyncio.create_task(make("small", 100, others)))
        await wait_for("large", "small")
        first.set()
        await asyncio.gather(*tasks)
        assert sorted(went_on) == ["another", "large", "small"]

    limiter = ConcurrencyLimiter(3, 3, FairSemaphore(1), threading.Semaphore(1))
    asyncio.run(run())


def test_a_request_that_waits_to_make_a_large_response_ends_when_it_has_expired() -> None:
    async def run() -> None:
        large = threading.Semaphore(1)
        large.acquire()
        state: dict[str, Any] = {}

        def work() -> None:
            state["expired"] = True
            about_to_hold(2 * SMALL_ANSWER)

        async with ConcurrencyLimiter(1, 1, FairSemaphore(1), large).slot(state):
            with pytest.raises(Cancelled):
                await asyncio.to_thread(work)
        large.release()
        assert large.acquire(blocking=False)

    asyncio.run(run())
