"""Codes of vectors are those that sentence-transformers packs, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sentence_transformers.util.quantization import quantize_embeddings

from hummingbit.encoder.codes import codes_of_vectors


@pytest.mark.parametrize("dimension", [8, 64, 384, 1024])
@pytest.mark.parametrize("packing", ["ubinary", "binary"])
def test_packed_vectors(dimension: int, packing: Any) -> None:
    vectors = np.random.default_rng(dimension).normal(size=(100, dimension)).astype(np.float32)
    vectors[0, ::2] = 0
    packed = quantize_embeddings(vectors, precision=packing)
    expected = codes_of_vectors(vectors, "sign")
    assert np.array_equal(codes_of_vectors(packed, packing), expected)
    assert np.array_equal(expected, np.asarray(quantize_embeddings(vectors, precision="ubinary")))
