"""Training a teacher on labelled images and students on the teacher alone, in resumable pieces."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from experiments.code_version import code_version
from experiments.perception_coherence.cifar_images import Images
from experiments.perception_coherence.image_networks import (
    EMBEDDING_DIM,
    ResNet,
    SmallStudent,
    in_batches,
)
from training.checkpoint import Checkpoint
from training.objectives.dissimilarity import cosine_dissimilarity, euclidean_dissimilarity
from training.objectives.transfer_baselines import soft_label_loss
from training.objectives.transfer_objectives import transfer_objective

SOFT_LABELS = "kd"
_PADDING = 4
# Of a student, whose epoch can be shorter than writing one.
_EPOCHS_BETWEEN_CHECKPOINTS = 5
_DISSIMILARITIES = {"cosine": cosine_dissimilarity, "euclidean": euclidean_dissimilarity}


class OutOfTimeError(Exception):
    """The time for this piece is over; what was done is in a checkpoint."""


@dataclass
class Deadline:
    """When the piece must end; None means never."""

    at: float | None = None

    @classmethod
    def after(cls, minutes: float | None) -> Deadline:
        """Return the deadline `minutes` from now."""
        return cls(None if minutes is None else time.monotonic() + 60 * minutes)

    def passed(self) -> bool:
        """Whether the piece must end now."""
        return self.at is not None and time.monotonic() > self.at


@dataclass(frozen=True)
class TeacherRun:
    """How the teacher is built and trained."""

    widths: tuple[int, ...]
    blocks: int
    epochs: int
    images: int
    learning_rate: float = 0.05
    batch_size: int = 128
    seed: int = 0


@dataclass(frozen=True)
class Transfer:
    """How a student is trained on a teacher; `settings` are those of the objective."""

    method: str
    seed: int
    epochs: int
    images: int
    learning_rate: float = 1e-3
    settings: Mapping[str, Any] = field(default_factory=dict)
    width: float = 1.0
    batch_size: int = 128


@dataclass(frozen=True)
class TaughtImages:
    """Images with what the teacher sees in them and in their mirror images.

    ``x`` is float32[2, N, 3, 32, 32], the views; ``features`` [2, N, E]; ``logits`` [2, N, 10].
    """

    x: Tensor
    features: Tensor
    logits: Tensor
    labels: Tensor

    def split(self, n_per_class: int) -> tuple[TaughtImages, TaughtImages]:
        """Return the first `n_per_class` images of each class, and the others."""
        place = torch.zeros_like(self.labels)
        for label in torch.unique(self.labels):
            rows = self.labels == label
            place[rows] = torch.arange(int(rows.sum()), device=place.device)
        first = place < n_per_class
        return self._rows(first), self._rows(~first)

    def _rows(self, rows: Tensor) -> TaughtImages:
        features, logits = self.features[:, rows], self.logits[:, rows]
        return TaughtImages(self.x[:, rows], features, logits, self.labels[rows])


def train_teacher(run: TeacherRun, images: Images, path: Path, deadline: Deadline) -> ResNet:
    """Train on the labels with SGD, momentum 0.9, a cosine schedule, random crops and mirroring.

    Raises:
        OutOfTimeError: if the deadline passes after an epoch; call again to go on.
    """
    torch.manual_seed(run.seed)
    teacher = ResNet(run.widths, run.blocks).to(images.x.device)
    optimizer = torch.optim.SGD(
        teacher.parameters(), lr=run.learning_rate, momentum=0.9, nesterov=True, weight_decay=5e-4
    )
    checkpoint = Checkpoint(path, json.dumps({**asdict(run), "code": code_version()}))
    history = checkpoint.restore(teacher, [optimizer])
    for epoch in range(len(history), run.epochs):
        if deadline.passed():
            raise OutOfTimeError
        generator = torch.Generator().manual_seed(1_000_003 * run.seed + epoch)
        for group in optimizer.param_groups:
            group["lr"] = run.learning_rate * _cosine(epoch / run.epochs)
        teacher.train()
        total = 0.0
        for batch in _batches(len(images), run.batch_size, generator):
            x = _augment(images.x[batch], generator)
            loss = functional.cross_entropy(teacher(x), images.labels[batch])
            total += _descend(loss, [optimizer]) * len(batch)
        history.append({"loss": total / len(images)})
        checkpoint.save(teacher, [optimizer], history)
    return teacher


def show_to_teacher(teacher: ResNet, images: Images) -> TaughtImages:
    """Return the images and their mirror images with the teacher's features and logits."""
    views = torch.stack([images.x, images.x.flip(3)])
    features = torch.stack([in_batches(teacher, "features", x) for x in views])
    with torch.no_grad():
        return TaughtImages(views, features, teacher.head(features), images.labels)


