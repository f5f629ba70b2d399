"""The task that people had, one concept at a time: does a picture show it, or a variant of it?

Source: Hsu, Wu and Goodman, "Geoclidean: Few-Shot Generalization in Euclidean Geometry" (2022),
which Marjieh, Kumar, Campbell et al. (2024) follow. The prototype of a concept is the mean
embedding of five reference pictures. Five other pictures of the concept and five of a close or far
program are accepted if their ℓ₁ distance from the prototype is within a threshold. Each concept has
its best possible threshold, so chance is above one half.

Shapes: C concepts, R reference pictures, T test pictures, D entries of an embedding.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from hummingbit.corpus.columns import load_arrays
from hummingbit.corpus.lines import ReadError

REFERENCES = 5
"""The pictures that show what a concept is."""


def threshold_accuracy(reference_CRD: Tensor, own_CTD: Tensor, other_CTD: Tensor) -> Tensor:
    """Return the share of pictures that the best threshold classifies correctly, ``float64[C]``.

    `own_CTD` are embeddings of the concept and `other_CTD` are not. All are scaled to length 1
    first, so only their directions matter.
    """
    prototype_C1D = functional.normalize(reference_CRD, dim=2).mean(dim=1, keepdim=True)
    own_CT, other_CT = (
        (functional.normalize(x_CTD, dim=2) - prototype_C1D).abs().sum(dim=2).double()
        for x_CTD in (own_CTD, other_CTD)
    )
    thresholds_CS = torch.cat([own_CT, other_CT, own_CT[:, :1] * 0 - 1], dim=1)
    accepted_CS = (own_CT[:, :, None] <= thresholds_CS[:, None]).sum(dim=1)
    rejected_CS = (other_CT[:, :, None] > thresholds_CS[:, None]).sum(dim=1)
    pictures = own_CT.shape[1] + other_CT.shape[1]
    best_C: Tensor = (accepted_CS + rejected_CS).amax(dim=1).double() / pictures
    return best_C


def prototype_accuracy(embedding_CTD: Tensor, rng: np.random.Generator, draws: int) -> Tensor:
    """Return the share of pictures assigned to their own concept, ``float64[C]``.

    Each concept has T pictures. Its prototype is the mean of five of them, scaled to length 1; the
    other pictures are assigned to the prototype with the largest cosine. The five are drawn `draws`
    times; with 0, they are the first five.
    """
    n_concepts, n_pictures, _ = embedding_CTD.shape
    unit_CTD = functional.normalize(embedding_CTD, dim=2)
    own_C1 = torch.arange(n_concepts)[:, None]
    shares = []
    for _ in range(max(draws, 1)):
        order_CT = np.tile(np.arange(n_pictures), (n_concepts, 1))
        if draws:
            order_CT = rng.permuted(order_CT, axis=1)
        shuffled_CTD = unit_CTD[own_C1, torch.from_numpy(order_CT)]
        prototype_CD = functional.normalize(shuffled_CTD[:, :REFERENCES].mean(dim=1), dim=1)
        nearest_CT = (shuffled_CTD[:, REFERENCES:] @ prototype_CD.T).argmax(dim=2)
        shares.append((nearest_CT == own_C1).double().mean(dim=1))
    return torch.stack(shares).mean(dim=0)


def read_published(path: Path, names: list[str]) -> Tensor:
    """Return the published pictures by concept, ``uint8[C, 20, 64, 64]``.

    The references come first, then the queries, and then pictures of the close and the far program.

    Raises:
        ReadError: if the file cannot be read, or a concept lacks five pictures of each kind.
    """
    arrays = load_arrays(path, ("images", "meta"))
    images, meta = arrays["images"], arrays["meta"]
    kinds = {
        "training": meta[:, 2] == "train",
        "test": np.char.startswith(meta[:, 3], "in_"),
        "close": np.char.startswith(meta[:, 3], "out_close_"),
        "far": np.char.startswith(meta[:, 3], "out_far_"),
    }
    pictures = []
    for name in names:
        of_concept = meta[:, 1] == name
        parts = [images[of_concept & of_kind] for of_kind in kinds.values()]
        counts = [len(part) for part in parts]
        if set(counts) != {REFERENCES}:
            listed = ", ".join(f"{n} {kind}" for n, kind in zip(counts, kinds, strict=True))
            raise ReadError(
                f"{path}: pictures of {name}: {listed}; there must be {REFERENCES} of each kind"
            )
        pictures.append(np.concatenate(parts))
    return torch.from_numpy(np.stack(pictures))
