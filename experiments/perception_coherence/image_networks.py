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
            for block in range(blocks):
                stages.append(_Block(inputs, width, 2 if stage > 0 and block == 0 else 1))
                inputs = width
        self.stages = nn.Sequential(*stages)
        self.head = nn.Linear(inputs, N_CLASSES)
        self.features_dim = inputs

    def features(self, x_N3HW: Tensor) -> Tensor:
        """Return the penultimate layer averaged over positions, ``[N, widths[-1]]``, at least 0."""
        maps: Tensor = self.stages(functional.relu(self.stem(x_N3HW)))
        return maps.mean(dim=(2, 3))

    def forward(self, x_N3HW: Tensor) -> Tensor:
        """Return the logits of the classes, ``[N, 10]``."""
        logits: Tensor = self.head(self.features(x_N3HW))
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
    """

    def __init__(self, width: float = 1.0) -> None:
        super().__init__()
        channels = [3, *(round(width * n) for n in (8, 16, 32))]
        layers: list[nn.Module] = []
        for inputs, outputs in pairwise(channels):
            layers += [nn.Conv2d(inputs, outputs, 3), nn.BatchNorm2d(outputs), nn.ReLU()]
            layers += [nn.MaxPool2d(2)]
        self.convolutions = nn.Sequential(*layers, nn.Flatten())
        self.embedding = nn.Linear(channels[-1] * 2 * 2, EMBEDDING_DIM)
        self.head = nn.Linear(EMBEDDING_DIM, N_CLASSES)

    def features(self, x_N3HW: Tensor) -> Tensor:
        """Return the embeddings, ``[N, 64]``."""
        embeddings: Tensor = self.embedding(self.convolutions(x_N3HW))
        return embeddings

    def logits(self, features_ND: Tensor) -> Tensor:
        """Return the logits of the classes from the embeddings, ``[N, 10]``."""
        logits: Tensor = self.head(functional.relu(features_ND))
        return logits


@torch.no_grad()
def apply_in_batches(network: nn.Module, name: str, x_N3HW: Tensor, size: int = 500) -> Tensor:
    """Return the results of the method `name` of `network` for all images, in evaluation mode."""
    network.eval()
    return torch.cat([getattr(network, name)(batch) for batch in torch.split(x_N3HW, size)])
