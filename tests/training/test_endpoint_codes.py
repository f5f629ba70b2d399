"""Codes of an embeddings endpoint: training, serving, and an endpoint that fails or changes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from hummingbit import Collection, Encoder
from hummingbit.cli import main
from hummingbit.corpus.document import Document
from hummingbit.encoder import endpoint
from hummingbit.encoder.artifact import ArtifactError, install_artifact, load_encoder
from hummingbit.encoder.endpoint import EndpointError, EndpointModel
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.errors import SnapshotError
from tests.support.embeddings_server import EmbeddingsServer, running_endpoint
from tests.support.encoders import random_texts
from tests.support.service import check_problem, running_service

TEXTS = [f"{text} {number}" for number, text in enumerate(random_texts(120, seed=5))]


@pytest.fixture(autouse=True)
def no_waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    waits: list[float] = []
    monkeypatch.setattr(endpoint, "_sleep", waits.append)
    monkeypatch.delenv(endpoint.KEY, raising=False)
    return waits


@pytest.fixture
def server() -> Iterator[EmbeddingsServer]:
    with running_endpoint() as server:
        yield server


def write_lines(path: Path, texts: list[str]) -> None:
    lines = [json.dumps({"id": str(at), "text": text}) for at, text in enumerate(texts)]
    path.write_text("\n".join(lines))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "documents.jsonl"
    write_lines(path, TEXTS)
    return path


def train(source: Path, out: Path, url: str, *more: str) -> int:
    options = ["--data", str(source), "--out", str(out), "--model", url, "--bits", "32"]
    return main(["train", "model", *options, "--model-name", "table", "--head", "itq", *more])


def test_codes_of_an_endpoint_are_trained_and_served(
    tmp_path: Path, source: Path, server: EmbeddingsServer
) -> None:
    assert train(source, tmp_path / "encoder", server.url) == 0
    assert all(len(request["input"]) <= 32 for request in server.requests)
    encoder = load_encoder(tmp_path / "encoder")
    assert (encoder.kind, encoder.n_bits, encoder.is_slow) == ("text", 32, True)
    about = encoder.metadata["model"]
    assert about == {"name": "table", "endpoint": server.url}
    # The head is a layer and thresholds over vectors of length 1.
    vectors = server.vectors(TEXTS[:40])
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    assert np.array_equal(encoder.encode(TEXTS[:40]), encoder.encode_features(vectors, TEXTS[:40]))
    data = tmp_path / "data"
    install_artifact(tmp_path / "encoder", data / "encoders" / "table")
    with Collection.create(data, "c", encoder="table") as collection:
        collection.add(TEXTS)
        assert collection.search(TEXTS[7], ranking="hamming", limit=1).ids == ["7"]
    n_before = len(server.requests)
    with running_service(data) as client:
        path = "/v1/collections/c/search"
        found = client.post(path, json={"text": TEXTS[9], "limit": 2}).json()
        assert found["hits"][0]["id"] == "9"
        n_asked = len(server.requests) - n_before
        assert n_asked == 2  # the probe and the query
        client.post(path, json={"text": TEXTS[10]})
        assert len(server.requests) - n_before == 3
        server.refusals = [(500, {})] * 2
        failed = client.post(path, json={"text": "something"})
        check_problem(failed, 503, "endpoint_unavailable")
        assert server.url not in failed.text
        assert "told to answer" not in failed.text
        assert client.post(path, json={"code": "00000000"}).status_code == 200
        server.refusals = [(503, {})] * 8
        written = {"documents": [{"id": "new", "text": "some new words"}]}
        check_problem(
            client.put("/v1/collections/c/documents", json=written), 503, "endpoint_unavailable"
        )
        assert client.get("/v1/collections/c/documents/new").status_code == 404


def test_another_model_behind_the_endpoint_is_refused(
    tmp_path: Path, source: Path, server: EmbeddingsServer
) -> None:
    assert train(source, tmp_path / "encoder", server.url) == 0
    server.seed = 1
    with pytest.raises(EndpointError, match="answers otherwise than when the encoder was trained"):
        load_encoder(tmp_path / "encoder").encode_queries(["a query"])
    server.seed, server.dimension = 0, 16
    with pytest.raises(EndpointError, match="returns vectors of 16 numbers; the encoder was made"):
        load_encoder(tmp_path / "encoder").encode_queries(["a query"])


@pytest.mark.parametrize(
    ("settings", "environment", "message"),
    [
        ({"key": "secret"}, {}, "refuses the key (401: Incorrect API key provided)"),
        ({"key": "secret"}, {"HUMMINGBIT_ENDPOINT_KEY": "other"}, "refuses the key (401"),
        ({"key": "secret"}, {"HUMMINGBIT_ENDPOINT_KEY": "secret\nü"}, "holds characters that no"),
        ({"refusals": [(429, {})] * 9}, {}, "answers no more requests for now (429"),
        ({"seconds": 1.3}, {"HUMMINGBIT_ENDPOINT_TIMEOUT": "1"}, "did not answer within 1 s"),
        ({}, {"HUMMINGBIT_ENDPOINT_TIMEOUT": "x"}, "HUMMINGBIT_ENDPOINT_TIMEOUT is 'x'"),
        ({}, {"HUMMINGBIT_ENDPOINTS": "http://other/v1"}, "is not among the endpoints"),
        ({"max_texts": 3}, {}, "refuses the texts (422: batch size or an empty input); if the"),
        ({"dimension": 8}, {}, "--bits is 32; the model's vectors have 8 numbers"),
    ],
)
def test_an_endpoint_that_fails_is_one_sentence_and_nothing_written(  # noqa: PLR0917
    tmp_path: Path,
    source: Path,
    settings: dict[str, object],
    environment: dict[str, str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with running_endpoint(**settings) as server:
        assert train(source, tmp_path / "encoder", server.url) != 0
    error = capsys.readouterr().err
    assert [line for line in error.splitlines() if message in line]
    assert "Traceback" not in error
    assert "secret" not in error
    assert not (tmp_path / "encoder").exists()


def test_an_endpoint_that_is_down(
    tmp_path: Path, source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with running_endpoint() as server:
        url = server.url
    assert train(source, tmp_path / "encoder", url) != 0
    assert f"{url} cannot be reached" in capsys.readouterr().err
    data = ["--data", str(source), "--out", str(tmp_path / "encoder")]
    assert main(["train", "model", *data, "--model", url, "--bits", "32"]) != 0
    assert "--model-name is empty" in capsys.readouterr().err
    assert train(source, tmp_path / "encoder", "http://user:word@host/v1") != 0
    error = capsys.readouterr().err
    assert "must have no password" in error
    assert "word@" not in error


def test_the_key_of_the_environment_is_sent(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(endpoint.KEY, "secret\n")
    with running_endpoint(key="secret") as server:
        assert train(source, tmp_path / "encoder", server.url) == 0
    files = [path.read_bytes() for path in (tmp_path / "encoder").iterdir()]
    assert not any(b"secret" in file for file in files)


def test_a_proxy_that_cannot_be_used_is_named(
    server: EmbeddingsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "[::1]")
    # Each thread has a client of its own, which reads the environment once.
    with (
        ThreadPoolExecutor(1) as thread,
        pytest.raises(EndpointError, match="NO_PROXY of the environment cannot be used"),
    ):
        thread.submit(endpoint.embed, server.url, "table", ["a text"], 1).result()


def test_training_goes_on_where_it_was_interrupted(
    tmp_path: Path, source: Path, server: EmbeddingsServer, no_waits: list[float]
) -> None:
    write_lines(source, [f"{at} {TEXTS[at % 120]}" for at in range(600)])
    assert train(source, tmp_path / "whole", server.url) == 0
    n_whole = len(server.requests)
    server.requests.clear()
    # The probe of the dimension and the first 256 documents are answered, in nine requests.
    answer, server.answer = server.answer, None  # type: ignore[assignment]

    def fail_later(path: str, key: str, body: object) -> object:
        if len(server.requests) >= 10:
            return 400, {"error": {"message": "stop"}}, {}
        return answer(path, key, body)

    server.answer = fail_later  # type: ignore[assignment]
    assert train(source, tmp_path / "encoder", server.url) != 0
    assert (tmp_path / "encoder.vectors").exists()
    server.answer = answer  # type: ignore[method-assign]
    server.requests.clear()
    server.refusals = [(429, {"retry-after": "7"})]
    assert train(source, tmp_path / "encoder", server.url) == 0
    assert no_waits == [7.0]
    assert len(server.requests) == n_whole - 8 + 1
    assert not (tmp_path / "encoder.vectors").exists()
    whole, again = load_encoder(tmp_path / "whole"), load_encoder(tmp_path / "encoder")
    assert np.array_equal(whole.thresholds, again.thresholds)


def test_an_artifact_with_a_changed_probe_is_refused(
    tmp_path: Path, source: Path, server: EmbeddingsServer
) -> None:
    assert train(source, tmp_path / "encoder", server.url) == 0
    probe = tmp_path / "encoder" / "probe.json"
    probe.write_text(probe.read_text().replace("0", "1", 1))
    with pytest.raises(ArtifactError, match=r"probe.json: has changed"):
        load_encoder(tmp_path / "encoder")


def test_long_and_empty_texts(server: EmbeddingsServer) -> None:
    model = EndpointModel(server.url, "table", 32, document_prompt="passage: ", max_tokens=2)
    vectors = model.transform(["", " ", "one two three four"])
    assert not vectors[:2].any()
    assert server.requests[-1]["input"] == ["passage: one two "]
    assert model.is_cut("one two three four")
    encoder = Encoder(model, [], np.zeros(32, dtype=np.float32), {})
    (terms,) = encoder.read_queries([""]).terms
    assert terms is not None
    assert terms.recognized_terms == 0


def test_a_snapshot_does_not_say_where_texts_are_sent(
    tmp_path: Path, source: Path, server: EmbeddingsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert train(source, tmp_path / "encoder", server.url) == 0
    install_artifact(tmp_path / "encoder", tmp_path / "data" / "encoders" / "table")
    with DataFolder(tmp_path / "data", writable=True) as folder:
        folder.create_collection("c", encoder="table").upsert([Document("a", "some words")])
        tar = folder.snapshots.file(folder.create_snapshot("c").id)
        assert folder.restore_snapshot(tar, "again").encoder_name == "table"
    with DataFolder(tmp_path / "other", writable=True) as other:
        with pytest.raises(SnapshotError, match=r"sends texts to http.*HUMMINGBIT_ENDPOINTS"):
            other.restore_snapshot(tar, "c")
        assert list(other.encoders.names()) == []
        monkeypatch.setenv(endpoint.ALLOWED, f"http://else/v1 {server.url}/")
        assert len(other.restore_snapshot(tar, "c")) == 1
