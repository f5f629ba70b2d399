"""A collection on Milvus against a model, through any sequence of calls."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import settings
from hypothesis.stateful import rule, run_state_machine_as_test

from tests.support.oracles.collection_machine import CollectionMachine

if TYPE_CHECKING:
    from hummingbit.index.backend import CollectionBackend

NAME = "modelled"


def test_a_collection_on_milvus_against_its_model(milvus_uri: str, tmp_path: Path) -> None:
    from hummingbit.index.milvus.folder import MilvusFolder  # noqa: PLC0415 - pymilvus may be missing

    class MilvusMachine(CollectionMachine):
        def begin(self) -> CollectionBackend:
            self.folder = MilvusFolder(tmp_path, milvus_uri, writable=True)
            # To make one takes Milvus seconds.
            collection = self.folder.create_collection(NAME, n_bits=16)
            collection.delete([document.id for document in collection.all_documents()])
            return collection

        def end(self) -> None:
            self.folder.close()

        @rule()
        def open_again(self) -> None:
            self.folder.close()
            self.folder = MilvusFolder(tmp_path, milvus_uri, writable=True)
            self.collection = self.folder.collection(NAME)

    few = settings(max_examples=6, stateful_step_count=25, deadline=None)
    run_state_machine_as_test(MilvusMachine, settings=few)
