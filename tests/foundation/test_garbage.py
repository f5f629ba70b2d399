from __future__ import annotations

import gc
from typing import Any

import pytest

from hummingbit.foundation.slices import OBJECTS_BETWEEN_COLLECTIONS, rare_collections


def test_collections_are_rare_within_and_as_before_afterwards() -> None:
    usual = gc.get_threshold()
    with rare_collections():
        within = gc.get_threshold()
    assert within == (OBJECTS_BETWEEN_COLLECTIONS, *usual[1:])
    with pytest.raises(KeyError), rare_collections():
        raise KeyError
    assert gc.get_threshold() == usual


def test_garbage_in_cycles_is_still_collected() -> None:
    collected = []

    def note(_phase: str, info: dict[str, Any]) -> None:
        collected.append(info["collected"])

    with rare_collections():
        gc.collect()
        gc.callbacks.append(note)
        try:
            for _ in range(2 * OBJECTS_BETWEEN_COLLECTIONS):
                cycle: list[object] = []
                cycle.append(cycle)
        finally:
            gc.callbacks.remove(note)
    assert sum(collected) > OBJECTS_BETWEEN_COLLECTIONS // 2
