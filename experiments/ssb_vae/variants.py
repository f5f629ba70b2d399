"""SSB-VAE with other settings than ours, and the methods that its paper compares with.

``hummingbit train ssb-vae`` has our recipe and, with ``--paper``, the authors'. A
:class:`VariantRecipe` has every setting that these fix, so that ablations vary them one by one, and
trains three more methods (Ñanculef et al. 2020, section 4):

- ``psh-gs``: pairwise hashing on the pairs of labelled documents;
- ``vdsh-s``: the semi-supervised Gaussian autoencoder (:mod:`experiments.ssb_vae.vdsh_s`);
- ``b-vae``: the Bernoulli autoencoder without labels.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from experiments.ssb_vae.vdsh_s import GaussianAutoencoder
from hummingbit.encoder.recipes import SSB_VAE, AutoencoderRecipe, BaseRecipe, setting
from hummingbit.training.batches import share_of_terms
from hummingbit.training.data import Rows, TrainingData
from hummingbit.training.networks import BernoulliAutoencoder, Output, TextDecoder
from hummingbit.training.objectives.autoencoder import AutoencoderLoss, AutoencoderSettings
from hummingbit.training.objectives.ssb_vae import (
    count_common_tags,
    pairwise_loss,
    self_supervised_similarity,
)
from hummingbit.training.pipeline import Trained
from hummingbit.training.semi_supervised import Design, train
from hummingbit.training_methods import train_by

PSH_GS, VDSH_S, B_VAE = "psh-gs", "vdsh-s", "b-vae"
METHODS = (SSB_VAE, PSH_GS, VDSH_S, B_VAE)
PROBABLE, SELF_SUPERVISED, COMMON_LABELS = "probable", "self-supervised", "common-labels"

_OURS = AutoencoderSettings()


def _weight(default: float) -> Any:
    return setting(default, "weight of a term", within="[0, 1_000_000_000_000_000)")


def _share(default: float, within: str = "[0, 1]") -> Any:
    return setting(default, "a share", within=within)


def _flag(*, default: bool) -> Any:
    return setting(default, "whether it is done")


@dataclass(frozen=True)
class VariantRecipe(AutoencoderRecipe):
    """All settings of an autoencoder; see :class:`AutoencoderSettings` for those of ssb-vae.

    `pair_similarity` is that of pairs: the probability that they share a label, by labels and soft
    labels; the model's own predictions (Equations 5 and 6); or, for psh-gs, the number of labels in
    common (Equations 3 and 4). `pairwise_warmup` is the share of the run over which the pair weight
    grows. With `unlabelled_differ`, psh-gs counts documents without a label as different from all
    others.
    """

    method: str = setting(SSB_VAE, "what is trained", *METHODS)
    reconstruction_weight: float = _weight(_OURS.reconstruction_weight)
    kl_weight: float = _weight(_OURS.kl_weight)
    pointwise_weight: float = _weight(_OURS.pointwise_weight)
    code_class_weight: float = _weight(_OURS.code_class_weight)
    pairwise_weight: float = _weight(_OURS.pairwise_weight)
    temperature: float = setting(_OURS.temperature, "temperature of bits", within="(0, 100]")
    soft_labels: bool = _flag(default=_OURS.soft_labels)
    terms: str = setting(_OURS.terms, "terms of texts", "telling", "frequent")
    features: str = setting(_OURS.features, "weights of terms", "tf-idf", "log-tf")
    idf_target: bool = _flag(default=_OURS.idf_target)
    hidden_dropout: float = _share(_OURS.hidden_dropout, "[0, 1)")
    vector_noise: float = setting(_OURS.vector_noise, "mean length of noise", within="[0, 100]")
    scale_vectors: bool = _flag(default=_OURS.scale_vectors)
    batch_norm: bool = _flag(default=_OURS.batch_norm)
    learning_rate_decay: bool = _flag(default=_OURS.learning_rate_decay)
    softmax_classes: bool = _flag(default=_OURS.softmax_classes)
    pair_similarity: str = setting(
        PROBABLE, "similarity of pairs", *(PROBABLE, SELF_SUPERVISED, COMMON_LABELS)
    )
    pairwise_warmup: float = _share(0.0)
    unlabelled_differ: bool = _flag(default=False)

    def design(self) -> Design:
        """Return the settings, the network and the loss of the method."""
        names = [declared.name for declared in fields(AutoencoderSettings)]
        settings = AutoencoderSettings(**{name: getattr(self, name) for name in names})
        if self.method != SSB_VAE:
            # These parts are ours, for ssb-vae.
            settings = replace(
                settings, soft_labels=False, hidden_dropout=0.0, code_class_weight=0.0
            )
        network = GaussianAutoencoder if self.method == VDSH_S else BernoulliAutoencoder
        return Design(settings, network, VariantLoss, uses_labels=self.method != B_VAE)


def variant_recipe(method: str, **settings: Any) -> VariantRecipe:
    """Return the recipe of a method with our settings, but for some `settings`."""
    pairs = {"pairwise_weight": 1.5e-3, "pairwise_warmup": 0.5} if method == PSH_GS else {}
    return VariantRecipe(**{"method": method, **pairs, **settings})


class VariantLoss(AutoencoderLoss):
    """The loss of a :class:`VariantRecipe`."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        decoder = self._model.decoder
        if self.variant.method == B_VAE and isinstance(decoder, TextDecoder):
            # Without labels, nothing else keeps bits from freezing early.
            decoder.start_at(torch.from_numpy(share_of_terms(self.inputs.targets)))

    @property
    def variant(self) -> VariantRecipe:
        """The recipe."""
        assert isinstance(self.recipe, VariantRecipe)  # noqa: S101 - of its design
        return self.recipe

    def label_terms(self, out: Output, rows: Rows) -> dict[str, Tensor]:
        """Return the terms of the method that labels give."""
        if self.variant.method == B_VAE:
            return {}
        if self.variant.method == VDSH_S:
            return {"pointwise_loss": self.class_loss(out.class_logits_NC, rows)}
        return super().label_terms(out, rows)

    def pairs_loss(self, out: Output, rows: Rows) -> Tensor:
        """Return the pair loss by the similarity of the recipe."""
        variant, margin = self.variant, out.b_NB.shape[1] / 3
        if variant.method == PSH_GS:
            tags_NC = self.tags(rows)
            labelled_N = tags_NC.any(dim=1)
            mask_NN = None
            if not variant.unlabelled_differ:
                mask_NN = labelled_N[:, None] & labelled_N[None, :]
            counts = variant.pair_similarity == COMMON_LABELS
            similarity_NN = count_common_tags(tags_NC) if counts else share_a_tag(tags_NC)
            return pairwise_loss(out.b_NB, similarity_NN, margin, mask_NN)
        return pairwise_loss(out.b_NB, self._similarity(out.class_logits_NC, rows), margin)

    def _similarity(self, class_logits_NC: Tensor, rows: Rows) -> Tensor:
        """Return the similarity of all pairs of rows, ``[N, N]``."""
        multi_label = self.multi_label
        if self.variant.pair_similarity == SELF_SUPERVISED:
            return self_supervised_similarity(class_logits_NC, multi_label=multi_label)
        p_NC = (
            class_probabilities(class_logits_NC, self.tags(rows), multi_label=multi_label)
            if self.soft_labels is None
            else self.on_device(self.soft_labels[rows])
        )
        return tag_sharing_probability(p_NC, multi_label=multi_label)

    def weights(self, progress: float) -> dict[str, float]:
        """Return the weights; that of pairs grows at first."""
        warmup = self.variant.pairwise_warmup
        weights = super().weights(progress)
        # Early predictions are poor, and pairs that they wrongly join are hard to separate later.
        weights["pairwise_loss"] *= min(1.0, progress / warmup) if warmup else 1.0
        return weights


