"""Collections of labelled codes to evaluate: good codes, and the same codes shuffled."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np

from hummingbit.corpus.document import Document
from hummingbit.encoder.codes import Codes, code_to_hex
from hummingbit.index.data_folder import DataFolder

LABELS = ("boats", "bread", "matrices", "tides")


def class_codes(
    rng: np.random.Generator, classes: np.ndarray, n_bits: int, *, flips: float
) -> Codes:
    """Codes near one centre a class, each bit flipped with a probability."""
    centres = np.random.default_rng(7).integers(0, 2, (len(LABELS), n_bits), dtype=np.uint8)
    return np.packbits(centres[classes] ^ (rng.random((len(classes), n_bits)) < flips), axis=1)


def labelled_codes(
    count: int, seed: int, prefix: str, *, n_bits: int = 16, flips: float = 0.15
) -> list[Document]:
    """Documents with a code near that of their class, which is their label."""
    rng = np.random.default_rng(seed)
    classes = rng.integers(0, len(LABELS), count)
    codes = class_codes(rng, classes, n_bits, flips=flips)
    return [
        Document(id=f"{prefix}{i}", code=code_to_hex(code), labels=(LABELS[class_name],))
        for i, (code, class_name) in enumerate(zip(codes, classes, strict=True))
    ]


def shuffled(documents: list[Document], seed: int = 0) -> list[Document]:
    """The same documents with each other's codes."""
    order = np.random.default_rng(seed).permutation(len(documents))
    return [
        Document(id=document.id, code=documents[other].code, labels=document.labels)
        for document, other in zip(documents, order, strict=True)
    ]


def make_collections(path: Path, **contents: list[Document]) -> Path:
    """Make a data folder with a collection of 16-bit codes for each list of documents."""
    with DataFolder(path, writable=True) as folder:
        for name, documents in contents.items():
            folder.create_collection(name, n_bits=16).upsert(documents)
    return path


def write_lines(path: Path, documents: list[Document]) -> Path:
    """Write labelled documents as JSON lines."""
    fields = ("id", "text", "code")
    with path.open("w") as file:
        for document in documents:
            given = {
                name: getattr(document, name)
                for name in fields
                if getattr(document, name) is not None
            }
            file.write(json.dumps(given | {"label": document.labels[0]}) + "\n")
    return path


def parse_junit(text: str) -> ET.Element:
    """Return the single test suite in the output of `to_junit`."""
    (suite,) = ET.fromstring(text.encode())  # noqa: S314 - it is our own
    return suite
