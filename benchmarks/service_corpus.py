"""Texts, an encoder and codes that several services are given alike."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from encoder.artifact import write_artifact
from encoder.codes import Codes
from encoder.encoder import Encoder
from encoder.features import TextFeatures
from encoder.network import Layer

N_BITS = 64
K = 10
WORDS = 10_000
HIDDEN = 500
TOPICS = 2_000
WORDS_OF_A_TOPIC = 24
WORDS_OF_A_TEXT = 12
QUERIES = 2_000


@dataclass(frozen=True)
class Corpus:
    """Codes of documents, ``uint8[N, 8]``, and queries as texts and as codes.

    The encoder lies in `folder` as ``encoders/bench``; document i has the id ``i``.
    """

    folder: Path
    codes: Codes
    queries: list[str]
    query_codes: Codes


def make_corpus(folder: Path, documents: int) -> Corpus:
    """Make texts about topics, and an encoder of the usual size with random weights."""
    rng = np.random.default_rng(0)
    encoder = Encoder(
        features=TextFeatures(vocabulary=[f"w{i:05d}" for i in range(WORDS)], l2_normalize=True),
        layers=[
            _layer(rng, WORDS, HIDDEN, 1.0),
            _layer(rng, HIDDEN, HIDDEN, (2 / HIDDEN) ** 0.5),
            _layer(rng, HIDDEN, N_BITS, (2 / HIDDEN) ** 0.5, last=True),
        ],
        thresholds=np.zeros(N_BITS, dtype=np.float32),
        metadata={"trained_on": "nothing"},
    )
    topics = rng.integers(0, WORDS, (TOPICS, WORDS_OF_A_TOPIC))
    # Thresholds at the medians, so that every bit is as often 0 as 1.
    sample = _texts(rng, topics, 5_000)
    object.__setattr__(encoder, "thresholds", np.median(encoder.logits(sample), axis=0))
    encoder = write_artifact(folder / "encoders" / "bench", encoder, sample[:200])
    codes = [
        encoder.encode(_texts(rng, topics, min(10_000, documents - at)))
        for at in range(0, documents, 10_000)
    ]
    queries = _texts(rng, topics, QUERIES)
    return Corpus(folder, np.concatenate(codes), queries, encoder.encode(queries))


def _layer(
    rng: np.random.Generator, inputs: int, outputs: int, scale: float, *, last: bool = False
) -> Layer:
    return Layer(
        weight=(rng.normal(size=(inputs, outputs)) * scale).astype(np.float32),
        bias=np.zeros(outputs, dtype=np.float32),
        activation="identity" if last else "relu",
    )


def _texts(rng: np.random.Generator, topics: np.ndarray, count: int) -> list[str]:
    chosen = topics[rng.integers(0, len(topics), count)]
    places = rng.integers(0, chosen.shape[1], (count, WORDS_OF_A_TEXT))
    words = np.take_along_axis(chosen, places, axis=1)
    return [" ".join(f"w{word:05d}" for word in row) for row in words.tolist()]
