from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import sparse

from hummingbit.training.batches import SparseBatch, word_distribution
from hummingbit.training.layers import ScaledLinear, relaxed_bernoulli
from hummingbit.training.networks import (
    BernoulliAutoencoder,
    EncoderNetwork,
    LinearEncoderNetwork,
    Shape,
    TextDecoder,
    VectorDecoder,
)
from tests.support.oracles.rounding import assert_within_rounding


def random_counts(seed: int = 0) -> sparse.csr_array:
    rng = np.random.default_rng(seed)
    dense = rng.integers(0, 3, size=(5, 11)).astype(np.float32)
    dense[2] = 0
    return sparse.csr_array(dense)


def batch_of(matrix: sparse.csr_array) -> SparseBatch:
    return SparseBatch.of_rows(matrix, np.arange(matrix.shape[0]))


def test_the_text_decoder_equals_a_dense_softmax() -> None:
    torch.manual_seed(0)
    decoder, targets, b = TextDecoder(4, 11), word_distribution(random_counts()), torch.rand(5, 4)
    torch.nn.init.normal_(decoder.bias)
    log_p = torch.log_softmax(b @ decoder.weight.T + decoder.bias, dim=1)
    expected = -(torch.from_numpy(targets.toarray()) * log_p).sum(dim=1)
    loss = decoder(b, batch_of(targets))
    torch.testing.assert_close(loss, expected)
    assert loss[2].item() == 0


def test_the_text_decoders_gradients_equal_the_dense_ones() -> None:
    torch.manual_seed(0)
    decoder, targets, b = TextDecoder(4, 11), word_distribution(random_counts()), torch.rand(5, 4)
    parameters = list(decoder.parameters())
    sparse_gradients = torch.autograd.grad(decoder(b, batch_of(targets)).sum(), parameters)
    log_p = torch.log_softmax(b @ decoder.weight.T + decoder.bias, dim=1)
    dense_loss = -(torch.from_numpy(targets.toarray()) * log_p).sum()
    for got, expected in zip(
        sparse_gradients, torch.autograd.grad(dense_loss, parameters), strict=True
    ):
        torch.testing.assert_close(got, expected)


def test_the_vector_decoder_is_half_the_squared_error() -> None:
    torch.manual_seed(0)
    decoder, b, x = VectorDecoder(4, 3), torch.rand(5, 4), torch.rand(5, 3)
    torch.nn.init.normal_(decoder.linear.weight)
    expected = 0.5 * np.square(x.numpy() - decoder.linear(b).detach().numpy()).sum(axis=1)
    np.testing.assert_allclose(decoder(b, x).detach().numpy(), expected, rtol=1e-5)


def shape(*, text: bool = True, batch_norm: bool = False) -> Shape:
    return Shape(
        inputs=11, hidden=7, n_bits=8, classes=3, text=text, batch_norm=batch_norm, input_scale=5.0
    )


@pytest.mark.parametrize("batch_norm", [True, False])
@pytest.mark.parametrize("text", [True, False])
def test_a_forward_pass_gives_a_relaxed_code_and_class_logits(text: bool, batch_norm: bool) -> None:
    torch.manual_seed(0)
    model = BernoulliAutoencoder(shape(text=text, batch_norm=batch_norm), temperature=0.67)
    counts = random_counts()
    x = batch_of(counts) if text else torch.from_numpy(counts.toarray())
    out = model(x, torch.Generator().manual_seed(0))
    assert out.b_NB.shape == (5, 8)
    assert out.class_logits_NC.shape == (5, 3)
    assert ((out.b_NB > 0) & (out.b_NB < 1)).all()
    assert out.kl_loss.item() > 0


def test_a_linear_network_starts_where_it_is_told_to() -> None:
    network = LinearEncoderNetwork(shape())
    counts = random_counts()
    weight, thresholds = torch.rand(11, 8), torch.rand(8)
    network.start_at(weight, thresholds)
    expected = torch.from_numpy(counts.toarray()) @ weight - thresholds
    torch.testing.assert_close(network(batch_of(counts))[1], expected)


