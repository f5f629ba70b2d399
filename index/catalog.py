"""The names in a data folder: collections, encoders and aliases."""

from __future__ import annotations

import json
import re
import secrets
import shutil
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Collection as Names
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from shlex import quote
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from hummingbit.encoder.artifact import (
    ArtifactError,
    install_artifact,
    load_encoder,
    read_classifier,
    read_fingerprint,
    read_labelled_ids,
    read_metrics,
    write_artifact,
)
from hummingbit.encoder.classifier import Classifier
from hummingbit.encoder.encoder import Encoder, sign_encoder
from hummingbit.encoder.limits import CodeError
from hummingbit.encoder.neighbours import TERMS
from hummingbit.foundation.errors import ROOT, InputError
from hummingbit.foundation.files import replace_file, sync_folder
from hummingbit.index.collection import Collection
from hummingbit.index.engines.choice import check_index_type
from hummingbit.index.errors import (
    CollectionExists,
    CollectionUnavailable,
    DataFolderError,
    EncoderMismatch,
    StoreError,
    UnknownCollection,
    UnknownEncoder,
)
from hummingbit.index.kept_vectors import check_form
from hummingbit.index.names import FLOAT32, SHIPPED_NAME
from hummingbit.index.passages import Passages
from hummingbit.index.schema import Description, check_code_length

# Folders with random names that appear whole or not at all, and disappear in one step.
#
# A folder is created under a name that ends in ``.partial`` and renamed when it is complete. To
# remove it, it is renamed back and deleted. So whatever a crash leaves ends in ``.partial``.


PARTIAL = ".partial"


def make_folder(path: Path) -> None:
    """Create a folder and its parents if they are missing, and sync them to disk.

    Raises:
        OSError: if they cannot be created.
    """
    if path.is_dir():
        return
    make_folder(path.parent)
    path.mkdir(exist_ok=True)
    sync_folder(path.parent)


def begin_folder(parent: Path) -> Path:
    """Create an empty partial folder in `parent` and return its path."""
    make_folder(parent)
    partial = parent / (secrets.token_hex(8) + PARTIAL)
    partial.mkdir()
    return partial


def is_folder_name(name: str) -> bool:
    """Return whether a name is like those that :func:`begin_folder` gives."""
    return re.fullmatch(r"[0-9a-f]{16}", name) is not None


def finish_folder(partial: Path) -> Path:
    """Make a partial folder appear durably, and return its final path.

    Its files must be on disk before.
    """
    folder = partial.with_suffix("")
    sync_folder(partial)
    partial.rename(folder)
    sync_folder(folder.parent)
    return folder


def remove_folder(folder: Path) -> None:
    """Delete a finished folder; of a link to a folder elsewhere, only the link."""
    partial = folder.with_suffix(PARTIAL)
    folder.rename(partial)
    sync_folder(partial.parent)
    _delete(partial)


def finished_folders(parent: Path) -> list[Path]:
    """Return the finished folders, sorted by name; none if `parent` is missing."""
    if not parent.is_dir():
        return []
    return sorted(path for path in parent.iterdir() if path.is_dir() and path.suffix != PARTIAL)


def remove_partial_folders(parent: Path) -> None:
    """Delete the partial folders, which a crash left."""
    for path in parent.glob(f"*{PARTIAL}"):
        _delete(path)


def _delete(folder: Path) -> None:
    if folder.is_symlink():  # an operator moved the folder to another disk
        folder.unlink()
    else:
        shutil.rmtree(folder)


# The names that a collection, an encoder or an alias can have.


NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
RULE = "1 to 64 of a-z, 0-9, ., _ and -, beginning with a letter or a digit"


def check_name(name: str, field: str = "name", position: int | None = None) -> None:
    """Raise InputError for `field` unless `name` is a valid name."""
    if not NAME.fullmatch(name):
        raise InputError(field, f"is {name[:80]!r}; it must be {RULE}", position)


