"""Small encoders of grey pictures, trained by what their classes have in common, or by less.

They stand where the paper on generative similarity fine-tunes networks that were trained on a
million photographs: here every method trains the same three convolutions from the start.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import torch
from pytorch_metric_learning.losses import SelfSupervisedLoss, SupConLoss
from torch import Tensor, nn
from torch.nn import functional

from training.data import Rows
from training.loop import Schedule, fit
from training.objectives.generative_similarity import kernel_triplet_loss

METHODS = {
    "generative": "generative similarity",
    "supcon": "supervised contrast (SupCon)",
    "classification": "classification",
    "simclr": "SimCLR",
    "untrained": "nothing",
}
EMBEDDING_DIM = 32

_CHANNELS = (1, 8, 16, 32)
_TEMPERATURE = 0.1
# Of the views that SimCLR compares: scale and shift, as shares of the picture.
_SCALE = 0.125
_SHIFT = 0.05


@dataclass(frozen=True)
class Pictures:
    """Pictures to train on, with their classes and how alike classes are.

    ``x`` is float32[N, 1, S, S], 0 for the background; ``classes`` int64[N]; ``kernel`` [C, C] the
    generative similarity of two classes, of any scale; a picture that is turned by up to
    `turn` radians is still one of its class.
    """

    x: Tensor
    classes: Tensor
    kernel: Tensor
    turn: float


class PictureEncoder(nn.Module):
    """Three convolutions, each of which halves the picture, and a layer of 32 without rectifier."""

    def __init__(self, size: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for inputs, outputs in pairwise(_CHANNELS):
            layers += [nn.Conv2d(inputs, outputs, 3, stride=2, padding=1, bias=False)]
            layers += [nn.BatchNorm2d(outputs), nn.ReLU()]
        self.convolutions = nn.Sequential(*layers, nn.Flatten())
        side = size // 2 ** (len(_CHANNELS) - 1)
        self.embedding = nn.Linear(_CHANNELS[-1] * side * side, EMBEDDING_DIM)

    def forward(self, x_N1HW: Tensor) -> Tensor:
        """Return the embeddings, ``[N, 32]``."""
        embeddings: Tensor = self.embedding(self.convolutions(x_N1HW))
        return embeddings


def train_encoder(method: str, pictures: Pictures, schedule: Schedule) -> PictureEncoder:
    """Train an encoder by one of :data:`METHODS`, in evaluation mode.

    - ``generative``: triplets from the batch in proportion to the kernel of their classes, the
      contrast softplus, the similarity of embeddings −‖x − y‖².
    - ``supcon``: cosines of the embeddings at temperature 0.1.
    - ``classification``: cross-entropy of a linear layer on the embeddings.
    - ``simclr``: two views of every picture, turned, scaled and shifted; contrast behind a head of
      two layers, which is left off afterwards; classes are not used.
    - ``untrained``: as it was initialised.

    Raises:
        ValueError: if there is no such method.
    """
    if method not in METHODS:
        raise ValueError(f"method is {method!a}; it must be one of {', '.join(METHODS)}")
    torch.manual_seed(schedule.seed)
    encoder = PictureEncoder(pictures.x.shape[-1])
    if method != "untrained":
        head = _head(method, len(pictures.kernel))
        loss_of = _LOSSES[method]

        def loss(rows: Rows, generator: torch.Generator, progress: float) -> dict[str, Tensor]:  # noqa: ARG001
            chosen = torch.from_numpy(rows)
            return {"loss": loss_of(encoder, head, pictures, chosen, generator)}

        fit(nn.ModuleList([encoder, head]), loss, len(pictures.x), schedule)
    return encoder.eval()


@torch.no_grad()
def embed(encoder: PictureEncoder, x_N1HW: Tensor) -> Tensor:
    """Return the embeddings of pictures, ``[N, 32]``."""
    return torch.cat([encoder(batch) for batch in torch.split(x_N1HW, 1000)])


def views(x_N1HW: Tensor, turn: float, generator: torch.Generator) -> Tensor:
    """Return the pictures turned by up to `turn` radians, scaled and shifted, each at random."""
    angle_N, scale_N, *shift_2N = 2 * torch.rand(4, len(x_N1HW), generator=generator) - 1
    angle_N, scale_N = turn * angle_N, 1 + _SCALE * scale_N
    cos_N, sin_N = scale_N * angle_N.cos(), scale_N * angle_N.sin()
    right_N, down_N = (2 * _SHIFT * shift_N for shift_N in shift_2N)
    rows = torch.stack([cos_N, -sin_N, right_N, sin_N, cos_N, down_N], dim=1)
    grid = functional.affine_grid(rows.view(-1, 2, 3), list(x_N1HW.shape), align_corners=False)
    return functional.grid_sample(x_N1HW, grid, align_corners=False)


def _head(method: str, n_classes: int) -> nn.Module:
    """Return what stands behind the embeddings while training."""
    if method == "classification":
        return nn.Linear(EMBEDDING_DIM, n_classes)
    if method == "simclr":
        inner = nn.Linear(EMBEDDING_DIM, EMBEDDING_DIM)
        return nn.Sequential(inner, nn.ReLU(), nn.Linear(EMBEDDING_DIM, EMBEDDING_DIM))
    return nn.Identity()


def _generative(
    encoder: nn.Module, head: nn.Module, pictures: Pictures, rows: Tensor, _: torch.Generator
) -> Tensor:
    embedding_ND = head(encoder(pictures.x[rows]))
    classes_N = pictures.classes[rows]
    squares_N = embedding_ND.square().sum(dim=1)
    squared_NN = squares_N[:, None] + squares_N - 2 * embedding_ND @ embedding_ND.T
    kernel_NN = pictures.kernel[classes_N[:, None], classes_N]
    return kernel_triplet_loss(-squared_NN, kernel_NN)


def _supcon(
    encoder: nn.Module, head: nn.Module, pictures: Pictures, rows: Tensor, _: torch.Generator
) -> Tensor:
    contrast = SupConLoss(temperature=_TEMPERATURE)
    loss: Tensor = contrast(head(encoder(pictures.x[rows])), pictures.classes[rows])
    return loss


def _classification(
    encoder: nn.Module, head: nn.Module, pictures: Pictures, rows: Tensor, _: torch.Generator
) -> Tensor:
    return functional.cross_entropy(head(encoder(pictures.x[rows])), pictures.classes[rows])


def _simclr(
    encoder: nn.Module,
    head: nn.Module,
    pictures: Pictures,
    rows: Tensor,
    generator: torch.Generator,
) -> Tensor:
    # NT-Xent is SupCon with the other view as the only positive.
    contrast = SelfSupervisedLoss(SupConLoss(temperature=_TEMPERATURE))
    x = pictures.x[rows]
    both = torch.cat([views(x, pictures.turn, generator) for _ in range(2)])
    loss: Tensor = contrast(*head(encoder(both)).split(len(rows)))
    return loss


_LOSSES: dict[str, Callable[[nn.Module, nn.Module, Pictures, Tensor, torch.Generator], Tensor]] = {
    "generative": _generative,
    "supcon": _supcon,
    "classification": _classification,
    "simclr": _simclr,
}
