from __future__ import annotations

import numpy as np
import torch

from training.objectives.elbo import gaussian_kl_loss, kl_loss


def test_hand_computed_values() -> None:
    # α = 1/2 costs nothing; α = 3/4 costs ¾ ln ¾ + ¼ ln ¼ + ln 2 a bit.
    three_quarters = np.log(3.0)
    logits = torch.tensor([[0.0, 0.0], [three_quarters, -three_quarters]], dtype=torch.float64)
    one_bit = 0.75 * np.log(0.75) + 0.25 * np.log(0.25) + np.log(2)
    np.testing.assert_allclose(kl_loss(logits).item(), (0 + 2 * one_bit) / 2, rtol=1e-12)


def test_it_equals_the_mean_log_ratio_of_sampled_codes() -> None:
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(1, 4)) * 2
    alpha = 1 / (1 + np.exp(-logits))
    bits = rng.random((400_000, 4)) < alpha
    log_q = np.where(bits, np.log(alpha), np.log(1 - alpha)).sum(axis=1)
    ratio = log_q - 4 * np.log(0.5)
    error = 5 * ratio.std() / np.sqrt(len(ratio))
    assert abs(kl_loss(torch.from_numpy(logits)).item() - ratio.mean()) < error


def test_saturated_bits_cost_ln_2_and_have_a_finite_gradient() -> None:
    logits = torch.tensor([[200.0, -200.0]], requires_grad=True)
    loss = kl_loss(logits)
    loss.backward()  # type: ignore[no-untyped-call]
    np.testing.assert_allclose(loss.item(), 2 * np.log(2), rtol=1e-6)
    assert logits.grad is not None
    assert torch.isfinite(logits.grad).all()


def test_gradient_by_finite_differences() -> None:
    logits = torch.randn(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert torch.autograd.gradcheck(kl_loss, (logits.requires_grad_(),))


def test_the_gaussian_divergence_equals_torchs() -> None:
    generator = torch.Generator().manual_seed(0)
    mean, log_variance = (torch.randn(5, 3, generator=generator) for _ in range(2))
    q = torch.distributions.Normal(mean, torch.exp(0.5 * log_variance))
    p = torch.distributions.Normal(torch.zeros(5, 3), torch.ones(5, 3))
    expected = torch.distributions.kl_divergence(q, p).sum(dim=1).mean()
    torch.testing.assert_close(gaussian_kl_loss(mean, log_variance), expected)


def test_the_gaussian_gradient_by_finite_differences() -> None:
    generator = torch.Generator().manual_seed(0)
    draws = [torch.randn(3, 4, dtype=torch.float64, generator=generator) for _ in range(2)]
    assert torch.autograd.gradcheck(gaussian_kl_loss, [one.requires_grad_() for one in draws])
