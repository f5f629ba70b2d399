"""The compiled forward pass; ``native/layers.c`` says what its arguments are."""

from typing import Any

import numpy as np
import numpy.typing as npt

def forward(
    out: npt.NDArray[np.float32],
    rows: npt.NDArray[np.int64],
    values: npt.NDArray[np.float32],
    /,
    *layers: Any,
) -> None: ...
