"""Changes a data folder until killed, and prints each attempt and each acknowledgement.

Run as ``python -m tests.support.faults.endless_folder FOLDER SEED``. It makes collections, writes
to them, drops them and restores them from snapshots, moves aliases, and makes and deletes
snapshots. Before each step it prints ``try JSON``, where JSON is the expected content of the folder
after the step, in the form of :func:`state_of`. Once the step has returned, it prints ``done``.
"""

from __future__ import annotations

import itertools
import json
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hummingbit.corpus.document import Document
from hummingbit.index.catalog import AddAlias, RemoveAlias
from hummingbit.index.data_folder import DataFolder

N_BITS = 16
NAMES = ["one", "two", "three", "four"]
ALIASES = ["first", "second"]
State = dict[str, Any]


def state_of(folder: DataFolder) -> State:
    """Return the documents by collection, the aliases, and the origin of each snapshot."""
    collections = {
        name: {document.id: document.payload["step"] for document in collection.all_documents()}
        for name, collection in folder.collections().items()
    }
    snapshots = [
        [snapshot.contents.collection, snapshot.contents.generation]
        for snapshot in folder.snapshots.all()
    ]
    return {
        "collections": collections,
        "aliases": dict(folder.aliases()),
        "snapshots": sorted(snapshots),
    }


class ChangingFolder:
    """A data folder, with its expected content."""

    def __init__(self, folder: DataFolder, chance: random.Random) -> None:
        self._folder = folder
        self._chance = chance
        self._state = state_of(folder)
        self._taken: dict[str, dict[str, int]] = {}

    def step(self, number: int) -> None:
        """Make a random change, one that is possible."""
        name = self._chance.choice(NAMES)
        there = name in self._state["collections"]
        steps: list[Callable[[str, int], None]] = [self._make, self._restore]
        if there:
            steps = [self._upsert] * 6 + [self._drop, self._alias, self._snapshot, self._forget]
        self._chance.choice(steps)(name, number)

    def _make(self, name: str, _: int) -> None:
        self._state["collections"][name] = {}
        self._do(lambda: self._folder.create_collection(name, n_bits=N_BITS))

    def _restore(self, name: str, number: int) -> None:
        if not self._taken:
            self._make(name, number)
            return
        id_ = self._chance.choice(sorted(self._taken))
        tar = self._folder.snapshots.file(id_)
        self._state["collections"][name] = dict(self._taken[id_])
        self._do(lambda: self._folder.restore_snapshot(tar, name))

    def _upsert(self, name: str, number: int) -> None:
        ids = [f"d{self._chance.randrange(40)}" for _ in range(self._chance.randint(1, 4))]
        self._state["collections"][name].update(dict.fromkeys(ids, number))
        documents = [Document(id=id_, code="00ff", payload={"step": number}) for id_ in ids]
        self._do(lambda: self._folder.collection(name).upsert(documents))

    def _drop(self, name: str, _: int) -> None:
        del self._state["collections"][name]
        aliases = self._state["aliases"]
        self._state["aliases"] = {item: of for item, of in aliases.items() if of != name}
        self._do(lambda: self._folder.drop_collection(name))

    def _alias(self, name: str, _: int) -> None:
        alias = self._chance.choice(ALIASES)
        if self._state["aliases"].get(alias) == name:
            del self._state["aliases"][alias]
            self._do(lambda: self._folder.change_aliases([RemoveAlias(alias)]))
        else:
            self._state["aliases"][alias] = name
            self._do(lambda: self._folder.change_aliases([AddAlias(alias, name)]))

    def _snapshot(self, name: str, _: int) -> None:
        made = [name, self._folder.collection(name).generation]
        self._state["snapshots"] = sorted([*self._state["snapshots"], made])
        documents = dict(self._state["collections"][name])

        def take() -> None:
            self._taken[self._folder.create_snapshot(name).id] = documents

        self._do(take)

    def _forget(self, _: str, __: int) -> None:
        snapshots = self._folder.snapshots.all()
        if snapshots:
            chosen = self._chance.choice(snapshots)
            what = [chosen.contents.collection, chosen.contents.generation]
            self._state["snapshots"].remove(what)
            self._taken.pop(chosen.id, None)
            self._do(lambda: self._folder.snapshots.delete(chosen.id))

    def _do(self, change: Callable[[], object]) -> None:
        print("try", json.dumps(self._state), flush=True)
        change()
        print("done", flush=True)


def main() -> None:
    """Change the folder until killed."""
    path, chance = Path(sys.argv[1]), random.Random(int(sys.argv[2]))  # noqa: S311
    with DataFolder(path, writable=True) as folder:
        changing = ChangingFolder(folder, chance)
        for number in itertools.count():
            changing.step(number)


if __name__ == "__main__":
    main()
