from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from experiments.ssb_vae.experiment import DATASETS
from experiments.ssb_vae.presets import SHIPPED, read_presets, write_preset
from experiments.ssb_vae.variants import METHODS, variant_recipe
from hummingbit.cli import main
from hummingbit.encoder.artifact import load_encoder
from hummingbit.encoder.recipes import RECIPES
from hummingbit.encoder.vector_features import VectorFeatures
from hummingbit.evaluation.evaluate import evaluate_encoder
from hummingbit.training.data import gather
from hummingbit.training.model_folders import read_model
from tests.support.corpora import TOPICS, topic_documents, write_snippets
from tests.support.models import write_model


@pytest.fixture
def data_root(tmp_path: Path) -> Path:
    write_snippets(tmp_path, topic_documents(400), topic_documents(60, seed=1, prefix="test"))
    return tmp_path


def test_class_codes_stand_beside_the_class_code_alone(
    data_root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = data_root / "records.json"
    command = ["reproduce", "ssb-vae", "--methods", "class-codes", "--supervision", "0.2"]
    files = ["--data-root", data_root, "--json", out, "--work-dir", data_root / "w"]
    assert main([*command, "--bits", "16", "--seeds", "1", *map(str, files)]) == 0
    records = {record["method"]: record for record in json.loads(out.read_text())}
    assert set(records) == {"class-codes", "class code alone", "tf-idf cosine"}
    assert records["class-codes"]["p100"] > 0.9
    assert records["class-codes"]["distinct_codes"] > records["class code alone"]["distinct_codes"]
    printed, progress = capsys.readouterr()
    assert "trial: " in progress
    assert "16 bits, ρ = 0.2: class-codes against the others" in printed
    assert re.search(
        r"class code alone [+-]0\.\d+ .* p = \S+ \(runs and queries resampled", printed
    )


def test_class_codes_read_word_vectors(data_root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [word for topic in TOPICS.values() for word in topic]
    file = data_root / "words.npz"
    np.savez(file, ids=np.array(words), vectors=np.repeat(np.eye(3, dtype=np.float32), 10, axis=0))
    command = ["reproduce", "ssb-vae", "--methods", "class-codes", "--supervision", "0.2"]
    command += ["--bits", "16", "--seeds", "1", "--word-vectors", str(file)]
    folders = ["--data-root", str(data_root), "--work-dir", str(data_root / "w")]
    assert main([*command, *folders]) == 0
    assert "trial: query classifier words, " in capsys.readouterr().err
    (saved,) = (data_root / "w").glob("*-words-*-0")
    assert load_encoder(saved).metadata["word_vectors"]["name"] == "words.npz"


def test_class_codes_take_their_settings_from_the_presets(data_root: Path) -> None:
    presets = data_root / "presets.toml"
    settings = {"content_share": 0.25, "query_classifier": "bayes", "content": "itq"}
    write_preset(presets, "snippets", "class-codes", settings)
    command = ["reproduce", "ssb-vae", "--methods", "class-codes", "--supervision", "0.2"]
    command += ["--seeds", "1", "--bits", "16", "--presets", str(presets)]
    command += ["--data-root", str(data_root), "--work-dir", str(data_root / "work")]
    assert main(command) == 0
    encoder = load_encoder(data_root / "work" / "snippets-class-codes-16-0.2-0")
    assert encoder.metadata["recipe"].items() >= settings.items()


def test_the_table_and_the_records_hold_every_method_and_seed(
    data_root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = data_root / "records.json"
    command = ["reproduce", "ssb-vae", "--dataset", "snippets", "--supervision", "0.1", "1.0"]
    options = [
        "--seeds",
        "2",
        "--data-root",
        data_root,
        "--json",
        out,
        "--work-dir",
        data_root / "w",
    ]
    assert main([*command, *map(str, options)]) == 0
    first = capsys.readouterr()
    records = json.loads(out.read_text())
    cells = [(record["method"], record["supervision"], record["seed"]) for record in records]
    assert cells == [
        *(
            (method, supervision, seed)
            for supervision in (0.1, 1.0)
            for seed in (0, 1)
            for method in ("ssb-vae", "classifier baseline")
        ),
        ("tf-idf cosine", None, None),
    ]
    assert all(0 <= record["p100"] <= 1 and 0 <= record["map100"] <= 1 for record in records)
    trained = [record["p100"] for record in records if record["method"] == "ssb-vae"]
    assert min(trained[2:]) > 0.9
    assert "| snippets | 32   | 0.1 | ssb-vae" in first.out
    assert re.search(r"\| 0\.565 +\| 0\.565 +\|", first.out)
    assert re.search(r"\| 0\.657 +\| 0\.696 +\|", first.out)
    assert "32 bits, ρ = 0.1: ssb-vae against the others" in first.out
    assert first.err.count("training ") == 4

    assert main([*command, *map(str, options)]) == 0
    again = capsys.readouterr()
    assert again.out == first.out
    assert "training " not in again.err
    assert "--json FILE is now --json > FILE" in again.err

    printing = [option for option in options if option != out]
    assert main([*command, *map(str, printing)]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out) == {"records": records}
    assert first.out in printed.err
    assert "is now" not in printed.err


@pytest.mark.long
def test_methods_side_by_side_in_several_processes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data_root = tmp_path
    write_snippets(data_root, topic_documents(120), topic_documents(30, seed=1, prefix="test"))
    command = ["reproduce", "ssb-vae", "--supervision", "0.5", "1.0", "--seeds", "1", "--jobs", "2"]
    methods = ["--methods", "class-codes", "itq", "--data-root", data_root]
    places = ["--work-dir", data_root / "w", "--plot", data_root / "curve.svg"]
    assert main([*command, *map(str, methods), *map(str, places)]) == 0
    printed = capsys.readouterr().out
    for method in ("class-codes", "class code alone", "itq", "tf-idf cosine"):
        assert f"| {method}" in printed
    assert printed.count("Friedman p = ") == 2
    picture = (data_root / "curve.svg").read_text()
    assert picture.startswith("<?xml")
    assert "DejaVuSans" in picture


def test_the_papers_settings_are_another_run(
    data_root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["reproduce", "ssb-vae", "--supervision", "1.0", "--seeds", "1", "--paper"]
    places = ["--data-root", data_root, "--work-dir", data_root / "w"]
    assert main([*command, *map(str, places)]) == 0
    assert (data_root / "w" / "snippets-ssb-vae-paper-32-1-0").is_dir()
    assert "| ssb-vae" in capsys.readouterr().out


def test_every_shipped_preset_is_a_recipe_of_a_method_on_a_data_set() -> None:
    kinds = {*DATASETS, *(f"{dataset}-vectors" for dataset in DATASETS)}
    for kind, methods in read_presets(SHIPPED).items():
        assert kind in kinds
        for method, settings in methods.items():
            make = variant_recipe if method in METHODS else RECIPES[method]
            assert make(method=method, **settings).method == method


def test_vectors_take_the_place_of_the_texts(
    data_root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    documents = [*topic_documents(400), *topic_documents(60, seed=1, prefix="test")]
    topics = list(TOPICS)
    vectors = rng.normal(size=(len(documents), 16)).astype(np.float32)
    for row, document in enumerate(documents):
        vectors[row, topics.index(document.labels[0])] += 6
    # In another order than the corpus: the ids say whose vector is whose.
    order = rng.permutation(len(documents))
    ids = np.array([document.id for document in documents])
    path = data_root / "vectors.npz"
    np.savez(path, ids=ids[order], vectors=vectors[order])
    command = ["reproduce", "ssb-vae", "--supervision", "0.1", "--seeds", "1", "--vectors", path]
    out = data_root / "records.json"
    places = ["--data-root", data_root, "--work-dir", data_root / "w", "--json", out]
    assert main([*map(str, command), *map(str, places)]) == 0
    # The paper's figures are of the texts.
    assert "0.565" not in capsys.readouterr().out
    records = {record["method"]: record for record in json.loads(out.read_text())}
    assert records["ssb-vae"]["p100"] > 0.9
    encoder = load_encoder(data_root / "w" / "snippets-vectors-ssb-vae-32-0.1-0")
    assert encoder.features == VectorFeatures(dimension=16)

    np.savez(data_root / "short.npz", ids=ids[:-1], vectors=vectors[:-1])
    command[-1] = data_root / "short.npz"
    assert main([*map(str, command), *map(str, places)]) == 2
    assert "test-59" in capsys.readouterr().err


def test_a_model_gives_the_vectors_of_documents_and_queries_once(
    data_root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = data_root / "model"
    write_model(model)
    command = ["reproduce", "ssb-vae", "--methods", "class-codes", "--supervision", "0.5"]
    command += ["--bits", "16", "--seeds", "1", "--model", str(model)]
    folders = ["--data-root", str(data_root), "--work-dir", str(data_root / "w")]
    assert main([*command, *folders]) == 0
    printed = capsys.readouterr().out
    (file,) = (data_root / "w").glob("*.npz")
    with np.load(file) as saved:
        rows = dict(zip(saved["ids"], saved["vectors"], strict=True))
    query = topic_documents(60, seed=1, prefix="test")[7]
    expected = read_model(model).features.transform([query.text or ""])[0]
    np.testing.assert_allclose(rows[query.id], expected, atol=1e-5)
    written = file.stat().st_mtime_ns
    assert main([*command, *folders]) == 0
    assert file.stat().st_mtime_ns == written
    assert capsys.readouterr().out == printed


def test_a_missing_data_set_is_explained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reproduce", "ssb-vae", "--data-root", str(tmp_path)]) == 2
    assert "snippets" in capsys.readouterr().err


def test_class_codes_of_a_model_and_of_words_are_measured_by_texts(
    data_root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = data_root / "model"
    write_model(model)
    command = ["reproduce", "ssb-vae", "--methods", "model", "--supervision", "0.5"]
    command += ["--bits", "16", "--seeds", "1", "--data-root", str(data_root)]
    command += ["--work-dir", str(data_root / "w")]
    assert main(command) == 2
    assert "--methods model needs the folder of a language model" in capsys.readouterr().err
    assert main([*command, "--model", str(model)]) == 0
    printed = capsys.readouterr().out
    folder = data_root / "w/snippets-model-16-0.5-0"
    encoder = load_encoder(folder)
    assert encoder.metadata["recipe"]["head"] == "class-codes"
    # The figure is that of the codes which the encoder gives the texts themselves.
    documents, queries = (
        gather(topic_documents(count, seed=seed, prefix=name))
        for count, seed, name in ((400, 0, "doc"), (60, 1, "test"))
    )
    expected = evaluate_encoder(
        encoder, documents.labelled(), queries.labelled(), ["P@100"], keep_learned=True
    )
    assert f"{expected.metrics['P@100']:.3f}" in printed
    written = (folder / "encoder.json").stat().st_mtime_ns
    assert main([*command, "--model", str(model)]) == 0
    assert (folder / "encoder.json").stat().st_mtime_ns == written
    assert capsys.readouterr().out == printed
