"""Collections for tests, and a model of what one holds."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from corpus.document import Document
from encoder.codes import code_from_hex
from index.brute_force import BruteForceIndex
from index.collection import Collection
from index.schema import Description
from index.store import Store


def code_collection(folder: Path, n_bits: int = 16) -> Collection:
    """Make a collection for codes that documents bring."""
    path = folder / "store.sqlite"
    Store.create(path, Description("codes", n_bits))
    return Collection(Store(path, writable=True))


def code_documents(codes: Iterable[str], prefix: str = "d") -> list[Document]:
    """Documents d0, d1, … that carry the given codes."""
    return [
        Document(id=f"{prefix}{i}", code=code, payload={"at": i}) for i, code in enumerate(codes)
    ]


class Model:
    """What a collection must hold: ids and codes by row, the row being the count of insertions."""

    def __init__(self, n_bits: int) -> None:
        self.n_bits = n_bits
        self.held: dict[str, tuple[int, str]] = {}
        self._rows = 0

    def upsert(self, documents: Iterable[Document]) -> None:
        """Insert each document as the last, in place of the one with its id."""
        for document in documents:
            assert document.code is not None
            self._rows += 1
            self.held[document.id] = (self._rows, document.code)

    def search(self, code: str, k: int, radius: int | None = None) -> list[tuple[str, int]]:
        """Return ids and distances of the k nearest, as the oracle finds them."""
        held = sorted((row, id_, hex_) for id_, (row, hex_) in self.held.items())
        codes = np.frombuffer(bytes.fromhex("".join(hex_ for _, _, hex_ in held)), dtype=np.uint8)
        rows = np.array([row for row, _, _ in held], dtype=np.int64)
        index = BruteForceIndex(codes.reshape(len(held), self.n_bits // 8), rows)
        (found,) = index.search(code_from_hex(code, self.n_bits)[None], k, radius)
        ids = {row: id_ for row, id_, _ in held}
        pairs = zip(found.rows.tolist(), found.distances.tolist(), strict=True)
        return [(ids[row], distance) for row, distance in pairs]
