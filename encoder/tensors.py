"""Files in the format of safetensors: arrays without pickle.

::

    length of the header, 8 bytes, little-endian | header, JSON | the arrays, one after another

The header has the type and the shape of each array, and where it begins and ends; there are no gaps
between them. Arrays are read where they lie in the file's bytes, as the copies that ``safetensors``
makes of an encoder take a quarter as long as importing numpy.
Source: https://github.com/huggingface/safetensors#format.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

METADATA = "__metadata__"
DTYPES = {
    "BOOL": np.dtype("?"),
    **{f"I{8 * size}": np.dtype(f"<i{size}") for size in (1, 2, 4, 8)},
    **{f"U{8 * size}": np.dtype(f"<u{size}") for size in (1, 2, 4, 8)},
    **{f"F{8 * size}": np.dtype(f"<f{size}") for size in (2, 4, 8)},
}
"""numpy has no others of the format, such as BF16."""


def load_tensors(raw: bytes) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of a file by name; they cannot be written to.

    Raises:
        ValueError: if the file is malformed.
    """
    size = int.from_bytes(raw[:8], "little")
    begin = at = 8 + size
    n_bytes = len(raw) - begin
    if n_bytes < 0:
        raise ValueError(f"its header has {size:,} bytes, and the file {len(raw):,}")
    try:
        header = json.loads(raw[8:begin])
        header.pop(METADATA, None)
        specs = sorted(header.items(), key=lambda item: item[1]["data_offsets"])
        arrays: dict[str, npt.NDArray[Any]] = {}
        for name, spec in specs:
            first, last = spec["data_offsets"]
            dtype, shape = DTYPES[spec["dtype"]], tuple(spec["shape"])
            count = math.prod(shape)
            if begin + first != at or last - first != count * dtype.itemsize or last > n_bytes:
                raise ValueError(f"{name} of shape {shape} cannot be bytes {first} to {last}")
            array = np.frombuffer(raw, dtype, count, at).reshape(shape)
            # The compiled code reads numbers at addresses that their size divides.
            arrays[name] = np.require(array, requirements=["ALIGNED"])
            at = begin + last
    except (AttributeError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"its header is malformed: {error!r}") from error
    if at != len(raw):
        raise ValueError(f"it has {len(raw):,} bytes; its arrays end at {at:,}")
    return arrays


def save_tensors(tensors: Mapping[str, npt.NDArray[Any]]) -> bytes:
    """Return the file of contiguous arrays."""
    from safetensors.numpy import save  # noqa: PLC0415 - reading needs none of it

    return bytes(save({**tensors}))
