from __future__ import annotations

import threading
import time

import numpy as np

from hummingbit.service.concurrency import WriteGate


def test_writers_share_the_gate_and_nobody_writes_while_it_is_closed() -> None:
    gate = WriteGate()
    inside, most, wrong = 0, 0, []
    count = threading.Lock()
    rng = np.random.default_rng(0)

    def write() -> None:
        nonlocal inside, most
        for _ in range(50):
            with gate.writing():
                with count:
                    inside += 1
                    most = max(most, inside)
                time.sleep(rng.uniform(0, 0.0005))
                with count:
                    inside -= 1

    def close() -> None:
        for _ in range(20):
            with gate.closed():
                if inside:
                    wrong.append(inside)
                time.sleep(rng.uniform(0, 0.0005))
                if inside:
                    wrong.append(inside)

    threads = [threading.Thread(target=work) for work in [write] * 6 + [close] * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads)
    assert wrong == []
    assert most > 1


def test_who_will_not_wait_is_told() -> None:
    gate = WriteGate()
    assert gate.enter(wait=False)
    done = threading.Event()

    def close() -> None:
        with gate.closed():
            done.wait(120)

    closing = threading.Thread(target=close)
    closing.start()
    deadline = time.monotonic() + 120
    while gate.enter(wait=False):
        gate.leave()
        assert time.monotonic() < deadline
        time.sleep(0.001)
    gate.leave()
    assert not gate.enter(wait=False)
    done.set()
    closing.join(120)
    assert gate.enter(wait=False)
