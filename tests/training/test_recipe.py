from __future__ import annotations

import subprocess
import sys
from dataclasses import fields, replace

import pytest

from training.distillation.distillation_recipe import DistillationRecipe
from training.metric_recipe import MetricRecipe
from training.recipe import LinearRecipe, Recipe
from training.recipe_settings import RecipeError


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("n_bits", 12),
        ("supervision", 0.0),
        ("supervision", 1.5),
        ("supervision", float("nan")),
        ("word_dropout", 0.6),
        ("hidden_dropout", 1.0),
        ("vector_noise", -0.5),
        ("pairwise_warmup", 1.1),
        ("epochs", 0),
        ("batch_size", 1),
        ("learning_rate", -1.0),
        ("reconstruction_weight", -1.0),
        ("validation_share", 1.0),
        ("seed", -1),
    ],
)
def test_settings_out_of_range_are_named(setting: str, value: float) -> None:
    with pytest.raises(RecipeError, match=f"{setting} is "):
        replace(Recipe(), **{setting: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "recipe", [Recipe, LinearRecipe, MetricRecipe, DistillationRecipe], ids=lambda one: one.__name__
)
def test_an_analyzer_that_there_is_not_is_named(recipe: type) -> None:
    method = {"method": "itq"} if recipe is LinearRecipe else {}
    assert recipe(**method, analyzer="unicode+german+3-4grams").analyzer.endswith("grams")
    with pytest.raises(RecipeError, match=r"analyzer: .* has no stemmer for"):
        recipe(**method, analyzer="unicode+klingon")


@pytest.mark.parametrize("setting", ["method", "features", "terms", "threshold", "likeness"])
def test_a_setting_that_is_not_one_of_its_choices(setting: str) -> None:
    with pytest.raises(RecipeError, match=f"{setting} is 'other'; it must be one of "):
        replace(Recipe(), **{setting: "other"})  # type: ignore[arg-type]


def test_every_setting_is_explained() -> None:
    assert all(len(one.metadata["help"]) > 10 for one in fields(Recipe))


def test_the_settings_can_be_read_without_torch() -> None:
    check = "import sys, training.recipe; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0
