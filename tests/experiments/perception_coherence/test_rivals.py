from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from experiments.perception_coherence.rivals import (
    TRANSFER_OBJECTIVES,
    RivalLoss,
    RivalRecipe,
    distill_rival,
    relaxed_bits,
)
from hummingbit.training.data import TrainingData, gather
from hummingbit.training.distillation import split_documents
from hummingbit.training.loop import Schedule, fit
from hummingbit.training.pipeline import choose_features
from hummingbit.training.teachers import Teacher
from tests.support.corpora import TOPICS, topic_documents

SETTINGS = {"n_bits": 16, "epochs": 8, "batch_size": 32, "hidden": 24, "max_terms": 100}


def topic_teacher(data: TrainingData) -> Teacher:
    """A teacher that sees the topic of a document, blurred."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(len(TOPICS), 12))
    vectors = data.tags.astype(float) @ centres + 0.3 * rng.normal(size=(len(data), 12))
    return Teacher("topics", "vectors", "f" * 64, vectors.astype(np.float32))


@pytest.fixture(scope="module")
def corpus() -> TrainingData:
    return gather(topic_documents(400))


@pytest.mark.parametrize(
    ("objective", "relaxation"),
    [
        *((objective, "tanh") for objective in TRANSFER_OBJECTIVES),
        ("perception-coherence", "bernoulli"),
        ("perception-coherence", "straight-through"),
    ],
)
def test_every_objective_and_relaxation_learns(
    corpus: TrainingData, tmp_path: Path, objective: str, relaxation: str
) -> None:
    recipe = RivalRecipe(objective=objective, relaxation=relaxation, **SETTINGS)  # type: ignore[arg-type]
    out = tmp_path / "student"
    trained = distill_rival(corpus, topic_teacher(corpus), recipe, out, progress=False)
    epochs = json.loads((out / "metrics.json").read_text())["epochs"]
    assert epochs[-1]["transfer_loss"] < epochs[0]["transfer_loss"]
    # Codes of chance have a level of 2/3.
    assert trained.encoder.metadata["coherence"]["level"] > 0.72
    assert trained.encoder.metadata["recipe"]["relaxation"] == relaxation


def test_a_hint_pulls_the_codes_to_the_teacher_s_vectors(
    corpus: TrainingData, tmp_path: Path
) -> None:
    recipe = RivalRecipe(hint_weight=0.1, **SETTINGS)  # type: ignore[arg-type]
    distill_rival(corpus, topic_teacher(corpus), recipe, tmp_path / "s", progress=False)
    epochs = json.loads((tmp_path / "s" / "metrics.json").read_text())["epochs"]
    assert epochs[-1]["hint_loss"] < epochs[0]["hint_loss"]


def test_everything_the_objective_learns_is_trained_and_dropped(corpus: TrainingData) -> None:
    recipe = RivalRecipe(objective="fitnet", **SETTINGS)  # type: ignore[arg-type]
    parts = split_documents(corpus, recipe)
    features = choose_features(corpus, parts.training, recipe.max_terms)
    loss = RivalLoss(corpus, topic_teacher(corpus), recipe, features, parts)
    before = {name: value.clone() for name, value in loss.model.named_parameters()}
    assert any(name.startswith("losses.objective") for name in before)
    fit(loss.model, loss, len(parts.training), Schedule(1, 32, 1e-2, 0), progress=False)
    for name, value in loss.model.named_parameters():
        assert not torch.equal(before[name], value), name


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_straight_through_bits_are_signs_of_the_scaled_logits() -> None:
    logits = torch.tensor([[-2.0, -0.1, 0.0, 0.3]])
    bits = relaxed_bits(logits, "straight-through", 2.0, generator())
    assert bits.tolist() == [[-1.0, -1.0, -1.0, 1.0]]


def test_tanh_bits_sharpen_with_a_lower_temperature() -> None:
    logits = torch.tensor([[-1.0, 0.5]])
    warm, cold = (relaxed_bits(logits, "tanh", t, generator()) for t in (1.0, 0.05))
    np.testing.assert_allclose(warm.numpy(), np.tanh([[-1.0, 0.5]]), rtol=1e-6)
    np.testing.assert_allclose(cold.numpy(), [[-1.0, 1.0]], atol=1e-6)


def test_bernoulli_bits_are_drawn_by_the_generator_alone() -> None:
    logits = torch.zeros(3, 50)
    first, again, other = (
        relaxed_bits(logits, "bernoulli", 0.1, generator(seed)) for seed in (1, 1, 2)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert first.abs().max() <= 1
    # Undecided logits give either bit as often.
    assert 0.3 < (first > 0).float().mean() < 0.7


def test_an_unknown_relaxation_is_an_error() -> None:
    with pytest.raises(ValueError, match="relaxation is 'relu'"):
        relaxed_bits(torch.zeros(1, 8), "relu", 1.0, generator())
