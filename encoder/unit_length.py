"""The scaling of sparse rows to unit length."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def scale_to_unit_length(rows: Any, selected: npt.NDArray[np.bool_] | None = None) -> None:
    """Scale the rows of a ``csr_array`` to length 1, in place; rows of zeros stay.

    With `selected`, bool ``(N,)``, only these rows are scaled.
    """
    lengths = np.diff(rows.indptr)
    squares = np.bincount(
        np.repeat(np.arange(rows.shape[0]), lengths), rows.data**2, minlength=rows.shape[0]
    )
    norms = np.sqrt(squares).astype(np.float32)
    norms[norms == 0] = 1.0
    if selected is not None:
        norms[~selected] = 1.0
    rows.data /= np.repeat(norms, lengths)
