from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Histogram, generate_latest

from hummingbit.service.http.monitoring import BUCKETS, Histograms, Metrics

DURATIONS = st.floats(0, 100) | st.sampled_from(BUCKETS)


@given(st.lists(st.tuples(st.sampled_from(("a", 'b"\n')), DURATIONS)))
def test_histograms_are_exposed_as_those_of_prometheus_client(
    observed: list[tuple[str, float]],
) -> None:
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    histograms = Histograms("x_seconds", "What it is.", ("stage",))
    ours.register(histograms)
    expected = Histogram("x_seconds", "What it is.", ("stage",), buckets=BUCKETS, registry=theirs)
    for stage, seconds in observed:
        histograms.labels(stage).observe(seconds)
        expected.labels(stage).observe(seconds)
    lines = generate_latest(theirs).decode().splitlines()
    # The times at which the histograms were made are left out.
    kept = [line for line in lines if "_created" not in line]
    assert generate_latest(ours).decode().splitlines() == kept


def test_no_duration_is_lost_or_counted_twice_while_others_arrive() -> None:
    histogram = Histograms("x_seconds", "What it is.", ()).labels()

    def observe_many() -> None:
        for _ in range(5_000):
            histogram.observe(1.0)

    with ThreadPoolExecutor(4) as threads:
        running = [threads.submit(observe_many) for _ in range(2)]
        running += [threads.submit(histogram.count) for _ in range(200)]
        for item in running:
            item.result()
    counts, total = histogram.read()
    assert counts[-1] == ("+Inf", 10_000)
    assert total == 10_000.0


def test_the_delay_of_the_event_loop_is_measured_even_while_nothing_computes() -> None:
    """A loop that waits for a lock or a disk answers nobody, though the process is idle."""
    metrics = Metrics()

    async def block() -> None:
        watching = asyncio.create_task(metrics.watch_loop())
        await asyncio.sleep(0.1)
        time.sleep(0.3)
        await asyncio.sleep(0.1)
        watching.cancel()

    asyncio.run(block())
    (line,) = [
        line
        for line in metrics.exposition().decode().splitlines()
        if line.startswith("hummingbit_longest_event_loop_delay_seconds ")
    ]
    assert float(line.split()[1]) >= 0.25
