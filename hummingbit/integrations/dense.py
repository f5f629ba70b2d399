"""Embeddings of an encoder whose inner products are the scores of its rankings, for benchmarks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from encoder.codes import Codes, unpack_codes
from encoder.encoder import Encoder
from encoder.features import Floats


def embed_documents(encoder: Encoder, texts: Sequence[str]) -> Floats:
    """Return the bits of documents, ±1, float32 of shape ``(N, n_bits)``.

    Raises:
        InputError: if the encoder does not take texts.
    """
    return _signs(encoder.encode(texts))


def embed_queries(encoder: Encoder, texts: Sequence[str], *, weigh: bool) -> Floats:
    """Return the embeddings of queries, float32 of shape ``(N, n_bits)``.

    If `weigh` is true they are the weights of the bits, as in the asymmetric ranking. Otherwise
    they are the queries' bits, ±1, as in the Hamming ranking: the inner product with a document's
    bits is n_bits less twice the distance.

    Raises:
        InputError: if the encoder does not take texts.
    """
    if weigh:
        return encoder.query_weights(texts)
    return _signs(encoder.encode_queries(texts))


def as_tensor(embeddings: Any) -> Any:
    """Return embeddings as a torch tensor."""
    import torch  # noqa: PLC0415 - the benchmarks install it

    return torch.as_tensor(embeddings)


def _signs(codes: Codes) -> Floats:
    return unpack_codes(codes).astype(np.float32) * 2 - 1
