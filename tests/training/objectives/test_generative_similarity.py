from __future__ import annotations

from collections.abc import Callable
from math import exp, log, log1p

import numpy as np
import pytest
import torch
from pytorch_metric_learning.losses import SupConLoss
from torch import Tensor

from experiments.generative_similarity.triplet_losses import (
    dot_product_loss,
    squared_distance_loss,
    triplet_loss,
)
from hummingbit.training.objectives.generative_similarity import (
    CONTRASTS,
    kernel_pair_loss,
    kernel_triplet_loss,
    regression_loss,
)

ALL = ["softmax", *CONTRASTS]
CONTRAST: dict[str, Callable[[float], float]] = {
    "softplus": lambda t: log1p(exp(t)),
    "quadratic": lambda t: max(0.0, 1 + t) ** 2,
}


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def kernel(n: int, seed: int = 1) -> Tensor:
    """Random, symmetric, a third of it 0."""
    k = draw(n, n, seed=seed).add(0.4).clamp(min=0)
    return k + k.T


@pytest.mark.parametrize("contrast", CONTRASTS)
def test_triplets_equal_their_formula(contrast: str) -> None:
    same, different = draw(2, 20)
    phi = CONTRAST[contrast]
    expected = [phi(float(d - s)) for s, d in zip(same, different, strict=True)]
    found = triplet_loss(same, different, contrast=contrast)
    assert float(found) == pytest.approx(np.mean(expected))


@pytest.mark.parametrize("contrast", CONTRASTS)
def test_a_batch_weighed_by_a_kernel_equals_its_formula(contrast: str) -> None:
    s, k, phi = draw(6, 6), kernel(6), CONTRAST[contrast]
    total = weight = 0.0
    for i in range(6):
        for j in range(6):
            if i != j:
                others = [phi(float(s[i, m] - s[i, j])) for m in range(6) if m != i]
                total += float(k[i, j]) * float(np.mean(others))
                weight += float(k[i, j])
    found = kernel_triplet_loss(s, k, contrast=contrast)
    assert float(found) == pytest.approx(total / weight)
    for changed in (
        kernel_triplet_loss(s, 7 * k, contrast=contrast),
        kernel_triplet_loss(s + torch.eye(6), k + torch.eye(6), contrast=contrast),
    ):
        assert float(changed) == pytest.approx(total / weight)


@pytest.mark.parametrize("contrast", CONTRASTS)
def test_pairs_weighed_by_a_kernel_equal_their_formula(contrast: str) -> None:
    s, k, phi = draw(9), kernel(3).ravel(), CONTRAST[contrast]
    terms = [
        float(k[m]) * float(np.mean([phi(float(s[n] - s[m])) for n in range(9)])) for m in range(9)
    ]
    found = kernel_pair_loss(s, k, contrast=contrast)
    assert float(found) == pytest.approx(sum(terms) / float(k.sum()))


def test_the_softmax_equals_its_formula() -> None:
    s, k = draw(6, 6), kernel(6)
    k[4], k[:, 4] = 0, 0
    rows = []
    for i in (0, 1, 2, 3, 5):
        others = [j for j in range(6) if j != i]
        total = sum(exp(float(s[i, j])) for j in others)
        terms = [float(k[i, j]) * -log(exp(float(s[i, j])) / total) for j in others]
        rows.append(sum(terms) / float(k[i, others].sum()))
    found = kernel_triplet_loss(s, k, contrast="softmax")
    assert float(found) == pytest.approx(np.mean(rows))
    own = torch.eye(6, dtype=torch.float64)
    assert float(kernel_triplet_loss(s + own, 3 * k + own, contrast="softmax")) == pytest.approx(
        float(found)
    )
    a, b = s[0], k[0]
    expected = -sum(float(w) * log(float(p)) for w, p in zip(b, a.softmax(0), strict=True))
    assert float(kernel_pair_loss(a, b, contrast="softmax")) == pytest.approx(
        expected / float(b.sum())
    )


def test_the_softmax_of_classes_is_supervised_contrastive_learning() -> None:
    x, classes = draw(8, 4), torch.tensor([0, 0, 0, 1, 1, 2, 2, 2])
    x = torch.nn.functional.normalize(x, dim=1)
    expected = SupConLoss(temperature=0.3)(x, classes)
    same = (classes[:, None] == classes).double()
    found = kernel_triplet_loss(x @ x.T / 0.3, same, contrast="softmax")
    torch.testing.assert_close(found, expected)


def test_regression_is_the_mean_square() -> None:
    s, t = draw(2, 20)
    assert float(regression_loss(s, t)) == pytest.approx(float(((s - t) ** 2).mean()))


@pytest.mark.parametrize("contrast", ALL)
def test_gradients_with_a_kernel_are_the_slopes(contrast: str) -> None:
    s, k = draw(5, 5).requires_grad_(), kernel(5)
    assert torch.autograd.gradcheck(lambda x: kernel_triplet_loss(x, k, contrast=contrast), s)
    flat, weights = draw(8).requires_grad_(), kernel(4).ravel()[:8]
    assert torch.autograd.gradcheck(lambda x: kernel_pair_loss(x, weights, contrast=contrast), flat)


