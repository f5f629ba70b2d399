"""Codes of a language model, by the command line, the estimator, collections and the service."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

from hummingbit import SemanticHasher, load_encoder
from hummingbit.cli import main
from hummingbit.encoder.codes import unpack_codes
from hummingbit.encoder.recipes import DEFAULT_BITS, MODEL_BITS
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.options import Hybrid
from hummingbit.index.rankings import OF_MODELS
from hummingbit.index.records import Query
from hummingbit.service.jobs.store import JobStore
from hummingbit.training import networks
from tests.support.encoders import WORDS
from tests.support.models import public_model, write_model
from tests.support.service import running_service


@pytest.fixture(autouse=True)
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Learn neighbours with as many steps as vectors: what is tested here shows after a few."""
    monkeypatch.setattr(networks, "LEAST_STEPS", 20)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "tiny"
    write_model(folder)
    return folder


def texts(count: int = 80) -> list[str]:
    rng = np.random.default_rng(0)
    words = [rng.choice(WORDS, 8).tolist() for _ in range(count)]
    return [f"{' '.join(word[:4])}. {' '.join(word[4:])}." for word in words]


def write_documents(path: Path, documents: list[str]) -> None:
    lines = [json.dumps({"id": f"d{i}", "text": text}) for i, text in enumerate(documents)]
    path.write_text("\n".join(lines))


