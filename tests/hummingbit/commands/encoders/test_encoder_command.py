from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from hummingbit.cli import main
from hummingbit.encoder.artifact import write_artifact
from tests.support.encoders import random_texts, text_encoder
from tests.support.service import running_service


@pytest.fixture
def trained(tmp_path: Path) -> Path:
    figures = {"metrics.json": '{"validation": {"metrics": {"P@100": 0.5}}}'}
    folder = tmp_path / "runs" / "Best Run"
    write_artifact(folder, text_encoder(), random_texts(50), extra_files=figures)
    return folder


def hummingbit(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


def test_a_missing_data_folder_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for action in (["list"], ["show", "words"]):
        assert hummingbit("encoder", *action, "--data-dir", tmp_path / "missing") == 2
        assert "missing: No such file or directory" in capsys.readouterr().err


def test_an_encoder_is_installed_listed_and_shown(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = ["--data-dir", tmp_path / "data"]
    assert hummingbit("encoder", "install", trained, "--name", "words", *here) == 0
    assert "words: 32 bits, text" in capsys.readouterr().out
    assert hummingbit("encoder", "list", *here) == 0
    assert capsys.readouterr().out.split()[:3] == ["words", "32", "text"]
    assert hummingbit("encoder", "list", *here, "--json") == 0
    listed = json.loads(capsys.readouterr().out)
    (one,) = listed["encoders"]
    assert (one["name"], one["n_bits"], one["kind"]) == ("words", 32, "text")
    assert listed["unavailable"] == []
    assert hummingbit("encoder", "install", trained, "--name", "twin", "--json", *here) == 0
    assert json.loads(capsys.readouterr().out) == one | {"name": "twin"}
    assert hummingbit("encoder", "show", "words", *here) == 0
    about = json.loads(capsys.readouterr().out)
    assert about["metadata"] == {"trained_on": "nothing"}
    assert about["figures"]["validation"]["metrics"]["P@100"] == 0.5
    assert hummingbit("encoder", "install", trained, "--name", "words", *here) == 2
    assert "already exists; choose another name" in capsys.readouterr().err


def test_bad_names_and_damaged_folders_are_refused(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = ["--data-dir", tmp_path / "data"]
    for name in (None, "../outside", "a/b", "", "x" * 65):
        given = [] if name is None else ["--name", name]
        assert hummingbit("encoder", "install", trained, *given, *here) == 2
        assert "--name: is" in capsys.readouterr().err
    (trained / "golden.json").write_text("{}")
    assert hummingbit("encoder", "install", trained, "--name", "words", *here) == 2
    assert "golden.json: has changed" in capsys.readouterr().err
    assert not (tmp_path / "data").exists()
    (tmp_path / "data").mkdir()
    assert hummingbit("encoder", "show", "words", *here) == 2
    assert "known encoders: none" in capsys.readouterr().err


def test_the_path_of_an_encoder_instead_of_its_name_gets_a_hint(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build = ["index", "build", "news", tmp_path / "x.jsonl", "--data-dir", tmp_path / "data"]
    assert hummingbit(*build, "--encoder", trained) == 2
    said = capsys.readouterr().err
    assert "known encoders: none; " in said
    arguments = shlex.split(said.split("`")[1])[1:]
    assert hummingbit(*arguments, "--name", "words", "--data-dir", tmp_path / "data") == 0
    capsys.readouterr()
    assert hummingbit(*build, "--encoder", trained.parent) == 2
    assert capsys.readouterr().err.endswith("known encoders: words\n")


def test_a_damaged_encoder_is_listed_as_such(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = ["--data-dir", tmp_path / "data"]
    assert hummingbit("encoder", "install", trained, "--name", "words", *here) == 0
    (tmp_path / "data" / "encoders" / "words" / "vocabulary.txt").write_text("")
    capsys.readouterr()
    assert hummingbit("encoder", "list", *here) == 1
    assert "cannot be loaded" in capsys.readouterr().out


def test_a_service_says_the_same_of_its_encoders(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = ["--data-dir", tmp_path / "data"]
    for name in ("words", "others"):
        assert hummingbit("encoder", "install", trained, "--name", name, *here) == 0
    with running_service(tmp_path / "data") as client:
        there = ["--url", client.base_url]
        (tmp_path / "data" / "encoders" / "others" / "golden.json").write_text("{}")
        cases = ((["list"], 1), (["list", "--json"], 1), (["show", "words", "--json"], 0))
        for arguments, status in cases:
            said = []
            for place in (here, there):
                capsys.readouterr()
                assert hummingbit("encoder", *arguments, *place) == status
                said.append(capsys.readouterr().out)
            assert said[0].replace(f"{tmp_path / 'data'}/", "") == said[1]
        assert hummingbit("encoder", "show", "absent", *there) == 2
        assert "there is no encoder 'absent'" in capsys.readouterr().err
