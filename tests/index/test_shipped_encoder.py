"""Collections without an encoder of their own: that of the package hummingbit_models."""

from __future__ import annotations

import importlib
import pickle
import sys
from pathlib import Path

import pytest

from hummingbit.cli import main
from hummingbit.corpus.document import Document
from hummingbit.embedded import Collection
from hummingbit.encoder.artifact import load_encoder, write_artifact
from hummingbit.index import catalog
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.languages import analyzer_of
from hummingbit.index.records import Query
from tests.support.encoders import random_texts, text_encoder
from tests.support.service import running_service

TEXTS = random_texts(20)


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a package that is found before any other of its name."""
    package = tmp_path / "site/hummingbit_models"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    write_artifact(package / "english", text_encoder(), TEXTS)
    monkeypatch.delitem(sys.modules, "hummingbit_models", raising=False)
    monkeypatch.syspath_prepend(str(package.parent))
    importlib.invalidate_caches()
    return package / "english"


def test_a_collection_without_an_encoder_has_the_one_that_ships(
    shipped: Path, tmp_path: Path
) -> None:
    with DataFolder(tmp_path / "data", writable=True) as data:
        collection = data.create_collection("notes")
        assert collection.encoder_name == "english"
        collection.upsert([Document(str(i), text) for i, text in enumerate(TEXTS)])
        assert collection.search([Query(text=TEXTS[3])], 1).hits[0][0].id == "3"
        assert data.create_collection("notes") is collection
    assert shipped.exists()


def test_it_stays_once_the_package_is_gone(
    shipped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with DataFolder(tmp_path / "data", writable=True) as data:
        data.create_collection("notes")
    monkeypatch.setattr(catalog, "shipped_encoder", lambda: None)
    with DataFolder(tmp_path / "data", writable=True) as data:
        assert data.collection("notes").encoder_name == "english"
        assert data.create_collection("more").encoder_name == "english"


def test_the_library_has_it_too(shipped: Path, tmp_path: Path) -> None:
    with Collection.create(tmp_path / "data", "notes") as collection:
        assert collection.backend.encoder_name == "english"
        assert collection.n_bits == text_encoder().n_bits


def test_the_command_has_it_too(shipped: Path, tmp_path: Path) -> None:
    source = tmp_path / "notes.txt"
    source.write_text("\n".join(TEXTS))
    arguments = ["index", "build", "notes", str(source), "--data-dir", str(tmp_path / "data")]
    assert main(arguments) == 0
    with DataFolder(tmp_path / "data", writable=False) as data:
        assert data.collection("notes").encoder_name == "english"
        assert len(data.collection("notes")) == len(TEXTS)


def test_building_with_it_says_that_texts_are_of_another_language(
    shipped: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, folder = tmp_path / "notes.txt", str(tmp_path / "data")
    source.write_text("".join(f"{text}\n" for text in TEXTS))
    for name, *options in (("said", "--language", "german"), ("asked", "--encoder", "english")):
        command = ["index", "build", name, str(source), "--data-dir", folder, *options]
        assert main([*command, "--language", "german"]) == 0
        said = "the texts are German, and hummingbit-models knows English only; --no-encoder"
        assert (said in capsys.readouterr().err) == (name == "said")
    assert main(["index", "build", "english", str(source), "--data-dir", folder]) == 0
    assert "hummingbit-models" not in capsys.readouterr().err


def test_a_service_on_an_empty_folder_has_it_too(shipped: Path, tmp_path: Path) -> None:
    with running_service(tmp_path / "data") as client:
        made = client.put("/v1/collections/notes", json={})
        assert (made.status_code, made.json()["encoder"]["name"]) == (201, "english")
        assert client.put("/v1/collections/notes", json={}).status_code == 200
        documents = [{"id": str(i), "text": text} for i, text in enumerate(TEXTS)]
        client.put("/v1/collections/notes/documents", json={"documents": documents})
        hits = client.post("/v1/collections/notes/search", json={"text": TEXTS[3]}).json()["hits"]
        assert hits[0]["id"] == "3"


def test_the_encoder_can_be_pickled_after_its_use() -> None:
    models = pytest.importorskip("hummingbit_models")
    encoder = load_encoder(Path(models.__file__).parent / "english")
    texts = ["a blorptastic mirror"]
    codes = encoder.encode(texts)
    near = [*encoder.neighbours("mirror", analyzer_of("english"))]
    copied = pickle.loads(pickle.dumps(encoder))  # noqa: S301 - ours
    assert near
    assert (copied.encode(texts) == codes).all()
    assert [*copied.neighbours("mirror", analyzer_of("english"))] == near
