from __future__ import annotations

import argparse
from dataclasses import fields
from pathlib import Path

import pytest

from hummingbit.cli import main, whole_parser
from hummingbit.commands.options import (
    add_former_flag,
    add_reading,
    add_setting,
    layout_of,
    recipe_from,
)
from hummingbit.encoder.artifact import load_encoder
from hummingbit.encoder.recipes import MODEL_BITS, ClassCodeRecipe, ModelRecipe


def recipe_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser()
    for field in fields(ClassCodeRecipe):
        add_setting(parser, field)
    return parser


def test_a_former_flag_does_what_todays_does_and_warns(capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kind", choices=("plain", "odd"), default="plain")
    add_former_flag(parser, "--sort-of", "--kind", "kind", choices=("plain", "odd"))
    assert parser.parse_args(["--sort-of", "odd"]).kind == "odd"
    assert "--sort-of is now --kind" in capsys.readouterr().err
    assert parser.parse_args([]).kind == "plain"
    assert "--sort-of" not in parser.format_help()
    with pytest.raises(SystemExit):
        parser.parse_args(["--sort-of", "all"])
    assert "--sort-of: invalid choice: 'all'" in capsys.readouterr().err


def test_a_former_flag_without_a_value(capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--ignore", action="store_true")
    add_former_flag(parser, "--skip", "--ignore", "ignore", nargs=0)
    assert parser.parse_args(["--skip"]).ignore is True
    assert parser.parse_args([]).ignore is False
    assert "--skip is now --ignore" in capsys.readouterr().err


def test_an_option_of_several_values_may_be_repeated() -> None:
    parser = argparse.ArgumentParser()
    add_reading(parser)
    args = parser.parse_args(["--text-field", "title", "--text-field", "lead", "body"])
    assert layout_of(args).text_fields == ("title", "lead", "body")
    assert layout_of(args).payload_fields is None
    args = parser.parse_args(["--payload-fields", "a", "--payload-fields", "b"])
    assert layout_of(args).payload_fields == ("a", "b")
    assert layout_of(parser.parse_args(["--payload-fields"])).payload_fields == ()
    assert layout_of(parser.parse_args([])).text_fields == ()


def test_fields_of_a_file_are_found_where_none_has_a_usual_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [
        f"r{i},{'goal match team' if i % 2 else 'bread oven salt'} number{i % 9} played{i % 7},"
        f"{'sport' if i % 2 else 'food'}"
        for i in range(60)
    ]
    source = tmp_path / "a.csv"
    source.write_text("\n".join(["ref,abstract,category", *lines]) + "\n")
    options = ["--data", str(source), "--out", str(tmp_path / "e")]
    assert main(["train", "lsh", *options]) == 0
    assert f"{source}: found text: abstract, label: category" in capsys.readouterr().err
    metadata = load_encoder(tmp_path / "e").metadata
    assert metadata["trained_on"]["classes"] == ["food", "sport"]
    folder = ["--data-dir", str(tmp_path / "d"), "--json"]
    (tmp_path / "d/encoders").mkdir(parents=True)
    (tmp_path / "e").rename(tmp_path / "d/encoders/e")
    assert main(["index", "build", "c", str(source), "--encoder", "e", *folder]) == 0
    assert main(["search", "c", "goal", "--data-dir", str(tmp_path / "d")]) == 0


def test_train_with_a_model_has_the_bits_of_train_model() -> None:
    parser = whole_parser()
    options = ["--data", "a.jsonl", "--out", "e"]
    by_method = parser.parse_args(["train", "model", "--model", "m", *options])
    by_option = parser.parse_args(["train", "--model", "m", *options])
    by_option.method = "model"
    bits = [recipe_from(item, ModelRecipe).n_bits for item in (by_method, by_option)]
    assert bits == [MODEL_BITS, MODEL_BITS]
