from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from hummingbit.encoder.analyzers import Analyzer
from hummingbit.encoder.artifact import (
    ArtifactError,
    install_artifact,
    load_encoder,
    read_labelled_ids,
    read_metrics,
    write_artifact,
)
from hummingbit.encoder.encoder import Encoder
from hummingbit.encoder.text_features import TextFeatures
from tests.support.encoders import WORDS, random_texts, text_encoder, vector_encoder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_artifact(
        tmp_path / "encoder",
        text_encoder(),
        random_texts(50),
        extra_files={"labelled_ids.json": '["ä", "b"]'},
    )
    return tmp_path / "encoder"


def rehash(folder: Path, edit: Callable[[dict[str, Any]], None] = lambda _: None) -> None:
    """Write the hashes of the files as they are now, so that only what follows can object."""
    manifest = json.loads((folder / "encoder.json").read_text())
    for name in manifest["files"]:
        if (folder / name).is_file():
            manifest["files"][name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    edit(manifest)
    (folder / "encoder.json").write_text(json.dumps(manifest))


def edit_tensors(folder: Path, edit: Callable[[dict[str, Any]], None]) -> None:
    tensors = {
        name: tensor.copy() for name, tensor in load_file(folder / "weights.safetensors").items()
    }
    edit(tensors)
    save_file(tensors, folder / "weights.safetensors")
    rehash(folder)


def test_a_loaded_encoder_gives_the_same_codes(folder: Path) -> None:
    texts = random_texts(200, seed=9)
    assert np.array_equal(load_encoder(folder).encode(texts), text_encoder().encode(texts))
    assert load_encoder(folder).metadata == {"trained_on": "nothing"}


def test_a_vector_encoder_round_trip(tmp_path: Path) -> None:
    vectors = np.random.default_rng(0).normal(size=(50, 6)).astype(np.float32)
    loaded = write_artifact(tmp_path / "v", vector_encoder(), vectors)
    assert np.array_equal(loaded.encode(vectors), vector_encoder().encode(vectors))
    assert not (tmp_path / "v" / "vocabulary.txt").exists()


def test_the_manifest_names_the_analyzer_and_the_version_of_its_stemmer(tmp_path: Path) -> None:
    encoder = stemming_encoder()
    loaded = write_artifact(tmp_path / "e", encoder, random_texts(50))
    assert loaded.encode(["vectors, Kernels 北京大学"]).tolist() == (
        encoder.encode(["vector kernel 北京 京大 大学"]).tolist()
    )
    spec = json.loads((tmp_path / "e" / "encoder.json").read_text())["features"]
    assert (spec["analyzer"], spec["stemmer_version"]) == (
        "unicode+english",
        encoder.features.analyzer.stemmer_version,  # type: ignore[union-attr]
    )


def test_the_manifest_of_an_encoder_of_plain_words_says_no_more_than_the_first(
    folder: Path,
) -> None:
    spec = json.loads((folder / "encoder.json").read_text())["features"]
    assert set(spec) == {"kind", "weighting", "max_words", "idf", "l2_normalize"}


def test_the_manifest_has_the_weight_of_summaries(tmp_path: Path) -> None:
    features = TextFeatures(vocabulary=WORDS, l2_normalize=True, summary_weight=1.5)
    encoder = replace(text_encoder(), features=features)
    folder = tmp_path / "e"
    texts = [f"{text}. {text}" for text in random_texts(50)]
    loaded = write_artifact(folder, encoder, texts)
    assert np.array_equal(loaded.logits(texts), encoder.logits(texts))
    rehash(folder, lambda manifest: manifest["features"].update(l2_normalize=False))
    with pytest.raises(ArtifactError, match=r"encoder.json: features.*summary_weight needs l2"):
        load_encoder(folder)


def test_an_analyzer_that_there_is_not_is_refused(folder: Path) -> None:
    rehash(folder, lambda manifest: manifest["features"].update(analyzer="unicode+klingon"))
    with pytest.raises(ArtifactError, match=r"encoder.json: features.*no stemmer for 'klingon'"):
        load_encoder(folder)


def test_other_codes_by_another_stemmer_name_its_version(tmp_path: Path) -> None:
    write_artifact(tmp_path / "e", stemming_encoder(), random_texts(50))
    golden = json.loads((tmp_path / "e" / "golden.json").read_text())
    golden["codes"][0] = "00000000"
    (tmp_path / "e" / "golden.json").write_text(json.dumps(golden))
    rehash(tmp_path / "e", lambda manifest: manifest["features"].update(stemmer_version="0.1"))
    with pytest.raises(
        ArtifactError, match=r"PyStemmer 0\.1 stemmed .* this machine has PyStemmer \d"
    ):
        load_encoder(tmp_path / "e")


def stemming_encoder() -> Encoder:
    encoder = text_encoder()
    analyzer = Analyzer.from_name("unicode+english")
    return replace(
        encoder, features=TextFeatures([*WORDS[:-3], "北京", "京大", "大学"], analyzer=analyzer)
    )


def test_equal_encoders_have_equal_fingerprints_and_others_do_not(tmp_path: Path) -> None:
    prints = [
        write_artifact(tmp_path / str(i), text_encoder(seed=seed), random_texts(50)).fingerprint
        for i, seed in enumerate([0, 0, 1])
    ]
    assert prints[0] == prints[1] != prints[2]
    assert all(len(print_) == 64 for print_ in prints)


def test_an_idf_is_kept(tmp_path: Path) -> None:
    encoder = text_encoder()
    idf = np.linspace(1, 2, encoder.features.dimension).astype(np.float32)
    object.__setattr__(encoder.features, "idf", idf)
    loaded = write_artifact(tmp_path / "e", encoder, random_texts(50))
    assert np.array_equal(loaded.features.idf, idf)  # type: ignore[union-attr, arg-type]


def test_the_labelled_ids_are_hashed_and_read_back(folder: Path) -> None:
    encoder = load_encoder(folder)
    assert read_labelled_ids(folder, encoder) == ["ä", "b"]
    (folder / "labelled_ids.json").write_text("[]")
    with pytest.raises(ArtifactError, match=r"labelled_ids.json: has changed"):
        load_encoder(folder)
    with pytest.raises(ArtifactError, match=r"labelled_ids.json: has changed"):
        read_labelled_ids(folder, encoder)


def test_labelled_ids_of_another_artifact_are_not_read(folder: Path) -> None:
    encoder = load_encoder(folder)
    write_artifact(folder, text_encoder(seed=1), random_texts(50), overwrite=True)
    with pytest.raises(ArtifactError, match="has changed since its encoder was loaded"):
        read_labelled_ids(folder, encoder)
    assert read_labelled_ids(folder, load_encoder(folder)) == []


def test_an_existing_folder_is_kept_unless_overwritten(folder: Path) -> None:
    before = load_encoder(folder).fingerprint
    with pytest.raises(ArtifactError, match="already exists"):
        write_artifact(folder, text_encoder(seed=1), random_texts(50))
    assert load_encoder(folder).fingerprint == before
    after = write_artifact(folder, text_encoder(seed=1), random_texts(50), overwrite=True)
    assert after.fingerprint != before
    assert os.listdir(folder.parent) == ["encoder"]


def test_a_folder_that_is_no_encoder_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("irreplaceable")
    with pytest.raises(ArtifactError, match="not an encoder"):
        write_artifact(tmp_path / "thesis", text_encoder(), random_texts(50), overwrite=True)
    assert (tmp_path / "thesis" / "chapter.txt").read_text() == "irreplaceable"


@pytest.mark.parametrize("name", ["weights.safetensors", "vocabulary.txt", "golden.json"])
def test_a_changed_byte_is_noticed(folder: Path, name: str) -> None:
    raw = bytearray((folder / name).read_bytes())
    raw[len(raw) // 2] ^= 1
    (folder / name).write_bytes(raw)
    with pytest.raises(ArtifactError, match=f"{name}: has changed"):
        load_encoder(folder)


@pytest.mark.parametrize(
    "name", ["encoder.json", "weights.safetensors", "vocabulary.txt", "golden.json"]
)
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(ArtifactError, match=f"{name}: No such file"):
        load_encoder(folder)


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=r"nowhere.*No such file"):
        load_encoder(tmp_path / "nowhere")


def test_a_symbolic_link_is_refused(folder: Path, tmp_path: Path) -> None:
    shutil.move(folder / "golden.json", tmp_path / "elsewhere.json")
    (folder / "golden.json").symlink_to(tmp_path / "elsewhere.json")
    with pytest.raises(ArtifactError, match=r"golden.json: .*symbolic links"):
        load_encoder(folder)


def test_a_pipe_is_refused_without_waiting_for_it(folder: Path) -> None:
    (folder / "golden.json").unlink()
    os.mkfifo(folder / "golden.json")
    with pytest.raises(ArtifactError, match="not a regular file"):
        load_encoder(folder)


@pytest.mark.parametrize("name", ["../outside", "/etc/passwd", "..", "a/b", ""])
def test_a_listed_file_cannot_lie_outside_the_folder(folder: Path, name: str) -> None:
    (folder.parent / "outside").write_text("secret")
    rehash(folder, lambda manifest: manifest["files"].update({name: "0" * 64}))
    with pytest.raises(ArtifactError, match="not a plain file name"):
        load_encoder(folder)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda t: t.pop("thresholds"), "thresholds is missing"),
        (
            lambda t: t.update({"layers.0.bias": t["layers.0.bias"][:-1]}),
            r"layers.0.bias is float32 \(11,\)",
        ),
        (
            lambda t: t.update({"thresholds": t["thresholds"].astype(np.float64)}),
            "thresholds is float64",
        ),
        (lambda t: t["layers.1.weight"].__setitem__((0, 0), np.nan), "layers.1.weight holds NaN"),
        (
            lambda t: t["layers.1.weight"].__setitem__((0, 0), np.inf),
            "layers.1.weight holds NaN or inf",
        ),
        (lambda t: t["layers.1.weight"].__imul__(-1), "does not give the recorded codes"),
    ],
)
def test_weights_that_do_not_fit_are_refused(
    folder: Path, edit: Callable[[dict[str, Any]], None], message: str
) -> None:
    edit_tensors(folder, edit)
    with pytest.raises(ArtifactError, match=message):
        load_encoder(folder)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda m: m.update(format_version=2), "format_version"),
        (lambda m: m.update(n_bits=12), "n_bits is 12"),
        (lambda m: m.update(n_bits=64), "the last layer has 32 outputs"),
        (lambda m: m.update(surprise=1), "surprise: is not known"),
        (lambda m: m.update(layers=[]), "an encoder of terms needs a layer"),
        (lambda m: m["layers"][0].update(outputs=13), "layers do not fit"),
        (lambda m: m["layers"][0].update(activation="exec"), "activation"),
        (lambda m: m["files"].pop("golden.json"), "files has no golden.json"),
        (lambda m: m["files"].pop("vocabulary.txt"), "files has no vocabulary.txt"),
        (lambda m: m["features"].update(kind="image"), "features"),
        (lambda m: m["features"].update(kind=["text"]), "features: kind is"),
        (lambda m: m.update(format_version=True), "format_version: is True"),
        (lambda m: m.update(format_version=4), "is 4, of a later version"),
        (lambda m: m.update(n_bits=True), "n_bits: is True; it must be a whole number"),
        (lambda m: m.update(n_bits="32"), "n_bits: is '32'"),
        (lambda m: m.update(n_bits=32.0), "n_bits: is 32.0"),
        (lambda m: m.update(hybrid_weight=float("nan")), "hybrid_weight: is nan"),
        (lambda m: m.update(hybrid_weight=10**400), "hybrid_weight: is 1000"),
        (lambda m: m.update(hybrid_weight=0), "hybrid_weight: is 0.0; it must be from 0.001"),
        (lambda m: m.update(layers={}), "layers: is {}; it must be a list"),
        (lambda m: m.update(layers=[1]), "layers.0: is 1; it must be an object"),
        (lambda m: m["layers"][0].update(inputs=0), "layers.0.inputs: is 0; it must be 1 or more"),
        (lambda m: m["layers"][0].pop("inputs"), "layers.0.inputs: is missing"),
        (lambda m: m["features"].update(idf=1), "features.idf: is 1; it must be true or false"),
        (lambda m: m.update(metadata=[]), "metadata: is \\[\\]; it must be an object"),
        (lambda m: m["files"].update({"x": 1}), "files.x: is 1; it must be a text"),
    ],
)
def test_a_manifest_that_makes_no_sense_is_refused(
    folder: Path, edit: Callable[[dict[str, Any]], None], message: str
) -> None:
    rehash(folder, edit)
    with pytest.raises(ArtifactError, match=message):
        load_encoder(folder)