@pytest.mark.parametrize("contrast", CONTRASTS)
def test_gradients_of_triplets_are_the_slopes(contrast: str) -> None:
    same, different = (draw(8, seed=seed).requires_grad_() for seed in (3, 4))
    assert torch.autograd.gradcheck(
        lambda x, y: triplet_loss(x, y, contrast=contrast), (same, different)
    )
    assert torch.autograd.gradcheck(regression_loss, (same, different))


@pytest.mark.parametrize("contrast", ALL)
def test_the_order_of_examples_is_of_no_consequence(contrast: str) -> None:
    s, k = draw(7, 7), kernel(7)
    order = torch.randperm(7, generator=torch.Generator().manual_seed(0))
    whole = kernel_triplet_loss(s, k, contrast=contrast)
    moved = kernel_triplet_loss(s[order][:, order], k[order][:, order], contrast=contrast)
    torch.testing.assert_close(whole, moved)
    a, b = s[0], k[0]
    for loss in (kernel_pair_loss, *([triplet_loss] if contrast in CONTRASTS else [])):
        torch.testing.assert_close(
            loss(a, b, contrast=contrast), loss(a[order], b[order], contrast=contrast)
        )


def minimize(loss: Callable[[Tensor], Tensor], start: Tensor) -> Tensor:
    free = start.clone().requires_grad_()
    optimizer = torch.optim.LBFGS([free], max_iter=500, line_search_fn="strong_wolfe")

    def step() -> Tensor:
        optimizer.zero_grad()
        value = loss(free)
        value.backward()  # type: ignore[no-untyped-call]
        return value

    for _ in range(5):
        optimizer.step(step)  # type: ignore[no-untyped-call]
    return free.detach()


@pytest.mark.parametrize("contrast", ["softmax", "softplus"])
def test_the_logarithm_is_learned_up_to_a_constant_of_each_anchor(contrast: str) -> None:
    k = draw(6, 6, seed=2).exp()
    k = k + k.T
    found = minimize(lambda s: kernel_triplet_loss(s, k, contrast=contrast), draw(6, 6))
    gap = found - k.log()
    for i in range(6):
        others = gap[i, torch.arange(6) != i]
        torch.testing.assert_close(others - others[0], torch.zeros(5).double(), atol=1e-3, rtol=0)


@pytest.mark.parametrize("contrast", ["softmax", "softplus"])
def test_pairs_learn_the_logarithm_up_to_one_constant(contrast: str) -> None:
    k = draw(12, seed=2).exp()
    found = minimize(lambda s: kernel_pair_loss(s, k, contrast=contrast), draw(12)) - k.log()
    torch.testing.assert_close(found, found[0].expand(12), atol=1e-3, rtol=0)


def test_quadratic_triplets_learn_bounded_differences() -> None:
    k = draw(3, 3, seed=2).exp()
    k = k + k.T
    found = minimize(lambda s: kernel_triplet_loss(s, k, contrast="quadratic"), draw(3, 3))
    for i in range(3):
        a, b = [j for j in range(3) if j != i]
        expected = (k[i, a] - k[i, b]) / (k[i, a] + k[i, b])
        assert float(found[i, a] - found[i, b]) == pytest.approx(float(expected), abs=1e-3)


@pytest.mark.parametrize("contrast", CONTRASTS)
def test_contrasts_are_convex_and_do_not_fall(contrast: str) -> None:
    values = CONTRASTS[contrast](torch.linspace(-5, 5, 201, dtype=torch.float64))
    slopes = values.diff()
    assert (slopes >= 0).all()
    assert (slopes.diff() >= -1e-12).all()
    assert float(values[-1]) > float(values[0])


ONES = torch.ones(4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: triplet_loss(ONES, ONES[:3]), r"are \[4\] and \[3\]; both must be \[M\], M ≥ 1"),
        (lambda: kernel_pair_loss(ONES, ONES.cumsum(0), contrast="linear"), "contrast is 'linear'"),
        (
            lambda: regression_loss(ONES, -ONES / 0),
            "target: contains -inf; every target must",
        ),
        (lambda: regression_loss(ONES[:0], ONES[:0]), "M ≥ 1"),
        (lambda: kernel_pair_loss(ONES, ONES), "kernel: all 4 pairs have 1, as in one class"),
        (lambda: kernel_pair_loss(ONES, ONES.cumsum(0) - 2), "kernel: contains -1; every kernel"),
        (lambda: kernel_pair_loss(ONES / 0, ONES), "similarity: contains inf"),
        (lambda: kernel_triplet_loss(torch.eye(2), torch.eye(2)), r"both must be \[N, N\], N ≥ 3"),
        (lambda: kernel_triplet_loss(torch.eye(3), torch.ones(3, 4)), r"both must be \[N, N\]"),
        (lambda: kernel_triplet_loss(torch.eye(3), torch.eye(3)), "all 6 pairs have 0"),
    ],
)
def test_bad_batches_are_explained(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_the_losses_without_a_contrast_equal_their_sums() -> None:
    x, y, z = draw(3, 7, 2)
    h1 = f1 = 0.0
    for m in range(7):
        for d in range(2):
            a, same, different = (float(t[m, d]) for t in (x, y, z))
            h1 += ((a - same) ** 2 - (a - different) ** 2) / 7
            f1 += (a * different - a * same) / 7
    assert float(squared_distance_loss(x, y, z)) == pytest.approx(h1)
    assert float(dot_product_loss(x, y, z)) == pytest.approx(f1)
