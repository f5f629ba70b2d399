"""Training of a teacher on labelled images and of students on the teacher, resumable."""

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
from experiments.perception_coherence.image_networks import ResNet, SmallStudent, layers_in_batches
from experiments.perception_coherence.transfer_baselines import (
    HybridDivergence,
    LayerwiseLoss,
    critical_period_weights,
    soft_label_loss,
)
from experiments.perception_coherence.transfer_losses import transfer_objective
from hummingbit.training.loop import Checkpoint
from hummingbit.training.objectives.dissimilarity import (
    cosine_dissimilarity,
    euclidean_dissimilarity,
)

SOFT_LABELS = "kd"
HKD, AUXILIARY = "hkd", "hkd-auxiliary"
"""Heterogeneous knowledge distillation, and the transfer to its auxiliary teacher."""
_LAYERWISE = "-h"
"""The ending of an objective that is a sum over several layers."""
_PADDING = 4
# A student's epoch can be shorter than writing a checkpoint.
_EPOCHS_BETWEEN_CHECKPOINTS = 5
_DISSIMILARITIES = {"cosine": cosine_dissimilarity, "euclidean": euclidean_dissimilarity}


class OutOfTimeError(Exception):
    """The time of this run is over; its state is saved in a checkpoint."""


@dataclass
class Deadline:
    """The time at which a run must end, by the monotonic clock; None means never."""

    at: float | None = None

    @classmethod
    def after(cls, minutes: float | None) -> Deadline:
        """Return the deadline `minutes` from now."""
        return cls(None if minutes is None else time.monotonic() + 60 * minutes)

    def passed(self) -> bool:
        """Return whether the run must end now."""
        return self.at is not None and time.monotonic() > self.at


@dataclass(frozen=True)
class TeacherRun:
    """The settings of a teacher and its training."""

    widths: tuple[int, ...]
    blocks: int
    epochs: int
    images: int
    data: str
    """The hash of the data set."""
    learning_rate: float = 0.05
    batch_size: int = 128
    seed: int = 0


@dataclass(frozen=True)
class Transfer:
    """The settings of a student and its training; `settings` belong to the objective."""

    method: str
    seed: int
    epochs: int
    images: int
    data: str
    """The hash of the data set."""
    learning_rate: float = 1e-3
    settings: Mapping[str, Any] = field(default_factory=dict)
    width: float = 1.0
    depth: int = 4
    batch_size: int = 128


@dataclass(frozen=True)
class TaughtImages:
    """V views of N images, such as mirror images, with the teacher's outputs for each.

    ``x`` is float32[V, N, 3, 32, 32]; each of ``layers`` is [V, N, E], and the last are the
    features; ``logits`` [V, N, 10]. The first view is the images as they are.
    """

    x: Tensor
    layers: tuple[Tensor, ...]
    logits: Tensor
    labels: Tensor

    @property
    def features(self) -> Tensor:
        """The last layer, ``[V, N, E]``."""
        return self.layers[-1]

    def split(self, n_per_class: int) -> tuple[TaughtImages, TaughtImages]:
        """Return the first `n_per_class` images of each class, and the others."""
        rank_in_class = torch.zeros_like(self.labels)
        for label in torch.unique(self.labels):
            rows = self.labels == label
            rank_in_class[rows] = torch.arange(int(rows.sum()), device=rows.device)
        first = rank_in_class < n_per_class
        return self._select(first), self._select(~first)

    def _select(self, rows: Tensor) -> TaughtImages:
        layers = tuple(layer[:, rows] for layer in self.layers)
        return TaughtImages(self.x[:, rows], layers, self.logits[:, rows], self.labels[rows])


def train_teacher(run: TeacherRun, images: Images, path: Path, deadline: Deadline) -> ResNet:
    """Train on the labels with SGD, momentum 0.9, a cosine schedule, random crops and mirroring.

    Raises:
        OutOfTimeError: if the deadline passes; to resume, call again with the same path.
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
            group["lr"] = run.learning_rate * _cosine_decay(epoch / run.epochs)
        teacher.train()
        total = 0.0
        for batch in batches_of_equal_size(len(images), run.batch_size, generator):
            x = augment(images.x[batch], generator)
            logits = teacher.logits(teacher.features(x))
            loss = functional.cross_entropy(logits, images.labels[batch])
            total += step(loss, optimizer) * len(batch)
        history.append({"loss": total / len(images)})
        checkpoint.save(teacher, [optimizer], history)
    return teacher


def two_views(images: Images) -> Tensor:
    """Return the images and their mirror images, ``[2, N, 3, 32, 32]``."""
    return torch.stack([images.x, images.x.flip(3)])


def random_views(images: Images, count: int, seed: int) -> Tensor:
    """Return the images and `count` draws of :func:`augment`, ``[1 + count, N, 3, 32, 32]``."""
    generator = torch.Generator().manual_seed(seed)
    return torch.stack([images.x, *(augment(images.x, generator) for _ in range(count))])


@torch.no_grad()
def taught_by(teacher: ResNet | SmallStudent, views: Tensor, labels: Tensor) -> TaughtImages:
    """Return views of images with the teacher's layers and logits."""
    outputs = [layers_in_batches(teacher, x) for x in views]
    layers = tuple(torch.stack(layer) for layer in zip(*outputs, strict=True))
    return TaughtImages(views, layers, teacher.logits(layers[-1]), labels)


