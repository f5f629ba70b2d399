from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from safetensors.numpy import load as load_by_safetensors

from hummingbit.encoder.tensors import load_tensors, save_tensors

DTYPES = st.sampled_from([np.float32, np.int8, np.uint8, np.int64, np.bool_, np.float16])
TENSORS = st.dictionaries(
    st.text(max_size=5),
    DTYPES.flatmap(lambda dtype: arrays(dtype, array_shapes(min_dims=0, min_side=0, max_side=4))),
    max_size=4,
)


@given(TENSORS)
def test_arrays_are_read_as_by_safetensors(tensors: dict[str, np.ndarray]) -> None:
    raw = save_tensors(tensors)
    found, expected = load_tensors(raw), load_by_safetensors(raw)
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
        assert found[name].tobytes() == array.tobytes()
        assert found[name].flags.aligned


def file_of(header: object, n_bytes: int = 8) -> bytes:
    raw = json.dumps(header).encode()
    return len(raw).to_bytes(8, "little") + raw + bytes(n_bytes)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\xff" * 8,
        file_of([]),
        file_of({"a": 1}),
        file_of({"a": {"dtype": "F32", "shape": [2]}}),
        file_of({"a": {"dtype": "BF16", "shape": [4], "data_offsets": [0, 8]}}),
        file_of({"a": {"dtype": "F32", "shape": [3], "data_offsets": [0, 12]}}),
        file_of({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 8]}}),
        file_of({"a": {"dtype": "F32", "shape": [-1, -2], "data_offsets": [0, 8]}}),
        file_of({"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}}),
        file_of({"a": {"dtype": "F32", "shape": [1], "data_offsets": [-4, 0]}}),
        file_of({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}, 12),
        file_of({name: {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]} for name in "ab"}),
        b"\x04" + bytes(7) + b"{{{{",
        b"\x04" + bytes(7) + b"\xff" * 4,
    ],
)
def test_malformed_files_are_refused(raw: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        load_tensors(raw)
