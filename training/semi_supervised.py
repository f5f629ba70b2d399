"""From documents of which few are labelled to an encoder: ``hummingbit train METHOD``.

Source: Ñanculef, Mena, Macaluso, Lodi and Sartori, "Self-Supervised Bernoulli Autoencoders for
Semi-Supervised Hashing" (2020). Ours are the input, TF-IDF rows of unit length instead of
ln(1 + tf), over the terms that tell classes apart; word dropout on it, so that the decoder must
rebuild the words that the encoder was not shown, and noise on vectors; idf in the target, so that
telling words count for more than frequent ones; classes of unlabelled documents guessed by linear
classifiers; a second class head, on the bits; hidden units dropping out as labels abound; pairs
that are alike as probably as labels or guesses tell, with a weight that grows; the inverse cloze
task. :meth:`training.recipe.Recipe.as_in_the_paper` goes without them.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from encoder.artifact import check_place
from encoder.encoder import Inputs
from encoder.features import Features, Floats, TextFeatures
from training.checkpoint import Checkpoint
from training.data import Rows, Tags, TrainingData, TrainingDataError
from training.device import choose_device
from training.export import autoencoder_to_encoder
from training.guided_features import choose_and_guess
from training.inputs import TrainingInputs, vector_scale
from training.loop import Schedule, fit
from training.models import Autoencoder, BernoulliAutoencoder, GaussianAutoencoder, Shape
from training.objectives.pairwise import (
    class_probabilities,
    pairwise_loss,
    predicted_tags,
    probably_sharing_a_tag,
    sharing_a_tag,
)
from training.objectives.pointwise import guessed_loss, pointwise_loss
from training.pipeline import (
    Trained,
    check_labels,
    split,
    with_median_thresholds,
    write_encoder,
)
from training.queries import ClozeTask
from training.recipe import METHODS, Recipe

# What the settings that 0.1.0 did not have amounted to in it.
BEFORE_SETTINGS = {**asdict(Recipe()), "analyzer": "words"}

# What unit-length rows are multiplied by on their way into the first layer; see SparseLinear.
UNIT_ROW_SCALE = 5.0


def train(
    data: TrainingData,
    recipe: Recipe,
    out: Path,
    *,
    overwrite: bool = False,
    progress: bool = True,
    device: str = "cpu",
    amp: bool = False,
) -> Trained:
    """Train on `data` by `recipe` and write the encoder to `out`.

    A run that was broken off goes on from the checkpoint that lies beside `out`. `device` is
    ``cpu`` or ``cuda``; with `amp` the network computes in bfloat16 where that is safe. Either
    changes how sums are rounded, and so the encoder a little.

    Raises:
        DeviceError: if this machine has no such device.
        TrainingDataError: if the documents, or the labelled ones among them, are too few.
        ArtifactError: if `out` exists and `overwrite` is false.
        CheckpointError: if a checkpoint of another run lies beside `out`.
    """
    check_place(out, overwrite=overwrite)
    place = choose_device(device)
    parts = split(data, recipe)
    if METHODS[recipe.method].uses_labels:
        check_labels(data, parts, recipe.validation_share)
    elif recipe.method == "ict" and not data.is_text:
        raise TrainingDataError("vector: ict learns from texts, by words of their own")
    features, guesses = choose_and_guess(data, parts, recipe)
    inputs, tags = data.take(parts.training), parts.shown[parts.training]
    scale = vector_scale(features, inputs) if recipe.scale_vectors else 1.0
    dropout = hidden_dropout(recipe, features, tags)
    model = build_model(
        recipe,
        features,
        len(data.classes),
        vector_scale=scale,
        dropout=dropout,
        sparse_gradient=touches_few_terms(features, inputs, recipe.batch_size),
    ).to(place)
    multi_label = data.is_multi_label
    loss = AutoencoderLoss(
        model, recipe, features, inputs, tags, multi_label=multi_label, guesses=guesses, amp=amp
    )
    schedule = Schedule(
        recipe.epochs_for(len(parts.training)),
        recipe.batch_size,
        recipe.learning_rate,
        recipe.seed,
        decay=recipe.learning_rate_decay,
    )
    about = {"recipe": asdict(recipe), "data": data.sha256, "device": device, "amp": amp}
    run = json.dumps(about, sort_keys=True)
    checkpoint = Checkpoint(out.with_name(out.name + ".checkpoint"), run, BEFORE_SETTINGS)
    history = fit(
        model, loss, len(parts.training), schedule, checkpoint=checkpoint, progress=progress
    )
    encoder = autoencoder_to_encoder(model, features, inputs)
    if recipe.threshold == "median":
        encoder = with_median_thresholds(encoder, inputs)
    trained = write_encoder(
        out,
        encoder,
        data,
        parts,
        settings=asdict(recipe),
        history=history,
        soft_labels=guesses,
        overwrite=overwrite,
    )
    checkpoint.remove()
    return trained


def hidden_dropout(recipe: Recipe, features: Features, tags: Tags) -> float:
    """Return the share of hidden units left out.

    It grows with the share of documents whose labels are shown. Labels are certain, and a network
    learns them by heart; guesses are soft, and keep it from that by themselves.
    """
    if METHODS[recipe.method].pairs != "all" or not isinstance(features, TextFeatures):
        return 0.0
    return recipe.hidden_dropout * float(tags.any(axis=1).mean())


def touches_few_terms(features: Features, inputs: Inputs, batch_size: int) -> bool:
    """Return whether a batch of texts has at most half as many words as the vocabulary has terms.

    A first layer's gradient is then kept sparse, and the rows of other terms stay untouched. Where
    words are more, adding up those of the same term costs more than going through all rows does.
    The first thousand texts tell how many words a text has.
    """
    if not isinstance(features, TextFeatures):
        return False
    first = [str(text) for text in inputs[:1000]]
    words = features.count_terms(first).nnz / len(first)
    return bool(batch_size * words <= features.dimension / 2)


def build_model(
    recipe: Recipe,
    features: Features,
    classes: int,
    *,
    vector_scale: float = 1.0,
    dropout: float = 0.0,
    sparse_gradient: bool = True,
) -> Autoencoder:
    """Return the network of a recipe, its weights drawn from the recipe's seed.

    `vector_scale` multiplies vectors on their way into the first layer; `dropout` is the share of
    hidden units left out; `sparse_gradient` is the first layer's for texts.
    """
    unit_rows = isinstance(features, TextFeatures) and features.l2_normalize
    content_bits = recipe.content_bits if isinstance(features, TextFeatures) else 0
    shape = Shape(
        inputs=features.dimension,
        hidden=recipe.hidden,
        n_bits=recipe.n_bits - content_bits,
        # A head without classes would be a layer without weights; one stays unused instead.
        classes=max(1, classes),
        text=isinstance(features, TextFeatures),
        batch_norm=recipe.batch_norm,
        dropout=dropout,
        input_scale=UNIT_ROW_SCALE if unit_rows else vector_scale,
        sparse_gradient=sparse_gradient,
        linear=METHODS[recipe.method].is_linear,
        content_bits=content_bits,
    )
    torch.manual_seed(recipe.seed)
    if METHODS[recipe.method].latent == "gaussian":
        return GaussianAutoencoder(shape)
    return BernoulliAutoencoder(shape, recipe.temperature)


class AutoencoderLoss:
    """The loss terms of a recipe for batches of the documents trained on.

    With `guesses`, distributions over the classes, ``[N, C]``, these stand for the labels.
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
        guesses: Floats | None = None,
        amp: bool = False,
    ) -> None:
        self._model = model
        self._device = next(model.parameters()).device
        self._amp = amp
        self._recipe = recipe
        self._method = METHODS[recipe.method]
        self._tags = tags
        self._multi_label = multi_label
        self._inputs = TrainingInputs(
            features,
            inputs,
            idf_target=recipe.idf_target,
            # Else the reconstruction of long vectors would outweigh every other term.
            scale_target=recipe.scale_vectors,
        )
        self._guesses = guesses
        self._cloze: ClozeTask | None = None
        if recipe.finds_documents and isinstance(features, TextFeatures):
            texts = [str(text) for text in inputs]
            self._cloze = ClozeTask(recipe, features, texts, self._inputs.x)

    def __call__(
        self, rows: Rows, generator: torch.Generator, progress: float
    ) -> dict[str, Tensor]:
        """See :class:`training.loop.BatchLoss`."""
        recipe = self._recipe
        parts = self._inputs.batch(rows, recipe.word_dropout, generator, recipe.vector_noise)
        x, targets = (part.to(self._device) for part in parts)
        terms: dict[str, Tensor] = {}
        with torch.autocast(self._device.type, dtype=torch.bfloat16, enabled=self._amp):
            out = self._model(x, generator)
            if self._method.reconstructs:
                reconstruction = self._model.decoder(out.b_NB, targets).mean()
                terms["reconstruction_loss"] = recipe.reconstruction_weight * reconstruction
                terms["kl_loss"] = recipe.kl_weight * out.kl_loss
            if self._cloze is not None:
                network, logits_NB = self._model.encoder, out.logits_NB
                if isinstance(self._model, BernoulliAutoencoder) and self._model.content:
                    network, logits_NB = self._model.content, self._model.content(x)[1]
                cloze = self._cloze.loss(network, logits_NB, rows, generator)
                terms["cloze_loss"] = recipe.cloze_weight * cloze
        if self._method.uses_labels:
            terms["pointwise_loss"] = recipe.pointwise_weight * self._class_loss(
                out.class_logits_NC, rows
            )
        if self._method.pairs == "all" and recipe.code_class_weight:
            terms["code_class_loss"] = recipe.code_class_weight * self._class_loss(
                out.code_class_logits_NC, rows
            )
        if self._method.pairs != "none":
            pairwise = self._pairwise_loss(out.b_NB, out.class_logits_NC, rows)
            terms["pairwise_loss"] = self._pairwise_weight(progress) * pairwise
        return terms

    def _class_loss(self, class_logits_NC: Tensor, rows: Rows) -> Tensor:
        if self._guesses is not None:
            return guessed_loss(class_logits_NC, self._on_device(self._guesses[rows]))
        tags = self._on_device(self._tags[rows])
        return pointwise_loss(class_logits_NC, tags, multi_label=self._multi_label)

    def _on_device(self, array: Any) -> Tensor:
        return torch.from_numpy(array).to(self._device)

    def _pairwise_loss(self, b_NB: Tensor, class_logits_NC: Tensor, rows: Rows) -> Tensor:
        margin = b_NB.shape[1] / 3
        if self._method.pairs == "labelled":
            tags_NC = self._on_device(self._tags[rows])
            labelled_N = tags_NC.any(dim=1)
            counted_NN = labelled_N[:, None] & labelled_N[None, :]
            return pairwise_loss(b_NB, sharing_a_tag(tags_NC), margin, counted_NN)
        return pairwise_loss(b_NB, self._alike(class_logits_NC, rows), margin)

    def _alike(self, class_logits_NC: Tensor, rows: Rows) -> Tensor:
        """Return how surely each pair of rows has a class in common, ``[N, N]``."""
        multi_label = self._multi_label
        if self._recipe.likeness == "predicted":
            return sharing_a_tag(predicted_tags(class_logits_NC, multi_label=multi_label))
        tags_NC = self._on_device(self._tags[rows])
        p_NC = (
            class_probabilities(class_logits_NC, tags_NC, multi_label=multi_label)
            if self._guesses is None
            else self._on_device(self._guesses[rows])
        )
        return probably_sharing_a_tag(p_NC, multi_label=multi_label)

    def _pairwise_weight(self, progress: float) -> float:
        # Early predictions are poor; pairs that they get wrong would be hard to part again.
        warmup = self._recipe.pairwise_warmup
        return self._recipe.pairwise_weight * (min(1.0, progress / warmup) if warmup else 1.0)