def train_variant(data: TrainingData, recipe: BaseRecipe, out: Path, **options: Any) -> Trained:
    """Train by a recipe of ``hummingbit train``, or by a :class:`VariantRecipe`."""
    if isinstance(recipe, VariantRecipe):
        return train(data, recipe, out, design=recipe.design(), **options)
    return train_by(data, recipe, out, **options)


# Similarities of pairs that are ours


def share_a_tag(tags_NC: Tensor) -> Tensor:
    """Return which pairs of rows have a class in common, ``bool[N, N]``.

    A row without a class shares one with itself only.
    """
    tags = tags_NC.to(torch.float32)
    return (tags @ tags.T > 0) | torch.eye(len(tags), dtype=torch.bool, device=tags.device)


def class_probabilities(class_logits_NC: Tensor, tags_NC: Tensor, *, multi_label: bool) -> Tensor:
    """Return the classes of labelled rows, and the predictions for the others, ``float[N, C]``.

    The prediction is softmax(l), or σ(l) with `multi_label`. It is a target, so no gradient flows
    back.
    """
    logits = class_logits_NC.detach()
    predicted_NC = torch.sigmoid(logits) if multi_label else logits.softmax(dim=1)
    return torch.where(tags_NC.any(dim=1, keepdim=True), tags_NC.to(logits.dtype), predicted_NC)


def tag_sharing_probability(p_NC: Tensor, *, multi_label: bool) -> Tensor:
    """Return the probability that two rows have a class in common, ``float[N, N]``.

    Rows are assumed independent: Σ_c p_ic p_jc, or with `multi_label` 1 − Π_c (1 − p_ic p_jc).
    """
    if not multi_label:
        return p_NC @ p_NC.T
    both_NNC = p_NC[:, None, :] * p_NC[None, :, :]
    return 1 - (1 - both_NNC).prod(dim=2)
