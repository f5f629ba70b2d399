"""Fewer collections of garbage where many objects are made and hardly any form cycles."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

OBJECTS_BETWEEN_COLLECTIONS = 200_000


@contextmanager
def rare_collections() -> Iterator[None]:
    """Let Python look for reference cycles after every 200,000 objects instead of 700.

    The modules that a command loads are half a million objects, all of which stay, and a batch of
    documents is tens of thousands. Python would look at them again and again. What is in no cycle
    is freed at once all the same.
    """
    usual = gc.get_threshold()
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS, *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)
