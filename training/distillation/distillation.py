"""Train an encoder from documents and a teacher's vectors, without labels: ``hummingbit distill``.

The student of the objective neighbours is that of :mod:`training.distillation.neighbour_student`.
That of the other objectives is a small network. The Hamming distances of its relaxed bits are
trained to follow the teacher's dissimilarities. The objective perception-coherence is from Nguyen
et al., "Feature Representation Transferring to Lightweight Models via Perception Coherence" (2026).
Ours are binary codes as the student's representation, with the relaxed Hamming distance as its
dissimilarity, and word dropout, which shows each document in many variants.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from encoder.artifact import check_destination
from encoder.artifact_files.origins import TEACHER
from encoder.encoder import Features
from encoder.features import TextFeatures
from encoder.recipes import NEIGHBOURS, DistillationRecipe, former_names
from training.checkpoint import Checkpoint
from training.data import Rows, TrainingData, TrainingDataError, hold_out
from training.distillation.neighbour_student import NeighbourLoss
from training.distillation.teacher_agreement import held_out_agreement
from training.distillation.teachers import Teacher, check_directions
from training.loop import Schedule, fit
from training.models.batches import SparseBatch, drop_words
from training.models.encoder_networks import AnyEncoderNetwork, EncoderNetwork, Shape
from training.models.export import to_encoder
from training.models.relaxed_bits import relaxed_bits, relaxed_hamming
from training.objectives.dissimilarity import cosine_dissimilarity
from training.objectives.transfer_baselines import HintLoss
from training.objectives.transfer_objectives import transfer_objective
from training.pipeline import (
    Split,
    Trained,
    choose_features,
    with_median_thresholds,
    write_encoder,
)
from training.semi_supervised import UNIT_ROW_SCALE


def distill(
    data: TrainingData,
    teacher: Teacher,
    recipe: DistillationRecipe,
    out: Path,
    *,
    overwrite: bool = False,
    progress: bool = True,
) -> Trained:
    """Train a student of `teacher` on `data` with `recipe` and write its encoder to `out`.

    A share of the documents, labelled or not, is held out. The coherence level of the codes on them
    is saved in the artifact. An interrupted run resumes from the checkpoint beside `out`.

    Raises:
        TeacherError: if a vector of the teacher is zero.
        TrainingDataError: if the documents are too few.
        ArtifactError: if `out` exists and `overwrite` is false.
        CheckpointError: if a checkpoint of another run lies beside `out`.
    """
    check_destination(out, overwrite=overwrite)
    check_directions(teacher, data)
    parts = split_documents(data, recipe)
    loss: NeighbourLoss | DistillationLoss
    if recipe.objective == NEIGHBOURS:
        loss = NeighbourLoss(data, teacher.vectors[parts.training], recipe, parts.training)
    else:
        features = choose_features(data, parts.training, recipe.max_terms, analyzer=recipe.analyzer)
        loss = DistillationLoss(data, teacher, recipe, features, parts)
    run = {"recipe": asdict(recipe), "data": data.sha256, "teacher": teacher.about()}
    checkpoint = Checkpoint(
        out.with_name(out.name + ".checkpoint"),
        json.dumps(run, sort_keys=True),
        renamed=former_names(DistillationRecipe),
    )
    history = fit(
        loss.model,
        loss,
        len(parts.training),
        loss.schedule(),
        checkpoint=checkpoint,
        progress=progress,
    )
    encoder = to_encoder(loss.model.encoder, loss.features, metadata={})
    if recipe.threshold == "median":
        encoder = with_median_thresholds(encoder, data.take(parts.training))
    trained = write_encoder(
        out,
        encoder,
        data,
        _without_unlabelled(parts, data),
        settings=asdict(recipe),
        history=history,
        about={
            TEACHER: teacher.about(),
            "coherence": held_out_agreement(encoder, data, teacher.vectors, parts),
        },
        overwrite=overwrite,
    )
    checkpoint.remove()
    return trained


def split_documents(data: TrainingData, recipe: DistillationRecipe) -> Split:
    """Hold out a share of all documents, and show no labels.

    If every document is labelled, it holds out what :func:`training.pipeline.split` does.

    Raises:
        TrainingDataError: if fewer than two documents are left to train on.
    """
    rng = np.random.default_rng(recipe.seed)
    all_documents = np.ones((len(data), 1), dtype=np.bool_)
    training, validation = hold_out(all_documents, recipe.validation_share, rng)
    if len(training) < 2:
        found = f"{len(training)} of {len(data)} documents are left to train on"
        raise TrainingDataError(f"{found}; a student compares documents and needs at least 2")
    return Split(training, validation, np.zeros_like(data.tags))


def _without_unlabelled(parts: Split, data: TrainingData) -> Split:
    """Return `parts` without the held-out documents that have no label."""
    labelled = data.tags[parts.validation].any(axis=1)
    return Split(parts.training, parts.validation[labelled], parts.visible_tags)


class Student(nn.Module):
    """An encoder network, with the modules of its objectives, which are dropped after training."""

    def __init__(self, encoder: AnyEncoderNetwork, losses: Mapping[str, nn.Module]) -> None:
        super().__init__()
        self.encoder = encoder
        self.losses = nn.ModuleDict(losses)


class DistillationLoss:
    """The loss terms of a recipe for batches of the training documents; `model` is the student."""

    def __init__(
        self,
        data: TrainingData,
        teacher: Teacher,
        recipe: DistillationRecipe,
        features: Features,
        parts: Split,
    ) -> None:
        self._recipe, self.features = recipe, features
        # The features are of these inputs.
        self._x: Any = features.transform(data.take(parts.training))  # type: ignore[arg-type]
        self._teacher = torch.from_numpy(teacher.vectors[parts.training])
        losses = _build_losses(recipe, self._teacher.shape[1], len(parts.training))
        self.model = Student(_build_encoder(recipe, features), losses)

    def schedule(self) -> Schedule:
        """Return the schedule of the recipe."""
        recipe = self._recipe
        return Schedule(recipe.epochs, recipe.batch_size, recipe.learning_rate, recipe.seed)

    def __call__(
        self,
        rows: Rows,
        generator: torch.Generator,
        progress: float,  # noqa: ARG002
    ) -> dict[str, Tensor]:
        """See :class:`training.loop.BatchLoss`."""
        recipe, losses = self._recipe, self.model.losses
        _, logits_NB = self.model.encoder(self._batch(rows, generator))
        bits_NB = relaxed_bits(logits_NB, recipe.relaxation, recipe.temperature, generator)
        teacher_NE = self._teacher[torch.from_numpy(rows)]
        terms = {"transfer_loss": losses["objective"](bits_NB, teacher_NE)}
        if recipe.hint_weight:
            terms["hint_loss"] = recipe.hint_weight * losses["hint"](bits_NB, teacher_NE)
        return terms

    def _batch(self, rows: Rows, generator: torch.Generator) -> SparseBatch | Tensor:
        if isinstance(self._x, np.ndarray):
            return torch.from_numpy(self._x[rows])
        return drop_words(SparseBatch.of_rows(self._x, rows), self._recipe.word_dropout, generator)


def _build_encoder(recipe: DistillationRecipe, features: Features) -> EncoderNetwork:
    text = isinstance(features, TextFeatures)
    torch.manual_seed(recipe.seed)
    return EncoderNetwork(
        Shape(
            inputs=features.dimension,
            hidden=recipe.hidden,
            n_bits=recipe.n_bits,
            classes=1,
            text=text,
            input_scale=UNIT_ROW_SCALE if text else 1.0,
        )
    )


def _build_losses(
    recipe: DistillationRecipe, teacher_dim: int, n_examples: int
) -> dict[str, nn.Module]:
    """Return the transfer objective and, if it has a weight, the hint loss."""
    settings: dict[str, Any] = {}
    if recipe.objective == "perception-coherence":
        settings = {
            "student_dissimilarity": relaxed_hamming,
            "student_temperature": recipe.student_temperature,
            "teacher_temperature": recipe.teacher_temperature,
        }
    elif recipe.objective == "mkt":
        settings = {
            "student_dissimilarity": relaxed_hamming,
            "teacher_dissimilarity": cosine_dissimilarity,
        }
    torch.manual_seed(recipe.seed)
    build = partial(transfer_objective, recipe.objective, recipe.n_bits, teacher_dim, n_examples)
    losses = {"objective": build(**settings)}
    if recipe.hint_weight:
        losses["hint"] = HintLoss(recipe.n_bits, teacher_dim)
    return losses
