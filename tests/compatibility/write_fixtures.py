"""Writes everything that this version writes, for later versions to open.

    python -m tests.compatibility.write_fixtures

makes the folder ``tests/compatibility/VERSION`` of this version, once, before it is released:

| | |
|---|---|
| ``corpora/`` | what it was made of: texts, queries, vectors, matrices |
| ``data/`` | a data folder: encoders, collections, an alias, a snapshot, keys, finished jobs |
| ``killed/`` | a data folder whose writer was killed: the last writes are in the write-ahead log |
| ``key.txt`` | the key whose hash ``data/keys.json`` holds |
| ``export.jsonl.gz``, ``snapshot.tar`` | a collection as a file |
| ``evaluation/`` | the reports of an evaluation |
| ``interrupted/`` | the checkpoint of a training run that was interrupted |
| ``expected.json`` | codes, documents and answers, as this version gave them |
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import redirect_stdout
from importlib.metadata import version
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

from hummingbit.cli import main
from hummingbit.corpus.readers import read_documents
from hummingbit.encoder.artifact import load_encoder
from hummingbit.encoder.codes import code_to_hex
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.ingestion import ingest
from hummingbit.index.records import Query
from tests.support.corpora import topic_documents, topic_vectors
from tests.support.service import client_of, serving_process

FOLDER = Path(__file__).parent
TEXTS = "texts.jsonl"
QUERIES = "queries.jsonl"
SMALL = "--bits 16 --hidden 12 --epochs 3 --seed 1".split()
KILLED_AFTER = 7
"""Writes that the killed writer had acknowledged."""


def write_all(folder: Path) -> None:
    """Write every fixture into `folder`, which is not there yet."""
    folder.mkdir()
    os.chdir(folder)
    write_corpora(Path("corpora"))
    train_encoders(Path("data/encoders"))
    fill_data_folder(Path("data"))
    use_service(Path("data"))
    command("evaluate", "topics", "--queries", f"corpora/{QUERIES}", "--data-dir", "data",
            "--out", "evaluation")  # fmt: skip
    interrupt_training(Path("interrupted"))
    kill_a_writer(Path("killed"))
    found = expected()
    for path in [*Path().rglob("*-shm"), *Path().rglob("*-wal")]:
        if path.name.endswith("-shm") or not path.stat().st_size:
            path.unlink()  # SQLite makes these anew
    Path("expected.json").write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


def write_corpora(folder: Path) -> None:
    """Write texts and queries with labels, vectors, and positive definite matrices."""
    folder.mkdir()
    for name, count, seed, prefix in ((TEXTS, 120, 0, "doc"), (QUERIES, 30, 1, "query")):
        with (folder / name).open("w") as file:
            for number, document in enumerate(topic_documents(count, seed, prefix)):
                record: dict[str, Any] = {
                    "id": document.id,
                    "text": document.text,
                    "label": document.labels[0],
                }
                if name == TEXTS:
                    record["payload"] = {"year": 2000 + number % 20, "title": f"№ {number}"}
                file.write(json.dumps(record) + "\n")
    with (folder / "vectors.jsonl").open("w") as file:
        for one in topic_vectors(80):
            vector = [round(float(x), 3) for x in one.vector]  # type: ignore[union-attr]
            file.write(json.dumps({"id": one.id, "vector": vector, "label": one.labels[0]}) + "\n")
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(40, 4, 6)) * np.where(np.arange(40) % 2, 1.0, 3.0)[:, None, None]
    matrices = (factors @ factors.transpose(0, 2, 1) / 6 + np.eye(4)).astype(np.float32)
    labels = np.where(np.arange(40) % 2, "narrow", "wide")
    ids = np.array([f"matrix-{i}" for i in range(40)])
    np.savez_compressed(folder / "matrices.npz", matrices=matrices, labels=labels, ids=ids)


def train_encoders(folder: Path) -> None:
    """Train an encoder of every kind: texts, vectors, matrices, linear, and a student."""
    texts, vectors = f"corpora/{TEXTS}", "corpora/vectors.jsonl"
    command("train", "ssb-vae", "--data", texts, "--out", f"{folder}/topics", *SMALL,
            "--supervision", "0.5")  # fmt: skip
    command("train", "ssb-vae", "--data", vectors, "--out", f"{folder}/numbers", *SMALL)
    command("train", "itq", "--data", vectors, "--out", f"{folder}/itq", "--bits", "8")
    command("train", "metric", "--objective", "riemannian-potato", "--similarity", "labels",
            "--data", "corpora/matrices.npz", "--out", f"{folder}/matrices", "--spd-order", "2",
            *SMALL)  # fmt: skip
    command("distill", "--teacher", f"{folder}/topics", "--data", texts, "--out",
            f"{folder}/student", "--bits", "8", "--hidden", "12", "--epochs", "2")  # fmt: skip


def fill_data_folder(folder: Path) -> None:
    """Make collections, replace and delete documents in them, and copy one in each way."""
    at = ("--data-dir", str(folder))
    command("index", "build", "topics", f"corpora/{TEXTS}", "--encoder", "topics", *at)
    command("index", "build", "numbers", "corpora/vectors.jsonl", "--encoder", "numbers", *at)
    with DataFolder(folder, writable=True) as opened:
        codes = opened.create_collection("codes", n_bits=24)
        ingest(codes, list(read_documents(write_codes())))
        opened.collection("topics").delete(["doc-3", "doc-4"])
        opened.collection("topics").upsert(
            [
                document
                for document in read_documents(f"corpora/{TEXTS}")
                if document.id in {"doc-0", "doc-4"}
            ]
        )
    command("alias", "set", "live", "topics", *at)
    snapshot = command("snapshot", "create", "topics", *at).split()[0]
    command("snapshot", "download", snapshot, "snapshot.tar", *at)
    command("index", "export", "topics", "export.jsonl.gz", *at)


def write_codes() -> str:
    """Write documents that bring their own codes, and return where."""
    rng = np.random.default_rng(5)
    path = Path("corpora/codes.jsonl")
    with path.open("w") as file:
        for number in range(50):
            code = rng.integers(0, 256, 3, dtype=np.uint8).tobytes().hex()
            record = {"id": f"code-{number}", "code": code, "payload": {"even": number % 2 == 0}}
            file.write(json.dumps(record) + "\n")
    return str(path)


def use_service(folder: Path) -> None:
    """Make a key, and with it jobs that end."""
    key = command("keys", "create", "--role", "admin", "--name", "operator", "--data-dir",
                  str(folder)).split()[-1]  # fmt: skip
    Path("key.txt").write_text(f"{key}\n")
    with (
        serving_process(folder.resolve(), "--no-access-log") as (_, address),
        client_of(address) as client,
    ):
        client.headers["authorization"] = f"Bearer {key}"
        for action in ("verify", "compact"):
            headers = {"prefer": "respond-async", "idempotency-key": action}
            answer = client.post(f"/v1/collections/topics/{action}", headers=headers)
            assert answer.status_code == 202, answer.text
            while client.get(answer.headers["location"]).json()["state"] in ("queued", "running"):
                time.sleep(0.05)


def interrupt_training(folder: Path) -> None:
    """Train two epochs of many, and interrupt."""
    folder.mkdir()
    code = """
