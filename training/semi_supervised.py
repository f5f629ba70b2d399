"""SSB-VAE from documents to an encoder: the pipeline behind ``hummingbit train ssb-vae``.

Source: Ñanculef, Mena, Macaluso, Lodi and Sartori, "Self-Supervised Bernoulli Autoencoders for
Semi-Supervised Hashing" (2020). Ours are the input, TF-IDF rows of unit length instead of
ln(1 + tf); word dropout on it, so that the decoder must rebuild the words that the encoder was not
shown; and idf in the target, so that telling words count for more than frequent ones.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from encoder.artifact import ArtifactError, write_artifact
from encoder.encoder import Encoder
from encoder.features import Features, TextFeatures, VectorFeatures
from encoder.manifest import LABELLED_IDS, METRICS
from training.batches import SparseBatch, drop_words, word_distribution
from training.checkpoint import Checkpoint, History
from training.data import (
    UNLABELLED,
    Labels,
    Rows,
    TrainingData,
    TrainingDataError,
    hold_out,
    mask_labels,
)
from training.export import to_encoder
from training.loop import Schedule, fit
from training.models import BernoulliAutoencoder
from training.objectives.elbo import kl_loss
from training.objectives.pairwise import pairwise_loss
from training.objectives.pointwise import pointwise_loss
from training.recipe import Recipe
from training.validation import validate
from training.vocabulary import fit_text_features


@dataclass(frozen=True)
class Trained:
    """An encoder as it was written, and what was measured on the way."""

    encoder: Encoder
    labelled_ids: tuple[str, ...]
    validation: Mapping[str, Any]
    history: History


def train_ssb_vae(
    data: TrainingData,
    recipe: Recipe,
    out: Path,
    *,
    overwrite: bool = False,
    progress: bool = True,
) -> Trained:
    """Train on `data` and write the encoder to `out`.

    A run that was broken off goes on from the checkpoint that lies beside `out`.

    Raises:
        TrainingDataError: if too few documents are labelled.
        ArtifactError: if `out` exists and `overwrite` is false.
        CheckpointError: if a checkpoint of another run lies beside `out`.
    """
    if out.exists() and not overwrite:
        raise ArtifactError(f"{out} already exists; choose another place, or overwrite it")
    training, validation, labels = _split(data, recipe)
    features = _choose_features(data, training, recipe)
    torch.manual_seed(recipe.seed)
    model = BernoulliAutoencoder(
        inputs=features.dimension,
        hidden=recipe.hidden,
        n_bits=recipe.n_bits,
        classes=len(data.classes),
        temperature=recipe.temperature,
        text=data.is_text,
    )
    checkpoint = Checkpoint(out.with_name(out.name + ".checkpoint"), _run_key(data, recipe))
    history = fit(
        model,
        _SsbVaeLoss(model, recipe, features, data.take(training), labels[training]),
        len(training),
        Schedule(recipe.epochs, recipe.batch_size, recipe.learning_rate, recipe.seed),
        checkpoint=checkpoint,
        progress=progress,
    )
    labelled = np.flatnonzero(labels != UNLABELLED)
    encoder = to_encoder(model.encoder, features, metadata={})
    figures = validate(
        encoder,
        shown=data.labelled(labelled),
        database=data.labelled(training),
        queries=data.labelled(validation),
    )
    labelled_ids = tuple(data.ids[row] for row in labelled)
    written = write_artifact(
        out,
        replace(encoder, metadata=_metadata(data, recipe, len(labelled), figures)),
        data.take(training[:1000]),
        extra_files={
            LABELLED_IDS: json.dumps(labelled_ids, ensure_ascii=False, indent=0) + "\n",
            METRICS: json.dumps({"validation": figures, "epochs": history}, indent=2) + "\n",
        },
        overwrite=overwrite,
    )
    checkpoint.remove()
    return Trained(written, labelled_ids, figures, history)


def is_trained_on(encoder: Encoder, data: TrainingData, recipe: Recipe) -> bool:
    """Return whether `encoder` is what training on `data` by `recipe` would give."""
    about = encoder.metadata
    same_data = about.get("trained_on", {}).get("sha256") == _content_hash(data)
    return same_data and about.get("recipe") == asdict(recipe)


def _split(data: TrainingData, recipe: Recipe) -> tuple[Rows, Rows, Labels]:
    """Return the rows to train on, those to validate on, and the labels that are shown."""
    if len(data.classes) < 2:
        found = f"the documents carry {len(data.classes)} distinct labels"
        raise TrainingDataError(f"label: {found}; semi-supervised training needs at least two")
    rng = np.random.default_rng(recipe.seed)
    training, validation = hold_out(data.labels, recipe.validation_share, rng)
    labels = data.labels.copy()
    labels[validation] = UNLABELLED
    labels = mask_labels(labels, recipe.supervision, rng)
    shown = np.unique(labels[labels != UNLABELLED])
    if len(shown) < 2 or not len(validation):
        found = f"supervision {recipe.supervision:g} shows {len(shown)} of the classes"
        rest = f"and {len(validation)} documents are held out"
        raise TrainingDataError(f"label: {found} {rest}; more labelled documents are needed")
    return training, validation, labels


def _choose_features(data: TrainingData, training: Rows, recipe: Recipe) -> Features:
    inputs = data.take(training)
    if isinstance(inputs, np.ndarray):
        return VectorFeatures(dimension=inputs.shape[1])
    return fit_text_features(inputs, recipe.max_terms)


class _SsbVaeLoss:
    """The loss terms of SSB-VAE for batches of the documents trained on."""

    def __init__(
        self,
        model: BernoulliAutoencoder,
        recipe: Recipe,
        features: Features,
        inputs: Any,
        labels: Labels,
    ) -> None:
        self._model = model
        self._recipe = recipe
        self._labels = labels
        if isinstance(features, TextFeatures):
            counts = features.count_terms(inputs)
            self._x = features.weigh(counts)
            self._targets = word_distribution(counts, features.idf)
        else:
            self._x = self._targets = features.transform(inputs)

    def __call__(self, rows: Rows, generator: torch.Generator) -> dict[str, Tensor]:
        recipe = self._recipe
        x, targets = self._batch(rows, generator)
        labels = torch.from_numpy(self._labels[rows])
        out = self._model(x, generator)
        predicted = out.class_logits_NC.argmax(dim=1)
        pointwise = pointwise_loss(out.class_logits_NC, labels)
        pairwise = pairwise_loss(out.b_NB, predicted, margin=recipe.n_bits / 3)
        return {
            "reconstruction_loss": self._model.decoder(out.b_NB, targets).mean(),
            "kl_loss": recipe.kl_weight * kl_loss(out.logits_NB),
            "pointwise_loss": recipe.pointwise_weight * pointwise,
            "pairwise_loss": recipe.pairwise_weight * pairwise,
        }

    def _batch(
        self, rows: Rows, generator: torch.Generator
    ) -> tuple[SparseBatch | Tensor, SparseBatch | Tensor]:
        if isinstance(self._x, np.ndarray):
            x_ND = torch.from_numpy(self._x[rows])
            return x_ND, x_ND
        x = drop_words(SparseBatch.of_rows(self._x, rows), self._recipe.word_dropout, generator)
        return x, SparseBatch.of_rows(self._targets, rows)


def _metadata(
    data: TrainingData, recipe: Recipe, labelled: int, figures: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        "method": "ssb-vae",
        "recipe": asdict(recipe),
        "trained_on": {
            "documents": len(data),
            "labelled": labelled,
            "classes": list(data.classes),
            "sha256": _content_hash(data),
        },
        "validation": dict(figures),
    }


def _run_key(data: TrainingData, recipe: Recipe) -> str:
    return json.dumps({"recipe": asdict(recipe), "data": _content_hash(data)}, sort_keys=True)


def _content_hash(data: TrainingData) -> str:
    digest = hashlib.sha256()
    for row, (name, label) in enumerate(zip(data.ids, data.labels.tolist(), strict=True)):
        content = data.inputs[row]
        raw = content.encode() if isinstance(content, str) else content.tobytes()
        head = json.dumps([name, label, len(raw)])
        digest.update(head.encode() + raw)
    return digest.hexdigest()
