"""Second names of collections, changed all together or not at all.

One JSON file holds them and is always replaced by a complete one, so a crash leaves the old aliases
or the new ones. A caller that uses ``books`` while ``books`` moves from one collection to another
gets one of the two.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Collection as Names
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from foundation.errors import InputError
from foundation.files import replace_file
from index.errors import CollectionExists, DataFolderError, UnknownCollection
from index.folder.names import check_name

FORMAT_VERSION = 1
# A job asks whether it changed the aliases only when it is resumed, which is soon.
MAX_JOBS = 100


@dataclass(frozen=True, slots=True)
class AddAlias:
    """Point `alias` to `collection`, wherever it pointed before."""

    alias: str
    collection: str


@dataclass(frozen=True, slots=True)
class RemoveAlias:
    """Remove `alias`."""

    alias: str


AliasAction = AddAlias | RemoveAlias


class Aliases:
    """The aliases of a data folder. All methods are thread-safe."""

    def __init__(self, path: Path) -> None:
        """Read the aliases in the file at `path`; a missing file has none.

        Raises:
            DataFolderError: if the file cannot be read or is not a file of aliases.
        """
        self._path = path
        self._write_lock = threading.Lock()
        self.names: Mapping[str, str]
        """The collection of each alias; always replaced as a whole."""
        self.names, self._jobs = _read(path)

    def current(self) -> Mapping[str, str]:
        """Return the collection of each alias, in the order of the aliases."""
        return MappingProxyType(dict(sorted(self.names.items())))

    def resolve(self, name: str) -> str:
        """Return the collection of an alias; any other name is returned unchanged."""
        return self.names.get(name, name)

    def check_free(self, name: str) -> None:
        """Raise CollectionExists if `name` is an alias."""
        if name in self.names:
            raise CollectionExists(f"{name!r} is an alias of collection {self.resolve(name)!r}")

    def changed_by(self, job: str) -> bool:
        """Tell whether :meth:`apply` applied the actions of `job`, one of the last hundred."""
        return job in self._jobs

    def apply(
        self, actions: Sequence[AliasAction], collections: Names[str], job: str | None = None
    ) -> Mapping[str, str]:
        """Apply all `actions` in their order, or none if one is invalid; return the new aliases.

        They are on disk when this returns. `collections` are the names of the existing collections.
        The id of a `job` is written in the same step, so :meth:`changed_by` knows it after a crash.

        Raises:
            InputError: if an alias is not a valid name, is the name of a collection, or is to be
                removed and does not exist. Its `position` says which action.
            UnknownCollection: if a collection does not exist; its `position` says which action.
            DataFolderError: if the file cannot be written.
        """
        with self._write_lock:
            aliases = dict(self.names)
            for position, action in enumerate(actions):
                _apply_action(action, aliases, collections, position)
            self._write(aliases, job)
        return self.current()

    def forget(self, collection: str) -> None:
        """Remove every alias of a collection.

        Raises:
            DataFolderError: if the file cannot be written.
        """
        with self._write_lock:
            others = {alias: name for alias, name in self.names.items() if name != collection}
            self._write(others)

    def _write(self, aliases: dict[str, str], job: str | None = None) -> None:
        if aliases == self.names and job is None:
            return
        jobs = self._jobs if job is None else [*self._jobs, job][-MAX_JOBS:]
        record = {
            "format_version": FORMAT_VERSION,
            "aliases": dict(sorted(aliases.items())),
            "jobs": jobs,
        }
        try:
            replace_file(self._path, json.dumps(record, indent=2))
        except OSError as error:
            message = f"{self._path}: cannot be written: {error.strerror or error}"
            raise DataFolderError(message) from error
        self.names, self._jobs = aliases, jobs


def _apply_action(
    action: AliasAction, aliases: dict[str, str], collections: Names[str], position: int
) -> None:
    if isinstance(action, RemoveAlias):
        if action.alias not in aliases:
            raise InputError("alias", f"there is no alias {action.alias[:80]!r}", position)
        del aliases[action.alias]
        return
    check_name(action.alias, "alias", position)
    if action.alias in collections:
        message = f"{action.alias!r} is the name of a collection; choose another name"
        raise InputError("alias", message, position)
    if action.collection not in collections:
        message = f"there is no collection {action.collection[:80]!r}"
        raise UnknownCollection(message, action.collection, collections, position=position)
    aliases[action.alias] = action.collection


def _read(path: Path) -> tuple[dict[str, str], list[str]]:
    """Return the aliases, and the jobs that changed them last."""
    try:
        record: Any = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}, []
    except (OSError, ValueError, RecursionError) as error:
        raise DataFolderError(f"{path}: cannot be read: {error}") from error
    aliases = record.get("aliases") if isinstance(record, dict) else None
    if not isinstance(aliases, dict) or not all(isinstance(one, str) for one in aliases.values()):
        raise DataFolderError(f"{path}: is damaged: it has no valid aliases")
    if record.get("format_version") != FORMAT_VERSION:
        version = record.get("format_version")
        message = f"has format version {version}; this hummingbit reads version {FORMAT_VERSION}"
        raise DataFolderError(f"{path}: {message}")
    jobs = record.get("jobs", [])
    return aliases, [str(one) for one in jobs] if isinstance(jobs, list) else []
