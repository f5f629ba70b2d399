"""Equation (7) in total, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from hummingbit.encoder.recipes import AutoencoderRecipe
from hummingbit.training.objectives.autoencoder import AutoencoderSettings
from hummingbit.training.semi_supervised import Design, as_in_the_paper, paper_settings
from tests.support.autoencoders import (
    N,
    Setting,
    as_array,
    bernoulli_kl,
    cross_entropy,
    pairs,
)


@pytest.mark.parametrize(
    ("several", "softmax_classes"), [(False, True), (True, True), (True, False)]
)
def test_the_paper_s_ssb_vae_in_total(several: bool, softmax_classes: bool) -> None:
    recipe = as_in_the_paper(AutoencoderRecipe(n_bits=16, hidden=8, label_fraction=0.6))
    settings = paper_settings(0.6, 16)
    setting = Setting(recipe, Design(settings), several=several, softmax_classes=softmax_classes)
    assert settings.softmax_classes
    out = setting.output()
    b, logits, scores = map(as_array, (out.b_NB, out.logits_NB, out.class_logits_NC))
    if not softmax_classes:
        y = 1 / (1 + np.exp(-scores))
        known, right = y[:7], setting.tags[:7]
        class_loss = -np.log(np.where(right, known, 1 - known)).sum() / N
    else:
        y = np.exp(scores)
        y /= y.sum(axis=1, keepdims=True)
        class_loss = cross_entropy(setting.tags[:7].astype(np.float64), scores[:7]) / N
    # Snippets at 0.6: a = 10, g = 10³; α = a · 100 / 16.
    expected = (
        setting.reconstruction(b)
        + 0.015625 * bernoulli_kl(logits)
        + 1e4 * class_loss
        + 62.5 * pairs(b, lambda i, j: float(y[i] @ y[j]))
    )
    total = sum(term.item() for term in setting.terms().values())
    assert total == pytest.approx(expected, rel=2e-5)


def test_our_recipe_has_a_class_loss_on_the_bits_and_no_pairs() -> None:
    recipe = AutoencoderRecipe(n_bits=16, hidden=8, label_fraction=0.6, word_dropout=0.0)
    setting = Setting(recipe, Design(AutoencoderSettings()))
    assert set(setting.terms()) == {
        "reconstruction_loss",
        "kl_loss",
        "pointwise_loss",
        "code_class_loss",
    }
    out = setting.output()
    b, logits = map(as_array, (out.b_NB, out.logits_NB))
    scores = as_array(out.class_logits_NC), as_array(out.code_class_logits_NC)
    known = setting.tags[:7].astype(np.float64)
    expected = (
        setting.reconstruction(b)
        + bernoulli_kl(logits) / 64
        + sum(cross_entropy(known, one[:7]) for one in scores) / N
    )
    total = sum(term.item() for term in setting.terms().values())
    assert total == pytest.approx(expected, rel=2e-5)
