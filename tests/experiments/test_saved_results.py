from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from experiments import saved_encoders, saved_tensors
from experiments.code_version import code_version, dump_code, version_of
from experiments.saved_encoders import load_or_train
from experiments.saved_tensors import content_sha256, load_or_compute
from hummingbit.encoder.encoder import Encoder
from hummingbit.encoder.recipes import LinearRecipe
from hummingbit.training.data import gather
from hummingbit.training.linear_codes import train_linear
from tests.support.commands import run
from tests.support.corpora import topic_documents

ROOT = Path(__file__).parents[2]


def be_other_code(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (saved_encoders, saved_tensors):
        monkeypatch.setattr(module, "code_version", lambda: "other code")


def test_an_encoder_is_kept_until_anything_that_made_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, folder, runs = gather(topic_documents(60)), tmp_path / "e", []

    def encoder_of(recipe: LinearRecipe) -> Encoder:
        def train() -> Encoder:
            runs.append(recipe)
            return train_linear(data, recipe, folder, overwrite=True).encoder

        return load_or_train(folder, data, recipe, train)

    first, second = LinearRecipe("lsh", n_bits=8), LinearRecipe("lsh", n_bits=16)
    fingerprint = encoder_of(first).fingerprint
    assert encoder_of(first).fingerprint == fingerprint
    assert runs == [first]
    encoder_of(second)
    assert runs == [first, second]
    be_other_code(monkeypatch)
    encoder_of(second)
    assert runs == [first, second, second]
    # The version is beside the encoder: the same training gives the same fingerprint.
    assert encoder_of(first).fingerprint == fingerprint


def test_an_encoder_is_kept_only_with_the_same_description(tmp_path: Path) -> None:
    data, recipe, folder = (
        gather(topic_documents(60)),
        LinearRecipe("lsh", n_bits=8),
        tmp_path / "e",
    )
    runs = []

    def train() -> Encoder:
        runs.append(recipe)
        return train_linear(data, recipe, folder, overwrite=True).encoder

    described = train().metadata["trained_on"]
    for trained_on, trained in ((described, 2), (described, 2), ({**described, "labelled": 1}, 3)):
        load_or_train(folder, data, recipe, train, {"trained_on": trained_on})
        assert len(runs) == trained


def test_an_encoder_without_a_version_is_trained_again(tmp_path: Path) -> None:
    data, recipe, folder = (
        gather(topic_documents(60)),
        LinearRecipe("lsh", n_bits=8),
        tmp_path / "e",
    )
    train_linear(data, recipe, folder)
    runs = []

    def train() -> Encoder:
        runs.append(recipe)
        return train_linear(data, recipe, folder, overwrite=True).encoder

    load_or_train(folder, data, recipe, train)
    assert len(runs) == 1


def test_tensors_are_kept_until_the_settings_or_the_code_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found(settings: dict[str, int], value: float) -> float:
        path = tmp_path / "x.safetensors"
        return float(load_or_compute(path, settings, lambda: {"x": torch.tensor(value)})["x"])

    assert [found({"a": 1}, 1.0), found({"a": 1}, 2.0), found({"a": 2}, 3.0)] == [1, 1, 3]
    be_other_code(monkeypatch)
    assert found({"a": 2}, 4.0) == 4


def test_a_content_hash_depends_on_values_shapes_types_and_order() -> None:
    row = np.arange(6, dtype=np.float32)
    parts: list[Any] = [
        row,
        row.reshape(2, 3),
        row.astype(np.float64),
        row.view(np.int32),
        row[::-1],
    ]
    hashes = [content_sha256(part) for part in parts]
    hashes += [content_sha256(row, row), content_sha256(row.tobytes()), content_sha256()]
    hashes += [content_sha256(b"ab", b"c"), content_sha256(b"a", b"bc")]
    assert len(set(hashes)) == len(hashes)
    assert content_sha256(torch.from_numpy(row)) == hashes[0]
    assert content_sha256(np.arange(12, dtype=np.float32)[:6]) == hashes[0]


def test_comments_layout_and_docstrings_are_no_other_code() -> None:
    one = 'def f(x):\n    """Add one."""\n    return x + 1\n'
    other = "def f(x):  # adds\n    'Adds 1.'\n\n    return (x + 1)\n"
    assert dump_code(one) == dump_code(other)
    assert dump_code(one) != dump_code(one.replace("1\n", "2\n"))
    assert dump_code("x = 'a'") != dump_code("x = 'b'")
    of_class = "class C:\n    x: int\n    {}y: int\n"
    assert dump_code(of_class.format("'Its x.'\n    ")) == dump_code(of_class.format(""))
    assert dump_code("x = 1") != dump_code("x = True") != dump_code("x = 1.0")
    assert dump_code("def f(x=1): pass") != dump_code("def f(x=2): pass")
    assert dump_code("x: int = 1") != dump_code("x: float = 1")
    assert len(code_version()) == 64


def test_a_version_is_the_same_in_every_process() -> None:
    source = "def f(x):\n    return x in {'a', 'b', 'c', 'd'}\n"
    program = (
        "import sys; from experiments.code_version import dump_code as d; print(d(sys.argv[1]))"
    )
    command = (sys.executable, "-c", program, source)
    printed = {run(*command, cwd=ROOT, PYTHONHASHSEED=seed) for seed in "123"}
    assert printed == {f"{dump_code(source)}\n"}


def test_a_version_follows_what_a_module_imports_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "made_up_code"
    (folder / "inner").mkdir(parents=True)
    sources = {
        "__init__.py": "",
        "one.py": "def f():\n    from made_up_code.inner import two\n    return two\n",
        "inner/__init__.py": "",
        "inner/two.py": "import made_up_code.three as three\nX = 1\n",
        "three.py": "import json\nfrom outer.code import five\n",
        "four.py": "Y = 1\n",
    }
    (tmp_path / "outer" / "code").mkdir(parents=True)
    for name in ("__init__.py", "code/__init__.py", "code/five.py", "other.py"):
        (tmp_path / "outer" / name).write_text("")
    for name, source in sources.items():
        (folder / name).write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("experiments.code_version.FOLDERS", ("made_up_code", "outer.code"))
    before = version_of("made_up_code.one")
    (tmp_path / "outer" / "code" / "five.py").write_text("Z = 1\n")
    assert version_of("made_up_code.one") != before
    before = version_of("made_up_code.one")
    (folder / "four.py").write_text("Y = 2\n")
    (folder / "three.py").write_text(
        '"""Said otherwise."""\nimport json\nfrom outer.code import five\n'
    )
    assert version_of("made_up_code.one") == before
    assert version_of("made_up_code.one", "made_up_code.four") != before
    (folder / "three.py").write_text("import json\nZ = 3\n")
    assert version_of("made_up_code.one") != before
    with pytest.raises(ModuleNotFoundError, match=r"made_up_code\.six"):
        version_of("made_up_code.six")
