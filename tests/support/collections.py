"""Collections for tests, and a model of what one holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hummingbit.corpus.document import Document
from hummingbit.encoder.codes import code_from_hex
from hummingbit.encoder.encoder import Encoder
from hummingbit.index.collection import Collection
from hummingbit.index.filters import Filter
from hummingbit.index.schema import Description
from hummingbit.index.store.store import Store
from tests.support.encoders import random_texts, text_encoder
from tests.support.oracles.brute_force import BruteForceIndex


def code_collection(folder: Path, n_bits: int = 16) -> Collection:
    """Make a collection for codes that documents bring."""
    path = folder / "store.sqlite"
    Store.create(path, Description("codes", n_bits))
    return Collection(Store(path, writable=True))


def text_collection(folder: Path, n_bits: int = 32) -> Collection:
    """Make a collection of texts."""
    return encoded_collection(folder, text_encoder(n_bits))


def encoded_collection(folder: Path, encoder: Encoder) -> Collection:
    """Make a collection of texts whose codes are those of `encoder`."""
    folder.mkdir(exist_ok=True)
    path = folder / "store.sqlite"
    Store.create(path, Description("texts", encoder.n_bits, "encoder", encoder.fingerprint))
    return Collection(Store(path, writable=True), encoder)


def code_documents(codes: Iterable[str], prefix: str = "d") -> list[Document]:
    """Documents d0, d1, … that carry the given codes."""
    return [
        Document(id=f"{prefix}{i}", code=code, payload={"at": i}) for i, code in enumerate(codes)
    ]


def text_documents(n_documents: int, seed: int = 0, prefix: str = "d") -> list[Document]:
    """Documents d0, d1, … with texts, and the payload ``third`` of 0, 1, 2, 0, …

    Every second text has a title, its first word, unless it has only one.
    """
    return [
        Document(
            id=f"{prefix}{at}",
            text=text.replace(" ", "\n", at % 2),
            payload={"third": at % 3},
        )
        for at, text in enumerate(random_texts(n_documents, seed))
    ]


def insert_code(store: Store, id_: str) -> None:
    """Commit a document with the code ffff."""
    with store.writing() as changes:
        changes.insert([Document(id=id_, code="ffff")], np.full((1, 2), 255, dtype=np.uint8))
        changes.commit()


class Found(NamedTuple):
    """A document that the model found; tuples of these are in the order of results."""

    distance: int
    row: int
    id: str


class Model:
    """What a collection must hold: ids and codes by row, the row being the count of insertions."""

    def __init__(self, n_bits: int) -> None:
        self.n_bits = n_bits
        self.held: dict[str, tuple[int, str]] = {}
        self.payloads: dict[str, Mapping[str, Any]] = {}
        self.rows = 0

    def upsert(self, documents: Iterable[Document]) -> None:
        """Insert each document as the last, in place of the one with its id."""
        for document in documents:
            assert document.code is not None
            self.rows += 1
            self.held[document.id] = (self.rows, document.code)
            self.payloads[document.id] = document.payload_with_labels

    def delete(self, ids: Iterable[str]) -> int:
        """Delete the documents that are there and return how many were."""
        return sum(self.held.pop(id_, None) is not None for id_ in set(ids))

    def matching(self, filter_: Filter | None) -> list[str]:
        """Return the ids of the documents for which the filter holds, by row."""
        by_row = sorted(self.held, key=lambda id_: self.held[id_][0])
        return [id_ for id_ in by_row if filter_ is None or filter_.matches(self.payloads[id_])]

    def ranked(
        self, code: str, radius: int | None = None, filter_: Filter | None = None
    ) -> list[Found]:
        """Return every document that a search can find, nearest first, as the oracle finds them."""
        ids = self.matching(filter_)
        packed = np.frombuffer(bytes.fromhex("".join(self.held[id_][1] for id_ in ids)), np.uint8)
        rows = np.array([self.held[id_][0] for id_ in ids], dtype=np.int64)
        index = BruteForceIndex(packed.reshape(len(ids), self.n_bits // 8), rows)
        (found,) = index.search(code_from_hex(code, self.n_bits)[None], len(ids) + 1, radius)
        id_of = dict(zip(rows.tolist(), ids, strict=True))
        pairs = zip(found.distances.tolist(), found.rows.tolist(), strict=True)
        return [Found(distance, row, id_of[row]) for distance, row in pairs]

    def search(self, code: str, k: int, radius: int | None = None) -> list[tuple[str, int]]:
        """Return ids and distances of the k nearest."""
        return [(hit.id, hit.distance) for hit in self.ranked(code, radius)[:k]]
