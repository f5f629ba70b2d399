"""A collection against a model of what it must hold, through any sequence of calls."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from corpus.document import Document
from index import segments
from index.collection import Collection
from index.records import Query
from index.store import Store
from tests.support.collections import Model, code_collection

IDS = st.sampled_from([f"d{i}" for i in range(12)])
# Few codes, so that they repeat and tie.
CODES = st.sampled_from(["0000", "0001", "0003", "000f", "00ff", "ffff", "8000"])
DOCUMENTS = st.builds(lambda id_, code: Document(id=id_, code=code), IDS, CODES)


class CollectionMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(segments, "MIN_FOLD", 3)
        self.folder = tempfile.TemporaryDirectory()
        self.collection = code_collection(Path(self.folder.name))
        self.model = Model(16)
        self.generation = 0

    @rule(documents=st.lists(DOCUMENTS, max_size=8), batch_size=st.integers(1, 4))
    def upsert(self, documents: list[Document], batch_size: int) -> None:
        result = self.collection.upsert(documents, batch_size=batch_size)
        self.model.upsert(documents)
        self.generation += bool(documents)
        assert result.upserted == len({document.id for document in documents})
        assert result.generation == self.generation

    @rule(ids=st.lists(IDS, max_size=6))
    def delete(self, ids: list[str]) -> None:
        result = self.collection.delete(ids)
        there = [id_ for id_ in set(ids) if self.model.held.pop(id_, None)]
        self.generation += bool(there)
        assert (result.deleted, result.generation) == (len(there), self.generation)

    @rule(code=CODES, k=st.integers(1, 15), radius=st.none() | st.integers(0, 16))
    def search(self, code: str, k: int, radius: int | None) -> None:
        result = self.collection.search([Query(code=code)], k, radius)
        found = [(hit.id, hit.distance) for hit in result.hits[0]]
        assert found == self.model.search(code, k, radius)
        assert result.generation == self.generation

    @rule(id_=IDS)
    def get(self, id_: str) -> None:
        stored = self.collection.get(id_)
        expected = self.model.held.get(id_)
        assert (stored is None) == (expected is None)
        if stored is not None and expected is not None:
            assert stored.code == expected[1]

    @rule()
    def open_again(self) -> None:
        self.collection.close()
        path = Path(self.folder.name) / "store.sqlite"
        self.collection = Collection(Store(path, writable=True))

    @invariant()
    def holds_as_many_as_the_model(self) -> None:
        assert len(self.collection) == len(self.model.held)
        assert self.collection.generation == self.generation

    def teardown(self) -> None:
        self.collection.close()
        self.folder.cleanup()
        self.patch.undo()


CollectionMachine.TestCase.settings = settings(
    max_examples=40, stateful_step_count=25, deadline=None
)
test_collection_against_its_model = CollectionMachine.TestCase
