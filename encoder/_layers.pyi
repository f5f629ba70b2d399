"""The compiled reading of a query; ``native/layers.c`` says what its arguments are."""

from typing import Any

import numpy as np
import numpy.typing as npt

def forward(
    out: npt.NDArray[np.float32],
    rows: npt.NDArray[np.int64],
    values: npt.NDArray[np.float32],
    thresholds: npt.NDArray[np.float32],
    /,
    *layers: Any,
) -> None: ...
def weigh(
    rows: npt.NDArray[np.int64],
    values: npt.NDArray[np.float32],
    columns: list[int],
    gains: npt.NDArray[np.float32],
    idf: npt.NDArray[np.float32],
    is_scaled: bool,
    /,
) -> int: ...
def fill_cells(
    text: bytes, starts: npt.NDArray[np.int32], cells: npt.NDArray[np.uint64], /
) -> None: ...
def known_terms(
    text: bytes,
    starts: npt.NDArray[np.int32],
    cells: npt.NDArray[np.uint64],
    max_words: int,
    with_pieces: bool,
    joined: bytes,
    boundary: int,
    columns: npt.NDArray[np.int32],
    lengths: npt.NDArray[np.int64],
    /,
) -> int: ...