# Second names of collections, changed all together or not at all.
#
# One JSON file holds them and is always replaced by a complete one, so a crash leaves the old
# aliases or the new ones. A caller that uses ``books`` while ``books`` moves from one collection to
# another gets one of the two.


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
    if not isinstance(aliases, dict) or not all(isinstance(name, str) for name in aliases.values()):
        raise DataFolderError(f"{path}: is damaged: it has no valid aliases")
    if record.get("format_version") != FORMAT_VERSION:
        version = record.get("format_version")
        message = f"has format version {version}; this hummingbit reads version {FORMAT_VERSION}"
        raise DataFolderError(f"{path}: {message}")
    jobs = record.get("jobs", [])
    return aliases, [str(job) for job in jobs] if isinstance(jobs, list) else []


# The encoders of a data folder, each loaded once.


SHIPPED_PACKAGE = "hummingbit_models"
"""The package of encoders that ship, from the distribution ``hummingbit-models``."""


def install_shipped() -> str:
    """Return the command that installs the encoder that ships, from a checkout."""
    folder = ROOT / "models"
    if (folder / "pyproject.toml").is_file():
        return f"pip install {quote(str(folder))}"
    return "pip install ./models in a checkout of hummingbit"


NO_ENCODER = (
    "no encoder is installed, so texts are searched by words alone; to search by meaning, too,"
    f" {install_shipped()} before the collection is created, or train an encoder"
)
"""What is said of a new collection that was to have the encoder that ships, where it is missing."""


def shipped_encoder() -> Path | None:
    """Return the folder of the encoder that ships, or None if its package is not installed."""
    spec = find_spec(SHIPPED_PACKAGE)
    for location in (spec and spec.submodule_search_locations) or ():
        folder = Path(location) / SHIPPED_NAME
        if folder.is_dir():
            return folder
    return None


SIGN = "sign"
"""The encoder whose bits are the signs of a vector, which no training precedes."""
_SIGN_NAME = re.compile(rf"{SIGN}-([1-9]\d{{0,5}})")


def encoder_by_dimensions(encoder: str | None, dimensions: int | None) -> str | None:
    """Return the name of `encoder`; that of :data:`SIGN` has the numbers of a vector in it.

    Raises:
        InputError: if `dimensions` is missing, or the encoder is another one.
    """
    if encoder == SIGN and dimensions is not None:
        return f"{SIGN}-{dimensions}"
    if encoder == SIGN:
        raise InputError("dimensions", f"is missing; the encoder {SIGN!r} needs a vector's numbers")
    if dimensions is not None:
        raise InputError("dimensions", f"is {dimensions}; only the encoder {SIGN!r} takes it")
    return encoder


def is_sign_encoder(name: str) -> bool:
    """Return whether `name` is that of an encoder by signs, such as ``sign-384``."""
    return _SIGN_NAME.fullmatch(name) is not None


