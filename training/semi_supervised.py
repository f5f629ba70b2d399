"""Train an encoder from documents of which few are labelled: ``hummingbit train ssb-vae``.

Source: Ñanculef, Mena, Macaluso, Lodi and Sartori, "Self-Supervised Bernoulli Autoencoders for
Semi-Supervised Hashing" (2020). With ``--paper`` it is trained as the authors' code does
(:func:`paper_settings`). These parts are ours, in the recipe without it:

- the input: TF-IDF rows of unit length instead of ln(1 + tf), over the terms that distinguish
  classes;
- word dropout on the input, so that the decoder must reconstruct words that the encoder does not
  see, and noise on vectors;
- idf in the target, so that informative words weigh more than frequent ones;
- soft labels of unlabelled documents, from linear classifiers;
- a second class head, on the bits;
- dropout of hidden units that increases with the share of labels;
- no pair loss: beside soft labels it changed nothing;
- bits for content, which find a text by a few of its words (the inverse cloze task).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch

from hummingbit.encoder.artifact import check_destination
from hummingbit.encoder.encoder import Features
from hummingbit.encoder.recipes import AutoencoderRecipe
from hummingbit.encoder.text_features import Floats, TextFeatures
from hummingbit.foundation.slices import begin_stage
from hummingbit.training.batches import touches_few_terms, vector_scale
from hummingbit.training.data import Tags, TrainingData
from hummingbit.training.loop import Schedule, choose_device, fit_and_write
from hummingbit.training.networks import (
    Autoencoder,
    BernoulliAutoencoder,
    Shape,
    autoencoder_to_encoder,
)
from hummingbit.training.objectives.autoencoder import AutoencoderLoss, AutoencoderSettings
from hummingbit.training.pipeline import (
    Split,
    Trained,
    check_labels,
    choose_features,
    one_blas_thread,
    split,
)
from hummingbit.training.soft_labels import estimate_soft_labels, term_weights
from hummingbit.training.text_features import keep_terms

# Soft labels are estimated from this many times the terms that the encoder may have.
_CANDIDATES = 10

PAPER_BATCH_SIZE = 100
# Powers of ten that the authors chose for Snippets, for shares of labels of 0.1, 0.2, … 1.0: of the
# weight of class loss and pairs, and of that of the class loss beside the pairs. Their scripts
# (https://github.com/amacaluso/SSB-VAE, ``test_all_*.sh``) have them; the paper has their range.
_PAPER_POWERS = (-4, -2, 4, 4, 1, 1, 0, 5, -1, 4), (4, 5, 4, 4, 4, 3, 4, 5, 3, 3)


R = TypeVar("R", bound=AutoencoderRecipe)


def as_in_the_paper(recipe: R) -> R:
    """Return the recipe with the schedule of the authors' code, and without word dropout."""
    return replace(
        recipe,
        paper=True,
        epochs=30,
        batch_size=PAPER_BATCH_SIZE,
        learning_rate=1e-3,
        word_dropout=0.0,
        content_share=0.0,
    )


def paper_settings(
    label_fraction: float,
    n_bits: int,
    *,
    powers: tuple[tuple[int, ...], tuple[int, ...]] = _PAPER_POWERS,
    kl_weight: float = 1 / 64,
) -> AutoencoderSettings:
    """Return the settings of the authors' code, by default those for Snippets.

    There a run minimizes reconstruction + λ KL + `a` (`g` class loss + pairs), where pairs are
    summed over a batch of M = 100 and divided by the B bits. Here pairs are divided by M, so α is
    `a` M / B and β is `a` `g`. The `powers` of ten of `a` and of `g` are those of the nearest tenth
    of labels, and λ is the `kl_weight`. The input is a vector as it is, or ln(1 + tf) of the most
    frequent terms, and the target has tf scaled to a sum of 1. Hidden layers are ReLU → BatchNorm.
    One softmax predicts the classes, also where documents have several labels.
    """
    tenth = min(9, max(0, round(10 * label_fraction) - 1))
    a, g = (10.0 ** power[tenth] for power in powers)
    return AutoencoderSettings(
        kl_weight=kl_weight,
        pointwise_weight=a * g,
        code_class_weight=0.0,
        pairwise_weight=a * PAPER_BATCH_SIZE / n_bits,
        soft_labels=False,
        terms="frequent",
        features="log-tf",
        idf_target=False,
        hidden_dropout=0.0,
        vector_noise=0.0,
        scale_vectors=False,
        batch_norm=True,
        learning_rate_decay=False,
        softmax_classes=True,
    )


@dataclass(frozen=True)
class Design:
    """An autoencoder's settings, network and loss, which experiments vary."""

    settings: AutoencoderSettings
    network: Callable[[Shape, float], Autoencoder] = BernoulliAutoencoder
    loss: type[AutoencoderLoss] = AutoencoderLoss
    uses_labels: bool = True


