"""The loss of an autoencoder: the terms of SSB-VAE and ours, weighted by the recipe."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from hummingbit.encoder.encoder import Features, Inputs
from hummingbit.encoder.recipes import COMMON_LABELS, METHODS, SELF_SUPERVISED, Recipe
from hummingbit.encoder.text_features import Floats, TextFeatures
from hummingbit.training.batches import TrainingInputs
from hummingbit.training.data import Rows, Tags
from hummingbit.training.networks import AnyEncoderNetwork, Autoencoder, BernoulliAutoencoder
from hummingbit.training.objectives.ssb_vae import (
    class_probabilities,
    count_common_tags,
    pairwise_loss,
    pointwise_loss,
    self_supervised_similarity,
    share_a_tag,
    soft_class_loss,
    tag_sharing_probability,
    weighted_terms,
)
from hummingbit.training.queries import ClozeTask
from hummingbit.training.static import StaticStart


class AutoencoderLoss:
    """The loss terms of a recipe for batches of the training documents.

    `soft_labels`, distributions over the classes ``[N, C]``, replace the labels if they are passed.
    `start` is where the method static begins.
    """

    def __init__(
        self,
        model: Autoencoder,
        recipe: Recipe,
        features: Features,
        inputs: Inputs,
        tags: Tags,
        *,
        multi_label: bool,
        soft_labels: Floats | None = None,
        amp: bool = False,
        start: StaticStart | None = None,
    ) -> None:
        self._model = model
        self._device = next(model.parameters()).device
        self._amp = amp
        self._recipe = recipe
        self._method = METHODS[recipe.method]
        self._tags = tags
        self._multi_label = multi_label
        self.inputs = TrainingInputs(
            features,
            inputs,
            idf_target=recipe.idf_target,
            # Otherwise the reconstruction of long vectors would outweigh every other term.
            scale_target=recipe.scale_vectors,
        )
        self._soft_labels = soft_labels
        self.cloze: ClozeTask | None = None
        """The inverse cloze task, if the recipe has it."""
        if recipe.finds_documents and isinstance(features, TextFeatures):
            texts = [str(text) for text in inputs]
            self.cloze = ClozeTask(
                recipe,
                features,
                texts,
                self.inputs.x,
                beside_classes=self._method.uses_labels,
                static=start,
            )

    def __call__(
        self, rows: Rows, generator: torch.Generator, progress: float
    ) -> dict[str, Tensor]:
        """See :class:`hummingbit.training.loop.BatchLoss`."""
        recipe, method = self._recipe, self._method
        parts = self.inputs.batch(rows, recipe.word_dropout, generator, recipe.vector_noise)
        x, targets = (part.to(self._device) for part in parts)
        terms: dict[str, Tensor] = {}
        with torch.autocast(self._device.type, dtype=torch.bfloat16, enabled=self._amp):
            out = self._model(x, generator)
            if method.reconstructs:
                terms["reconstruction_loss"] = self._model.decoder(out.b_NB, targets).mean()
                terms["kl_loss"] = out.kl_loss
            if self.cloze is not None:
                network: AnyEncoderNetwork = self._model.encoder
                logits_NB = out.logits_NB
                if isinstance(self._model, BernoulliAutoencoder) and self._model.content:
                    network, logits_NB = self._model.content, self._model.content(x)[1]
                terms["cloze_loss"] = self.cloze.loss(network, logits_NB, rows, generator)
        if method.uses_labels:
            terms["pointwise_loss"] = self._class_loss(out.class_logits_NC, rows)
        if method.pairs == "all" and recipe.code_class_weight:
            terms["code_class_loss"] = self._class_loss(out.code_class_logits_NC, rows)
        if method.pairs != "none":
            terms["pairwise_loss"] = self._pairwise_loss(out.b_NB, out.class_logits_NC, rows)
        return weighted_terms(terms, self._weights(progress))

    def _class_loss(self, class_logits_NC: Tensor, rows: Rows) -> Tensor:
        if self._soft_labels is not None:
            return soft_class_loss(class_logits_NC, self._on_device(self._soft_labels[rows]))
        tags = self._on_device(self._tags[rows])
        return pointwise_loss(class_logits_NC, tags, multi_label=self._multi_label)

    def _on_device(self, array: Any) -> Tensor:
        return torch.from_numpy(array).to(self._device)

    def _pairwise_loss(self, b_NB: Tensor, class_logits_NC: Tensor, rows: Rows) -> Tensor:
        margin = b_NB.shape[1] / 3
        if self._method.pairs == "labelled":
            tags_NC = self._on_device(self._tags[rows])
            labelled_N = tags_NC.any(dim=1)
            mask_NN = None
            if not self._recipe.unlabelled_differ:
                mask_NN = labelled_N[:, None] & labelled_N[None, :]
            counts = self._recipe.pair_similarity == COMMON_LABELS
            similarity_NN = count_common_tags(tags_NC) if counts else share_a_tag(tags_NC)
            return pairwise_loss(b_NB, similarity_NN, margin, mask_NN)
        return pairwise_loss(b_NB, self._similarity(class_logits_NC, rows), margin)

    def _similarity(self, class_logits_NC: Tensor, rows: Rows) -> Tensor:
        """Return the similarity of all pairs of rows, ``[N, N]``."""
        multi_label = self._multi_label
        if self._recipe.pair_similarity == SELF_SUPERVISED:
            return self_supervised_similarity(class_logits_NC, multi_label=multi_label)
        tags_NC = self._on_device(self._tags[rows])
        p_NC = (
            class_probabilities(class_logits_NC, tags_NC, multi_label=multi_label)
            if self._soft_labels is None
            else self._on_device(self._soft_labels[rows])
        )
        return tag_sharing_probability(p_NC, multi_label=multi_label)

    def _weights(self, progress: float) -> dict[str, float]:
        recipe = self._recipe
        # Early predictions are poor, and pairs that they wrongly join are hard to separate later.
        warmup = min(1.0, progress / recipe.pairwise_warmup) if recipe.pairwise_warmup else 1.0
        return {
            "reconstruction_loss": recipe.reconstruction_weight,
            "kl_loss": recipe.kl_weight,
            "cloze_loss": recipe.cloze_weight,
            "pointwise_loss": recipe.pointwise_weight,
            "code_class_loss": recipe.code_class_weight,
            "pairwise_loss": recipe.pairwise_weight * warmup,
        }