def test_from_a_folder_of_a_model_to_a_search(
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    documents = texts()
    write_documents(tmp_path / "d.jsonl", documents)
    train = ["train", "--model", str(model), "--data", "d.jsonl", "--out", "encoders/m"]
    assert main([*train, "--bits", "24"]) == 0
    assert main(["index", "build", "c", "d.jsonl", "--encoder", "m"]) == 0
    capsys.readouterr()
    assert main(["search", "c", documents[7], "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["hits"][0]["id"] == "d7"
    encoder = load_encoder(Path("encoders/m"))
    with DataFolder(tmp_path, writable=True) as folder:
        collection = folder.collection("c")
        queries = [Query(text=" ".join(text.split()[2:5])) for text in documents[:20]]
        found, same, other = (
            [hit.id for hits in collection.search(queries, 30, hybrid=hybrid).hits for hit in hits]
            for hybrid in (None, Hybrid(codes=OF_MODELS), Hybrid(codes=0.001))
        )
        assert found == same != other
    with running_service(tmp_path) as client:
        described = client.get("/v1/encoders/m").json()
        assert (described["kind"], described["terms"], described["n_bits"]) == ("text", None, 24)
        body = {"text": documents[7], "limit": 3, "explain": True, "with_code": True}
        answer = client.post("/v1/collections/c/search", json=body).json()
        assert answer["hits"][0]["id"] == "d7"
        assert answer["query_terms"] == []
        added = {"documents": [{"id": "added", "text": "eigen norm basis kernel"}]}
        assert client.put("/v1/collections/c/documents", json=added).status_code == 200
        body = {"text": "eigen norm basis kernel", "ranking": "hamming", "limit": 1}
        (hit,) = client.post("/v1/collections/c/search", json=body).json()["hits"]
        assert (hit["id"], hit["distance"]) == ("added", 0)
        # A text without a token finds nothing by a code that says nothing.
        body = {"text": "§", "ranking": "hamming"}
        assert client.post("/v1/collections/c/search", json=body).json()["hits"] == []
        inputs = {"inputs": [{"text": text} for text in documents[:5]]}
        codes = client.post("/v1/encoders/m/encode", json=inputs).json()["codes"]
        assert codes == [bytes(code.tolist()).hex() for code in encoder.encode(documents[:5])]


def test_bits_that_reconstruct_vectors_are_searched_by_every_ranking(
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    documents = texts()
    write_documents(tmp_path / "d.jsonl", documents)
    train = ["train", "model", "--model", str(model), "--data", "d.jsonl", "--out", "encoders/m"]
    assert main([*train, "--head", "reconstruction", "--bits", "24"]) == 0
    assert main(["index", "build", "c", "d.jsonl", "--encoder", "m"]) == 0
    encoder = load_encoder(Path("encoders/m"))
    assert encoder.reconstruction is not None
    assert encoder.metadata["recipe"]["head"] == "reconstruction"
    signs = unpack_codes(encoder.encode(documents)).astype(np.float32) * 2 - 1
    weights = encoder.query_weights(documents[7:8])
    expected = {
        "asymmetric": -(weights @ signs.T)[0],
        "hamming": (np.where(weights > 0, 1, -1) != signs).sum(axis=1),
    }
    for ranking, values in expected.items():
        capsys.readouterr()
        assert main(["search", "c", documents[7], "--ranking", ranking, "--json"]) == 0
        hits = json.loads(capsys.readouterr().out)["hits"]
        rows = [int(hit["id"][1:]) for hit in hits]
        np.testing.assert_allclose(values[rows], np.sort(values)[: len(rows)], rtol=1e-5)
    assert main(["search", "c", documents[7], "--ranking", "hybrid", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["hits"][0]["id"] == "d7"
    with running_service(tmp_path) as client:
        inputs = {"inputs": [{"text": text} for text in documents[:5]]}
        codes = client.post("/v1/encoders/m/encode", json=inputs).json()["codes"]
        assert codes == [bytes(code.tolist()).hex() for code in encoder.encode(documents[:5])]
        added = {"documents": [{"id": "added", "text": "eigen norm basis kernel"}]}
        assert client.put("/v1/collections/c/documents", json=added).status_code == 200
        body = {"text": "eigen norm basis kernel", "limit": 81, "with_code": True}
        hits = client.post("/v1/collections/c/search", json=body).json()["hits"]
        (code,) = [hit["code"] for hit in hits if hit["id"] == "added"]
        (own,) = encoder.encode(["eigen norm basis kernel"])
        assert code == bytes(own.tolist()).hex()


def test_settings_of_a_model_are_options(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_documents(tmp_path / "d.jsonl", texts(40))
    command = ["train", "model", "--model", str(model), "--data", "d.jsonl", "--out", "e"]
    options = ["--bits", "16", "--max-tokens", "9", "--dimension", "20", "--hybrid-weight", "2"]
    prompts = ["--query-prompt", "q: ", "--document-prompt", "d: "]
    assert main([*command, *options, *prompts]) == 0
    encoder = load_encoder(tmp_path / "e")
    read = encoder.features
    for name, value in {"max_tokens": 9, "dimension": 20, "query_prompt": "q: "}.items():
        assert getattr(read, name) == value
    assert encoder.hybrid_weight == 2


@pytest.mark.parametrize("command", ["train", "train model"])
def test_a_mistake_gets_one_sentence(
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    write_documents(tmp_path / "d.jsonl", texts(40))
    arguments = [*command.split(), "--model", "absent", "--data", "d.jsonl", "--out", "e"]
    assert main([*arguments, "--bits", "16"]) == 2
    assert "absent: there is no such folder" in capsys.readouterr().err
    assert not (tmp_path / "e").exists()


def test_the_estimator_takes_a_model(model: Path, tmp_path: Path) -> None:
    documents = texts(60)
    hasher = clone(SemanticHasher(n_bits=16, model=model)).fit(documents)
    assert hasher.method_ == "model"
    codes = hasher.transform(documents)
    assert codes.shape == (60, 2)
    again = load_encoder(hasher.save(tmp_path / "saved"))
    np.testing.assert_array_equal(again.encode(documents), codes)
    with pytest.raises(ValueError, match="'model' is not one of"):
        SemanticHasher(n_bits=16, method="ict", model=model).fit(documents)


def test_the_estimator_takes_a_head(model: Path, tmp_path: Path) -> None:
    documents = texts(60)
    hasher = SemanticHasher(n_bits=16, model=model, settings={"head": "reconstruction"})
    codes = hasher.fit(documents).transform(documents)
    assert hasher.encoder_.reconstruction is not None
    again = load_encoder(hasher.save(tmp_path / "saved"))
    np.testing.assert_array_equal(again.encode(documents), codes)
    np.testing.assert_array_equal(again.query_weights(documents), hasher.query_weights(documents))


def test_quickstart_takes_a_model(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_documents(tmp_path / "d.jsonl", texts(80))
    assert main(["quickstart", "d.jsonl", "--no-serve", "--bits", "16", "--model", str(model)]) == 0
    store = JobStore(tmp_path / "d-data" / "jobs" / "jobs.sqlite")
    (job,) = store.last(10)
    store.close()
    assert (job.state, job.spec["arguments"][:2]) == ("done", ["--model", str(model)])


def test_a_public_model_finds_what_has_no_word_in_common(tmp_path: Path) -> None:
    documents = [
        "The train to the coast leaves at noon.",
        "Interest rates were raised by the central bank.",
        "A kitten sleeps on the sofa.",
        "The striker scored twice in the final.",
        "Heavy rain is expected over the weekend.",
        "Knead the dough and let it rise for an hour.",
        "The court sentenced him to five years.",
        "The telescope found water around a distant star.",
    ] * 4
    folder = public_model(tmp_path / "minilm")
    hasher = SemanticHasher(
        n_bits=32, model=folder, settings={"hybrid_weight": 3.0, "precision": "float32"}
    )
    hasher.fit(documents)
    asked = ["cat taking a nap", "how do I make bread", "weather forecast", "soccer goals"]
    bits = np.where(np.unpackbits(hasher.transform(documents[:8]), axis=1) > 0, 1.0, -1.0)
    found = (hasher.query_weights(asked) @ bits.T).argmax(axis=1)
    assert found.tolist() == [2, 5, 4, 3]


def test_the_estimator_has_the_bits_of_the_method(model: Path) -> None:
    assert SemanticHasher(method="lsh").fit(texts(20)).encoder_.n_bits == DEFAULT_BITS
    with pytest.raises(ValueError, match=str(MODEL_BITS)):  # the model has fewer numbers
        SemanticHasher(model=model).fit(texts(60))


def test_labels_are_learned_from_words_beside_the_model(
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    documents = texts()
    labels = ["food" if text.split()[0] in WORDS[:10] else "algebra" for text in documents]
    lines = [
        json.dumps({"id": f"d{row}", "text": text, "label": label})
        for row, (text, label) in enumerate(zip(documents, labels, strict=True))
    ]
    Path("d.jsonl").write_text("\n".join(lines))
    train = ["train", "model", "--model", str(model), "--data", "d.jsonl", "--out", "encoders/m"]
    head = ["--head", "class-codes", "--bits", "16", "--word-share", "0.5"]
    assert main([*train, *head, "--content-share", "0.25"]) == 0
    printed = capsys.readouterr()
    assert "share of words beside the model's vectors, in telling classes: 0.5" in printed.out
    assert "classes know 20 terms beside the model" in printed.err
    assert main(["index", "build", "c", "d.jsonl", "--encoder", "m"]) == 0
    encoder = load_encoder(Path("encoders/m"))
    assert encoder.words is not None
    hasher = SemanticHasher(
        n_bits=16, model=model, settings={"head": "class-codes", "word_share": 0.5}
    )
    codes = hasher.fit(documents, labels).transform(documents)
    again = load_encoder(hasher.save(tmp_path / "saved"))
    np.testing.assert_array_equal(again.encode(documents), codes)
    with running_service(tmp_path) as client:
        assert client.get("/v1/encoders/m").json()["terms"] == 20
        inputs = {"inputs": [{"text": text} for text in documents[:5]]}
        answer = client.post("/v1/encoders/m/encode", json=inputs).json()["codes"]
        assert answer == [bytes(code.tolist()).hex() for code in encoder.encode(documents[:5])]
        # The model, and the classes beside it, read a query as it was written.
        asked = "eigen norm basis kernal"
        body = {"text": asked, "ranking": "asymmetric", "limit": 81}
        found = client.post("/v1/collections/c/search", json=body).json()
        signs = unpack_codes(encoder.encode(documents)).astype(np.float32) * 2 - 1
        weights = encoder.read_queries([asked], correct=False).weights
        values = (weights @ signs.T)[0]
        rows = [int(hit["id"][1:]) for hit in found["hits"]]
        np.testing.assert_allclose(values[rows], np.sort(values)[::-1][: len(rows)], rtol=1e-5)
