"""What every recipe is made of: settings with a help text, and the checks of their ranges."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, fields
from typing import Any

from encoder.analyzers import VISIBLE, Analyzer, AnalyzerError
from encoder.codes import check_n_bits
from encoder.texts.openings import MAX_SUMMARY_WEIGHT
from foundation.errors import HummingbitError


class RecipeError(HummingbitError, ValueError):
    """A setting is out of its range."""


def setting(default: Any, help_text: str, *choices: str) -> Any:
    """Return the field of a setting, from which the command line makes a flag."""
    return field(default=default, metadata={"help": help_text, "choices": choices or None})


def analyzer_setting() -> Any:
    """Return the field of the analyzer, for every recipe that extracts terms from texts."""
    return setting(
        VISIBLE.name,
        "how texts are split into terms: visible (earlier versions: unicode, words);"
        " +LANGUAGE adds stemming, as in visible+english; +3-5grams adds runs of 3 to 5 characters",
    )


def summary_weight_setting(learned_by: str) -> Any:
    """Return the field of the weight of summaries, for recipes that learn to find texts."""
    return setting(
        1.0,
        "weight of a document's title and first sentence, beside 1 for its text (bits learned by"
        f" {learned_by}); it is 0 if the rest of the texts repeats few of these words, as in posts"
        " that begin with a quotation",
    )


def check_analyzer(name: str) -> None:
    """Raise RecipeError if no analyzer has this name."""
    try:
        Analyzer.from_name(name)
    except AnalyzerError as error:
        raise RecipeError(f"analyzer: {error}") from None


_RANGES: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "supervision": (lambda share: 0 < share <= 1, "above 0 and at most 1"),
    "seed": (lambda seed: 0 <= seed < 2**63, "from 0 to 2⁶³ − 1"),
    "epochs": (lambda epochs: epochs >= 1, "at least 1"),
    "learning_rate": (lambda rate: 0 < rate <= 1, "above 0 and at most 1"),
    "hidden": (lambda units: 1 <= units <= 65_536, "from 1 to 65,536"),
    "max_terms": (lambda terms: 1 <= terms <= 10_000_000, "from 1 to 10,000,000"),
    "word_dropout": (lambda share: 0 <= share <= 0.5, "from 0 to 0.5"),
    "validation_share": (lambda share: 0 <= share < 1, "at least 0 and below 1"),
    "summary_weight": (
        lambda weight: 0 <= weight <= MAX_SUMMARY_WEIGHT,
        f"from 0 to {MAX_SUMMARY_WEIGHT:g}",
    ),
}
"""The range of each setting that several recipes have: a check, and its description."""


def check_settings(recipe: Any, ranges: Mapping[str, tuple[bool, str]]) -> None:
    """Check the settings of a recipe, a dataclass whose fields :func:`setting` made.

    `ranges` has, by name, whether a setting is in its range, and a description of the range. It
    covers the settings that only this recipe has, and overrides the common ranges.

    Raises:
        RecipeError: if a setting is not one of its choices or out of its range.
    """
    try:
        check_n_bits(recipe.n_bits)
    except ValueError as error:
        raise RecipeError(str(error)) from None
    for one in fields(recipe):
        name, value, choices = one.name, getattr(recipe, one.name), one.metadata["choices"]
        if choices and value not in choices:
            raise RecipeError(f"{name} is {value!r}; it must be one of {', '.join(choices)}")
    check_analyzer(recipe.analyzer)
    common = {
        name: (check(getattr(recipe, name)), expected)
        for name, (check, expected) in _RANGES.items()
        if hasattr(recipe, name)
    }
    for name, (is_in_range, expected) in {**common, **ranges}.items():
        if not is_in_range:
            raise RecipeError(f"{name} is {getattr(recipe, name):g}; it must be {expected}")