class EncoderFolder:
    """Artifacts in folders that are named as the encoders. All methods are thread-safe.

    A name from a caller is compared with the names of the folders and never becomes a path.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._loading = threading.Lock()
        self._loaded: dict[str, Encoder] = {}

    def names(self) -> list[str]:
        """Return the names of the encoders, sorted."""
        return sorted(self._folders())

    def delete_partial(self) -> None:
        """Delete what killed processes left of the files of terms (:func:`.open_terms`)."""
        for partial in self.path.glob(f"*/*{TERMS}.*.partial"):
            partial.unlink(missing_ok=True)

    def load(self, name: str) -> Encoder:
        """Return an encoder.

        Raises:
            UnknownEncoder: if no encoder has that name.
            ArtifactError: if it is damaged.
        """
        with self._loading:
            if name not in self._loaded:
                folder = self.folder(name)
                self._loaded[name] = load_encoder(folder, derived=folder)
            return self._loaded[name]

    def folder(self, name: str) -> Path:
        """Return the folder of an encoder's artifact.

        Raises:
            UnknownEncoder: if no encoder has that name.
        """
        folders = self._folders()
        if name not in folders:
            raise UnknownEncoder(name, folders)
        return folders[name]

    def with_fingerprint(self, fingerprint: str) -> list[str]:
        """Return the names of the encoders with a fingerprint, sorted."""
        folders = sorted(self._folders().items())
        return [name for name, path in folders if read_fingerprint(path) == fingerprint]

    def install(self, source: Path, name: str) -> Encoder:
        """Copy the artifact in the folder `source` under `name` and return the encoder.

        Raises:
            InputError: if the name is invalid.
            ArtifactError: if `source` is not an intact artifact, or the name is taken.
        """
        check_name(name, "encoder")
        with self._loading:
            folder = self.path / name
            self._loaded[name] = replace(install_artifact(source, folder), derived=folder)
            return self._loaded[name]

    def install_shipped(self) -> str | None:
        """Return the name of the encoder that ships, which is copied here if it is missing.

        So a collection keeps its encoder when another version of the package is installed. The name
        is None if the package is not installed.

        Raises:
            ArtifactError: if the encoder is damaged.
        """
        if SHIPPED_NAME not in self._folders():
            source = shipped_encoder()
            if source is None:
                return None
            self.install(source, SHIPPED_NAME)
        return SHIPPED_NAME

    def install_sign(self, name: str) -> None:
        """Make the encoder by signs with the name ``sign-N``, if it is missing.

        Raises:
            InputError: if codes cannot have N bits.
            ArtifactError: if it cannot be written.
        """
        found = _SIGN_NAME.fullmatch(name)
        if found is None or name in self._folders():
            return
        dimension = int(found[1])
        try:
            encoder = sign_encoder(dimension)
        except CodeError as error:
            raise InputError("dimensions", error.reason.replace("n_bits ", "")) from None
        signs = np.where(np.arange(dimension) % 2, -1, 1).astype(np.float32)
        with self._loading:
            self._loaded[name] = write_artifact(self.path / name, encoder, signs[None])

    def labelled_ids(self, name: str) -> list[str]:
        """Return the recorded ids of the documents whose labels trained an encoder.

        Raises:
            UnknownEncoder: if no encoder has that name.
            ArtifactError: if it is damaged, or has changed since it was loaded.
        """
        return read_labelled_ids(self.folder(name), self.load(name))

    def classifier(self, name: str) -> Classifier | None:
        """Return the classifier baseline in an encoder's artifact, or None.

        Raises:
            UnknownEncoder: if no encoder has that name.
            ArtifactError: if it is damaged, or has changed since it was loaded.
        """
        return read_classifier(self.folder(name), self.load(name))

    def figures(self, name: str) -> dict[str, Any]:
        """Return the figures of an encoder that training recorded; empty if there are none.

        Raises:
            UnknownEncoder: if no encoder has that name.
            ArtifactError: if it is damaged, or has changed since it was loaded.
        """
        return read_metrics(self.folder(name), self.load(name))

    def _folders(self) -> dict[str, Path]:
        if not self.path.is_dir():
            return {}
        folders = {path.name: path for path in self.path.iterdir() if path.is_dir()}
        return {name: path for name, path in folders.items() if NAME.fullmatch(name)}


# The collections of a data folder by name, wherever their documents are stored.


class HiddenCollection(NamedTuple):
    """A collection that has no name until `appear` is called; `delete` discards it."""

    id: str
    """The id for :meth:`Collections.published_draft`."""
    appear: Callable[[], None]
    delete: Callable[[], None]


class Collections(ABC):
    """The open collections of a data folder, and why others cannot be opened.

    Reading is thread-safe. Changes need the lock of the data folder.
    """

    def __init__(self, encoders: EncoderFolder) -> None:
        self._encoders = encoders
        self.linger_seconds = 0.0
        """See :attr:`hummingbit.index.data_folder.DataFolder.linger_seconds`."""
        self.opened: dict[str, Collection] = {}
        """The open collections by name; for reading only."""
        self._unavailable: dict[str, StoreError | CollectionUnavailable] = {}

    def by_name(self) -> Mapping[str, Collection]:
        """Return the open collections, in the order of their names."""
        return MappingProxyType(dict(sorted(self.opened.copy().items())))

    def unavailable(self) -> Mapping[str, str]:
        """Return why collections cannot be opened, by name, or by folder if the name is unknown."""
        reasons = {name: str(error) for name, error in self._unavailable.copy().items()}
        return MappingProxyType(dict(sorted(reasons.items())))

    def names(self) -> set[str]:
        """Return the names of all collections, including those that cannot be opened."""
        return {*self.opened, *self._unavailable}

    def get(self, name: str) -> Collection:
        """Return a collection.

        Raises:
            UnknownCollection: if no collection has that name.
            EncoderMismatch: if its encoder is missing, damaged or was replaced.
            CollectionUnavailable: if it exists but cannot be opened for another reason.
        """
        collection = self.opened.get(name)
        if collection is not None:
            return collection
        cause = self._unavailable.get(name)
        if cause is not None:
            kind = type(cause) if isinstance(cause, EncoderMismatch) else CollectionUnavailable
            raise kind(f"collection {name!r} cannot be opened: {cause}") from cause
        message = f"there is no collection {name!r}{self._name_nameless()}"
        raise UnknownCollection(message, name, self.names())

    def _name_nameless(self) -> str:
        """Return which collections may have any name, because they cannot be opened, and why."""
        nameless = [
            f"{name}/{str(error).partition(f'{name}/')[2]}"  # without the path of the data folder
            for name, error in sorted(self._unavailable.copy().items())
            if is_folder_name(name)
        ]
        reason = "; but one cannot be opened, so its name is unknown: "
        return f"{reason}{nameless[0]}" if nameless else ""

    @abstractmethod
    def get_ready(self, name: str) -> Collection:
        """Return a collection after preparing it for searches, which may take a while."""

    def get_equal(
        self, description: Description, indexed_fields: Sequence[str] | None = None
    ) -> Collection:
        """Return the collection of that name if it has these settings.

        If `indexed_fields` is None, it may have any indexed fields.

        Raises:
            CollectionExists: if it has other settings.
            UnknownCollection, CollectionUnavailable: as :meth:`get`.
        """
        collection = self.get(description.name)
        actual = Description(
            collection.name,
            collection.n_bits,
            collection.encoder_name,
            collection.encoder_fingerprint,
            collection.engine_setting,
            collection.keep_vectors,
            collection.passages,
        )
        if actual != description:
            name = collection.encoder_name
            codes = f"encoder {name}" if name else f"{collection.n_bits} bits"
            message = f"collection {description.name!r} already exists, with {codes}"
            settings = f"engine {collection.engine_setting}, keep_vectors {collection.keep_vectors}"
            passages = f"passages {collection.passages or 'none'}"
            raise CollectionExists(f"{message}, {settings}, {passages}")
        if indexed_fields is not None and {*indexed_fields} != {*collection.indexed_fields}:
            fields = ", ".join(collection.indexed_fields) or "none"
            message = f"collection {description.name!r} already exists; its indexed fields are"
            raise CollectionExists(f"{message} {fields}")
        return collection

    def describe(
        self,
        name: str,
        encoder_name: str | None,
        n_bits: int | None,
        engine: str,
        *,
        keep_vectors: str = FLOAT32,
        passages: Passages | None = None,
    ) -> tuple[Description, Encoder | None]:
        """Return the settings of a collection to create, and its encoder.

        Without a name and `n_bits`, the encoder is the one that ships. If it is not installed, or
        `n_bits` is 0, documents have no codes and are searched by words alone.

        Raises:
            InputError: if the name, `n_bits`, the engine, `keep_vectors` or `passages` is invalid,
                or both encoder and `n_bits` are given.
            UnknownEncoder: if no encoder has that name.
            ArtifactError: if the encoder is damaged.
        """
        check_name(name)
        check_form(keep_vectors)
        if encoder_name is not None and n_bits is not None:
            raise InputError("encoder", "only one of encoder and n_bits can be given")
        if encoder_name is None and n_bits is None:
            encoder_name = self._encoders.install_shipped()
        encoder, fingerprint = None, None
        if encoder_name is not None:
            self._encoders.install_sign(encoder_name)
            encoder = self._encoders.load(encoder_name)
            n_bits, fingerprint = encoder.n_bits, encoder.fingerprint
        n_bits = n_bits or 0
        try:
            check_code_length(n_bits)
        except CodeError as error:
            raise InputError(error.field, error.reason) from None
        takes_texts = encoder is not None and encoder.kind == "text"
        if passages is not None and n_bits and not takes_texts:
            needs = "they need an encoder of texts, or a collection by words alone"
            raise InputError("passages", f"are parts of texts; {needs}")
        if keep_vectors != FLOAT32 and (takes_texts or not n_bits):
            no_codes = "collection has no codes and takes no vectors"
            why = "encoder takes texts" if takes_texts else no_codes
            raise InputError("keep_vectors", f"is {keep_vectors!r}, but the {why}; leave it out")
        check_index_type(engine, n_bits)
        settings = engine, keep_vectors, passages
        return Description(name, n_bits, encoder_name, fingerprint, *settings), encoder

    @abstractmethod
    def open_all(self) -> None:
        """Open every collection; one that cannot be opened does not affect the others."""

    @abstractmethod
    def create(
        self,
        description: Description,
        encoder: Encoder | None,
        indexed_fields: Sequence[str] = (),
    ) -> Collection:
        """Create an empty collection under a free name and return it.

        Raises:
            InputError: if it cannot index the fields.
            StoreError: if it cannot be written.
        """

    @abstractmethod
    def create_hidden(
        self, description: Description, encoder: Encoder | None
    ) -> tuple[HiddenCollection, Collection]:
        """Create an empty hidden collection; the second value is for writing to it.

        Raises:
            StoreError: if it cannot be written.
        """

    @abstractmethod
    def restore_hidden(self, tar: Path, name: str) -> HiddenCollection:
        """Create a hidden collection `name` from a snapshot file.

        Raises:
            SnapshotError: if the file is not a complete, intact snapshot.
            EncoderMismatch: if another encoder has the same name.
        """

    @abstractmethod
    def published_draft(self, id_: str) -> Collection | None:
        """Return the collection that was hidden under that id; None if it never appeared."""

    @abstractmethod
    def delete(self, name: str) -> None:
        """Delete a collection with all its documents, even if it is damaged."""

    def problems(self) -> Mapping[str, list[str]]:
        """Return why open collections refuse writes, by name."""
        return {}

    def accept_loss(self, name: str) -> None:
        """Accept the loss of acknowledged writes, so that a collection can be written again."""
        raise UnknownCollection(f"there is no collection {name!r}")

    @abstractmethod
    def find_gone(self) -> Mapping[str, Collection]:
        """Return the open collections that another process has dropped since, by name."""

    @abstractmethod
    def follow(self, gone: Mapping[str, Collection], *, wait: bool) -> set[str]:
        """Show what another process has written since; `wait` for collections that open slowly.

        Those that are `gone` have no name any more, and stay open until :meth:`let_go`. Return the
        names of the collections that show at least what was written before this call, or cannot be
        opened.
        """

    @abstractmethod
    def let_go(self, held: Names[Collection] = ()) -> None:
        """Close the collections that are gone, except those that are still `held`."""

    def close(self) -> None:
        """Close every collection."""
        for collection in self.opened.values():
            collection.close()
        self.opened.clear()

    def _encoder_of(self, description: Description) -> Encoder | None:
        if description.encoder_name is None:
            return None
        try:
            return self._encoders.load(description.encoder_name)
        except (UnknownEncoder, ArtifactError) as error:
            raise EncoderMismatch(str(error)) from error
