"""The networks of the image experiments: a residual teacher and a small student."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

EMBEDDING_DIM = 64
N_CLASSES = 10


class ResNet(nn.Module):
    """A residual network for 32 × 32 images, after He et al., "Deep Residual Learning" (2016).

    The stem is one 3 × 3 convolution without pooling, the usual variant for CIFAR. Widths
    (64, 128, 256, 512) and two blocks per stage give ResNet-18.
    """

    def __init__(self, widths: Sequence[int], blocks: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(_convolution(3, widths[0], 1), nn.BatchNorm2d(widths[0]))
        stages: list[nn.Module] = []
        inputs = widths[0]
        for stage, width in enumerate(widths):
            parts = []
            for block in range(blocks):
                parts.append(_Block(inputs, width, 2 if stage > 0 and block == 0 else 1))
                inputs = width
            stages.append(nn.Sequential(*parts))
        self.stages = nn.ModuleList(stages)
        self.head = nn.Linear(inputs, N_CLASSES)
        self.features_dim = inputs

    def layers(self, x_N3HW: Tensor) -> list[Tensor]:
        """Return each stage averaged over positions, ``[N, width]``, at least 0."""
        maps = functional.relu(self.stem(x_N3HW))
        averages = []
        for stage in self.stages:
            maps = stage(maps)
            averages.append(maps.mean(dim=(2, 3)))
        return averages

    def features(self, x_N3HW: Tensor) -> Tensor:
        """Return the penultimate layer, the last of :meth:`layers`, ``[N, widths[-1]]``."""
        return self.layers(x_N3HW)[-1]

    def logits(self, features_ND: Tensor) -> Tensor:
        """Return the logits of the classes from the features, ``[N, 10]``."""
        logits: Tensor = self.head(features_ND)
        return logits


class _Block(nn.Module):
    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            _convolution(inputs, width, stride),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            _convolution(width, width, 1),
            nn.BatchNorm2d(width),
        )
        self.skip: nn.Module = nn.Identity()
        if stride > 1 or inputs != width:
            self.skip = nn.Sequential(
                nn.Conv2d(inputs, width, 1, stride, bias=False), nn.BatchNorm2d(width)
            )

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(self.body(x) + self.skip(x))


def _convolution(inputs: int, width: int, stride: int) -> nn.Conv2d:
    return nn.Conv2d(inputs, width, 3, stride, padding=1, bias=False)


class SmallStudent(nn.Module):
    """Three convolutions and a layer of 64, after Passalis and Tefas (2018).

    At `width` 1 the convolutions have 8, 16 and 32 channels: 14,400 parameters without the head.
    The embedding is the layer of 64 before its rectifier, so that no image gets the zero vector,
    which has no cosine. The head takes the rectified values.

    With `depth` below 4, the student is its first convolutions, and their averages over positions
    are the embedding: the smaller models of Table 5.
    """

    def __init__(self, width: float = 1.0, depth: int = 4) -> None:
        super().__init__()
        channels = [3, *(round(width * n) for n in (8, 16, 32))][: depth + 1]
        self.convolutions = nn.ModuleList(
            nn.Sequential(nn.Conv2d(i, o, 3), nn.BatchNorm2d(o), nn.ReLU(), nn.MaxPool2d(2))
            for i, o in pairwise(channels)
        )
        self.embedding: nn.Linear | None = None
        self.features_dim = channels[-1]
        if depth > len(self.convolutions):
            self.features_dim = round(width * EMBEDDING_DIM)
            self.embedding = nn.Linear(channels[-1] * 2 * 2, self.features_dim)
        self.head = nn.Linear(self.features_dim, N_CLASSES)

    def layers(self, x_N3HW: Tensor) -> list[Tensor]:
        """Return the maps of each convolution as vectors, then the embedding; each ``[N, D]``."""
        maps, vectors = x_N3HW, []
        for convolution in self.convolutions:
            maps = convolution(maps)
            vectors.append(maps.flatten(1))
        if self.embedding is None:
            return [*vectors[:-1], maps.mean(dim=(2, 3))]
        return [*vectors, self.embedding(vectors[-1])]

    def features(self, x_N3HW: Tensor) -> Tensor:
        """Return the embeddings, the last of :meth:`layers`, ``[N, 64]``."""
        return self.layers(x_N3HW)[-1]

    def logits(self, features_ND: Tensor) -> Tensor:
        """Return the logits of the classes from the embeddings, ``[N, 10]``."""
        logits: Tensor = self.head(functional.relu(features_ND))
        return logits


@torch.no_grad()
def layers_in_batches(
    network: ResNet | SmallStudent, x_N3HW: Tensor, size: int = 500
) -> tuple[Tensor, ...]:
    """Return the layers of `network` for all images, in evaluation mode; each ``[N, D]``."""
    network.eval()
    parts = [network.layers(batch) for batch in torch.split(x_N3HW, size)]
    return tuple(torch.cat(layer) for layer in zip(*parts, strict=True))


def features_in_batches(network: ResNet | SmallStudent, x_N3HW: Tensor) -> Tensor:
    """Return the last layer of `network` for all images, in evaluation mode; ``[N, D]``."""
    return layers_in_batches(network, x_N3HW)[-1]
