from __future__ import annotations

import subprocess
import sys
from dataclasses import asdict, fields, replace
from functools import cache
from typing import Any

import pytest

from hummingbit import cli
from hummingbit.cli import main
from hummingbit.commands.options import recipe_from
from hummingbit.encoder.recipes import (
    DISTILLATION,
    RECIPES,
    AutoencoderRecipe,
    BaseRecipe,
    ClassCodeRecipe,
    ClozeRecipe,
    DistillationRecipe,
    JudgementRecipe,
    LinearRecipe,
    MetricRecipe,
    RecipeError,
    flag_of,
    lost_settings,
    recorded_settings,
    retraining_settings,
    train_arguments,
)
from tests.support.recipes import with_other_settings

whole_parser = cache(cli.whole_parser)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("n_bits", 12),
        ("label_fraction", 0.0),
        ("label_fraction", 1.5),
        ("label_fraction", float("nan")),
        ("word_dropout", 0.6),
        ("content_share", 1.0),
        ("epochs", 0),
        ("batch_size", 1),
        ("learning_rate", -1.0),
        ("validation_share", 1.0),
        ("seed", -1),
    ],
)
def test_settings_out_of_range_are_named(setting: str, value: float) -> None:
    with pytest.raises(RecipeError, match=f"{setting} is "):
        replace(AutoencoderRecipe(), **{setting: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "recipe",
    [AutoencoderRecipe, ClozeRecipe, LinearRecipe, MetricRecipe, DistillationRecipe],
    ids=lambda item: item.__name__,
)
def test_an_analyzer_that_there_is_not_is_named(recipe: type) -> None:
    method = {"method": "itq"} if recipe is LinearRecipe else {}
    assert recipe(**method, analyzer="unicode+german+3-4grams").analyzer.endswith("grams")
    with pytest.raises(RecipeError, match=r"analyzer: .* has no stemmer for"):
        recipe(**method, analyzer="unicode+klingon")


@pytest.mark.parametrize("setting", ["method", "query_classifier", "content"])
def test_a_setting_that_is_not_one_of_its_choices(setting: str) -> None:
    with pytest.raises(RecipeError, match=f"{setting} is 'other'; it must be one of "):
        replace(ClassCodeRecipe(), **{setting: "other"})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        (AutoencoderRecipe, {"epochs": "15"}, "epochs is '15'; it must be a whole number"),
        (AutoencoderRecipe, {"epochs": True}, "epochs is True; it must be a whole number"),
        (AutoencoderRecipe, {"paper": 1}, "paper is 1; it must be true or false"),
        (AutoencoderRecipe, {"learning_rate": None}, "learning_rate is None; it must be a number"),
        (ClozeRecipe, {"cloze_shared": 2.0}, "cloze_shared is 2; it must be from 0 to 1"),
        (ClozeRecipe, {"method": "itq"}, "method is 'itq'; it must be one of ict, static"),
        (LinearRecipe, {"method": "ict"}, "method is 'ict'; it must be one of sne"),
        (ClassCodeRecipe, {"max_words": 3}, "max_words is 3; it must be from 1 to 2"),
        (
            ClassCodeRecipe,
            {"seed": 2**32},
            "seed is 4.29497e.09; it must be from 0 to 4,294,967,295",
        ),
        (MetricRecipe, {"batch_size": 2}, "batch_size is 2; it must be from 3 to"),
        (
            DistillationRecipe,
            {"objective": "neighbours", "label_fraction": 1.0},
            "it must be 0 with",
        ),
    ],
)
def test_bad_settings_of_every_recipe_are_named(
    kind: type[BaseRecipe], settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(RecipeError, match=message):
        kind(**settings)


def test_every_setting_is_explained() -> None:
    settings = [
        field for kind in RECIPES.values() for field in fields(kind) if field.name != "method"
    ]
    assert all(len(setting.metadata["help"]) > 7 for setting in settings)


@pytest.mark.parametrize("method", [name for name in RECIPES if name != "distillation"])
def test_every_setting_has_a_flag_of_train(method: str) -> None:
    recipe = with_other_settings(RECIPES[method](method=method))
    arguments = train_arguments(type(recipe), asdict(recipe))
    paths = ["--data", "d", "--out", "e"]
    args = whole_parser().parse_args(["train", method, *paths, *arguments])
    assert recipe_from(args, type(recipe)) == recipe


COMMANDS = {
    **{f"train {method}": kind for method, kind in RECIPES.items() if method != DISTILLATION},
    "train judged": JudgementRecipe,
    "distill --teacher t": DistillationRecipe,
}


@pytest.mark.parametrize("command", COMMANDS)
def test_an_error_of_training_names_the_option(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    numbers = [field for field in fields(COMMANDS[command]) if field.metadata["within"]]
    assert numbers
    for field in numbers:
        arguments = [*command.split(), "--data", "d", "--out", "e", f"{flag_of(field)}=-1000"]
        assert main(arguments) == 2
        assert f"hummingbit: {flag_of(field)} is -1000; it must be" in capsys.readouterr().err


def test_an_error_about_two_settings_names_both_options(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["train", "ict", "--data", "d", "--out", "e", "--bits=64", "--word-bits=70"]
    assert main(arguments) == 2
    assert "--word-bits is 70; it must be below --bits, 64" in capsys.readouterr().err


def test_settings_that_earlier_releases_recorded_are_understood() -> None:
    recorded = {
        "method": "ssb-vae",
        "supervision": 0.5,
        "least_batches": 7,
        "guesses": "none",
        "likeness": "probable",
        "teacher_weight": 3.0,
    }
    expected = {"method": "ssb-vae", "label_fraction": 0.5}
    assert recorded_settings(AutoencoderRecipe, recorded) == expected
    # What training always does is no setting, and what it no longer does is named.
    assert lost_settings(AutoencoderRecipe, recorded) == {"guesses": "none"}


def test_a_choice_that_is_gone_is_lost() -> None:
    recorded = {"method": "metric", "contrast": "softplus", "hidden": 7, "bins": 100}
    assert recorded_settings(MetricRecipe, recorded) == {"method": "metric", "hidden": 7}
    assert lost_settings(MetricRecipe, recorded) == {"contrast": "softplus"}
    assert retraining_settings(recorded, "metric") == {"hidden": 7}


def test_a_method_that_is_gone_keeps_what_ssb_vae_has() -> None:
    recorded = {"method": "psh-gs", "hidden": 7, "epochs": 15, "pairwise_weight": 1.0}
    assert retraining_settings(recorded, "ssb-vae") == {"hidden": 7}


def test_flags_of_earlier_releases_set_the_settings_of_this_one() -> None:
    command = ["train", "ssb-vae", "--data", "d", "--out", "e", "--supervision", "0.5"]
    recipe = recipe_from(whole_parser().parse_args(command), AutoencoderRecipe)
    assert recipe.label_fraction == 0.5


def test_another_method_keeps_the_settings_that_mean_the_same_to_it() -> None:
    ict = asdict(ClozeRecipe(epochs=3, max_terms=500, summary_weight=0.5))
    assert retraining_settings(ict, "ssb-vae") == {"max_terms": 500}
    student = asdict(DistillationRecipe(hidden=7, analyzer="words", summary_weight=0.0))
    assert retraining_settings(student, "ssb-vae") == {"analyzer": "words"}
    kept = {"analyzer": "words", "summary_weight": 0.0}
    assert retraining_settings(student, "ict") == kept
    assert retraining_settings({"method": "unheard of", "epochs": 3}, "ssb-vae") == {}
    assert retraining_settings({}, "ssb-vae") == {}


def test_the_settings_can_be_read_without_torch() -> None:
    check = "import sys, hummingbit.encoder.recipes; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0
