"""A linear map of vectors to bits that keeps the nearest neighbours of each vector."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from encoder.features import Floats
from foundation.stages import begin_stage
from training.objectives.stochastic_neighbours import (
    neighbour_temperatures,
    stochastic_neighbour_loss,
)

PERPLEXITY = 4.0
LEAST_STEPS, MOST_STEPS = 300, 1_500
"""Between them, there are as many steps as vectors."""
STEP_SIZE = 5e-3
NOISE = 0.7
"""The length of the noise of a vector, as a share of its own."""

_MOST_ROWS = 20_000
_NEAREST = 100
# A batch is made of groups of neighbours, which are hard to tell apart, and of other vectors.
_GROUPS, _OF_A_GROUP, _OTHERS = 48, 10, 256
_FIRST_SCALE, _SCALE_STEP = 16.0, 0.02
_WARM_UP = 30
_ROWS_AT_ONCE = 512


def fit_neighbour_map(
    vectors: Floats, weight: Floats, thresholds: Floats, seed: int
) -> tuple[Floats, Floats]:
    """Return weights ``(D, B)`` and thresholds ``(B,)`` learned from `vectors` ``(N, D)``.

    They start from those given and minimize :func:`stochastic_neighbour_loss` by Adam. A vector is
    a neighbour of another by its cosine, and its bits are those of the vector with noise, so that
    queries, which are no vectors of the corpus, find its neighbours as well. At most 20,000 vectors
    are learned from, drawn at random.
    """
    begin_stage("learning to keep the nearest neighbours")
    rng = np.random.default_rng(seed)
    if len(vectors) > _MOST_ROWS:
        vectors = vectors[np.sort(rng.choice(len(vectors), _MOST_ROWS, replace=False))]
    size = float(np.sqrt(np.square(vectors @ weight - thresholds).mean())) or 1.0
    weight_DB = torch.tensor(weight / size, dtype=torch.float32, requires_grad=True)
    thresholds_B = torch.tensor(thresholds / size, dtype=torch.float32, requires_grad=True)
    rows_ND = torch.from_numpy(np.ascontiguousarray(vectors, dtype=np.float32))
    _learn(weight_DB, thresholds_B, rows_ND, rng, torch.Generator().manual_seed(seed))
    return weight_DB.detach().numpy(), thresholds_B.detach().numpy()


def _learn(
    weight_DB: Tensor,
    thresholds_B: Tensor,
    rows_ND: Tensor,
    rng: np.random.Generator,
    generator: torch.Generator,
) -> None:
    """Change the weights and thresholds so that codes keep the neighbours of the rows."""
    unit_ND = functional.normalize(rows_ND, dim=1)
    near_NK, temperatures_N1 = _neighbours(unit_ND)
    log_scale = torch.tensor(math.log(_FIRST_SCALE), requires_grad=True)
    groups: list[dict[str, Any]] = [
        {"params": [weight_DB, thresholds_B]},
        {"params": [log_scale], "lr": _SCALE_STEP},
    ]
    optimizer = torch.optim.Adam(groups)
    steps = min(max(len(rows_ND), LEAST_STEPS), MOST_STEPS)
    for step in range(steps):
        rise, fall = min(1, (step + 1) / _WARM_UP), 1 - step / steps
        optimizer.param_groups[0]["lr"] = STEP_SIZE * rise * fall
        batch = torch.from_numpy(_draw(near_NK, rng))
        logits_NB = _with_noise(rows_ND[batch], generator) @ weight_DB - thresholds_B
        cosines_NN = unit_ND[batch] @ unit_ND[batch].T
        loss = stochastic_neighbour_loss(
            logits_NB, cosines_NN, temperatures_N1[batch], log_scale.exp()
        )
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()


def _neighbours(unit_ND: Tensor) -> tuple[npt.NDArray[np.int64], Tensor]:
    """Return the nearest rows of each row, ``(N, K)``, and its temperature, ``(N, 1)``."""
    count = len(unit_ND)
    nearest, temperatures = [], []
    for start in range(0, count, _ROWS_AT_ONCE):
        block = unit_ND[start : start + _ROWS_AT_ONCE]
        cosines = block @ unit_ND.T
        rows = torch.arange(len(block))
        cosines[rows, rows + start] = -torch.inf
        top = cosines.topk(min(_NEAREST, count - 1), dim=1)
        nearest.append(top.indices[:, :_OF_A_GROUP])
        temperatures.append(neighbour_temperatures(top.values, PERPLEXITY))
    return torch.cat(nearest).numpy(), torch.cat(temperatures)


def _draw(near_NK: npt.NDArray[np.int64], rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Draw the rows of a batch: some with their neighbours, and others."""
    count = len(near_NK)
    first = rng.choice(count, min(_GROUPS, count), replace=False)
    others = rng.choice(count, min(_OTHERS, count), replace=False)
    return np.unique(np.concatenate([first, near_NK[first].ravel(), others]))


def _with_noise(rows_ND: Tensor, generator: torch.Generator) -> Tensor:
    """Return rows with Gaussian noise and their former lengths."""
    lengths_N1 = rows_ND.norm(dim=1, keepdim=True)
    noise_ND = torch.randn(rows_ND.shape, generator=generator) * (NOISE / rows_ND.shape[1] ** 0.5)
    directions_ND = functional.normalize(rows_ND + noise_ND * lengths_N1, dim=1)
    return directions_ND.mul(lengths_N1)
