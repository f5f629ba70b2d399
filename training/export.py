"""From a trained network to an encoder that needs no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import Tensor, nn

from encoder.encoder import Encoder
from encoder.features import Features, Floats
from encoder.network import Activation, Layer
from training.models import EncoderNetwork, SparseLinear


def to_encoder(network: EncoderNetwork, features: Features, metadata: Mapping[str, Any]) -> Encoder:
    """Return `network` as an :class:`Encoder` whose bits are the signs of the logits."""
    return Encoder(
        features=features,
        layers=[
            _layer(network.first, "relu"),
            _layer(network.second, "relu"),
            _layer(network.logits, "identity"),
        ],
        thresholds=np.zeros(network.logits.out_features, dtype=np.float32),
        metadata=metadata,
    )


def _layer(module: SparseLinear | nn.Linear, activation: Activation) -> Layer:
    # torch keeps the weight of a Linear as (outputs, inputs).
    weight = module.weight.T if isinstance(module, nn.Linear) else module.scaled_weight()
    return Layer(weight=_array(weight), bias=_array(module.bias), activation=activation)


def _array(tensor: Tensor) -> Floats:
    return np.ascontiguousarray(tensor.detach().cpu().numpy(), dtype=np.float32)
