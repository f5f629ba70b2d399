"""Texts, an encoder and codes that several services are given alike."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from encoder.artifact import write_artifact
from encoder.codes import Codes
from encoder.encoder import Encoder, Layer
from encoder.features import TextFeatures

N_BITS = 64
K = 10
WORDS = 10_000
HIDDEN = 500
TOPICS = 500
WORDS_OF_A_TEXT = 12
# How far a word's weights are from those of its topic, where 1 is as far as another topic's.
STRAY_WEIGHTS = 0.1
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
    """Make texts about topics, and an encoder of the usual size that knows the topics.

    Word w is one of topic w mod TOPICS. The weights are random but for that words of a topic have
    much the same ones, as training would have it; so codes of a topic lie together, and repeat: of
    20,000 a third are distinct, as among the demo's.
    """
    rng = np.random.default_rng(0)
    encoder = Encoder(
        features=TextFeatures(vocabulary=[f"w{i:05d}" for i in range(WORDS)], l2_normalize=True),
        layers=[
            _first_layer(rng),
            _layer(rng, HIDDEN, HIDDEN, (2 / HIDDEN) ** 0.5),
            _layer(rng, HIDDEN, N_BITS, (2 / HIDDEN) ** 0.5, last=True),
        ],
        thresholds=np.zeros(N_BITS, dtype=np.float32),
        metadata={"trained_on": "nothing"},
    )
    # Thresholds at the medians, so that every bit is as often 0 as 1.
    sample = _texts(rng, 5_000)
    object.__setattr__(encoder, "thresholds", np.median(encoder.logits(sample), axis=0))
    encoder = write_artifact(folder / "encoders" / "bench", encoder, sample[:200])
    codes = [
        encoder.encode(_texts(rng, min(10_000, documents - at)))
        for at in range(0, documents, 10_000)
    ]
    queries = _texts(rng, QUERIES)
    return Corpus(folder, np.concatenate(codes), queries, encoder.encode(queries))


def _layer(
    rng: np.random.Generator, inputs: int, outputs: int, scale: float, *, last: bool = False
) -> Layer:
    return Layer(
        weight=(rng.normal(size=(inputs, outputs)) * scale).astype(np.float32),
        bias=np.zeros(outputs, dtype=np.float32),
        activation="identity" if last else "relu",
    )


def _first_layer(rng: np.random.Generator) -> Layer:
    topics = rng.normal(size=(TOPICS, HIDDEN))
    strays = rng.normal(size=(WORDS, HIDDEN)) * STRAY_WEIGHTS
    weight = topics[np.arange(WORDS) % TOPICS] + strays
    return Layer(weight.astype(np.float32), np.zeros(HIDDEN, dtype=np.float32), "relu")


def _texts(rng: np.random.Generator, count: int) -> list[str]:
    topics = rng.integers(0, TOPICS, (count, 1))
    words = topics + TOPICS * rng.integers(0, WORDS // TOPICS, (count, WORDS_OF_A_TEXT))
    return [" ".join(f"w{word:05d}" for word in row) for row in words.tolist()]
