"""The objectives that transfer a teacher's features to a student, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from torch import Tensor, nn

from training.objectives.perception_coherence import perception_coherence_embedding_loss
from training.objectives.transfer_baselines import (
    ContrastiveRepresentationLoss,
    HintLoss,
    probabilistic_transfer_loss,
    relational_loss,
    similarity_matching_loss,
)
from training.objectives.variational_information import VariationalInformationLoss

TransferLoss = Callable[[Tensor, Tensor], Tensor]
"""From features of the student ``[B, D]`` and the teacher ``[B, E]`` to a scalar."""

FEATURE_LOSSES: Mapping[str, Callable[..., Tensor]] = MappingProxyType(
    {
        "perception-coherence": perception_coherence_embedding_loss,
        "pkt": probabilistic_transfer_loss,
        "rkd": relational_loss,
        "mkt": similarity_matching_loss,
    }
)
"""Losses of features without parameters."""

OBJECTIVES = (*FEATURE_LOSSES, "fitnet", "crd", "vid")


def transfer_objective(
    name: str, student_dim: int, teacher_dim: int, n_examples: int, **settings: Any
) -> nn.Module:
    """Return the objective `name` as a module from (student ``[B, D]``, teacher ``[B, E]``).

    Parameters of its own, such as a projection, must be trained with the student and dropped
    afterwards. `n_examples` is the size of the training set, which ``crd`` needs. `settings` are
    keyword arguments of the loss, such as ``student_temperature``.

    Raises:
        ValueError: if `name` is not one of :data:`OBJECTIVES`.
    """
    if name in FEATURE_LOSSES:
        return _Parameterless(partial(FEATURE_LOSSES[name], **settings))
    if name == "fitnet":
        return HintLoss(student_dim, teacher_dim)
    if name == "crd":
        return ContrastiveRepresentationLoss(student_dim, teacher_dim, n_examples, **settings)
    if name == "vid":
        return VariationalInformationLoss(student_dim, teacher_dim)
    raise ValueError(f"objective is {name!r}; it must be one of {', '.join(OBJECTIVES)}")


class _Parameterless(nn.Module):
    """A module for a loss without parameters."""

    def __init__(self, loss: TransferLoss) -> None:
        super().__init__()
        self.loss = loss

    def forward(self, student_BD: Tensor, teacher_BE: Tensor) -> Tensor:
        """Return the loss; a scalar."""
        return self.loss(student_BD, teacher_BE)
