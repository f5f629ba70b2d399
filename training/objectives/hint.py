"""FitNets' hint: the teacher's features, regressed from the student's."""

from __future__ import annotations

from torch import Tensor, nn

from training.objectives.dissimilarity import check_batch


def hint_loss(student_BE: Tensor, teacher_BE: Tensor) -> Tensor:
    """Return (1/B) Σ_i ½ ‖teacher_i − student_i‖²; a scalar. No gradient flows into the teacher's.

    Source: Romero et al., "FitNets: Hints for Thin Deep Nets" (2015), equation 3.

    Raises:
        ValueError: if the shapes differ or there are fewer than two rows.
    """
    check_batch(student_BE, teacher_BE)
    if student_BE.shape != teacher_BE.shape:
        shapes = f"{list(student_BE.shape)} and {list(teacher_BE.shape)}"
        raise ValueError(f"features have shapes {shapes}; regress the student's to the teacher's")
    return 0.5 * (teacher_BE.detach() - student_BE).square().sum(dim=1).mean()


class HintLoss(nn.Module):
    """The hint loss behind a linear regressor from student to teacher, trained with the student.

    The regressor stands only in training: what is kept of the student ends before it.
    """

    def __init__(self, student_dim: int, teacher_dim: int) -> None:
        super().__init__()
        self.regressor = nn.Linear(student_dim, teacher_dim)

    def forward(self, student_BD: Tensor, teacher_BE: Tensor) -> Tensor:
        """Return :func:`hint_loss` of the regressed student; a scalar."""
        return hint_loss(self.regressor(student_BD), teacher_BE)
