"""The loss of ssb-vae: the terms of SSB-VAE and ours, weighted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from hummingbit.encoder.encoder import Features, Inputs
from hummingbit.encoder.recipes import AutoencoderRecipe
from hummingbit.encoder.text_features import Floats, TextFeatures
from hummingbit.training.batches import TrainingInputs
from hummingbit.training.data import Rows, Tags
from hummingbit.training.networks import Autoencoder, Output
from hummingbit.training.objectives.ssb_vae import (
    pairwise_loss,
    pointwise_loss,
    self_supervised_similarity,
    soft_class_loss,
    weighted_terms,
)
from hummingbit.training.queries import ClozeTask

# The share of a query's target that goes to all texts by similarity; see ClozeTask.
_SHARED = 0.9


@dataclass(frozen=True)
class AutoencoderSettings:
    """How an autoencoder of ssb-vae learns, beside the settings of its recipe.

    The loss is `reconstruction_weight` · reconstruction + `kl_weight` · KL + `pointwise_weight` ·
    class loss + `code_class_weight` · class loss of the bits + `pairwise_weight` · pairs + inverse
    cloze loss, each a mean over the rows of a batch. The defaults are our recipe, without pairs: of
    the values that were tried, those that found most on held-out clusters of Snippets and on the
    validation posts of 20 Newsgroups (``hummingbit reproduce ssb-vae --tune``).
    """

    reconstruction_weight: float = 1.0
    kl_weight: float = 1 / 64
    pointwise_weight: float = 1.0
    code_class_weight: float = 1.0
    pairwise_weight: float = 0.0
    temperature: float = 0.67
    """That of the relaxed bits."""
    soft_labels: bool = True
    """Whether linear classifiers give probabilities of classes to unlabelled documents."""
    terms: Literal["telling", "frequent"] = "telling"
    """Terms of texts: those that tell most about soft labels, or the most frequent."""
    features: Literal["tf-idf", "log-tf"] = "tf-idf"
    idf_target: bool = True
    """Whether the words to reconstruct are weighted by their idf."""
    hidden_dropout: float = 0.5
    """The share of hidden units left out where all labels are shown (texts)."""
    vector_noise: float = 1.0
    """The mean length of the noise on a vector, relative to its own."""
    scale_vectors: bool = True
    """Whether the vectors of a corpus get a common size, as input and as target."""
    batch_norm: bool = False
    learning_rate_decay: bool = True
    softmax_classes: bool = False
    """Whether one softmax predicts the classes, also where documents have several labels."""


class AutoencoderLoss:
    """The loss terms for batches of the training documents.

    `soft_labels`, distributions over the classes ``[N, C]``, replace the labels if they are passed.
    With bits for content, the recipe's, the inverse cloze task is a part of the loss.
    """

    def __init__(
        self,
        model: Autoencoder,
        recipe: AutoencoderRecipe,
        features: Features,
        inputs: Inputs,
        tags: Tags,
        *,
        settings: AutoencoderSettings,
        multi_label: bool,
        soft_labels: Floats | None = None,
        amp: bool = False,
    ) -> None:
        self._model = model
        self._device = next(model.parameters()).device
        self._amp = amp
        self.recipe, self.settings = recipe, settings
        self._tags = tags
        self.multi_label = multi_label
        self.inputs = TrainingInputs(
            features,
            inputs,
            idf_target=settings.idf_target,
            # Otherwise the reconstruction of long vectors would outweigh every other term.
            scale_target=settings.scale_vectors,
        )
        self.soft_labels = soft_labels
        self._cloze: ClozeTask | None = None
        if model.content is not None and isinstance(features, TextFeatures):
            texts = [str(text) for text in inputs]
            self._cloze = ClozeTask(
                features,
                texts,
                self.inputs.x,
                seed=recipe.seed,
                shared=_SHARED,
                beside_classes=True,
                short=True,
            )

    def __call__(
        self, rows: Rows, generator: torch.Generator, progress: float
    ) -> dict[str, Tensor]:
        """See :class:`hummingbit.training.loop.BatchLoss`."""
        recipe, settings = self.recipe, self.settings
        parts = self.inputs.batch(rows, recipe.word_dropout, generator, settings.vector_noise)
        x, targets = (part.to(self._device) for part in parts)
        with torch.autocast(self._device.type, dtype=torch.bfloat16, enabled=self._amp):
            out: Output = self._model(x, generator)
            terms: dict[str, Tensor] = {
                "reconstruction_loss": self._model.decoder(out.b_NB, targets).mean(),
                "kl_loss": out.kl_loss,
            }
            if self._cloze is not None and self._model.content is not None:
                content = self._model.content
                terms["cloze_loss"] = self._cloze.loss(content, content(x)[1], rows, generator)
        terms |= self.label_terms(out, rows)
        return weighted_terms(terms, self.weights(progress))

    def label_terms(self, out: Output, rows: Rows) -> dict[str, Tensor]:
        """Return the terms that labels or predicted classes give."""
        settings = self.settings
        terms = {"pointwise_loss": self.class_loss(out.class_logits_NC, rows)}
        if settings.code_class_weight:
            terms["code_class_loss"] = self.class_loss(out.code_class_logits_NC, rows)
        if settings.pairwise_weight:
            terms["pairwise_loss"] = self.pairs_loss(out, rows)
        return terms

    def class_loss(self, class_logits_NC: Tensor, rows: Rows) -> Tensor:
        """Return the class loss of logits, by soft labels if there are any."""
        if self.soft_labels is not None:
            return soft_class_loss(class_logits_NC, self.on_device(self.soft_labels[rows]))
        return pointwise_loss(class_logits_NC, self.tags(rows), multi_label=self.multi_label)

    def pairs_loss(self, out: Output, rows: Rows) -> Tensor:  # noqa: ARG002 - others read labels
        """Return Equation 5 of all pairs of the batch: their similarity is the model's own."""
        similarity_NN = self_supervised_similarity(
            out.class_logits_NC, multi_label=self.multi_label
        )
        return pairwise_loss(out.b_NB, similarity_NN, out.b_NB.shape[1] / 3)

    def weights(self, progress: float) -> dict[str, float]:  # noqa: ARG002 - others change them
        """Return the weight of each term at a share of the run that is done."""
        settings = self.settings
        return {
            "reconstruction_loss": settings.reconstruction_weight,
            "kl_loss": settings.kl_weight,
            "cloze_loss": 1.0,
            "pointwise_loss": settings.pointwise_weight,
            "code_class_loss": settings.code_class_weight,
            "pairwise_loss": settings.pairwise_weight,
        }

    def tags(self, rows: Rows) -> Tensor:
        """Return the visible labels of `rows`, ``bool[N, C]``."""
        return self.on_device(self._tags[rows])

    def on_device(self, array: Any) -> Tensor:
        """Return an array as a tensor on the device of the network."""
        return torch.from_numpy(array).to(self._device)
