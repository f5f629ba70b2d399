"""The contract of the leaderboard's methods: what they receive and return."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hummingbit.encoder.codes import Codes
from hummingbit.encoder.encoder import Inputs
from hummingbit.training.data import TrainingData

Encode = Callable[[Inputs], Codes]
"""Returns the codes ``uint8[N, B/8]`` of N documents, which may be new to the method."""


@dataclass(frozen=True)
class Task:
    """The documents to learn from, B, the seed, and ρ, the share of labels that may be used.

    `dataset` names the documents, for settings that a paper chose for them. Methods that learn from
    labels use the share `supervision` of them; the others use none.
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


@dataclass(frozen=True)
class Encodings:
    """The functions of a method that encodes queries otherwise than documents."""

    documents: Encode
    queries: Encode


Learn = Callable[[Task], Encode | Encodings]
"""A method: trains on a task and returns how it encodes; ``learn`` in its module.

The function there takes the settings of the method by keyword, too.
"""


def encodings_of(learned: Encode | Encodings) -> Encodings:
    """Return what a method learned as two functions, the same one twice if it has only one."""
    return learned if isinstance(learned, Encodings) else Encodings(learned, learned)
