"""Bits of content that find a text by a few of its words: the inverse cloze task of ``ict``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from encoder.features import Floats, TextFeatures
from encoder.recipes import Recipe
from training.data import Rows
from training.loop import fit
from training.models.batches import SparseBatch, drop_words
from training.models.encoder_networks import LinearEncoderNetwork, Shape
from training.models.export import to_encoder
from training.queries import ClozeTask
from training.semi_supervised import (
    UNIT_ROW_SCALE,
    schedule_for,
    touches_few_terms,
)


def fit_cloze(
    features: TextFeatures, texts: Sequence[str], x: Any, n_bits: int, recipe: Recipe
) -> tuple[Floats, Floats]:
    """Return weights ``(V, B)`` and thresholds ``(B,)`` of bits that find the `texts`.

    `x` are the `features` of the texts, ``(N, V)``, with more texts and terms than bits. The
    `recipe` is one of the method ict; its `n_bits` is not used, as B may be any number.
    """
    torch.manual_seed(recipe.seed)
    network = LinearEncoderNetwork(
        Shape(
            inputs=features.dimension,
            hidden=recipe.hidden,
            n_bits=n_bits,
            classes=1,
            text=True,
            input_scale=UNIT_ROW_SCALE,
            sparse_gradient=touches_few_terms(features, texts, recipe.batch_size),
        )
    )
    task = ClozeTask(recipe, features, texts, x, beside_classes=True)
    task.start(network)

    def loss(rows: Rows, generator: torch.Generator, progress: float) -> Mapping[str, Tensor]:  # noqa: ARG001
        dropped = drop_words(SparseBatch.of_rows(x, rows), recipe.word_dropout, generator)
        return {"cloze_loss": task.loss(network, network(dropped)[1], rows, generator)}

    fit(network, loss, len(texts), schedule_for(recipe, len(texts)))
    layer = to_encoder(network, features, {}).layers[0]
    return layer.weight, -layer.bias
