from __future__ import annotations

import asyncio
import time

from hummingbit.service.http.monitoring import Metrics


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