def test_a_linear_network_learns_along_directions_beside_its_own_matrix() -> None:
    torch.manual_seed(0)
    network, x = LinearEncoderNetwork(shape()), batch_of(random_counts())
    before = network(x)[1]
    directions = torch.rand(11, 3)
    network.learn_along(directions)
    torch.testing.assert_close(network(x)[1], before)
    assert network.along is not None
    torch.nn.init.normal_(network.along.weight_KB)
    moved = 5 * torch.from_numpy(random_counts().toarray()) @ directions @ network.along.weight_KB
    torch.testing.assert_close(network(x)[1], before + moved)
    assert not network.along.directions_VK.requires_grad
    assert "along.directions_VK" not in network.state_dict()


def draw_bytes(n: int, generator: torch.Generator) -> torch.Tensor:
    words = torch.empty(-(-n // 8), dtype=torch.int64)
    return words.random_(-(2**63), None, generator=generator).view(torch.uint8)[:n]


def test_hidden_units_drop_out_in_training_alone() -> None:
    torch.manual_seed(0)
    encoder, x = EncoderNetwork(replace(shape(), dropout=0.25)), batch_of(random_counts())
    found, _ = encoder(x, torch.Generator().manual_seed(3))
    draws = torch.Generator().manual_seed(3)
    first, second = (draw_bytes(35, draws).view(5, 7) >= 64 for _ in range(2))
    hidden = torch.relu(encoder.first(x)) * first / 0.75
    expected = torch.relu(encoder.second(hidden)) * second / 0.75
    torch.testing.assert_close(found, expected)
    encoder.eval()
    torch.testing.assert_close(encoder(x, draws), encoder(x))


def test_the_first_layer_for_vectors_equals_the_scaled_product() -> None:
    torch.manual_seed(0)
    first = BernoulliAutoencoder(shape(text=False), temperature=0.67).encoder.first
    x = torch.from_numpy(random_counts().toarray())
    assert isinstance(first, ScaledLinear)
    torch.testing.assert_close(first(x), 5 * x @ first.weight.T + first.bias)
    torch.testing.assert_close(first(x), x @ first.scaled_weight() + first.bias)


@pytest.mark.parametrize("sparse_gradient", [True, False])
def test_the_sparse_first_layer_equals_the_scaled_dense_product(sparse_gradient: bool) -> None:
    torch.manual_seed(0)
    sizes = replace(shape(), sparse_gradient=sparse_gradient)
    first = EncoderNetwork(sizes).first
    counts = random_counts()
    assert isinstance(first.weight, torch.Tensor)
    assert isinstance(first.bias, torch.Tensor)
    x, weight = torch.from_numpy(counts.toarray()).double(), first.weight.detach().double()
    exact = 5 * x @ weight + first.bias.detach().double()
    size = 5 * x @ weight.abs() + first.bias.detach().double().abs()
    found = first(batch_of(counts))
    terms = x.shape[1] + 2  # products, the scale and the bias
    assert_within_rounding(found.detach(), exact, size, terms)
    found.square().sum().backward()
    assert first.weight.grad is not None
    assert first.weight.grad.is_sparse is sparse_gradient
    # d Σ f² / dW = Σ 2 f · 5 x over the rows of the batch.
    gradient = 10 * x.T @ exact
    assert_within_rounding(
        first.weight.grad.to_dense(), gradient, 10 * x.T @ size, terms + len(x) + 2
    )


def test_relaxed_bits_round_to_bernoulli_draws() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.tensor([-2.0, 0.0, 1.5]).expand(100_000, 3)
    share = (relaxed_bernoulli(logits, 0.67, generator) > 0.5).float().mean(dim=0)
    # Five standard errors of a mean of 100,000 coins are below 0.008.
    torch.testing.assert_close(share, torch.sigmoid(logits[0]), atol=0.008, rtol=0)


def test_a_cold_relaxation_is_nearly_binary() -> None:
    b = relaxed_bernoulli(torch.zeros(1000, 4), 0.01, torch.Generator().manual_seed(0))
    assert ((b < 0.01) | (b > 0.99)).float().mean() > 0.95