def transfer(run: Transfer, taught: TaughtImages, path: Path, deadline: Deadline) -> SmallStudent:
    """Train a student on the teacher's features, or logits for soft labels; no labels are used.

    Adam with a cosine schedule; a random view of each image.

    Raises:
        OutOfTimeError: if the deadline passes; to resume, call again with the same path.
    """
    torch.manual_seed(run.seed)
    n = len(taught.labels)
    student = SmallStudent(run.width, run.depth)
    objective = make_objective(run, student, taught)
    modules = nn.ModuleList([student, objective]).to(taught.x.device)
    optimizer = torch.optim.Adam(modules.parameters(), lr=run.learning_rate)
    checkpoint = Checkpoint(path, json.dumps({**asdict(run), "code": code_version()}))
    history = checkpoint.restore(modules, [optimizer])
    for epoch in range(len(history), run.epochs):
        if deadline.passed():
            checkpoint.save(modules, [optimizer], history)
            raise OutOfTimeError
        generator = torch.Generator().manual_seed(1_000_003 * run.seed + epoch)
        for group in optimizer.param_groups:
            group["lr"] = run.learning_rate * _cosine_decay(epoch / run.epochs)
        modules.train()
        total = 0.0
        for batch in batches_of_equal_size(n, run.batch_size, generator):
            view = torch.randint(len(taught.x), (len(batch),), generator=generator)
            loss = transfer_loss(run, modules, taught, (view, batch), epoch)
            total += step(loss, optimizer) * len(batch)
        history.append({"loss": total / n})
        if epoch % _EPOCHS_BETWEEN_CHECKPOINTS == 0:
            checkpoint.save(modules, [optimizer], history)
    return student


def make_objective(run: Transfer, student: SmallStudent, taught: TaughtImages) -> nn.Module:
    """Return the objective of a run; that of several layers pairs them from the last backwards."""
    if run.method == SOFT_LABELS:
        return nn.Identity()
    if run.method == AUXILIARY:
        return HybridDivergence()
    n, keywords = len(taught.labels), _keywords(run)
    if not _is_layerwise(run.method):
        dims = student.features_dim, taught.features.shape[2]
        return transfer_objective(run.method, *dims, n, **keywords)
    if run.method == HKD:
        return LayerwiseLoss([HybridDivergence() for _ in _paired(student, taught)])
    name = run.method.removesuffix(_LAYERWISE)
    dims_of_pairs = _paired(student, taught)
    return LayerwiseLoss([transfer_objective(name, *dims, n, **keywords) for dims in dims_of_pairs])


def _is_layerwise(method: str) -> bool:
    return method == HKD or method.endswith(_LAYERWISE)


def _paired(student: SmallStudent, taught: TaughtImages) -> list[tuple[int, int]]:
    """Return the dimensions of each pair of layers: as many as both have, the last ones."""
    own = [layer.shape[1] for layer in layers_in_batches(student, taught.x[0, :1].cpu())]
    theirs = [layer.shape[2] for layer in taught.layers]
    count = min(len(own), len(theirs))
    return list(zip(own[-count:], theirs[-count:], strict=True))


def _keywords(run: Transfer) -> dict[str, Any]:
    """Return the settings as keyword arguments, with the named dissimilarity as a function."""
    keywords = dict(run.settings)
    name = keywords.pop("dissimilarity", None)
    if name is not None:
        function = _DISSIMILARITIES[name]
        keywords |= {"student_dissimilarity": function, "teacher_dissimilarity": function}
    return keywords


def transfer_loss(
    run: Transfer,
    modules: nn.ModuleList,
    taught: TaughtImages,
    rows: tuple[Tensor, Tensor],
    epoch: int,
) -> Tensor:
    """Return the loss of a batch; `rows` are its views and images."""
    student, objective = modules
    assert isinstance(student, SmallStudent)  # noqa: S101 - for the type checker
    layers = student.layers(taught.x[rows])
    if run.method == SOFT_LABELS:
        logits = student.logits(layers[-1])
        return soft_label_loss(logits, taught.logits[rows], **run.settings)
    if isinstance(objective, LayerwiseLoss):
        count = len(objective.objectives)
        weights = critical_period_weights(count, epoch) if run.method == HKD else (1.0,) * count
        targets = [layer[rows] for layer in taught.layers[-count:]]
        layerwise: Tensor = objective(layers[-count:], targets, weights)
        return layerwise
    loss: Tensor = objective(layers[-1], taught.features[rows])
    return loss


def step(loss: Tensor, optimizer: torch.optim.Optimizer) -> float:
    """Change the parameters by the gradient of a loss, and return its value."""
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    return loss.item()


def batches_of_equal_size(n: int, size: int, generator: torch.Generator) -> list[Tensor]:
    """Return shuffled batches of `size`, without a smaller last one: ranks depend on the size."""
    order = torch.randperm(n, generator=generator)
    return list(torch.split(order[: max(n - n % size, min(n, size))], size))


def augment(x_N3HW: Tensor, generator: torch.Generator) -> Tensor:
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


def _cosine_decay(progress: float) -> float:
    return 0.5 * (1 + math.cos(math.pi * progress))