import sys
from training import loop
from hummingbit.training.loop import Checkpoint
from hummingbit.cli import main

save = Checkpoint.save

def save_and_stop(checkpoint, model, optimizers, history):
    save(checkpoint, model, optimizers, history)
    if len(history) == 2:
        raise KeyboardInterrupt

Checkpoint.save = save_and_stop
loop._SECONDS_BETWEEN_CHECKPOINTS = -1
sys.exit(main(sys.argv[1:]))
"""
    arguments = ["train", "ssb-vae", "--data", f"corpora/{TEXTS}", "--out", f"{folder}/topics"]
    subprocess.run([sys.executable, "-c", code, *arguments, *SMALL, "--epochs", "5"], check=False)
    assert (folder / "topics.checkpoint").is_file()


def kill_a_writer(folder: Path) -> None:
    """End a process right after a write was acknowledged."""
    code = """
import os, sys
from pathlib import Path
from hummingbit.corpus.document import Document
from hummingbit.index.data_folder import DataFolder

collection = DataFolder(Path(sys.argv[1]), writable=True).create_collection("codes", n_bits=16)
for i in range(int(sys.argv[2])):
    collection.upsert([Document(id=str(i), code=f"{i:04x}", payload={"i": i})])
os._exit(9)
"""
    folder.mkdir()
    subprocess.run([sys.executable, "-c", code, str(folder), str(KILLED_AFTER)], check=False)
    assert list(folder.glob("collections/*/*-wal"))


def expected() -> dict[str, Any]:
    """Return what this version reads of it all."""
    answers: dict[str, Any] = {"codes": {}, "collections": {}, "search": {}}
    texts = [document.text or "" for document in read_documents(f"corpora/{QUERIES}")]
    vectors = np.stack(
        [
            document.vector
            for document in read_documents("corpora/vectors.jsonl")
            if document.vector is not None
        ]
    )
    matrices = np.stack(
        [
            document.vector
            for document in read_documents("corpora/matrices.npz")
            if document.vector is not None
        ]
    )
    for path in sorted(Path("data/encoders").iterdir()):
        encoder = load_encoder(path)
        inputs = texts if encoder.kind == "text" else vectors
        inputs = matrices if path.name == "matrices" else inputs
        answers["codes"][path.name] = [code_to_hex(code) for code in encoder.encode(inputs)]
    with DataFolder(Path("data"), writable=True) as folder:
        for name in ("topics", "numbers", "codes"):
            collection = folder.collection(name)
            answers["collections"][name] = {
                "documents": len(collection),
                "fingerprint": collection.encoder_fingerprint,
            }
        found = folder.collection("live").search([Query(text=text) for text in texts[:5]], 10)
        answers["search"] = [[[hit.id, hit.distance] for hit in hits] for hits in found.hits]
    return answers


def command(*arguments: str) -> str:
    """Run hummingbit, which must succeed, and return what it printed."""
    with redirect_stdout(StringIO()) as printed:
        status = main(list(arguments))
    assert status == 0, arguments
    return printed.getvalue()


if __name__ == "__main__":
    write_all(FOLDER / version("hummingbit"))
