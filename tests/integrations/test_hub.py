"""Encoders go to repositories of the Hub and come back, through the unmodified huggingface_hub."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from huggingface_hub import ModelCard

from hummingbit.encoder.artifact import load_encoder, write_artifact
from hummingbit.encoder.recipes import ModelRecipe
from hummingbit.integrations.hub import model_card
from hummingbit.training.data import gather
from hummingbit.training_methods import train_by
from tests.support.corpora import topic_documents
from tests.support.encoders import random_texts, text_encoder
from tests.support.hub_server import TOKEN, serving_hub
from tests.support.models import write_model

FIGURES = {
    "validation": {
        "metrics": {"P@10": 0.51},
        "expected": {"P@10": 0.5},
        "queries": 40,
        "classifier_baseline": {"expected": {"P@10": 0.4}},
    }
}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    extra = {"metrics.json": json.dumps(FIGURES)}
    write_artifact(
        tmp_path / "encoders" / "news", text_encoder(), random_texts(50), extra_files=extra
    )
    return tmp_path


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[str]:
    with serving_hub(tmp_path / "hub") as address:
        yield address


def hummingbit(
    data: Path, endpoint: str, *arguments: object, before: Callable[[], None] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own: the library reads the environment when imported."""
    own = {"HF_ENDPOINT": endpoint, "HF_HOME": str(data / "home"), "HF_TOKEN": TOKEN}
    command = [sys.executable, "-m", "hummingbit", *map(str, arguments), "--data-dir", str(data)]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        env={**os.environ, **own},
        timeout=120,
        check=False,
        preexec_fn=before,
    )


def test_the_card_names_the_language_model_inside(data: Path, tmp_path: Path) -> None:
    folder = data / "encoders" / "language"
    recipe = ModelRecipe(model=str(tmp_path / "tiny"), head="itq", n_bits=16, hybrid_weight=1.0)
    write_model(tmp_path / "tiny")
    train_by(gather(topic_documents(60)), recipe, folder, progress=False)
    card = model_card(folder, "language", license_name=None, language=None)
    assert "- language model: `tiny`, part of this encoder" in card
    assert "the extra `model`" in card
    assert "language model" not in model_card(
        data / "encoders" / "news", "news", license_name=None, language=None
    )


def test_an_encoder_goes_to_the_hub_and_comes_back(data: Path, hub: str) -> None:
    pushed = hummingbit(data, hub, "encoder", "push", "news", "me/news-32", "--license", "mit")
    assert pushed.returncode == 0, pushed.stderr
    assert pushed.stdout.strip().startswith(f"{hub}/me/news-32/commit/")
    card = ModelCard.load(data / "hub" / "me" / "news-32" / "README.md")
    assert (card.data.license, card.data.library_name) == ("mit", "hummingbit")
    (figure,) = card.data.eval_results
    assert (figure.metric_type, figure.metric_value) == ("P@10", 0.5)
    assert "| P@10 | 0.510 | 0.500 | 0.400 |" in card.text
    pulled = hummingbit(data, hub, "encoder", "pull", "me/news-32")
    assert pulled.returncode == 0, pulled.stderr
    own, back = (load_encoder(data / "encoders" / item) for item in ("news", "news-32"))
    assert back.fingerprint == own.fingerprint
    texts = random_texts(100, seed=1)
    assert np.array_equal(back.encode(texts), own.encode(texts))


def test_what_was_changed_on_the_hub_is_not_installed(data: Path, hub: str) -> None:
    assert hummingbit(data, hub, "encoder", "push", "news", "me/news-32").returncode == 0
    (data / "hub" / "me" / "news-32" / "vocabulary.txt").write_text("other\nwords\n")
    pulled = hummingbit(data, hub, "encoder", "pull", "me/news-32")
    assert pulled.returncode == 2
    assert "vocabulary.txt: has changed since the encoder was written" in pulled.stderr
    assert not (data / "encoders" / "news-32").exists()


def test_only_what_the_manifest_lists_is_downloaded(data: Path, hub: str) -> None:
    assert hummingbit(data, hub, "encoder", "push", "news", "me/news-32").returncode == 0
    repository = data / "hub" / "me" / "news-32"
    # The server answers for no folder: whoever asks for this one is told that it broke down.
    (repository / "other-model.bin").mkdir()
    pulled = hummingbit(data, hub, "encoder", "pull", "me/news-32")
    assert pulled.returncode == 0, pulled.stderr
    manifest = repository / "encoder.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "n_bits": 12}))
    pulled = hummingbit(data, hub, "encoder", "pull", "me/news-32", "--name", "x")
    assert pulled.returncode == 2
    assert "encoder.json: " in pulled.stderr
    assert not (data / "encoders" / "x").exists()


def test_a_file_that_cannot_be_written_is_not_called_a_hub_out_of_reach(
    data: Path, hub: str
) -> None:
    assert hummingbit(data, hub, "encoder", "push", "news", "me/news-32").returncode == 0
    with (data / "hub" / "me" / "news-32" / "weights.safetensors").open("ab") as file:
        file.truncate(1 << 20)
    full = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (1 << 18, 1 << 18))
    pulled = hummingbit(data, hub, "encoder", "pull", "me/news-32", before=full)
    assert pulled.returncode == 2
    assert "hummingbit: me/news-32: File too large" in pulled.stderr
    assert "cannot be reached" not in pulled.stderr


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["pull", "me/missing"], "404"),
        (["pull", "me/a/b", "--name", "x"], "Repo id must be"),
        (["pull", "me/x", "--name", "../x"], "--name"),
        (["push", "none", "me/x"], "there is no encoder 'none'; known encoders: news"),
        (["push", "news", "a b"], "Repo id must use alphanumeric chars"),
    ],
)
def test_what_the_hub_refuses(data: Path, hub: str, arguments: list[str], reason: str) -> None:
    done = hummingbit(data, hub, "encoder", *arguments)
    assert done.returncode == 2
    assert reason in done.stderr
    # A stage that takes long prints its name first.
    lines = [line for line in done.stderr.splitlines() if not line.endswith(" …")]
    assert len(lines) == 1


def test_a_hub_that_cannot_be_reached(data: Path) -> None:
    for action in (["push", "news", "me/x"], ["pull", "me/x"]):
        done = hummingbit(data, "http://127.0.0.1:9", "encoder", *action)
        assert done.returncode == 2
        assert "the Hugging Face Hub cannot be reached" in done.stderr


def test_a_repository_as_a_local_folder(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "repository"
    done = hummingbit(data, "http://127.0.0.1:9", "encoder", "push", "news", "--folder", out)
    assert done.returncode == 0, done.stderr
    assert (out / "README.md").read_text().startswith("---\n")
    done = hummingbit(data, "http://127.0.0.1:9", "encoder", "pull", out)
    assert done.returncode == 0, done.stderr
    assert load_encoder(data / "encoders" / "repository").n_bits == 32


@pytest.mark.parametrize(
    "figures",
    [3, [1], {"queries": 5}, {"queries": "5"}, {"expected": {"P@10": "x"}}, {"expected": [1]}],
)
def test_figures_that_no_training_wrote_make_no_card(data: Path, figures: object) -> None:
    extra = {"metrics.json": json.dumps({"validation": figures})}
    write_artifact(data / "encoders" / "odd", text_encoder(), random_texts(50), extra_files=extra)
    done = hummingbit(data, "http://127.0.0.1:9", "encoder", "push", "odd", "--folder", data / "x")
    assert done.returncode == 2
    assert "metrics.json: holds other figures than training writes" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (data / "x").exists()
