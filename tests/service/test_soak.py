"""Searches and writes at once: every answer is exact as of the generation it names."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.faults import soak
from tests.support.service import client_of, serving_process

QUIET = ("--no-access-log", "--log-level", "warning")
SECONDS = (0.3, 3, 25)
"""A busy machine may answer no search in so short a time, and is given more."""


def run(data_dir: Path, clients: int, seconds: float, readers: int = 1) -> dict[str, int]:
    with ExitStack() as stack:
        process, address = stack.enter_context(serving_process(data_dir, *QUIET))
        with client_of(address) as client:
            assert client.put(soak.PATH, json={"n_bits": soak.N_BITS}).status_code == 201
        reading = [
            stack.enter_context(serving_process(data_dir, "--read-only", *QUIET))[1]
            for _ in range(readers)
        ]
        threads = soak.soak(address, clients, seconds, seed=1, readers=reading)
        process.terminate()
        assert process.wait() == 0
    return soak.check(threads)


def test_every_answer_is_exact_while_others_write(tmp_path: Path) -> None:
    counted = ("searches", "of them at readers", "generations they named", "generations")
    for seconds in SECONDS:
        found = run(tmp_path / str(seconds), clients=8, seconds=seconds)
        if all(found[name] > 0 for name in counted):
            return
    pytest.fail(f"too little was answered: {found}")


def test_a_wrong_answer_would_be_noticed(tmp_path: Path) -> None:
    for seconds in SECONDS:
        with serving_process(tmp_path / str(seconds), *QUIET) as (_, address):
            with client_of(address) as client:
                client.put(soak.PATH, json={"n_bits": soak.N_BITS})
            threads = soak.soak(address, clients=2, seconds=seconds, seed=2)
        if any(search.hits for thread in threads for search in thread.searches):
            break
    thread = next(thread for thread in threads if any(search.hits for search in thread.searches))
    at = next(at for at, search in enumerate(thread.searches) if search.hits)
    right = thread.searches[at]
    thread.searches[at] = right._replace(hits=right.hits[:-1])
    with pytest.raises(AssertionError):
        soak.check(threads)
    thread.searches[at] = right._replace(generation=10**6)
    with pytest.raises(AssertionError, match="nobody wrote"):
        soak.check(threads)
    thread.searches[at] = right
    soak.check(threads)


@pytest.mark.soak
@pytest.mark.parametrize("clients", [32])
def test_every_answer_is_exact_for_minutes(tmp_path: Path, clients: int) -> None:
    seconds = float(os.environ.get("SOAK_SECONDS", "120"))
    found = run(tmp_path, clients, seconds, readers=2)
    print(f"{clients} clients, {seconds:g} s:", ", ".join(f"{n:,} {x}" for x, n in found.items()))
