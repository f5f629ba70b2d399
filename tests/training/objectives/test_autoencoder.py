"""Equation (7) in total, by hand: every term of a method from the network's own outputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
import torch

from hummingbit.corpus.document import Document
from hummingbit.encoder.recipes import Recipe
from hummingbit.encoder.text_features import TextFeatures
from hummingbit.training.batches import TrainingInputs
from hummingbit.training.data import TrainingData, gather
from hummingbit.training.networks import GaussianAutoencoder, Output
from hummingbit.training.objectives.autoencoder import AutoencoderLoss
from hummingbit.training.paper_weights import as_in_the_paper
from hummingbit.training.semi_supervised import build_model
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

    def __init__(self, method: str, *, several: bool = False, softmax_classes: bool = True) -> None:
        documents = topic_documents(N)
        if several:
            documents = [
                Document(document.id, document.text, labels=(*document.labels, f"x{row % 2}"))
                for row, document in enumerate(documents)
            ]
        self.data: TrainingData = gather(documents)
        recipe = Recipe(method=method, n_bits=16, hidden=8, label_fraction=0.6)
        self.recipe: Recipe = replace(as_in_the_paper(recipe, "20news"), batch_size=N)
        self.texts = [str(text) for text in self.data.inputs]
        features = fit_text_features(self.texts, 100, self.recipe.features)
        self.features: TextFeatures = features
        self.tags = self.data.tags.copy()
        self.tags[7:] = False
        self.model = build_model(self.recipe, features, len(self.data.classes))
        self.loss = AutoencoderLoss(
            self.model,
            self.recipe,
            features,
            self.texts,
            self.tags,
            multi_label=self.data.is_multi_label and not softmax_classes,
        )

    def terms(self) -> dict[str, torch.Tensor]:
        return self.loss(np.arange(N), torch.Generator().manual_seed(3), 0.0)

    def output(self) -> Output:
        """Return the same draw of the network as that of :meth:`terms`."""
        inputs = TrainingInputs(self.features, self.texts, idf_target=True)
        generator = torch.Generator().manual_seed(3)
        out: Output = self.model(inputs.batch(np.arange(N), 0.0, generator)[0], generator)
        return out

    def reconstruction(self, b: Array) -> float:
        counts = self.features.count_terms(self.texts).toarray().astype(np.float64)
        tf_idf = counts * (np.log((1 + N) / (1 + (counts > 0).sum(axis=0))) + 1)
        decoder = self.model.decoder
        assert isinstance(decoder.weight, torch.Tensor)
        assert isinstance(decoder.bias, torch.Tensor)
        return reconstruction(tf_idf, b, as_array(decoder.weight), as_array(decoder.bias))


@pytest.mark.parametrize(
    ("several", "softmax_classes"), [(False, True), (True, True), (True, False)]
)
def test_ssb_vae_in_total(several: bool, softmax_classes: bool) -> None:
    setting = Setting("ssb-vae", several=several, softmax_classes=softmax_classes)
    assert setting.recipe.softmax_classes
    out = setting.output()
    b, logits, scores = map(as_array, (out.b_NB, out.logits_NB, out.class_logits_NC))
    if not softmax_classes:
        y = 1 / (1 + np.exp(-scores))
        known, right = y[:7], setting.tags[:7]
        class_loss = -np.log(np.where(right, known, 1 - known)).sum() / N
    else:
        y = np.exp(scores)
        y /= y.sum(axis=1, keepdims=True)
        class_loss = cross_entropy(setting.tags[:7].astype(np.float64), scores[:7]) / N
    # 20 Newsgroups at 0.6: a = 10⁻¹, g = 10⁵; α = a · 100 / 16.
    expected = (
        setting.reconstruction(b)
        + 0.015625 * bernoulli_kl(logits)
        + 1e4 * class_loss
        + 0.625 * pairs(b, lambda i, j: float(y[i] @ y[j]))
    )
    total = sum(term.item() for term in setting.terms().values())
    assert total == pytest.approx(expected, rel=2e-5)


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("unlabelled_differ", [True, False])
def test_psh_gs_in_total(unlabelled_differ: bool, several: bool) -> None:
    setting = Setting("psh-gs", several=several)
    assert setting.recipe.unlabelled_differ
    setting.loss._recipe = replace(setting.recipe, unlabelled_differ=unlabelled_differ)
    out = setting.output()
    b, logits, scores = map(as_array, (out.b_NB, out.logits_NB, out.class_logits_NC))
    y = setting.tags.astype(np.float64)

    def alike(i: int, j: int) -> float | None:
        if max(i, j) < 7:
            return float(y[i] @ y[j])
        return float(i == j) if unlabelled_differ else None

    # a = 10⁻², g = 10⁴.
    expected = (
        setting.reconstruction(b)
        + 0.015625 * bernoulli_kl(logits)
        + 100 * cross_entropy(y[:7], scores[:7]) / N
        + 0.0625 * pairs(b, alike)
    )
    total = sum(term.item() for term in setting.terms().values())
    assert total == pytest.approx(expected, rel=2e-5)


def test_vdsh_s_in_total() -> None:
    setting = Setting("vdsh-s")
    assert isinstance(setting.model, GaussianAutoencoder)
    out = setting.output()
    inputs = TrainingInputs(setting.features, setting.texts, idf_target=True)
    x = inputs.batch(np.arange(N), 0.0, torch.Generator())[0]
    h_NH, mean_NB = setting.model.encoder(x)
    log_variance = as_array(setting.model.latent.log_variance(h_NH))
    y = setting.tags.astype(np.float64)
    # a = 10 at 0.6.
    expected = (
        setting.reconstruction(as_array(out.b_NB))
        + 0.0625 * gaussian_kl(as_array(mean_NB), log_variance)
        + 10 * cross_entropy(y[:7], as_array(out.class_logits_NC)[:7]) / N
    )
    total = sum(term.item() for term in setting.terms().values())
    assert total == pytest.approx(expected, rel=2e-5)


def test_b_vae_in_total() -> None:
    setting = Setting("b-vae")
    out = setting.output()
    kl = bernoulli_kl(as_array(out.logits_NB))
    expected = setting.reconstruction(as_array(out.b_NB)) + 0.015625 * kl
    total = sum(term.item() for term in setting.terms().values())
    assert total == pytest.approx(expected, rel=2e-5)


def test_pairs_teach_the_class_head_in_the_paper_and_not_in_ours() -> None:
    for similarity, learns in (("self-supervised", True), ("probable", False)):
        setting = Setting("ssb-vae")
        setting.loss._recipe = replace(setting.recipe, pair_similarity=similarity)
        setting.terms()["pairwise_loss"].backward()  # type: ignore[no-untyped-call]
        gradient = setting.model.class_head.weight.grad
        assert (gradient is not None and bool(gradient.any())) is learns