@pytest.mark.parametrize(
    ("name", "raw", "message"),
    [
        ("encoder.json", b"{", r"encoder.json"),
        ("encoder.json", b"\x80\x04K\x01.", r"encoder.json"),
        ("weights.safetensors", b"\x80\x04K\x01.", r"weights.safetensors"),
        ("weights.safetensors", b"\xff" * 64, r"weights.safetensors"),
        ("vocabulary.txt", b"\xff\xfe", r"vocabulary.txt"),
        ("vocabulary.txt", b"apple\n" * 20, r"vocabulary.txt: has 20 terms, 1 of them distinct"),
        ("golden.json", b"[]", r"golden.json: cannot be read"),
        ("golden.json", b'{"inputs": [], "codes": []}', r"does not give the recorded codes"),
        ("golden.json", b'{"inputs": [1], "codes": ["00000000"]}', r"golden.json: cannot be read"),
    ],
)
def test_malformed_files_are_refused(folder: Path, name: str, raw: bytes, message: str) -> None:
    (folder / name).write_bytes(raw)
    if name != "encoder.json":
        rehash(folder)
    with pytest.raises(ArtifactError, match=message):
        load_encoder(folder)


def test_the_figures_of_training_are_read_back(tmp_path: Path) -> None:
    folder = tmp_path / "measured"
    files = {"metrics.json": '{"validation": {"metrics": {"P@100": 0.5}}}'}
    encoder = write_artifact(folder, text_encoder(), random_texts(50), extra_files=files)
    assert read_metrics(folder, encoder) == {"validation": {"metrics": {"P@100": 0.5}}}
    bare = write_artifact(tmp_path / "bare", text_encoder(), random_texts(50))
    assert read_metrics(tmp_path / "bare", bare) == {}
    (folder / "metrics.json").write_text("[" * 100_000)
    rehash(folder)
    with pytest.raises(ArtifactError, match=r"metrics.json: cannot be read"):
        read_metrics(folder, load_encoder(folder))


def test_only_listed_files_are_installed(folder: Path, tmp_path: Path) -> None:
    (folder / "surprise.pkl").write_bytes(b"\x80\x04K\x01.")
    installed = install_artifact(folder, tmp_path / "encoders" / "mine")
    assert installed.fingerprint == load_encoder(folder).fingerprint
    assert not (tmp_path / "encoders" / "mine" / "surprise.pkl").exists()
    assert os.listdir(tmp_path / "encoders") == ["mine"]
    with pytest.raises(ArtifactError, match="already exists"):
        install_artifact(folder, tmp_path / "encoders" / "mine")


def test_what_is_not_intact_is_not_installed(folder: Path, tmp_path: Path) -> None:
    (folder / "golden.json").write_text("{}")
    with pytest.raises(ArtifactError, match="has changed"):
        install_artifact(folder, tmp_path / "encoders" / "mine")
    assert not (tmp_path / "encoders").exists()
