"""Memory that is free, given back to the system."""

from __future__ import annotations

import ctypes
import gc
from functools import cache
from typing import Any


def give_back_memory() -> None:
    """Give free memory back to the system, where the C library can (glibc).

    It keeps what many small objects leave behind, such as the words of deleted documents. An index
    that was replaced holds itself, by functions that remember their results.
    """
    gc.collect()
    trim = _trim()
    if trim is not None:
        trim(0)


@cache
def _trim() -> Any:
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # another C library; Windows takes no None
        return None
