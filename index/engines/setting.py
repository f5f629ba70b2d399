"""The check of the engine that a collection is created with."""

from __future__ import annotations

import numpy as np

from foundation.errors import InputError
from index.engines.choice import ENGINES, build, unknown_engine
from index.schema import AUTO


def check_engine(engine: str, n_bits: int) -> None:
    """Raise an InputError unless `engine` exists and supports codes of `n_bits`."""
    if engine == AUTO:
        return
    if engine not in ENGINES:
        raise InputError("engine", unknown_engine(engine))
    try:
        # Each engine checks the length of the codes itself.
        build(np.empty((0, n_bits // 8), dtype=np.uint8), np.empty(0, dtype=np.int64), engine)
    except ValueError as error:
        raise InputError("engine", f"is {engine!r}, but {error}") from None
