"""A collection against a model of what it must hold, through any sequence of calls."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule

from hummingbit.index.collection import Collection
from hummingbit.index.engines import segments
from hummingbit.index.store import store
from hummingbit.index.store.store import Store
from tests.support.collections import code_collection
from tests.support.oracles.collection_machine import CollectionMachine


class LocalMachine(CollectionMachine):
    collection: Collection

    def begin(self) -> Collection:
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(segments, "MIN_FOLD", 3)
        self.patch.setattr(store, "BLOCK_ROWS", 4)
        self.folder = tempfile.TemporaryDirectory()
        return code_collection(Path(self.folder.name))

    def end(self) -> None:
        self.collection.close()
        self.folder.cleanup()
        self.patch.undo()

    @rule()
    def wait_for_compaction(self) -> None:
        self.collection._published_index.wait()

    @rule()
    def compact(self) -> None:
        self.collection.compact()

    @rule(indexed=st.booleans())
    def open_again(self, indexed: bool) -> None:
        self.collection.close()
        path = Path(self.folder.name) / "store.sqlite"
        self.collection = Collection(Store(path, writable=True), indexed=indexed)


LocalMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
test_collection_against_its_model = LocalMachine.TestCase
