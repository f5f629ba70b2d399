"""Students by the objectives that perception coherence is compared with, each with its settings.

``hummingbit distill`` has the objectives ``neighbours`` and ``perception-coherence``. Here a
student of the same network learns from any of :data:`TRANSFER_OBJECTIVES`, by a recipe that has
their settings.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from experiments.perception_coherence.transfer_losses import (
    OBJECTIVES,
    HintLoss,
    transfer_objective,
)
from hummingbit.encoder.recipes import NEIGHBOURS, DistillationRecipe, setting
from hummingbit.training import distillation
from hummingbit.training.data import TrainingData
from hummingbit.training.distillation import CoherenceLoss, distill
from hummingbit.training.layers import (
    relaxed_bernoulli,
    relaxed_hamming,
    straight_through_signs,
)
from hummingbit.training.loop import Schedule
from hummingbit.training.objectives.dissimilarity import cosine_dissimilarity
from hummingbit.training.pipeline import Trained
from hummingbit.training.teachers import Teacher

COHERENCE = "perception-coherence"
TRANSFER_OBJECTIVES = tuple(OBJECTIVES)
ALL_OBJECTIVES = (NEIGHBOURS, *TRANSFER_OBJECTIVES)


@dataclass(frozen=True)
class RivalRecipe(DistillationRecipe):
    """The settings of a student by any objective; the loss is the objective + the weighted hint."""

    objective: str = setting(COHERENCE, "the loss", *ALL_OBJECTIVES)
    batch_size: int = setting(distillation.BATCH_SIZE, "documents in a batch", within="[2, inf)")
    learning_rate: float = setting(distillation.LEARNING_RATE, "step size", within="(0, 1]")
    word_dropout: float = setting(
        distillation.WORD_DROPOUT, "mean share of words left out", within="[0, 0.5]"
    )
    relaxation: str = setting(
        "tanh", "bits during training", *("tanh", "bernoulli", "straight-through")
    )
    temperature: float = setting(1.0, "temperature of the relaxed bits", within="(0, 100]")
    teacher_temperature: float = setting(
        distillation.TEACHER_TEMPERATURE, "τ of the teacher's ranks", within="(0, 100]"
    )
    student_temperature: float = setting(
        distillation.STUDENT_TEMPERATURE, "τ of the student's ranks", within="(0, 100]"
    )
    hint_weight: float = setting(0.0, "weight of the hint", within="[0, 1_000_000_000)")

    def settings_of_loss(self) -> dict[str, Any]:
        """Return the keywords of the objective for relaxed bits."""
        if self.objective == COHERENCE:
            return {
                "student_dissimilarity": relaxed_hamming,
                "student_temperature": self.student_temperature,
                "teacher_temperature": self.teacher_temperature,
            }
        if self.objective == "mkt":
            return {
                "student_dissimilarity": relaxed_hamming,
                "teacher_dissimilarity": cosine_dissimilarity,
            }
        return {}


class RivalLoss(CoherenceLoss):
    """The loss of a :class:`RivalRecipe`."""

    @property
    def recipe(self) -> RivalRecipe:
        """The recipe, which has the settings of the objective."""
        assert isinstance(self._recipe, RivalRecipe)  # noqa: S101 - of distill_rival
        return self._recipe

    def build_losses(self, teacher_dim: int, n_examples: int) -> dict[str, nn.Module]:
        """Return the objective and, if it has a weight, the hint loss."""
        recipe = self.recipe
        self.word_dropout = recipe.word_dropout
        objective = transfer_objective(
            recipe.objective, recipe.n_bits, teacher_dim, n_examples, **recipe.settings_of_loss()
        )
        losses = {"objective": objective}
        if recipe.hint_weight:
            losses["hint"] = HintLoss(recipe.n_bits, teacher_dim)
        return losses

    def schedule(self) -> Schedule:
        """Return the schedule of the recipe."""
        recipe = self.recipe
        return Schedule(recipe.epochs, recipe.batch_size, recipe.learning_rate, recipe.seed)

    def transfer_terms(
        self, logits_NB: Tensor, teacher_NE: Tensor, generator: torch.Generator
    ) -> dict[str, Tensor]:
        """Return the objective of relaxed bits and, if it has a weight, the hint."""
        recipe = self.recipe
        bits_NB = relaxed_bits(logits_NB, recipe.relaxation, recipe.temperature, generator)
        terms = {"transfer_loss": self.losses["objective"](bits_NB, teacher_NE)}
        if recipe.hint_weight:
            terms["hint_loss"] = recipe.hint_weight * self.losses["hint"](bits_NB, teacher_NE)
        return terms


def distill_rival(
    data: TrainingData, teacher: Teacher, recipe: DistillationRecipe, out: Path, **options: Any
) -> Trained:
    """Train a student of `teacher` by the objective of a recipe, as :func:`distill` does."""
    loss_of = RivalLoss if isinstance(recipe, RivalRecipe) else None
    return distill(data, teacher, recipe, out, loss_of=loss_of, **options)


def relaxed_bits(
    logits_NB: Tensor, relaxation: str, temperature: float, generator: torch.Generator
) -> Tensor:
    """Return bits relaxed to [−1, 1], ``(N, B)``.

    - ``tanh``: tanh(l / τ).
    - ``bernoulli``: 2b − 1 with b a relaxed draw from Ber(σ(l)) at temperature τ
      (:func:`hummingbit.training.layers.relaxed_bernoulli`): undecided bits are noisy, which drives
      logits away from 0.
    - ``straight-through``: signs of l / τ, with the gradient of tanh.

    Raises:
        ValueError: if `relaxation` is not one of these.
    """
    if relaxation == "bernoulli":
        return 2 * relaxed_bernoulli(logits_NB, temperature, generator) - 1
    if relaxation == "tanh":
        return torch.tanh(logits_NB / temperature)
    if relaxation == "straight-through":
        return straight_through_signs(logits_NB / temperature)
    raise ValueError(
        f"relaxation is {relaxation!r}; it must be tanh, bernoulli or straight-through"
    )
