"""Networks from texts or vectors to logits, autoencoders, and their export without torch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy.linalg import block_diag
from torch import Tensor, nn
from torch.nn import functional

from hummingbit.encoder.encoder import Activation, Encoder, Features, Inputs, Layer
from hummingbit.encoder.text_features import Floats, TextFeatures
from hummingbit.encoder.vector_features import SpdFeatures
from hummingbit.foundation.slices import begin_stage
from hummingbit.training.batches import SparseBatch
from hummingbit.training.layers import (
    HalvedLinear,
    ScaledLinear,
    SparseLinear,
    relaxed_bernoulli,
    transposed_product,
    weighted_sum,
)
from hummingbit.training.linear_codes import MadeQueries
from hummingbit.training.objectives.neighbours import (
    neighbour_temperatures,
    stochastic_neighbour_loss,
)
from hummingbit.training.objectives.ssb_vae import (
    kl_loss,
    text_reconstruction_loss,
    vector_reconstruction_loss,
)

# Networks from texts or vectors to logits: hidden layers, one matrix, or a product of two.
#
# Shapes: N rows of a batch, V terms (or D vector entries), H hidden units, B bits, C classes.


# Four times as many units take twice the time and are no better.
_FACTORED_HIDDEN = 128


# The scale of the first layer for rows of unit length; see SparseLinear.
UNIT_ROW_SCALE = 5.0


@dataclass(frozen=True)
class Shape:
    """The sizes of an autoencoder; `inputs` are terms of a text or entries of a vector.

    `sparse_gradient` is that of the first layer for texts, a :class:`SparseLinear`. `content_bits`
    come after the `n_bits`, from a linear network of their own.
    """

    inputs: int
    hidden: int
    n_bits: int
    classes: int = 1
    text: bool = False
    batch_norm: bool = False
    input_scale: float = 1.0
    dropout: float = 0.0
    sparse_gradient: bool = True
    content_bits: int = 0

    @classmethod
    def of(cls, features: Features, hidden: int, n_bits: int, **others: Any) -> Shape:
        """Return the sizes of a network that reads `features`."""
        inputs = features.outputs if isinstance(features, SpdFeatures) else features.dimension
        shape = cls(inputs, hidden, n_bits, text=isinstance(features, TextFeatures), **others)
        if isinstance(features, TextFeatures) and features.l2_normalize:
            return replace(shape, input_scale=UNIT_ROW_SCALE)
        return shape


class EncoderNetwork(nn.Module):
    """Two hidden layers of ReLU units, each with optional batch normalization, then B logits."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.dropout = shape.dropout
        hidden = shape.hidden
        self.first = _first_layer(shape)
        self.first_norm = nn.BatchNorm1d(hidden) if shape.batch_norm else None
        self.second = HalvedLinear(hidden, hidden)
        self.second_norm = nn.BatchNorm1d(hidden) if shape.batch_norm else None
        self.logits = nn.Linear(hidden, shape.n_bits)

    def forward(
        self, x: SparseBatch | Tensor, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the second hidden layer ``(N, H)`` and the logits ``(N, B)``.

        In training mode and with a `generator`, hidden units drop out at the rate of the shape.
        """
        rate = self.dropout if self.training and generator is not None else 0.0
        h_NH = _normalized(functional.relu(self.first(x)), self.first_norm)
        h_NH = functional.relu(self.second(_drop_units(h_NH, rate, generator)))
        h_NH = _drop_units(_normalized(h_NH, self.second_norm), rate, generator)
        return h_NH, self.logits(h_NH)


class DirectionalLinear(nn.Module):
    """s x D A for sparse x, with the fixed `directions` D, ``(V, K)``, and A, ``(K, outputs)``.

    A starts at 0. A step of A moves all terms of a direction, also those that no x contains.
    """

    directions_VK: Tensor

    def __init__(self, directions_VK: Tensor, outputs: int, scale: float) -> None:
        super().__init__()
        self.scale = scale
        self.register_buffer("directions_VK", directions_VK, persistent=False)
        self.weight_KB = nn.Parameter(directions_VK.new_zeros(directions_VK.shape[1], outputs))

    def forward(self, x: SparseBatch) -> Tensor:
        """Return ``(N, outputs)``."""
        coordinates_NK = weighted_sum(x, self.directions_VK, sparse=False)
        return self.scale * coordinates_NK @ self.weight_KB

    def scaled_weight(self) -> Tensor:
        """Return s D A, the weight of the same layer without directions, ``(V, outputs)``."""
        return self.scale * self.directions_VK @ self.weight_KB


class LinearEncoderNetwork(nn.Module):
    """B logits linear in the terms of a text: one matrix and a bias.

    With :meth:`learn_along`, it learns the matrix as a sum of two, W and D A; see
    :class:`DirectionalLinear`.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.logits = SparseLinear(
            shape.inputs, shape.n_bits, shape.input_scale, sparse_gradient=shape.sparse_gradient
        )
        self.along: DirectionalLinear | None = None

    def start_at(self, weight_VB: Tensor, thresholds_B: Tensor) -> None:
        """Set the logits to x W − t."""
        with torch.no_grad():
            self.logits.weight.copy_(weight_VB / self.logits.scale)
            self.logits.bias.copy_(-thresholds_B)

    def learn_along(self, directions_VK: Tensor) -> None:
        """Learn along the `directions_VK`, too. This changes no logit yet."""
        weight_VB, scale = self.logits.weight, self.logits.scale
        self.along = DirectionalLinear(
            directions_VK.to(weight_VB.device), weight_VB.shape[1], scale
        )

    def forward(
        self, x: SparseBatch, _generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the logits ``(N, B)`` twice, since there is no hidden layer."""
        logits_NB = self.logits(x)
        if self.along is not None:
            logits_NB = logits_NB + self.along(x)
        return logits_NB, logits_NB

    def coordinates(self, x: SparseBatch) -> Tensor | None:
        """Return x D, ``(N, K)``, if the network learns along directions D."""
        if self.along is None:
            return None
        return weighted_sum(x, self.along.directions_VK, sparse=False)

    def logits_at(self, x: SparseBatch, coordinates_NK: Tensor | None) -> Tensor:
        """Return the logits ``(N, B)`` of x, whose :meth:`coordinates` are known."""
        logits_NB = weighted_sum(x, self.logits.weight, sparse=False)
        if self.along is not None and coordinates_NK is not None:
            logits_NB.addmm_(coordinates_NK, self.along.weight_KB)
        return logits_NB.mul_(self.logits.scale).add_(self.logits.bias)

    def gradients(
        self, x: SparseBatch, coordinates_NK: Tensor | None, of_logits_NB: Tensor
    ) -> dict[Tensor, Tensor]:
        """Return the gradient of each parameter, given that of the logits of x, on the CPU."""
        weight_VB, scale = self.logits.weight, self.logits.scale
        scaled_NB = scale * of_logits_NB
        gradients: dict[Tensor, Tensor] = {
            weight_VB: transposed_product(
                x, scaled_NB, len(weight_VB), sparse=self.logits.sparse_gradient
            ),
            self.logits.bias: of_logits_NB.sum(dim=0),
        }
        if self.along is not None and coordinates_NK is not None:
            gradients[self.along.weight_KB] = coordinates_NK.T @ scaled_NB
        return gradients

    def scaled_weight(self) -> Tensor:
        """Return the matrix, ``(V, B)``."""
        weight_VB = self.logits.scaled_weight()
        return weight_VB if self.along is None else weight_VB + self.along.scaled_weight()


class FactoredEncoderNetwork(nn.Module):
    """B logits linear in the terms of a text, as a product of two matrices with H units between.

    Training a product from a random start favours few directions. Source: Arora et al., "Implicit
    Regularization in Deep Matrix Factorization" (2019).
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        narrow = replace(shape, hidden=max(_FACTORED_HIDDEN, shape.n_bits))
        self.first = _first_layer(narrow)
        self.logits = nn.Linear(narrow.hidden, shape.n_bits)

    def forward(
        self, x: SparseBatch | Tensor, _generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the H units ``(N, H)`` and the logits ``(N, B)``."""
        h_NH = self.first(x)
        return h_NH, self.logits(h_NH)


AnyEncoderNetwork = EncoderNetwork | LinearEncoderNetwork | FactoredEncoderNetwork


def _first_layer(shape: Shape) -> SparseLinear | ScaledLinear:
    sizes = (shape.inputs, shape.hidden, shape.input_scale)
    if shape.text:
        return SparseLinear(*sizes, sparse_gradient=shape.sparse_gradient)
    return ScaledLinear(*sizes)


def _normalized(h_NH: Tensor, norm: nn.BatchNorm1d | None) -> Tensor:
    normalized: Tensor = h_NH if norm is None else norm(h_NH)
    return normalized


def _drop_units(h_NH: Tensor, rate: float, generator: torch.Generator | None) -> Tensor:
    """Set units to 0 at this rate and scale the others up, which preserves expectations.

    The rate is rounded to a multiple of 1/256, so that eight random bits decide about a unit. To
    draw a random number for each takes several times as long.
    """
    dropping = min(round(256 * rate), 255)
    if dropping == 0:
        return h_NH
    # Drawn on the CPU, so that the draws are the same on every device.
    words = torch.empty(-(-h_NH.numel() // 8), dtype=torch.int64)
    draws = words.random_(-(2**63), None, generator=generator).view(torch.uint8)
    factors = draws[: h_NH.numel()].to(torch.float32).ge_(dropping).mul_(256 / (256 - dropping))
    return h_NH * factors.view(h_NH.shape).to(h_NH)


# Autoencoders: encoder, code, decoder and class head.
#
# Shapes: N rows of a batch, V terms (or D vector entries), H hidden units, B bits, C classes.


class TextDecoder(nn.Module):
    """A softmax over the vocabulary, linear in the code: log p(v|b) = log softmax(E b + c)_v."""

    def __init__(self, n_bits: int, terms: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(terms, n_bits))
        self.bias = nn.Parameter(torch.zeros(terms))
        nn.init.xavier_uniform_(self.weight)

    def start_at(self, share_V: Tensor) -> None:
        """Set c to the logarithm of each term's share of all words.

        Otherwise bits first learn the frequent words. These are the same for every text, so bits
        would freeze at one value for all texts before c has learned the frequencies.
        """
        with torch.no_grad():
            self.bias.copy_(share_V.log())

    def forward(self, b_NB: Tensor, targets: SparseBatch) -> Tensor:
        """Return :func:`text_reconstruction_loss` of each row, shape ``(N,)``."""
        return text_reconstruction_loss(b_NB, self.weight, self.bias, targets)


class VectorDecoder(nn.Module):
    """A Gaussian of unit variance around a linear map of the code."""

    def __init__(self, n_bits: int, dimension: int) -> None:
        super().__init__()
        self.linear = nn.Linear(n_bits, dimension)
        # With random weights, the noise of the bits would cause an error much larger than short
        # vectors. Training would then freeze every bit, from which codes do not recover.
        nn.init.zeros_(self.linear.weight)

    def forward(self, b_NB: Tensor, targets_ND: Tensor) -> Tensor:
        """Return :func:`vector_reconstruction_loss` of E b + c for each row, shape ``(N,)``."""
        return vector_reconstruction_loss(self.linear(b_NB), targets_ND)


@dataclass(frozen=True)
class Output:
    """A draw of the code, its KL loss, and logits.

    `class_logits_NC` are of the class head, and `code_class_logits_NC` of the head on the code.
    """

    logits_NB: Tensor
    b_NB: Tensor
    kl_loss: Tensor
    class_logits_NC: Tensor
    code_class_logits_NC: Tensor


class Autoencoder(nn.Module):
    """The parts of an autoencoder: a network to logits, a decoder, and perhaps one of content."""

    encoder: EncoderNetwork
    decoder: TextDecoder | VectorDecoder
    content: FactoredEncoderNetwork | None


class BernoulliAutoencoder(Autoencoder):
    """SSB-VAE's network: x → logits → relaxed b ~ Ber(σ(logits)) → x̂, with a class head on h₂.

    A second class head is on b; the recipe sets its weight.

    Source: Ñanculef et al., "Self-Supervised Bernoulli Autoencoders for Semi-Supervised Hashing"
    (2020), section 3; the relaxation is Jang et al., "Categorical Reparameterization with
    Gumbel-Softmax" (2017), for two categories.
    """

    def __init__(self, shape: Shape, temperature: float) -> None:
        super().__init__()
        self.encoder = EncoderNetwork(shape)
        self.temperature = temperature
        self.decoder = decoder_of(shape)
        self.class_head = nn.Linear(shape.hidden, shape.classes)
        self.code_head = nn.Linear(shape.n_bits, shape.classes)
        self.content = None
        if shape.content_bits:
            self.content = FactoredEncoderNetwork(replace(shape, n_bits=shape.content_bits))

    def forward(self, x: SparseBatch | Tensor, generator: torch.Generator) -> Output:
        """Encode a batch and draw one relaxed code for each row."""
        h_NH, logits_NB = self.encoder(x, generator)
        b_NB, kl = relaxed_bernoulli(logits_NB, self.temperature, generator), kl_loss(logits_NB)
        return Output(logits_NB, b_NB, kl, self.class_head(h_NH), self.code_head(b_NB))


def decoder_of(shape: Shape) -> TextDecoder | VectorDecoder:
    """Return the decoder of texts or vectors of a shape."""
    decoder = TextDecoder if shape.text else VectorDecoder
    return decoder(shape.n_bits, shape.inputs)


# A linear map of vectors to bits, trained on nearest neighbours


PERPLEXITY = 4.0
LEAST_STEPS, MOST_STEPS = 300, 1_000
"""Between them, there are as many steps as vectors."""
STEP_SIZE = 1e-2
LEAST_NOISE, MOST_NOISE = 1.0, 2.0
"""The length of the noise that makes a query of a vector, as a share of the vector's own."""
OWN_SHARE = 0.3
"""The probability with which a query made of a document should find this document."""

_MOST_ROWS = 20_000
# The queries of a step, the documents that they search, and those that may be their neighbours.
_QUERIES, _DOCUMENTS, _NEAREST = 192, 2_048, 100
_FIRST_SCALE, _SCALE_STEP = 16.0, 0.02
_WARM_UP = 30


def fit_neighbour_map(
    vectors: Floats,
    weight: Floats,
    thresholds: Floats,
    seed: int,
    widths: Sequence[int] = (),
    *,
    queries: MadeQueries | None = None,
) -> tuple[Floats, Floats]:
    """Return weights ``(D, B)`` and thresholds ``(B,)`` learned from `vectors` ``(N, D)``.

    They start from those given and minimize :func:`stochastic_neighbour_loss` by Adam. In each
    step, up to 192 queries search up to 2,048 of the vectors. If `queries` are given, one should
    find its own document, with the probability :data:`OWN_SHARE`, as well as the neighbours of its
    vector. Otherwise the queries are vectors with noise, because queries are no documents.
    At most 20,000 vectors are learned from, drawn at random. With `widths`, the loss is the mean of
    those of the first bits, so many each, and codes cut to one of the widths keep the nearest
    neighbours, too.
    """
    begin_stage("learning to keep the nearest neighbours")
    rng = np.random.default_rng(seed)
    if len(vectors) > _MOST_ROWS:
        some = np.sort(rng.choice(len(vectors), _MOST_ROWS, replace=False))
        vectors, queries = vectors[some], _queries_of(queries, some)
    size = float(np.sqrt(np.square(vectors @ weight - thresholds).mean())) or 1.0
    weight_DB = torch.tensor(weight / size, dtype=torch.float32, requires_grad=True)
    thresholds_B = torch.tensor(thresholds / size, dtype=torch.float32, requires_grad=True)
    rows_ND = torch.from_numpy(np.ascontiguousarray(vectors, dtype=np.float32))
    _learn(
        weight_DB,
        thresholds_B,
        rows_ND,
        rng,
        widths=widths or (len(thresholds),),
        queries=queries,
    )
    return weight_DB.detach().numpy(), thresholds_B.detach().numpy()


def _learn(
    weight_DB: Tensor,
    thresholds_B: Tensor,
    rows_ND: Tensor,
    rng: np.random.Generator,
    *,
    widths: Sequence[int],
    queries: MadeQueries | None,
) -> None:
    """Change the weights and thresholds so that queries find their nearest rows."""
    asked_rows = None if queries is None else np.unique(queries.rows)
    unit_ND = functional.normalize(rows_ND, dim=1)
    lengths_N1 = rows_ND.norm(dim=1, keepdim=True)
    log_scales_W = torch.full((len(widths),), math.log(_FIRST_SCALE), requires_grad=True)
    groups: list[dict[str, Any]] = [
        {"params": [weight_DB, thresholds_B]},
        {"params": [log_scales_W], "lr": _SCALE_STEP},
    ]
    optimizer = torch.optim.Adam(groups)
    steps = min(max(len(unit_ND), LEAST_STEPS), MOST_STEPS)
    for step in range(steps):
        rise, fall = min(1, (step + 1) / _WARM_UP), 1 - step / steps
        optimizer.param_groups[0]["lr"] = STEP_SIZE * rise * fall
        drawn = _draw(len(unit_ND), _DOCUMENTS, rng)
        if queries is not None and asked_rows is not None:
            first = asked_rows[_draw(len(asked_rows), _QUERIES, rng)]
            drawn = np.concatenate([first, drawn[~np.isin(drawn, first)]])[:_DOCUMENTS]
        searched = torch.from_numpy(drawn)
        asked = searched[:_QUERIES] if queries is None else searched[: len(first)]
        if queries is None:
            queries_QD = _with_noise(unit_ND, asked, rng)
        else:
            queries_QD = _one_each(queries, first, rng)
        cosines_QN = queries_QD @ unit_ND[searched].T
        nearest_QK = cosines_QN.topk(min(_NEAREST, len(searched)), dim=1).values
        query_logits_QB = (queries_QD * lengths_N1[asked]) @ weight_DB - thresholds_B
        document_logits_NB = rows_ND[searched] @ weight_DB - thresholds_B
        temperatures_Q1 = neighbour_temperatures(nearest_QK, PERPLEXITY)
        losses = [
            stochastic_neighbour_loss(
                query_logits_QB[:, :width],
                document_logits_NB[:, :width],
                cosines_QN,
                temperatures_Q1,
                log_scale.exp(),
                own_share=0.0 if queries is None else OWN_SHARE,
            )
            for width, log_scale in zip(widths, log_scales_W, strict=True)
        ]
        loss = torch.stack(losses).mean()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()


def _draw(count: int, most: int, rng: np.random.Generator) -> Any:
    """Return `most` of the first `count` integers, or all, in a random order."""
    return rng.choice(count, min(most, count), replace=False)


def _queries_of(queries: MadeQueries | None, kept: npt.NDArray[np.int64]) -> MadeQueries | None:
    """Return the queries of the rows `kept`, with their rows among these; None without any."""
    if queries is None:
        return None
    of_kept = np.isin(queries.rows, kept)
    rows = np.searchsorted(kept, queries.rows[of_kept])
    return MadeQueries(rows, queries.vectors[of_kept]) if len(rows) else None


def _one_each(
    queries: MadeQueries, rows: npt.NDArray[np.int64], rng: np.random.Generator
) -> Tensor:
    """Return the vector of one query of each of the `rows`, drawn at random."""
    order = np.argsort(queries.rows, kind="stable")
    starts = np.searchsorted(queries.rows[order], rows)
    counts = np.searchsorted(queries.rows[order], rows, side="right") - starts
    drawn = starts + (rng.random(len(rows)) * counts).astype(np.int64)
    return functional.normalize(torch.from_numpy(queries.vectors[order[drawn]]), dim=1)


def _with_noise(unit_ND: Tensor, asked: Tensor, rng: np.random.Generator) -> Tensor:
    """Return queries near the rows `asked`, of length 1.

    The noise has the direction from one random row to another, so it is large along the directions
    in which the rows differ. Isotropic noise would be mostly along directions that tell nothing.
    """
    ends = torch.from_numpy(rng.integers(len(unit_ND), size=(2, len(asked))))
    noise_QD = functional.normalize(unit_ND[ends[0]] - unit_ND[ends[1]], dim=1)
    lengths = rng.uniform(LEAST_NOISE, MOST_NOISE, size=(len(asked), 1)).astype(np.float32)
    return functional.normalize(unit_ND[asked] + torch.from_numpy(lengths) * noise_QD, dim=1)


# Export as an encoder that needs no torch


_SCALING_INPUTS = 1000


def to_encoder(network: AnyEncoderNetwork, features: Features) -> Encoder:
    """Return `network` as an :class:`Encoder` whose bits are the signs of the logits.

    The scale of the first layer and batch normalization are folded into the weights.
    """
    return _encoder(_layers(network), features)


def autoencoder_to_encoder(model: Autoencoder, features: Features, inputs: Inputs) -> Encoder:
    """Return the encoder of `model`; its content bits, if any, come after the others.

    With content bits, the other logits are scaled, which changes no bit. Both kinds then have the
    same mean absolute value over the first `inputs`, the training documents, and so the same weight
    in a query.
    """
    encoder = to_encoder(model.encoder, features)
    if model.content is None:
        return encoder
    content = to_encoder(model.content, features)
    first = inputs[:_SCALING_INPUTS]
    size = float(np.abs(encoder.logits(first)).mean())
    scale = np.float32(np.abs(content.logits(first)).mean() / size if size else 1.0)
    *others, last = encoder.layers
    layers = [*others, Layer(scale * last.weight, scale * last.bias, last.activation)]
    return _encoder(_append_linear(layers, content.layers[0]), features)


def _encoder(layers: list[Layer], features: Features) -> Encoder:
    return Encoder(features, layers, np.zeros(len(layers[-1].bias), dtype=np.float32), {})


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
        combined.append(Layer(block_diag(layer.weight, identity), bias, layer.activation))
    bias = np.concatenate([last.bias, np.zeros(n_linear, dtype=np.float32)])
    difference = np.vstack([identity[:n_linear, :n_linear], -identity[:n_linear, :n_linear]])
    combined.append(Layer(block_diag(last.weight, difference), bias, last.activation))
    return combined


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
