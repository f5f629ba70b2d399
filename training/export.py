"""From a trained network to an encoder that needs no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from encoder.encoder import Encoder
from encoder.features import Features, Floats
from encoder.network import Activation, Layer
from training.models import AnyEncoderNetwork, LinearEncoderNetwork, ScaledLinear, SparseLinear


def to_encoder(
    network: AnyEncoderNetwork, features: Features, metadata: Mapping[str, Any]
) -> Encoder:
    """Return `network` as an :class:`Encoder` whose bits are the signs of the logits.

    The scale of the first layer and batch normalisation are folded into the weights; a linear
    network becomes one layer.
    """
    thresholds = np.zeros(network.logits.out_features, dtype=np.float32)
    if isinstance(network, LinearEncoderNetwork):
        first, last = _layer(network.first, "identity"), _layer(network.logits, "identity")
        product = Layer(first.weight @ last.weight, last(first.bias[None])[0], "identity")
        return Encoder(features, [product], thresholds, metadata)
    scale, shift = _as_scale_and_shift(network.first_norm)
    second_scale, second_shift = _as_scale_and_shift(network.second_norm)
    return Encoder(
        features=features,
        layers=[
            _layer(network.first, "relu"),
            _layer(network.second, "relu", scale, shift),
            _layer(network.logits, "identity", second_scale, second_shift),
        ],
        thresholds=thresholds,
        metadata=metadata,
    )


def _as_scale_and_shift(norm: nn.BatchNorm1d | None) -> tuple[Tensor, Tensor]:
    """Return s and t such that normalising h is s h + t, with the statistics of the whole run."""
    if norm is None:
        return torch.ones(1), torch.zeros(1)
    if norm.running_mean is None or norm.running_var is None:
        raise ValueError("batch normalisation without running statistics cannot be exported")
    scale = norm.weight / torch.sqrt(norm.running_var + norm.eps)
    return scale, norm.bias - scale * norm.running_mean


def _layer(
    module: SparseLinear | ScaledLinear | nn.Linear,
    activation: Activation,
    scale: Tensor | None = None,
    shift: Tensor | None = None,
) -> Layer:
    """Return act((s x + t) W + b) as a layer: W is scaled by row, and t W joins b."""
    # torch keeps the weight of a Linear as (outputs, inputs).
    if isinstance(module, SparseLinear | ScaledLinear):
        weight = module.scaled_weight()
    else:
        weight = module.weight.T
    bias: Tensor = module.bias
    if scale is not None and shift is not None:
        bias = bias + shift.expand(len(weight)) @ weight
        weight = scale.expand(len(weight))[:, None] * weight
    return Layer(weight=_array(weight), bias=_array(bias), activation=activation)


def _array(tensor: Tensor) -> Floats:
    return np.ascontiguousarray(tensor.detach().cpu().numpy(), dtype=np.float32)
