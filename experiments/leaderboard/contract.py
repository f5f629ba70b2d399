"""What a method of the leaderboard is given, and what it returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from encoder.codes import Codes
from encoder.encoder import Inputs
from training.data import TrainingData

Encode = Callable[[Inputs], Codes]
"""Codes ``uint8[N, B/8]`` of N documents, of those learned from and of others."""


@dataclass(frozen=True)
class Task:
    """The documents to learn from, B, the seed, and ρ, the share of labels that may be read.

    `dataset` names the documents, for settings that a paper chose for them. Methods that use labels
    show themselves `supervision` of them; the others look at none.
    """

    dataset: str
    data: TrainingData
    n_bits: int
    seed: int
    supervision: float

    @property
    def texts(self) -> list[str]:
        """The documents as texts."""
        return [str(text) for text in self.data.inputs]


Learn = Callable[[Task], Encode]
"""A method: each module of one has it as ``learn``."""
