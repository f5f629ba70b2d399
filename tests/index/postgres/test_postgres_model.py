"""A collection on PostgreSQL against a model, through any sequence of calls of two services."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import settings
from hypothesis.stateful import rule, run_state_machine_as_test

from tests.support.oracles.collection_machine import CollectionMachine

if TYPE_CHECKING:
    from hummingbit.index.backend import CollectionBackend


def test_a_collection_on_postgres_against_its_model(postgres_uri: str, tmp_path: Path) -> None:
    from hummingbit.index.postgres.folder import PostgresFolder  # noqa: PLC0415 - psycopg may be missing

    numbers = count()

    class PostgresMachine(CollectionMachine):
        def begin(self) -> CollectionBackend:
            self.name = f"modelled-{next(numbers)}"
            self.folder, self.other = (
                PostgresFolder(tmp_path / own, postgres_uri, writable=True) for own in "ab"
            )
            return self.folder.create_collection(self.name, n_bits=16)

        def end(self) -> None:
            self.folder.close()
            self.other.close()

        @rule()
        def use_the_other_service(self) -> None:
            self.folder, self.other = self.other, self.folder
            self.folder.follow()
            self.collection = self.folder.collection(self.name)

        @rule()
        def compact(self) -> None:
            self.collection.compact()

    few = settings(max_examples=12, stateful_step_count=30, deadline=None)
    run_state_machine_as_test(PostgresMachine, settings=few)
