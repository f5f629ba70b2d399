"""Adam's update of some rows of a matrix; ``native/adam_rows.c`` says what its arguments are."""

import numpy as np
import numpy.typing as npt

def update_rows(
    weight: npt.NDArray[np.float32],
    mean: npt.NDArray[np.float32],
    square: npt.NDArray[np.float32],
    gradient: npt.NDArray[np.float32],
    rows: npt.NDArray[np.int64],
    of_gradient: float,
    of_square: float,
    step: float,
    epsilon: float,
    /,
) -> None: ...
