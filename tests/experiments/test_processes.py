from __future__ import annotations

import os

import pytest

from experiments.processes import map_runs


def square_beside_process(number: int) -> tuple[int, int]:
    return number * number, os.getpid()


@pytest.mark.parametrize("jobs", [1, 2])
def test_results_come_in_the_order_of_the_items(jobs: int) -> None:
    found = list(map_runs(square_beside_process, [3, 1, 2], jobs))
    assert [square for square, _ in found] == [9, 1, 4]
    assert (os.getpid() in {process for _, process in found}) is (jobs == 1)
