"""The settings of a semi-supervised run. This module is cheap to import: it needs no torch."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from encoder.codes import check_n_bits


class RecipeError(ValueError):
    """A setting is out of its range."""


def _setting(default: Any, help_text: str) -> Any:
    return field(default=default, metadata={"help": help_text})


@dataclass(frozen=True)
class Recipe:
    """All that decides the outcome of a run besides the documents.

    The loss is reconstruction + `kl_weight` · KL + `pointwise_weight` · cross-entropy
    + `pairwise_weight` · pairs, each a mean over the rows of a batch.

    Raises:
        RecipeError: naming the setting that is out of its range.
    """

    n_bits: int = _setting(32, "bits in a code, a multiple of 8")
    supervision: float = _setting(1.0, "share of the labelled documents whose labels are shown")
    seed: int = _setting(0, "seed of everything that is drawn")
    epochs: int = _setting(30, "passes over the documents")
    batch_size: int = _setting(100, "documents in a batch")
    learning_rate: float = _setting(1e-3, "step size of Adam")
    hidden: int = _setting(500, "units in each of the two hidden layers")
    max_terms: int = _setting(10_000, "terms in the vocabulary")
    temperature: float = _setting(0.67, "temperature of the relaxed bits")
    kl_weight: float = _setting(1 / 64, "weight of the divergence from Ber(1/2)")
    pointwise_weight: float = _setting(1.0, "weight of the class loss on labelled documents")
    pairwise_weight: float = _setting(1e-3, "weight of the loss on pairs of a batch")
    word_dropout: float = _setting(0.5, "mean share of a document's words left out of the input")
    validation_share: float = _setting(0.1, "share of the labelled documents held out")

    def __post_init__(self) -> None:
        try:
            check_n_bits(self.n_bits)
        except ValueError as error:
            raise RecipeError(str(error)) from None
        for name, (is_right, expected) in self._ranges().items():
            if not is_right:
                raise RecipeError(f"{name} is {getattr(self, name):g}; it must be {expected}")

    def _ranges(self) -> dict[str, tuple[bool, str]]:
        weights = ("kl_weight", "pointwise_weight", "pairwise_weight")
        return {
            "supervision": (0 < self.supervision <= 1, "above 0 and at most 1"),
            "seed": (0 <= self.seed < 2**63, "from 0 to 2⁶³ − 1"),
            "epochs": (self.epochs >= 1, "at least 1"),
            "batch_size": (self.batch_size >= 2, "at least 2"),
            "learning_rate": (0 < self.learning_rate <= 1, "above 0 and at most 1"),
            "hidden": (1 <= self.hidden <= 65_536, "from 1 to 65,536"),
            "max_terms": (1 <= self.max_terms <= 10_000_000, "from 1 to 10,000,000"),
            "temperature": (0 < self.temperature <= 100, "above 0 and at most 100"),
            "word_dropout": (0 <= self.word_dropout <= 0.5, "from 0 to 0.5"),
            "validation_share": (0 < self.validation_share < 1, "between 0 and 1"),
            **{name: (0 <= getattr(self, name) < 1e9, "0 or more") for name in weights},
        }


def setting_help(name: str) -> str:
    """Return what the setting `name` of :class:`Recipe` means, in a few words."""
    return next(str(one.metadata["help"]) for one in fields(Recipe) if one.name == name)
