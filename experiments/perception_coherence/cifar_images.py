"""The images of CIFAR-10 as JPEG, which is slightly lossy, unlike the original."""

from __future__ import annotations

import io
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from hummingbit.corpus.columns import load_arrays
from hummingbit.corpus.lines import ReadError
from hummingbit.corpus.named_sets import VARIABLE

MEAN = (0.4914, 0.4822, 0.4465)
DEVIATION = (0.2470, 0.2435, 0.2616)


@dataclass(frozen=True)
class Images:
    """Images, float32[N, 3, 32, 32], standardized by channel, and their labels, int64[N]."""

    x: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    def to(self, device: torch.device) -> Images:
        """Return the images on `device`."""
        return Images(self.x.to(device), self.labels.to(device))


def read_images(split: str, data_root: Path | None, n_per_class: int | None = None) -> Images:
    """Read the images of `split`, train or test.

    With `n_per_class`, read that many images of each class, drawn with a fixed seed: the order of
    the files need not be random.

    Raises:
        ReadError: if no data folder is named, or the file is missing or invalid.
    """
    from PIL import Image  # noqa: PLC0415 - comes with pyriemann, which nothing else here needs

    root = data_root or os.environ.get(VARIABLE)
    if not root:
        raise ReadError(f"cifar10: pass --data-root FOLDER or set {VARIABLE}")
    path = Path(root, f"cifar10/jpeg_{split}.npz")
    if not path.is_file():
        raise ReadError(f"cifar10: {path} does not exist; is {root} the right data folder?")
    arrays = load_arrays(path, ("data", "offsets", "labels"))
    data, offsets, labels = arrays["data"].tobytes(), arrays["offsets"], arrays["labels"]
    rows = np.concatenate([_select_rows(labels, label, n_per_class) for label in np.unique(labels)])
    pixels = np.stack(
        [np.asarray(Image.open(io.BytesIO(data[offsets[i] : offsets[i + 1]]))) for i in rows]
    )
    x_N3HW = torch.from_numpy(pixels).permute(0, 3, 1, 2).to(torch.float32) / 255
    mean, deviation = (torch.tensor(v).view(1, 3, 1, 1) for v in (MEAN, DEVIATION))
    return Images((x_N3HW - mean) / deviation, torch.from_numpy(labels[rows].astype(np.int64)))


def _select_rows(
    labels: np.typing.NDArray[np.uint8], label: int, n_per_class: int | None
) -> np.typing.NDArray[np.int64]:
    rows = np.flatnonzero(labels == label)
    if n_per_class is None:
        return rows
    return np.sort(np.random.default_rng([int(label)]).permutation(rows)[:n_per_class])
