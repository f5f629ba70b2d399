"""Export a trained network as an encoder that needs no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from encoder.encoder import Activation, Encoder, Features, Inputs, Layer
from encoder.features import Floats
from training.models.autoencoders import BernoulliAutoencoder, GaussianAutoencoder
from training.models.encoder_networks import (
    AnyEncoderNetwork,
    FactoredEncoderNetwork,
    LinearEncoderNetwork,
)
from training.models.layers import ScaledLinear, SparseLinear

_SCALING_INPUTS = 1000


def to_encoder(
    network: AnyEncoderNetwork, features: Features, metadata: Mapping[str, Any]
) -> Encoder:
    """Return `network` as an :class:`Encoder` whose bits are the signs of the logits.

    The scale of the first layer and batch normalization are folded into the weights.
    """
    return _encoder(_layers(network), features, metadata)


def autoencoder_to_encoder(
    model: BernoulliAutoencoder | GaussianAutoencoder, features: Features, inputs: Inputs
) -> Encoder:
    """Return the encoder of `model`; its content bits, if any, come after the others.

    With content bits, the other logits are scaled, which changes no bit. Both kinds then have the
    same mean absolute value over the first `inputs`, the training documents, and so the same weight
    in a query.
    """
    encoder = to_encoder(model.encoder, features, {})
    if isinstance(model, GaussianAutoencoder) or model.content is None:
        return encoder
    content = to_encoder(model.content, features, {})
    first = inputs[:_SCALING_INPUTS]
    size = float(np.abs(encoder.logits(first)).mean())
    scale = np.float32(np.abs(content.logits(first)).mean() / size if size else 1.0)
    *others, last = encoder.layers
    layers = [*others, Layer(scale * last.weight, scale * last.bias, last.activation)]
    return _encoder(_append_linear(layers, content.layers[0]), features, {})


def _encoder(layers: list[Layer], features: Features, metadata: Mapping[str, Any]) -> Encoder:
    thresholds = np.zeros(len(layers[-1].bias), dtype=np.float32)
    return Encoder(features, layers, thresholds, metadata)


def _layers(network: AnyEncoderNetwork) -> list[Layer]:
    if isinstance(network, LinearEncoderNetwork):
        weight, bias = _array(network.scaled_weight()), _array(network.logits.bias)
        return [Layer(weight, bias, "identity")]
    if isinstance(network, FactoredEncoderNetwork):
        first, last = _layer(network.first, "identity"), _layer(network.logits, "identity")
        return [Layer(first.weight @ last.weight, last(first.bias[None])[0], "identity")]
    scale, shift = _scale_and_shift(network.first_norm)
    second_scale, second_shift = _scale_and_shift(network.second_norm)
    return [
        _layer(network.first, "relu"),
        _layer(network.second, "relu", scale, shift),
        _layer(network.logits, "identity", second_scale, second_shift),
    ]


def _append_linear(layers: Sequence[Layer], linear: Layer) -> list[Layer]:
    """Return layers whose output is that of `layers` followed by that of the layer `linear`.

    Layers of ReLU units pass on a value u as max(u, 0) and max(−u, 0), and the last layer subtracts
    these, which restores u.
    """
    n_linear = len(linear.bias)
    first, *middle, last = layers
    pair = np.hstack([linear.weight, -linear.weight])
    combined = [
        Layer(
            np.hstack([first.weight, pair]),
            np.concatenate([first.bias, linear.bias, -linear.bias]),
            first.activation,
        )
    ]
    identity = np.eye(2 * n_linear, dtype=np.float32)
    for layer in middle:
        bias = np.concatenate([layer.bias, np.zeros(2 * n_linear, dtype=np.float32)])
        combined.append(Layer(_block_diagonal(layer.weight, identity), bias, layer.activation))
    bias = np.concatenate([last.bias, np.zeros(n_linear, dtype=np.float32)])
    difference = np.vstack([identity[:n_linear, :n_linear], -identity[:n_linear, :n_linear]])
    combined.append(Layer(_block_diagonal(last.weight, difference), bias, last.activation))
    return combined


def _block_diagonal(first: Floats, second: Floats) -> Floats:
    rows, columns = first.shape
    matrix = np.zeros((rows + len(second), columns + second.shape[1]), dtype=np.float32)
    matrix[:rows, :columns], matrix[rows:, columns:] = first, second
    return matrix


def _scale_and_shift(norm: nn.BatchNorm1d | None) -> tuple[Tensor, Tensor]:
    """Return s and t such that normalization of h is s h + t, with the running statistics."""
    if norm is None:
        return torch.ones(1), torch.zeros(1)
    if norm.running_mean is None or norm.running_var is None:
        raise ValueError("batch normalization without running statistics cannot be exported")
    scale = norm.weight / torch.sqrt(norm.running_var + norm.eps)
    return scale, norm.bias - scale * norm.running_mean


def _layer(
    module: SparseLinear | ScaledLinear | nn.Linear,
    activation: Activation,
    scale: Tensor | None = None,
    shift: Tensor | None = None,
) -> Layer:
    """Return act((s x + t) W + b) as a layer: W is scaled by row, and t W is added to b."""
    # torch stores the weight of a Linear as (outputs, inputs).
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
