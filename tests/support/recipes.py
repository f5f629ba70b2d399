"""Recipes whose settings all differ from the defaults, and runs of few batches."""

from __future__ import annotations

from dataclasses import Field, fields, replace
from typing import Any, TypeVar

import pytest

from hummingbit.encoder.recipes import BaseRecipe
from hummingbit.training import cloze, networks

# Settings with which a small corpus is trained on in no time.
SMALL: dict[str, Any] = {
    "n_bits": 16,
    "epochs": 2,
    "batch_size": 20,
    "hidden": 8,
    # The paper's settings replace others.
    "paper": False,
    "max_terms": 60,
    "analyzer": "words",
    "spd_order": 2,
    "max_tokens": 24,
}
R = TypeVar("R", bound=BaseRecipe)


def with_other_settings(recipe: R, **settings: Any) -> R:
    """Return the recipe with a value other than the default for every setting but the method.

    `settings` replace some of these values.
    """
    others = {field.name: _other(field) for field in fields(recipe) if field.name != "method"}
    return replace(recipe, **{**others, **settings})


def _other(one: Field[Any]) -> Any:
    if one.name in SMALL:
        return SMALL[one.name]
    if choices := one.metadata["choices"]:
        return next(choice for choice in choices if choice != one.default)
    if isinstance(one.default, bool):
        return not one.default
    default: Any = one.default
    if isinstance(default, str):
        return f"other {default}"
    return default + 1 if isinstance(default, int) else (default or 0.5) / 2


def train_in_few_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let methods train with their recipes, but not with the batches that codes need to be good."""
    monkeypatch.setattr(networks, "LEAST_STEPS", 20)
    monkeypatch.setattr(networks, "MOST_STEPS", 20)
    monkeypatch.setattr(cloze, "MIN_STEPS", 20)