def transfer(run: Transfer, taught: TaughtImages, path: Path, deadline: Deadline) -> SmallStudent:
    """Train a student on the teacher's features, or logits for soft labels; no labels are used.

    Adam with a cosine schedule; each image is mirrored with probability ½.

    Raises:
        OutOfTimeError: if the deadline passes after an epoch; call again to go on.
    """
    torch.manual_seed(run.seed)
    n = len(taught.labels)
    student = SmallStudent(run.width)
    objective: nn.Module = nn.Identity()
    if run.method != SOFT_LABELS:
        dim = taught.features.shape[2]
        objective = transfer_objective(run.method, EMBEDDING_DIM, dim, n, **_keywords(run))
    both = nn.ModuleList([student, objective]).to(taught.x.device)
    optimizer = torch.optim.Adam(both.parameters(), lr=run.learning_rate)
    checkpoint = Checkpoint(path, json.dumps({**asdict(run), "code": code_version()}))
    history = checkpoint.restore(both, [optimizer])
    for epoch in range(len(history), run.epochs):
        if deadline.passed():
            checkpoint.save(both, [optimizer], history)
            raise OutOfTimeError
        generator = torch.Generator().manual_seed(1_000_003 * run.seed + epoch)
        for group in optimizer.param_groups:
            group["lr"] = run.learning_rate * _cosine(epoch / run.epochs)
        both.train()
        total = 0.0
        for batch in _batches(n, run.batch_size, generator):
            view = torch.randint(2, (len(batch),), generator=generator)
            total += _descend(_loss(run, both, taught, view, batch), [optimizer]) * len(batch)
        history.append({"loss": total / n})
        if epoch % _EPOCHS_BETWEEN_CHECKPOINTS == 0:
            checkpoint.save(both, [optimizer], history)
    return student


def _keywords(run: Transfer) -> dict[str, Any]:
    """Return the settings with a dissimilarity, which is written by name, as a function."""
    keywords = dict(run.settings)
    name = keywords.pop("dissimilarity", None)
    if name is not None:
        chosen = _DISSIMILARITIES[name]
        keywords |= {"student_dissimilarity": chosen, "teacher_dissimilarity": chosen}
    return keywords


def _loss(
    run: Transfer, both: nn.ModuleList, taught: TaughtImages, view: Tensor, batch: Tensor
) -> Tensor:
    student, objective = both
    assert isinstance(student, SmallStudent)  # noqa: S101 - as it was put there
    features = student.features(taught.x[view, batch])
    if run.method == SOFT_LABELS:
        logits = student.logits(features)
        return soft_label_loss(logits, taught.logits[view, batch], **run.settings)
    loss: Tensor = objective(features, taught.features[view, batch])
    return loss


def _descend(loss: Tensor, optimizers: list[torch.optim.Optimizer]) -> float:
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    for optimizer in optimizers:
        optimizer.step()
    return loss.item()


def _batches(n: int, size: int, generator: torch.Generator) -> list[Tensor]:
    """Return shuffled batches of `size`; the rest is left out, as ranks depend on the size."""
    order = torch.randperm(n, generator=generator)
    return list(torch.split(order[: max(n - n % size, min(n, size))], size))


def _augment(x_N3HW: Tensor, generator: torch.Generator) -> Tensor:
    """Return random crops of the padded images, mirrored with probability ½."""
    n, _, height, width = x_N3HW.shape
    device = x_N3HW.device
    padded = functional.pad(x_N3HW, [_PADDING] * 4)
    down, right = torch.randint(0, 2 * _PADDING + 1, (2, n), generator=generator).to(device)
    rows = down[:, None] + torch.arange(height, device=device)
    columns = right[:, None] + torch.arange(width, device=device)
    mirrored = torch.rand(n, generator=generator).to(device) < 0.5
    columns = torch.where(mirrored[:, None], columns.flip(1), columns)
    image = torch.arange(n, device=device)[:, None, None]
    return padded[image, :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2).contiguous()


def _cosine(progress: float) -> float:
    return 0.5 * (1 + math.cos(math.pi * progress))
