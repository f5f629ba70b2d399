"""Equation (7) of SSB-VAE by hand: the terms of an autoencoder from the network's own outputs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch

from hummingbit.corpus.document import Document
from hummingbit.encoder.recipes import AutoencoderRecipe
from hummingbit.encoder.text_features import TextFeatures
from hummingbit.training.batches import TrainingInputs
from hummingbit.training.data import TrainingData, gather
from hummingbit.training.networks import Output
from hummingbit.training.semi_supervised import Design, build_model
from hummingbit.training.text_features import fit_text_features
from tests.support.corpora import topic_documents

N = 12
Array = npt.NDArray[np.float64]


def cross_entropy(y: Array, logits: Array) -> float:
    return float(-(y * (logits - np.log(np.exp(logits).sum(axis=1, keepdims=True)))).sum())


def reconstruction(terms: Array, b: Array, weight: Array, bias: Array) -> float:
    return cross_entropy(terms / terms.sum(axis=1, keepdims=True), b @ weight.T + bias) / N


def bernoulli_kl(logits: Array) -> float:
    a = 1 / (1 + np.exp(-logits))
    return float((a * np.log(2 * a) + (1 - a) * np.log(2 * (1 - a))).sum()) / N


def gaussian_kl(mean: Array, log_variance: Array) -> float:
    return float((mean**2 + np.exp(log_variance) - 1 - log_variance).sum()) / 2 / N


def pairs(b: Array, alike: Callable[[int, int], float | None]) -> float:
    """Sum (3), (4) or (5) over the ordered pairs of which `alike` says something."""
    total, margin = 0.0, b.shape[1] / 3
    for i in range(N):
        for j in range(N):
            likeness, distance = alike(i, j), float(((b[i] - b[j]) ** 2).sum())
            if likeness is not None:
                total += likeness * distance + (1 - likeness) * max(0.0, margin - distance)
    return total / N


def as_array(tensor: torch.Tensor) -> Array:
    return tensor.detach().numpy().astype(np.float64)


class Setting:
    """A network as the paper has it, on twelve texts of which seven are labelled."""

    def __init__(
        self,
        recipe: AutoencoderRecipe,
        design: Design,
        *,
        several: bool = False,
        softmax_classes: bool = True,
    ) -> None:
        documents = topic_documents(N)
        if several:
            documents = [
                Document(document.id, document.text, labels=(*document.labels, f"x{row % 2}"))
                for row, document in enumerate(documents)
            ]
        self.data: TrainingData = gather(documents)
        self.recipe, self.idf_target = recipe, design.settings.idf_target
        self.texts = [str(text) for text in self.data.inputs]
        features = fit_text_features(self.texts, 100, design.settings.features)
        self.features: TextFeatures = features
        self.tags = self.data.tags.copy()
        self.tags[7:] = False
        self.model = build_model(recipe, design, features, len(self.data.classes))
        self.loss = design.loss(
            self.model,
            self.recipe,
            features,
            self.texts,
            self.tags,
            settings=design.settings,
            multi_label=self.data.is_multi_label and not softmax_classes,
        )

    def terms(self) -> dict[str, torch.Tensor]:
        return self.loss(np.arange(N), torch.Generator().manual_seed(3), 0.0)

    def output(self) -> Output:
        """Return the same draw of the network as that of :meth:`terms`."""
        inputs = TrainingInputs(self.features, self.texts, idf_target=self.idf_target)
        generator = torch.Generator().manual_seed(3)
        out: Output = self.model(inputs.batch(np.arange(N), 0.0, generator)[0], generator)
        return out

    def reconstruction(self, b: Array) -> float:
        counts = self.features.count_terms(self.texts).toarray().astype(np.float64)
        idf = np.log((1 + N) / (1 + (counts > 0).sum(axis=0))) + 1
        weighted = counts * idf if self.idf_target else counts
        decoder = self.model.decoder
        assert isinstance(decoder.weight, torch.Tensor)
        assert isinstance(decoder.bias, torch.Tensor)
        return reconstruction(weighted, b, as_array(decoder.weight), as_array(decoder.bias))
