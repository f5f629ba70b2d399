"""The classifier that an encoder is compared with: linear, over the encoder's own features.

Training fits it to the same soft labels as the encoder and writes it to ``classifier.safetensors``
beside it. An evaluation uses it to measure codes that contain the predicted class and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hummingbit.encoder.tensors import load_tensors, save_tensors
from hummingbit.encoder.text_features import Floats

CLASSIFIER = "classifier.safetensors"


@dataclass(frozen=True, slots=True, eq=False)
class Classifier:
    """One or more linear maps from F features to C classes.

    `weights` are float32[F, C] and `biases` float32[C]. The scores of each map are standardized
    over the classes and summed; the class with the highest sum is predicted.

    Raises:
        ValueError: if there is no map, shapes differ, or a number is not finite.
    """

    weights: tuple[Floats, ...]
    biases: tuple[Floats, ...]

    def __post_init__(self) -> None:
        shapes = {weight.shape for weight in self.weights}
        if len(shapes) != 1 or len(self.weights) != len(self.biases):
            raise ValueError("a classifier needs weights of one shape, and a bias for each")
        (shape,) = shapes
        if len(shape) != 2 or any(bias.shape != shape[1:] for bias in self.biases):
            raise ValueError(f"weights have shape {shape}; they must be [F, C] with biases [C]")
        if not all(np.isfinite(part).all() for part in (*self.weights, *self.biases)):
            raise ValueError("weights and biases must be finite")

    @property
    def n_features(self) -> int:
        """F, the number of features that it takes."""
        return int(self.weights[0].shape[0])

    @property
    def n_classes(self) -> int:
        """C, the number of classes."""
        return int(self.weights[0].shape[1])

    def predict(self, rows: Any) -> npt.NDArray[np.int64]:
        """Return the class of each row of features, int64[N]; of equal scores the first class wins.

        `rows` is float[N, F], an array or a scipy sparse array.
        """
        total = np.zeros((rows.shape[0], self.n_classes))
        for weight, bias in zip(self.weights, self.biases, strict=True):
            scores = np.asarray(rows @ weight, dtype=np.float64) + bias
            centred = scores - scores.mean(axis=1, keepdims=True)
            total += centred / np.maximum(centred.std(axis=1, keepdims=True), 1e-9)
        return np.asarray(total.argmax(axis=1), dtype=np.int64)


def classifier_bytes(classifier: Classifier) -> bytes:
    """Return the contents of :data:`CLASSIFIER`."""
    parts = {"weight": classifier.weights, "bias": classifier.biases}
    return save_tensors(
        {
            f"{position}.{name}": np.ascontiguousarray(tensor)
            for name, tensors in parts.items()
            for position, tensor in enumerate(tensors)
        }
    )


def parse_classifier(contents: bytes) -> Classifier:
    """Return the classifier that :func:`classifier_bytes` wrote.

    Raises:
        ValueError: if `contents` is not a safetensors file, or does not hold a classifier.
    """
    tensors = load_tensors(contents)
    n_maps = len(tensors) // 2
    names = [f"{position}.{name}" for name in ("weight", "bias") for position in range(n_maps)]
    if not tensors or sorted(names) != sorted(tensors):
        found = ", ".join(sorted(tensors)) or "no tensors"
        raise ValueError(f"holds {found}; it must hold 0.weight, 0.bias and so on")
    parts = [tensors[name].astype(np.float32) for name in names]
    return Classifier(tuple(parts[:n_maps]), tuple(parts[n_maps:]))
