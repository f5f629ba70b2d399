"""Small encoders of grey pictures, trained by the similarity of classes, or by baselines.

The paper on generative similarity fine-tunes networks pretrained on a million photographs; here
every method trains the same three convolutions from scratch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from experiments.generative_similarity.contrastive_baselines import (
    info_nce_loss,
    supervised_contrastive_loss,
)
from hummingbit.training.data import Rows
from hummingbit.training.loop import Schedule, fit
from hummingbit.training.objectives.generative_similarity import (
    kernel_triplet_loss,
    regression_loss,
)

METHODS = {
    "generative-regression": "generative similarity, regression",
    "generative-triplets": "generative similarity, triplets",
    "supcon": "supervised contrast",
    "classification": "classification",
    "simclr": "SimCLR",
    "untrained": "nothing",
}
EMBEDDING_DIM = 32

_CHANNELS = (1, 16, 32, 64)
# The random scaling and shift of SimCLR's views, as shares of the picture.
_SCALE = 0.125
_SHIFT = 0.05
_MIN_BATCH_SIZE = 8


@dataclass(frozen=True)
class Pictures:
    """Training pictures, with their classes and the similarity of classes.

    Attributes:
        x: float32[N, 1, S, S], 0 for the background.
        classes: int64[N], counted from 0.
        kernel: [C, C], the generative similarity of two classes, on any scale.
        target: [C, C], the target of the similarity of two embeddings.
        similarity: from embeddings ``[N, D]`` to their similarities ``[N, N]``.
        turn: the largest rotation, in radians, that leaves a picture in its class.
    """

    x: Tensor
    classes: Tensor
    kernel: Tensor
    target: Tensor
    similarity: Callable[[Tensor], Tensor]
    turn: float


class PictureEncoder(nn.Module):
    """Three convolutions, each of which halves the picture, and a linear layer of 32."""

    def __init__(self, size: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for inputs, outputs in pairwise(_CHANNELS):
            layers += [nn.Conv2d(inputs, outputs, 3, stride=2, padding=1, bias=False)]
            layers += [nn.BatchNorm2d(outputs), nn.ReLU()]
            size = (size + 1) // 2
        self.convolutions = nn.Sequential(*layers, nn.Flatten())
        self.embedding = nn.Linear(_CHANNELS[-1] * size * size, EMBEDDING_DIM)

    def forward(self, x_N1HW: Tensor) -> Tensor:
        """Return the embeddings, ``[N, 32]``."""
        embeddings: Tensor = self.embedding(self.convolutions(x_N1HW))
        return embeddings


def train_encoder(method: str, pictures: Pictures, schedule: Schedule) -> PictureEncoder:
    """Return an encoder trained by one of :data:`METHODS`, in evaluation mode.

    - ``generative-regression``: the similarity of every two embeddings of the batch is fitted to
      the target of their classes.
    - ``generative-triplets``: triplets from the batch in proportion to the kernel of their classes,
      with the softplus and the similarity −‖x − y‖².
    - ``supcon``: cosines of the embeddings at temperature 0.1.
    - ``classification``: cross-entropy of a linear layer on the embeddings.
    - ``simclr``: two views of every picture, turned, scaled and shifted, contrasted at temperature
      0.1 after a head of two layers, which is then discarded. Classes are not used. It sees each
      picture twice per epoch, so it has half the epochs.
    - ``untrained``: as initialized.

    Raises:
        ValueError: if there is no such method.
    """
    if method not in METHODS:
        raise ValueError(f"method is {method!r}; it must be one of {', '.join(METHODS)}")
    torch.manual_seed(schedule.seed)
    encoder = PictureEncoder(pictures.x.shape[-1])
    if method == "untrained":
        return encoder.eval()
    if method == "simclr":
        schedule = replace(schedule, epochs=(schedule.epochs + 1) // 2)
    head = _head(method, len(pictures.kernel))

    def loss(rows: Rows, generator: torch.Generator, progress: float) -> dict[str, Tensor]:  # noqa: ARG001
        batch = torch.from_numpy(rows)
        x, classes = pictures.x[batch], pictures.classes[batch]
        if method == "simclr":
            x = torch.cat([random_views(x, pictures.turn, generator) for _ in range(2)])
        return {"loss": _loss(method, head(encoder(x)), classes, pictures)}

    fit(nn.ModuleList([encoder, head]), loss, _picture_count(len(pictures.x), schedule), schedule)
    return encoder.eval()


@torch.no_grad()
def embed(encoder: PictureEncoder, x_N1HW: Tensor) -> Tensor:
    """Return the embeddings of pictures, ``[N, 32]``."""
    return torch.cat([encoder(batch) for batch in torch.split(x_N1HW, 1000)])


def random_views(x_N1HW: Tensor, turn: float, generator: torch.Generator) -> Tensor:
    """Return the pictures, each randomly turned by up to `turn` radians, scaled and shifted."""
    angle_N, scale_N, *shift_2N = 2 * torch.rand(4, len(x_N1HW), generator=generator) - 1
    angle_N, scale_N = turn * angle_N, 1 + _SCALE * scale_N
    cos_N, sin_N = scale_N * angle_N.cos(), scale_N * angle_N.sin()
    right_N, down_N = (2 * _SHIFT * shift_N for shift_N in shift_2N)
    rows = torch.stack([cos_N, -sin_N, right_N, sin_N, cos_N, down_N], dim=1)
    grid = functional.affine_grid(rows.view(-1, 2, 3), list(x_N1HW.shape), align_corners=False)
    return functional.grid_sample(x_N1HW, grid, align_corners=False)


def minus_distance(embedding_ND: Tensor) -> Tensor:
    """Return −‖x − y‖ of every two embeddings, ``[N, N]``."""
    return -minus_squared_distance(embedding_ND).neg().clamp(min=1e-9).sqrt()


def minus_squared_distance(embedding_ND: Tensor) -> Tensor:
    """Return −‖x − y‖² of every two embeddings, ``[N, N]``."""
    squares_N = embedding_ND.square().sum(dim=1)
    return 2 * embedding_ND @ embedding_ND.T - squares_N[:, None] - squares_N


def cosine(embedding_ND: Tensor) -> Tensor:
    """Return the cosine of every two embeddings, ``[N, N]``."""
    unit_ND = functional.normalize(embedding_ND, dim=1)
    return unit_ND @ unit_ND.T


def _picture_count(count: int, schedule: Schedule) -> int:
    """Return the number of pictures to train on, without a last batch that is too small."""
    # A tiny batch may have a single class, and then there is nothing to compare.
    remainder = count % schedule.batch_size
    too_small = remainder < _MIN_BATCH_SIZE and count > schedule.batch_size
    return count - remainder if too_small else count


def _head(method: str, n_classes: int) -> nn.Module:
    """Return the layers after the embedding that a method trains with."""
    if method == "classification":
        return nn.Linear(EMBEDDING_DIM, n_classes)
    if method == "simclr":
        inner = nn.Linear(EMBEDDING_DIM, EMBEDDING_DIM)
        return nn.Sequential(inner, nn.ReLU(), nn.Linear(EMBEDDING_DIM, EMBEDDING_DIM))
    return nn.Identity()


def _loss(method: str, output_ND: Tensor, classes_N: Tensor, pictures: Pictures) -> Tensor:
    """Return the loss of a batch from the outputs of the head."""
    if method == "classification":
        return functional.cross_entropy(output_ND, classes_N)
    if method == "supcon":
        return supervised_contrastive_loss(output_ND, classes_N)
    if method == "simclr":
        first_ND, second_ND = output_ND.chunk(2)
        return info_nce_loss(first_ND, second_ND)
    pairs = classes_N[:, None], classes_N
    if method == "generative-triplets":
        return kernel_triplet_loss(minus_squared_distance(output_ND), pictures.kernel[pairs])
    i, j = torch.triu_indices(len(output_ND), len(output_ND), offset=1)
    return regression_loss(pictures.similarity(output_ND)[i, j], pictures.target[pairs][i, j])
