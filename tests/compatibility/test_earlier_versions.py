"""Everything that an earlier version wrote opens, answers as it did, and can be written to."""

from __future__ import annotations

import json
import shutil
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open

from hummingbit.cli import main
from hummingbit.corpus.document import Document
from hummingbit.corpus.readers import read_documents
from hummingbit.encoder.analyzers import VISIBLE
from hummingbit.encoder.artifact import load_encoder
from hummingbit.encoder.codes import code_to_hex
from hummingbit.encoder.text_features import TextFeatures
from hummingbit.index.collection import Collection
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.records import Query
from hummingbit.index.store.annotations import DocumentLabel
from hummingbit.index.store.store import Store
from hummingbit.service.settings import Settings
from tests.compatibility.write_fixtures import KILLED_AFTER, QUERIES, SMALL, TEXTS
from tests.support.service import running_service

VERSIONS = sorted(path.parent for path in Path(__file__).parent.glob("*/expected.json"))
# A logit may differ by this much where another processor adds in another order.
ROUNDING = 1e-4


@pytest.fixture(params=VERSIONS, ids=lambda path: path.name)
def written(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a copy of what a version wrote."""
    return Path(shutil.copytree(request.param, tmp_path / "written"))


@pytest.fixture
def expected(written: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((written / "expected.json").read_text())
    return found


def queries_of(written: Path) -> list[str]:
    return [document.text or "" for document in read_documents(written / "corpora" / QUERIES)]


def inputs_of(written: Path, name: str, kind: str) -> Any:
    if kind == "text":
        return queries_of(written)
    source = "matrices.npz" if name == "matrices" else "vectors.jsonl"
    documents = read_documents(written / "corpora" / source)
    return np.stack([document.vector for document in documents if document.vector is not None])


def test_there_are_fixtures() -> None:
    assert [path.name for path in VERSIONS][:1] == ["0.1.0"]


def test_encoders_give_the_codes_they_gave(written: Path, expected: dict[str, Any]) -> None:
    for name, codes in expected["codes"].items():
        encoder = load_encoder(written / "data" / "encoders" / name)
        inputs = inputs_of(written, name, encoder.kind)
        margins = np.abs(encoder.logits(inputs) - encoder.thresholds).min(axis=1)
        found = [code_to_hex(code) for code in encoder.encode(inputs)]
        sure = np.flatnonzero(margins > ROUNDING)
        assert len(sure) > len(inputs) / 2
        assert [found[i] for i in sure] == [codes[i] for i in sure]


def test_a_data_folder_answers_as_it_did(written: Path, expected: dict[str, Any]) -> None:
    with DataFolder(written / "data", writable=False) as folder:
        for name, about in expected["collections"].items():
            collection = folder.collection(name)
            assert len(collection) == about["documents"]
            assert collection.encoder_fingerprint == about["fingerprint"]
            assert collection.verify().problems == []
        queries = [Query(text=text) for text in queries_of(written)[: len(expected["search"])]]
        found = folder.collection("live").search(queries, 10)
    assert [[[hit.id, hit.distance] for hit in hits] for hits in found.hits] == expected["search"]


def test_a_data_folder_can_be_written_to(written: Path, expected: dict[str, Any]) -> None:
    with DataFolder(written / "data", writable=True) as folder:
        topics = folder.collection("topics")
        topics.upsert([Document(id="added", text="boat wave tide", payload={"year": 2026})])
        topics.delete(["doc-0"])
        topics.compact()
        assert topics.verify().problems == []
    with DataFolder(written / "data", writable=False) as folder:
        topics = folder.collection("topics")
        assert len(topics) == expected["collections"]["topics"]["documents"]
        added = topics.get("added")
        assert added is not None
        assert added.text == "boat wave tide"
        assert topics.get("doc-0") is None


def test_writes_that_a_kill_left_in_the_log_are_there(written: Path) -> None:
    with DataFolder(written / "killed", writable=True) as folder:
        codes = folder.collection("codes")
        assert len(codes) == KILLED_AFTER
        assert codes.verify().problems == []
        for number in range(KILLED_AFTER):
            document = codes.get(str(number))
            assert document is not None
            assert document.payload == {"i": number}


def test_snapshots_are_restored(written: Path, expected: dict[str, Any]) -> None:
    data = ["--data-dir", str(written / "data")]
    (kept,) = (written / "data" / "snapshots").iterdir()
    assert main(["snapshot", "restore", kept.name, "kept", *data]) == 0
    fresh = ["--data-dir", str(written / "fresh")]
    (written / "fresh").mkdir()
    assert main(["snapshot", "restore", str(written / "snapshot.tar"), "copy", *fresh]) == 0
    for folder, name in (("data", "kept"), ("fresh", "copy")):
        with DataFolder(written / folder, writable=False) as opened:
            collection = opened.collection(name)
            assert len(collection) == expected["collections"]["topics"]["documents"]
            assert collection.verify().problems == []


def test_an_export_is_imported(written: Path, expected: dict[str, Any]) -> None:
    data = written / "data"
    export = str(written / "export.jsonl.gz")
    assert main(["index", "import", "again", export, "--data-dir", str(data)]) == 0
    with DataFolder(data, writable=False) as folder:
        assert len(folder.collection("again")) == expected["collections"]["topics"]["documents"]


def test_the_service_knows_its_keys_and_jobs(written: Path) -> None:
    key = (written / "key.txt").read_text().strip()
    with running_service(written / "data", Settings(data_dir=written / "data")) as client:
        assert client.get("/v1/jobs").status_code == 401
        client.headers["authorization"] = f"Bearer {key}"
        jobs = client.get("/v1/jobs").json()["jobs"]
        assert sorted((job["kind"], job["state"]) for job in jobs) == [
            ("compact", "done"),
            ("verify", "done"),
        ]
        found = client.post("/v1/collections/live/search", json={"text": "apple bread"})
        assert found.status_code == 200
        assert found.json()["hits"]


def test_a_report_is_the_baseline_of_the_next(
    written: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["evaluate", "topics", "--data-dir", str(written / "data")]
    arguments += ["--queries", str(written / "corpora" / QUERIES)]
    arguments += ["--baseline", str(written / "evaluation" / "report.json"), "--min-p100", "0.1"]
    assert main(arguments) == 0
    assert "P@100" in capsys.readouterr().out


def test_an_interrupted_run_is_resumed(
    written: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(written)
    out = "interrupted/topics"
    arguments = ["train", "ssb-vae", "--data", f"corpora/{TEXTS}", "--out", out, *SMALL]
    with safe_open("interrupted/topics.checkpoint", framework="np") as file:
        recipe = json.loads(file.metadata()["run"])["recipe"]
    # The first version had one analyzer and did not name it.
    arguments += ["--analyzer", recipe.get("analyzer", "words")]
    assert main([*arguments, "--epochs", "5"]) == 0
    assert "16 bits" in capsys.readouterr().out
    assert load_encoder(Path(out)).n_bits == 16


def test_an_encoder_of_a_former_analyzer_gives_the_same_codes() -> None:
    # Its golden inputs and these have zero-width spaces, which split words then and not now.
    folder = Path(__file__).parent / "unicode_encoder"
    codes = json.loads(folder.with_name("unicode_encoder_codes.json").read_text())
    encoder = load_encoder(folder)
    assert [code_to_hex(code) for code in encoder.encode(list(codes))] == list(codes.values())
    spaced, joined = "infor\u200bmation apple", "information apple"
    assert codes[spaced] != codes[joined]
    assert isinstance(encoder.features, TextFeatures)
    features = replace(encoder.features, analyzer=VISIBLE)
    now = replace(encoder, features=features).encode([spaced, joined])
    assert [code_to_hex(code) for code in now] == [codes[joined], codes[joined]]


def test_stores_take_labels(written: Path, tmp_path: Path) -> None:
    with DataFolder(written / "data", writable=True) as folder:
        for name, collection in folder.collections().items():
            assert isinstance(collection, Collection)
            assert collection.annotations.counts() == (0, 0)
            first = collection.documents_after(0, 1)[0].id
            label = DocumentLabel(first, ("a",), "ann", 1, "2026-01-01T00:00:00+00:00")
            collection.annotations.set_labels([label])
            assert collection.verify().problems == []
            copy = tmp_path / f"{name}.sqlite"
            collection.store.copy_to(copy)
            with closing(Collection(Store(copy, writable=False), collection.encoder)) as again:
                assert again.annotations.labels() == [label]