def choose_features_and_soft_labels(
    data: TrainingData, parts: Split, recipe: AutoencoderRecipe, settings: AutoencoderSettings
) -> tuple[Features, Floats | None]:
    """Return the features of the training documents and their soft labels, ``[N, C]``.

    Classifiers can use rare words for which an encoder has no room. So soft labels are estimated
    from ten times the encoder's terms, and the encoder gets the terms that tell most about the soft
    labels, such as a name in a signature rather than a stop word. Without soft labels, or if
    documents have several classes, the encoder gets the most frequent terms, and the soft labels
    are None.

    Raises:
        TrainingDataError: if no term occurs in two texts.
    """

    def choose(max_terms: int) -> Features:
        return choose_features(data, parts.training, max_terms, settings.features, recipe.analyzer)

    if not settings.soft_labels or data.is_multi_label:
        return choose(recipe.max_terms), None
    candidates = recipe.max_terms * (_CANDIDATES if settings.terms == "telling" else 1)
    features = choose(candidates)
    rows = features.transform(data.take(parts.training))  # type: ignore[arg-type]
    begin_stage("estimating soft labels")
    soft_labels = estimate_soft_labels(rows, parts.visible_tags[parts.training], recipe.seed)
    if isinstance(features, TextFeatures) and features.dimension > recipe.max_terms:
        weights = term_weights(rows, soft_labels)
        heaviest = np.argsort(-weights, kind="stable")[: recipe.max_terms]
        features = keep_terms(features, heaviest)
    return features, soft_labels


@one_blas_thread()
def train(
    data: TrainingData,
    recipe: AutoencoderRecipe,
    out: Path,
    *,
    design: Design | None = None,
    overwrite: bool = False,
    progress: bool = True,
    device: str = "cpu",
    amp: bool = False,
) -> Trained:
    """Train on `data` with `recipe` and write the encoder to `out`.

    An interrupted run resumes from the checkpoint beside `out`. `device` is ``cpu`` or ``cuda``.
    With `amp`, the network computes in bfloat16 where that is safe. Both change how sums are
    rounded, and so the encoder slightly. An experiment's `design` takes the place of our recipe
    and of the paper's.

    Raises:
        DeviceError: if this machine has no such device.
        TrainingDataError: if there are too few documents or labelled documents.
        ArtifactError: if `out` exists and `overwrite` is false.
        CheckpointError: if a checkpoint of another run lies beside `out`.
    """
    check_destination(out, overwrite=overwrite)
    torch_device = choose_device(device)
    if design is None:
        recipe = as_in_the_paper(recipe) if recipe.paper else recipe
        settings = paper_settings(recipe.label_fraction, recipe.n_bits)
        design = Design(settings if recipe.paper else AutoencoderSettings())
    settings = design.settings
    parts = split(data, recipe)
    if design.uses_labels:
        check_labels(data, parts, recipe.validation_share)
    features, soft_labels = choose_features_and_soft_labels(data, parts, recipe, settings)
    inputs, tags = data.take(parts.training), parts.visible_tags[parts.training]
    model = build_model(
        recipe,
        design,
        features,
        len(data.classes),
        vector_scale=vector_scale(features, inputs) if settings.scale_vectors else 1.0,
        dropout=hidden_dropout(settings, features, tags),
        sparse_gradient=touches_few_terms(features, inputs, recipe.batch_size),
    ).to(torch_device)
    loss = design.loss(
        model,
        recipe,
        features,
        inputs,
        tags,
        settings=settings,
        multi_label=data.is_multi_label and not settings.softmax_classes,
        soft_labels=soft_labels,
        amp=amp,
    )
    return fit_and_write(
        out,
        model,
        loss,
        rows=len(parts.training),
        schedule=schedule_of(recipe, settings),
        data=data,
        parts=parts,
        recipe=recipe,
        encoder_of=lambda: autoencoder_to_encoder(model, features, inputs),
        run={"device": device, "amp": amp},
        soft_labels=soft_labels,
        overwrite=overwrite,
        progress=progress,
    )


def schedule_of(recipe: AutoencoderRecipe, settings: AutoencoderSettings) -> Schedule:
    """Return the schedule of a run."""
    return Schedule(
        recipe.epochs,
        recipe.batch_size,
        recipe.learning_rate,
        recipe.seed,
        decay=settings.learning_rate_decay,
    )


def hidden_dropout(settings: AutoencoderSettings, features: Features, tags: Tags) -> float:
    """Return the rate at which hidden units drop out.

    It is proportional to the share of documents with visible labels. A network memorizes labels,
    which are certain; it cannot memorize soft labels.
    """
    if not isinstance(features, TextFeatures):
        return 0.0
    return settings.hidden_dropout * float(tags.any(axis=1).mean())


def build_model(
    recipe: AutoencoderRecipe,
    design: Design,
    features: Features,
    classes: int,
    *,
    vector_scale: float = 1.0,
    dropout: float = 0.0,
    sparse_gradient: bool = True,
) -> Autoencoder:
    """Return the network of a design, with weights drawn with the recipe's seed.

    `vector_scale` multiplies the vectors that enter the first layer. `dropout` is the rate at which
    hidden units drop out. `sparse_gradient` is that of the first layer for texts.
    """
    content_bits = recipe.content_bits if isinstance(features, TextFeatures) else 0
    shape = Shape.of(
        features,
        recipe.hidden,
        recipe.n_bits - content_bits,
        # A class head needs at least one output; without classes it is not used.
        classes=max(1, classes),
        batch_norm=design.settings.batch_norm,
        dropout=dropout,
        input_scale=vector_scale,
        sparse_gradient=sparse_gradient,
        content_bits=content_bits,
    )
    torch.manual_seed(recipe.seed)
    return design.network(shape, design.settings.temperature)
