"""Small synthetic corpora from which a model can learn, and files of documents."""

from __future__ import annotations

import gzip
import json
import lzma
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hummingbit.corpus.document import Document
from hummingbit.corpus.readers import BadLine, read_documents
from hummingbit.encoder.artifact import write_artifact
from hummingbit.evaluation.labelling.suggestions import Pool
from tests.support.encoders import random_texts, text_encoder

TOPICS = {
    "food": "apple bread cheese dough eggs flour garlic honey jam ice".split(),
    "algebra": "matrix vector tensor scalar eigen norm basis kernel rank trace".split(),
    "sea": "boat wave tide anchor sail harbour reef shell storm current".split(),
}
PLACES = {"food": "world.food", "sea": "world.sea", "algebra": "mind.algebra"}
COMMON = "the of and with for from into over".split()


def topic_documents(count: int, seed: int = 0, prefix: str = "doc") -> list[Document]:
    """Labelled texts of 6 to 12 words, most of them from one topic's."""
    rng = np.random.default_rng(seed)
    documents = []
    for i in range(count):
        label = str(rng.choice(list(TOPICS)))
        words = [*rng.choice(TOPICS[label], size=4), *rng.choice(COMMON, size=rng.integers(2, 9))]
        text = " ".join(rng.permutation(words))
        documents.append(Document(id=f"{prefix}-{i}", text=text, labels=(label,)))
    return documents


def dotted_topic_documents(count: int, seed: int = 0, prefix: str = "doc") -> list[Document]:
    """:func:`topic_documents` whose labels are dotted names of a tree."""
    documents = topic_documents(count, seed, prefix)
    return [replace(document, labels=(PLACES[document.labels[0]],)) for document in documents]


def write_xz(path: Path, records: Sequence[object]) -> None:
    """Write JSON lines, compressed, as the public data sets are."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with lzma.open(path, "wt") as file:
        file.writelines(f"{json.dumps(record)}\n" for record in records)


def write_snippets(root: Path, training: Sequence[Document], queries: Sequence[Document]) -> None:
    """Write documents where, and as, the data set ``snippets`` is read under `root`."""
    for split, documents in (("train", training), ("test", queries)):
        records = [
            {"id": document.id, "text": document.text or "", "label": document.labels[0]}
            for document in documents
        ]
        write_xz(root / "snippets" / f"{split}.jsonl.xz", records)


def topic_vectors(count: int, seed: int = 0) -> list[Document]:
    """Labelled vectors of 8 numbers around one centre a label."""
    rng = np.random.default_rng(seed)
    centres = {label: np.eye(8)[i] * 4 for i, label in enumerate(TOPICS)}
    documents = []
    for i in range(count):
        label = str(rng.choice(list(TOPICS)))
        vector = (centres[label] + rng.normal(size=8)).astype(np.float32)
        documents.append(Document(id=f"vec-{i}", vector=vector, labels=(label,)))
    return documents


def write_source(folder: Path, name: str, content: bytes) -> Path:
    """Write a file, compressed as its name says, and return its path."""
    path = folder / name
    if path.suffix == ".gz":
        content = gzip.compress(content)
    elif path.suffix == ".xz":
        content = lzma.compress(content, preset=0)  # other presets take megabytes to read
    path.write_bytes(content)
    return path


def read_skipping(path: Path) -> tuple[list[str], list[BadLine]]:
    """Return the ids of the documents of a file, and its bad lines."""
    bad: list[BadLine] = []
    documents = read_documents(path, on_error="skip", report=bad.append)
    return [document.id for document in documents], bad


def texts_of_intents() -> tuple[list[str], npt.NDArray[np.bool_]]:
    """Return texts of 36 classes of 3 to 19 texts each, and their tags.

    A class is a pair of one of six verbs and one of six nouns. A text has these two words and two
    that any text may have.
    """
    rng = np.random.default_rng(0)
    classes = np.repeat(np.arange(36), rng.integers(3, 20, 36))
    rng.shuffle(classes)
    texts = [
        " ".join(
            [
                f"verb{class_name // 6}",
                f"noun{class_name % 6}",
                *(f"any{word}" for word in rng.integers(0, 40, 2)),
            ]
        )
        for class_name in classes
    ]
    return texts, np.eye(36, dtype=np.bool_)[classes]


def clustered_pool(labelled: int, seed: int = 0, classes: int = 3, size: int = 60) -> Pool:
    """Documents to label, in as many clusters as there are classes."""
    rng = np.random.default_rng(seed)
    of = rng.integers(0, classes, size)
    vectors = 4 * np.eye(8)[of] + rng.normal(size=(size, 8))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    rows = rng.permutation(size)[:labelled]
    return Pool(vectors.astype(np.float32), rng.integers(0, 9, size), rows, of[rows], classes)


def make_topic_folder(path: Path) -> Path:
    """Make a data folder with the encoder ``plain``, and files of documents and queries in it."""
    write_artifact(path / "encoders" / "plain", text_encoder(), random_texts(50))
    lines = [
        json.dumps({"id": document.id, "text": document.text, "label": document.labels[0]}) + "\n"
        for document in topic_documents(80)
    ]
    (path / "corpus.jsonl").write_text("".join(lines))
    (path / "queries.jsonl").write_text("".join(lines[:9]))
    return path
