"""Knowledge distillation: learning the class probabilities of a teacher, softened."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional

from training.objectives.dissimilarity import check_batch


def soft_label_loss(student_BC: Tensor, teacher_BC: Tensor, temperature: float = 2.0) -> Tensor:
    """Return T² · (1/B) Σ_i KL(softmax(teacher_i / T) ‖ softmax(student_i / T)); a scalar.

    Both are logits of the same C classes. T² keeps the size of the gradient as T changes; no
    gradient flows into the teacher's. Source: Hinton, Vinyals and Dean, "Distilling the Knowledge
    in a Neural Network" (2015).

    Raises:
        ValueError: if the shapes differ, there are fewer than two rows, or `temperature` is not
            above 0.
    """
    check_batch(student_BC, teacher_BC)
    if student_BC.shape != teacher_BC.shape:
        shapes = f"{list(student_BC.shape)} and {list(teacher_BC.shape)}"
        raise ValueError(f"logits have shapes {shapes}; both must be of the same classes")
    if not temperature > 0:
        raise ValueError(f"temperature is {temperature}; it must be above 0")
    student = functional.log_softmax(student_BC / temperature, dim=1)
    teacher = functional.log_softmax(teacher_BC.detach() / temperature, dim=1)
    divergence = functional.kl_div(student, teacher, reduction="batchmean", log_target=True)
    return temperature**2 * divergence
