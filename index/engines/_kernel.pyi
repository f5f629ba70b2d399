"""The compiled kernel; ``native/kernel.h`` says what its arguments are."""

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

def scan(*arguments: Any) -> float: ...
def scan_weighted(*arguments: Any) -> float: ...
def lookup(*arguments: Any) -> float: ...
def lookup_weighted(*arguments: Any) -> float: ...
def halves(*arguments: Any) -> float: ...
def group(
    n: int,
    bits: int,
    keys: npt.NDArray[np.uint64],
    places: npt.NDArray[np.int32],
    starts: npt.NDArray[np.uint32],
    code_of: npt.NDArray[np.int32] | None,
    /,
) -> int: ...
def index(
    bits: int,
    cell_bits: int,
    filter_bits: int,
    n_keys: int,
    keys: npt.NDArray[np.uint64],
    directory: npt.NDArray[np.uint32],
    present: npt.NDArray[np.uint64],
    /,
) -> None: ...
def order(n: int, keys: npt.NDArray[np.uint64], order: npt.NDArray[np.uint32], /) -> None: ...
def pairs(*arguments: Any) -> tuple[int, int, int]: ...
def count(
    n: int,
    n_words: int,
    groups: npt.NDArray[np.uint64],
    sizes: npt.NDArray[np.int32],
    n_queries: int,
    queries: npt.NDArray[np.uint64],
    n_distances: int,
    counts: npt.NDArray[np.int64],
    /,
) -> None: ...
def mark(n: int, bits: Array, m: int, places: npt.NDArray[np.int64], on: int, /) -> None: ...
def paths() -> tuple[str, ...]: ...
def use(name: str, /) -> None: ...
