"""The settings of a distillation. This module is cheap to import: it needs no torch."""

from __future__ import annotations

from dataclasses import dataclass

from training.recipe_settings import (
    analyzer_setting,
    check_settings,
    setting,
    summary_weight_setting,
)

TRANSFER_OBJECTIVES = ("perception-coherence", "pkt", "rkd", "mkt", "fitnet", "crd", "vid")
"""The names that :func:`training.objectives.transfer_objectives.transfer_objective` accepts."""

NEIGHBOURS = "neighbours"
"""The objective of :mod:`training.distillation.neighbour_student`, for texts without labels."""

OBJECTIVES = (NEIGHBOURS, *TRANSFER_OBJECTIVES)


_OF_TRANSFER = {
    "hidden",
    "relaxation",
    "temperature",
    "teacher_temperature",
    "student_temperature",
}


def settings_without_effect(objective: str) -> set[str]:
    """Return the settings of :class:`DistillationRecipe` that only other objectives have."""
    return _OF_TRANSFER if objective == NEIGHBOURS else {"least_batches", "summary_weight"}


def default_objective(recipe: DistillationRecipe, *, is_text: bool) -> str:
    """Return the objective where none is named: neighbours if its student can be trained.

    It learns from the words of texts, without a hint.
    """
    return NEIGHBOURS if is_text and not recipe.hint_weight else "perception-coherence"


@dataclass(frozen=True)
class DistillationRecipe:
    """The settings that, with the documents and the teacher, determine the outcome.

    The loss is the objective + `hint_weight` · hint. The objective neighbours is a loss of its own,
    without hint.

    Raises:
        RecipeError: if a setting is out of its range. The message names it.
    """

    method: str = setting("distillation", "what is trained", "distillation")
    objective: str = setting(
        "perception-coherence", "the loss that makes the student imitate the teacher", *OBJECTIVES
    )
    n_bits: int = setting(64, "bits in a code, a multiple of 8")
    seed: int = setting(0, "random seed")
    epochs: int = setting(30, "passes over the documents")
    least_batches: int = setting(
        2000,
        "least number of batches; with few documents, more passes are made to reach it"
        " (neighbours)",
    )
    batch_size: int = setting(128, "documents in a batch, all compared with each other")
    learning_rate: float = setting(3e-3, "step size of Adam")
    hidden: int = setting(256, "units in each of the two hidden layers (neighbours has none)")
    max_terms: int = setting(10_000, "terms in the vocabulary")
    analyzer: str = analyzer_setting()
    summary_weight: float = summary_weight_setting(NEIGHBOURS)
    word_dropout: float = setting(0.25, "mean share of a document's words left out of the input")
    relaxation: str = setting(
        "tanh",
        "bits during training: tanh of the logits, a random draw, or signs with tanh's gradient;"
        " neighbours has signs",
        "tanh",
        "bernoulli",
        "straight-through",
    )
    temperature: float = setting(1.0, "temperature of the relaxed bits (neighbours has none)")
    teacher_temperature: float = setting(0.1, "τ of the teacher's ranks in perception coherence")
    student_temperature: float = setting(0.3, "τ of the student's ranks in perception coherence")
    hint_weight: float = setting(0.0, "weight of regressing the teacher's vectors from the codes")
    threshold: str = setting("zero", "what a logit must exceed for a 1", "zero", "median")
    validation_share: float = setting(0.1, "share of the documents held out")

    def __post_init__(self) -> None:
        check_settings(self, self._ranges())

    def _ranges(self) -> dict[str, tuple[bool, str]]:
        takes_hint = self.objective != NEIGHBOURS
        temperatures = ("temperature", "teacher_temperature", "student_temperature")
        return {
            "least_batches": (self.least_batches >= 0, "0 or more"),
            "batch_size": (self.batch_size >= 2, "at least 2: documents are compared"),
            **{
                name: (0 < getattr(self, name) <= 100, "above 0 and at most 100")
                for name in temperatures
            },
            "hint_weight": (
                0 <= self.hint_weight < 1e9 if takes_hint else not self.hint_weight,
                "0 or more"
                if takes_hint
                else f"0 with the objective {NEIGHBOURS}; other objectives take it",
            ),
        }
