"""Small encoders with random weights, real in every other respect."""

from __future__ import annotations

import numpy as np

from hummingbit.encoder.class_code import ClassCode, ClassMap
from hummingbit.encoder.encoder import Encoder, Layer
from hummingbit.encoder.text_features import TextFeatures
from hummingbit.encoder.vector_features import SpdFeatures, VectorFeatures

WORDS = (
    "apple bread cheese dough eggs flour garlic honey ice jam "
    "matrix vector tensor scalar eigen norm basis kernel rank trace"
).split()


def random_layers(rng: np.random.Generator, *sizes: int) -> list[Layer]:
    """Fully connected layers of the given sizes, ReLU between them."""
    return [
        Layer(
            weight=rng.normal(size=(inputs, outputs)).astype(np.float32),
            bias=rng.normal(size=outputs).astype(np.float32),
            activation="identity" if last else "relu",
        )
        for inputs, outputs, last in zip(
            sizes, sizes[1:], [False] * (len(sizes) - 2) + [True], strict=False
        )
    ]


def text_encoder(n_bits: int = 32, seed: int = 0) -> Encoder:
    """An encoder over :data:`WORDS`."""
    rng = np.random.default_rng(seed)
    return Encoder(
        features=TextFeatures(vocabulary=WORDS),
        layers=random_layers(rng, len(WORDS), 12, n_bits),
        thresholds=rng.normal(size=n_bits).astype(np.float32),
        metadata={"trained_on": "nothing"},
    )


def vector_encoder(n_bits: int = 32, dimension: int = 6, seed: int = 0) -> Encoder:
    """An encoder of vectors of `dimension` numbers."""
    rng = np.random.default_rng(seed)
    return Encoder(
        features=VectorFeatures(dimension=dimension),
        layers=random_layers(rng, dimension, 12, n_bits),
        thresholds=np.zeros(n_bits, dtype=np.float32),
        metadata={},
    )


def random_texts(count: int, seed: int = 0) -> list[str]:
    """Texts of 1 to 8 words of :data:`WORDS`."""
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, size=rng.integers(1, 9))) for _ in range(count)]


def spd_encoder(order: int = 4, n_bits: int = 16, seed: int = 0) -> Encoder:
    """An encoder of `order` × `order` matrices, which two maps take to 3 × 3 and then 2 × 2."""
    rng = np.random.default_rng(seed)
    shapes = [(order, 3), (3, 2)]
    return Encoder(
        features=SpdFeatures([rng.normal(size=s).astype(np.float32) for s in shapes], floor=1e-4),
        layers=random_layers(rng, 3, 8, n_bits),
        thresholds=np.zeros(n_bits, dtype=np.float32),
        metadata={"trained_on": "nothing"},
    )


def class_encoder(n_bits: int = 32, classes: int = 5, seed: int = 0) -> Encoder:
    """An encoder over :data:`WORDS` whose codes start with 12 class bits and 4 certainty bits."""
    rng = np.random.default_rng(seed)

    def class_map() -> ClassMap:
        weight = rng.normal(scale=3, size=(len(WORDS), classes)).astype(np.float32)
        return ClassMap(weight, rng.normal(size=classes).astype(np.float32))

    codewords = rng.choice([-1, 1], size=(classes, 12)).astype(np.float32)
    certainty = np.array([0.3, 1.0, 2.0, 4.0], dtype=np.float32)
    return Encoder(
        features=TextFeatures(vocabulary=WORDS),
        layers=random_layers(rng, len(WORDS), n_bits - 16),
        thresholds=np.zeros(n_bits, dtype=np.float32),
        metadata={"trained_on": "nothing"},
        class_code=ClassCode(class_map(), class_map(), codewords, certainty),
    )
