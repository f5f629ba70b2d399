"""A linear map of vectors to bits, by which queries find the vectors that are near them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
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
LEAST_STEPS, MOST_STEPS = 300, 1_000
"""Between them, there are as many steps as vectors."""
STEP_SIZE = 1e-2
LEAST_NOISE, MOST_NOISE = 1.0, 2.0
"""The length of the noise that makes a query of a vector, as a share of the vector's own."""

_MOST_ROWS = 20_000
# The queries of a step, the documents that they search, and those that may be their neighbours.
_QUERIES, _DOCUMENTS, _NEAREST = 192, 2_048, 100
_FIRST_SCALE, _SCALE_STEP = 16.0, 0.02
_WARM_UP = 30


def fit_neighbour_map(
    vectors: Floats, weight: Floats, thresholds: Floats, seed: int
) -> tuple[Floats, Floats]:
    """Return weights ``(D, B)`` and thresholds ``(B,)`` learned from `vectors` ``(N, D)``.

    They start from those given and minimize :func:`stochastic_neighbour_loss` by Adam. In each
    step, up to 192 queries search up to 2,048 of the vectors. The queries are vectors with noise,
    because a query is no vector of the corpus. At most 20,000 vectors are learned from, drawn at
    random.
    """
    begin_stage("learning to keep the nearest neighbours")
    rng = np.random.default_rng(seed)
    if len(vectors) > _MOST_ROWS:
        vectors = vectors[np.sort(rng.choice(len(vectors), _MOST_ROWS, replace=False))]
    size = float(np.sqrt(np.square(vectors @ weight - thresholds).mean())) or 1.0
    weight_DB = torch.tensor(weight / size, dtype=torch.float32, requires_grad=True)
    thresholds_B = torch.tensor(thresholds / size, dtype=torch.float32, requires_grad=True)
    rows_ND = torch.from_numpy(np.ascontiguousarray(vectors, dtype=np.float32))
    _learn(weight_DB, thresholds_B, rows_ND, rng)
    return weight_DB.detach().numpy(), thresholds_B.detach().numpy()


def _learn(
    weight_DB: Tensor, thresholds_B: Tensor, rows_ND: Tensor, rng: np.random.Generator
) -> None:
    """Change the weights and thresholds so that queries find their nearest rows."""
    unit_ND = functional.normalize(rows_ND, dim=1)
    lengths_N1 = rows_ND.norm(dim=1, keepdim=True)
    log_scale = torch.tensor(math.log(_FIRST_SCALE), requires_grad=True)
    groups: list[dict[str, Any]] = [
        {"params": [weight_DB, thresholds_B]},
        {"params": [log_scale], "lr": _SCALE_STEP},
    ]
    optimizer = torch.optim.Adam(groups)
    steps = min(max(len(unit_ND), LEAST_STEPS), MOST_STEPS)
    for step in range(steps):
        rise, fall = min(1, (step + 1) / _WARM_UP), 1 - step / steps
        optimizer.param_groups[0]["lr"] = STEP_SIZE * rise * fall
        searched = torch.from_numpy(_draw(len(unit_ND), _DOCUMENTS, rng))
        asked = searched[:_QUERIES]
        queries_QD = _with_noise(unit_ND, asked, rng)
        cosines_QN = queries_QD @ unit_ND[searched].T
        nearest_QK = cosines_QN.topk(min(_NEAREST, len(searched)), dim=1).values
        loss = stochastic_neighbour_loss(
            (queries_QD * lengths_N1[asked]) @ weight_DB - thresholds_B,
            rows_ND[searched] @ weight_DB - thresholds_B,
            cosines_QN,
            neighbour_temperatures(nearest_QK, PERPLEXITY),
            log_scale.exp(),
        )
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()


def _draw(count: int, most: int, rng: np.random.Generator) -> Any:
    """Return `most` of the first `count` integers, or all, in a random order."""
    return rng.choice(count, min(most, count), replace=False)


def _with_noise(unit_ND: Tensor, asked: Tensor, rng: np.random.Generator) -> Tensor:
    """Return queries near the rows `asked`, of length 1.

    The noise has the direction from one random row to another, so it is large along the directions
    in which the rows differ. Isotropic noise would be mostly along directions that tell nothing.
    """
    ends = torch.from_numpy(rng.integers(len(unit_ND), size=(2, len(asked))))
    noise_QD = functional.normalize(unit_ND[ends[0]] - unit_ND[ends[1]], dim=1)
    lengths = rng.uniform(LEAST_NOISE, MOST_NOISE, size=(len(asked), 1)).astype(np.float32)
    return functional.normalize(unit_ND[asked] + torch.from_numpy(lengths) * noise_QD, dim=1)
